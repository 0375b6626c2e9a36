/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * target/store/failed_sync_file.h in the memory of the simulated machine: a failed-sync file is its disk's, and lives
 * until the machine boots again, or its folder is gone. A process that was killed has no effect on it any more. Linked
 * instead of target/store/failed_sync_file.c.
 */
#include "target/store/failed_sync_file.h"

#include <stdlib.h>
#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/trace.h"

struct sim_failed_sync_file {
	struct tgt_failed_sync_file live; /* first: the process's, while it has it open */
	struct tgt_failed_sync_file kept;
	bool dead; /* the process is */
};

/* Atomics are not copied by assignment. */
static void file_copy(struct tgt_failed_sync_file *to, struct tgt_failed_sync_file *from)
{
	memcpy(to->cache_epoch, from->cache_epoch, sizeof(to->cache_epoch));
	atomic_store(&to->epoch, atomic_load(&from->epoch));
	atomic_store(&to->lost_ns, atomic_load(&from->lost_ns));
	atomic_store(&to->state, atomic_load(&from->state));
}

static bool file_is_of(const struct sim_failed_sync_file *file, const struct tgt_store_info *info)
{
	return file && !memcmp(file->kept.cache_epoch, info->cache_epoch, sizeof(info->cache_epoch));
}

static void file_reached(const struct sim_failed_sync_file *file, const char *by)
{
	if (atomic_load(&file->kept.lost_ns))
		sim_reached("failed-sync file", "of a failed flush is found and it holds", by);
	sim_reached("failed-sync file",
		    atomic_load(&file->kept.state) == TGT_STORE_CLEAN ? "is left in good order" : "is left by a kill",
		    by);
}

int tgt_failed_sync_file_open(const char *folder, const struct tgt_store_info *info, struct tgt_failed_sync_file **out,
			      char *error)
{
	struct sim_disk *disk = (struct sim_disk *)(uintptr_t)info->id.device;
	struct sim_failed_sync_file *file = disk->failed_sync_file;

	(void)folder;
	(void)error;
	if (!file)
		file = disk->failed_sync_file = calloc(1, sizeof(*file));
	if (!file)
		sim_fail("out of memory");
	if (file_is_of(file, info))
		file_reached(file, NULL);
	else
		*file = (struct sim_failed_sync_file){.dead = false};
	file->dead = false;
	file_copy(&file->live, &file->kept);
	memcpy(file->live.cache_epoch, info->cache_epoch, sizeof(info->cache_epoch));
	*out = &file->live;
	return 0;
}

bool tgt_failed_sync_file_find(const char *folder, const struct tgt_store_info *info, struct tgt_failed_sync_file *out)
{
	struct sim_failed_sync_file *file = ((struct sim_disk *)(uintptr_t)info->id.device)->failed_sync_file;

	(void)folder;
	if (!file_is_of(file, info))
		return false;
	file_copy(out, &file->kept);
	file_reached(file, "by a volume that is only read");
	return true;
}

void tgt_failed_sync_file_close(struct tgt_failed_sync_file *live)
{
	struct sim_failed_sync_file *file = (struct sim_failed_sync_file *)live;

	if (!file->dead)
		file_copy(&file->kept, &file->live);
}

void sim_failed_sync_file_kill(struct sim_disk *disk)
{
	if (!disk->failed_sync_file)
		return;
	if (!disk->failed_sync_file->dead)
		file_copy(&disk->failed_sync_file->kept, &disk->failed_sync_file->live);
	disk->failed_sync_file->dead = true;
}

bool sim_failed_sync_file_is_there(const struct sim_disk *disk)
{
	return disk->failed_sync_file && !memcmp(disk->failed_sync_file->kept.cache_epoch, disk->boot_id,
						 sizeof(disk->failed_sync_file->kept.cache_epoch));
}

bool sim_failed_sync_file_is_clean(const struct sim_disk *disk)
{
	return sim_failed_sync_file_is_there(disk) && atomic_load(&disk->failed_sync_file->kept.state) == TGT_STORE_CLEAN;
}

void sim_failed_sync_file_free(struct sim_disk *disk)
{
	free(disk->failed_sync_file);
	disk->failed_sync_file = NULL;
}
