/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A reload of a simulated target: which volumes are wanted then, and what the model is told of it. Called by host.c. */
#include "tests/sim/host_impl.h"

#include <stdlib.h>
#include <string.h>
#include "target/control/config.h"
#include "target/control/reload.h"
#include "target/store/volume.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

struct tgt_config sim_host_config_with(const struct tgt_config *config, const bool *wanted)
{
	struct tgt_config copy = *config;

	copy.volumes = calloc(config->volume_count, sizeof(*copy.volumes));
	if (!copy.volumes)
		sim_fail("out of memory");
	copy.volume_count = 0;
	for (unsigned int i = 0; i < config->volume_count; i++)
		if (!wanted || wanted[i])
			copy.volumes[copy.volume_count++] = config->volumes[i];
	return copy;
}

static bool is_served(const struct sim_host *host, unsigned int volume)
{
	struct tgt_volume *found =
		tgt_volume_get(host->registry, host->config.volumes[volume].name);

	if (found)
		tgt_volume_put(found);
	return found;
}

/* Of those that are wanted some are to be read-only now. */
static void reload_turn(const struct sim_host *host, struct tgt_config *config)
{
	for (unsigned int i = 0; i < config->volume_count; i++)
		for (unsigned int j = 0; j < host->volume_count; j++)
			if (host->turns[j] && !strcmp(config->volumes[i].name, host->config.volumes[j].name))
				config->volumes[i].read_only = sim_chance(500000);
}

/* It is served, and was; by another store than before. */
static bool is_replaced(const struct tgt_config *old, const struct tgt_config *config, const char *name)
{
	bool read_only[2] = {false, false};

	for (unsigned int i = 0; i < old->volume_count; i++)
		read_only[0] |= !strcmp(old->volumes[i].name, name) && old->volumes[i].read_only;
	for (unsigned int i = 0; i < config->volume_count; i++)
		read_only[1] |= !strcmp(config->volumes[i].name, name) && config->volumes[i].read_only;
	return read_only[0] != read_only[1];
}

/* What was in memory is gone with its volume. */
static bool reload_judge(struct sim_host *host, const bool *before, const bool *replaced)
{
	bool all = true;

	for (unsigned int i = 0; i < host->volume_count; i++) {
		bool served = is_served(host, i);

		all &= served;
		if (served && (!before[i] || replaced[i]) && host->disks[i])
			sim_model_served(host->volumes[i]);
		if (before[i] && !served)
			sim_reservation_ended(&host->reservations[i]);
		if (before[i] && !served && !host->disks[i])
			sim_model_crash(host->volumes[i]);
	}
	return all;
}

/* By a part of what is left. */
static void disk_grow(struct sim_disk *disk)
{
	uint64_t left = (disk->full_bytes - disk->bytes) / 4096;

	if (left)
		disk->bytes += sim_between(1, left) * 4096;
}

void sim_host_reload_now(struct sim_host *host, bool all)
{
	bool wanted[SIM_HOST_VOLUMES], served[SIM_HOST_VOLUMES], replaced[SIM_HOST_VOLUMES];
	const struct tgt_reload reload = {
		.registry = host->registry,
		.reactors = host->reactor_array,
		.reactor_count = host->config.reactors,
	};
	char error[TGT_ERROR_BYTES] = "done";
	struct tgt_config config;

	/* The reloader's thread would do one after the other, and the other does as much. */
	if (host->mending)
		return;
	for (unsigned int i = 0; i < host->volume_count; i++) {
		wanted[i] = all || sim_chance(700000);
		if (host->disks[i] && sim_chance(500000))
			disk_grow(host->disks[i]);
		served[i] = is_served(host, i);
	}
	config = sim_host_config_with(&host->config, wanted);
	reload_turn(host, &config);
	for (unsigned int i = 0; i < host->volume_count; i++)
		replaced[i] = is_replaced(&host->served, &config, host->config.volumes[i].name);
	tgt_reload_apply(&reload, &host->served, &config, error);
	sim_trace(host->name, "is told to reload: %s", error);
	if (!reload_judge(host, served, replaced) && all)
		sim_event_in(&host->mend, SIM_HOST_RETRY_NS);
}
