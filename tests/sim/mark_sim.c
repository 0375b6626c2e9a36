/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * target/store/mark.h in the memory of the simulated machine: a mark is its disk's, and lives until
 * the machine boots again, or its folder is gone. What a killed process still does has no effect on it. Linked instead of
 * target/store/mark.c.
 */
#include "target/store/mark.h"

#include <stdlib.h>
#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/trace.h"

struct sim_mark {
	struct tgt_mark live; /* first: the process's, while it has it open */
	struct tgt_mark kept;
	bool dead; /* the process is */
};

/* Atomics are not copied by assignment. */
static void mark_copy(struct tgt_mark *to, struct tgt_mark *from)
{
	memcpy(to->cache_epoch, from->cache_epoch, sizeof(to->cache_epoch));
	atomic_store(&to->epoch, atomic_load(&from->epoch));
	atomic_store(&to->lost, atomic_load(&from->lost));
	atomic_store(&to->state, atomic_load(&from->state));
}

static bool mark_is_of(const struct sim_mark *mark, const struct tgt_store_info *info)
{
	return mark && !memcmp(mark->kept.cache_epoch, info->cache_epoch, sizeof(info->cache_epoch));
}

static void mark_reached(const struct sim_mark *mark, const char *by)
{
	if (atomic_load(&mark->kept.lost))
		sim_reached("mark", "of a failed flush is found and it holds", by);
	sim_reached("mark", atomic_load(&mark->kept.state) == TGT_MARK_CLEAN ? "is left in good order" : "is left by a kill", by);
}

int tgt_mark_open(const char *folder, const struct tgt_store_info *info, struct tgt_mark **out,
		  char *error)
{
	struct sim_disk *disk = (struct sim_disk *)(uintptr_t)info->id.device;
	struct sim_mark *mark = disk->mark;

	(void)folder;
	(void)error;
	if (!mark)
		mark = disk->mark = calloc(1, sizeof(*mark));
	if (!mark)
		sim_fail("out of memory");
	if (mark_is_of(mark, info))
		mark_reached(mark, NULL);
	else
		*mark = (struct sim_mark){.dead = false};
	mark->dead = false;
	mark_copy(&mark->live, &mark->kept);
	memcpy(mark->live.cache_epoch, info->cache_epoch, sizeof(info->cache_epoch));
	*out = &mark->live;
	return 0;
}

bool tgt_mark_find(const char *folder, const struct tgt_store_info *info, struct tgt_mark *out)
{
	struct sim_mark *mark = ((struct sim_disk *)(uintptr_t)info->id.device)->mark;

	(void)folder;
	if (!mark_is_of(mark, info))
		return false;
	mark_copy(out, &mark->kept);
	mark_reached(mark, "by a volume that is only read");
	return true;
}

void tgt_mark_close(struct tgt_mark *live)
{
	struct sim_mark *mark = (struct sim_mark *)live;

	if (!mark->dead)
		mark_copy(&mark->kept, &mark->live);
}

void sim_mark_kill(struct sim_disk *disk)
{
	if (!disk->mark)
		return;
	if (!disk->mark->dead)
		mark_copy(&disk->mark->kept, &disk->mark->live);
	disk->mark->dead = true;
}

bool sim_mark_is_there(const struct sim_disk *disk)
{
	return disk->mark && !memcmp(disk->mark->kept.cache_epoch, disk->boot_id, sizeof(disk->mark->kept.cache_epoch));
}

bool sim_mark_is_clean(const struct sim_disk *disk)
{
	return sim_mark_is_there(disk) && atomic_load(&disk->mark->kept.state) == TGT_MARK_CLEAN;
}

void sim_mark_free(struct sim_disk *disk)
{
	free(disk->mark);
	disk->mark = NULL;
}
