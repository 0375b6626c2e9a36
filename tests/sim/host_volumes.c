/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The volumes of a target process: their disks, which outlive it, and how it serves them.
 */
#include "tests/sim/host.h"

#include <stdio.h>
#include <string.h>
#include "target/control/config.h"
#include "target/store/volume.h"
#include "tests/sim/host_impl.h"
#include "tests/sim/rados.h"
#include "tests/sim/trace.h"

static void on_lost(void *volume)
{
	sim_model_lost(volume);
}

static void on_told(void *volume, bool alive)
{
	sim_model_told(volume, alive);
}

static void on_doubted(void *volume)
{
	sim_model_doubted(volume);
}

void sim_host_add_volume(struct sim_host *host, uint64_t bytes, uint32_t block_bytes, bool memory)
{
	unsigned int i = host->volume_count++;
	struct tgt_volume_config *config;
	char error[TGT_ERROR_BYTES];
	char name[16];

	snprintf(name, sizeof(name), "%c%u", memory ? 'm' : 'd', i);
	if (tgt_config_volume_add(&host->config, name, "simulation", &config, error))
		sim_fail("%s", error);
	config->block_bytes = block_bytes;
	snprintf(config->path, sizeof(config->path), "%s.%s", host->name, name);
	host->volumes[i] = sim_volume_create(config->path, bytes / SIM_SECTOR, !memory);
	if (memory) {
		config->path[0] = 0;
		strcpy(config->store, "memory");
		config->bytes = bytes;
		return;
	}
	host->disks[i] = sim_disk_create(config->path, bytes, block_bytes);
	host->disks[i]->boot_id = host->boot_id;
	host->disks[i]->lost = on_lost;
	host->disks[i]->told = on_told;
	host->disks[i]->doubted = on_doubted;
	host->disks[i]->remembers_failed_syncs = &host->remembers;
	host->disks[i]->user = host->volumes[i];
	host->disks[i]->reservation = &host->reservations[i];
}

void sim_host_borrow(struct sim_host *host, const struct sim_host *owner)
{
	struct tgt_volume_config *config;
	char error[TGT_ERROR_BYTES];

	if (tgt_config_volume_add(&host->config, owner->config.volumes[0].name, "simulation", &config, error))
		sim_fail("%s", error);
	config->block_bytes = owner->config.volumes[0].block_bytes;
	strcpy(config->path, owner->config.volumes[0].path);
	host->volumes[0] = owner->volumes[0];
	host->disks[0] = owner->disks[0];
	host->volume_count = 1;
	host->borrowed = true;
}

void sim_host_be_gateway(struct sim_host *host, const struct sim_host *first)
{
	struct tgt_volume_config *volume;

	host->gateway = true;
	/* What is acknowledged outlives every process (F7). */
	host->remembers = true;
	if (host != first) {
		sim_host_borrow(host, first);
	} else {
		sim_host_add_volume(host, 8 * 4096, 512, false);
		host->disks[0]->volatile_cache = false;
		sim_model_keeps(host->volumes[0], true);
	}
	volume = &host->config.volumes[0];
	volume->gateways = TGT_GATEWAYS_SEVERAL;
	strcpy(volume->store, "rbd");
	strcpy(volume->path, "rbd/data");
}

void sim_host_volumes_remove(struct sim_host *host)
{
	for (unsigned int i = 0; i < host->volume_count; i++) {
		struct tgt_volume *volume =
			tgt_volume_remove(host->registry, host->config.volumes[i].name);

		if (volume)
			tgt_volume_put(volume);
	}
	tgt_registry_destroy(host->registry);
	host->registry = NULL;
}

/* False: a disk is locked. */
bool sim_host_volumes_add(struct sim_host *host)
{
	char error[TGT_ERROR_BYTES];

	if (tgt_registry_create(&host->registry))
		sim_fail("out of memory");
	if (host->remembers)
		tgt_registry_remember(host->registry, "failed syncs");
	if (host->keeps)
		tgt_registry_keep(host->registry, "reservations");
	if (host->gateway)
		tgt_registry_on_lost(host->registry, sim_gateway_lost, host);
	for (unsigned int i = 0; i < host->volume_count; i++) {
		int err = tgt_volume_add(host->registry, &host->config.volumes[i], error);

		if (!err) {
			if (host->disks[i] && host->machine != sim_stranger)
				sim_model_served(host->volumes[i]);
			continue;
		}
		sim_trace(host->name, "does not start: %s", error);
		sim_host_volumes_remove(host);
		return false;
	}
	return true;
}
