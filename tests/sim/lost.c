/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of lost.h: by the ids of writes, which grow with time, and with which their data begins.
 */
#include "tests/sim/lost.h"

#include <stdlib.h>
#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/trace.h"

struct write {
	bool fences; /* its initiator does, by itself */
	uint32_t session;
	uint64_t last;		     /* 0, or the last id when it was called back as lost */
	const void *where;	     /* it was given last; NULL: nowhere */
};

static struct write *writes;
static uint64_t room, last;

void sim_lost_reset(void)
{
	last = 0;
}

void sim_lost_began(const struct sim_command *write)
{
	if (write->id >= room) {
		room = 2 * write->id + 1024;
		writes = realloc(writes, room * sizeof(*writes));
		if (!writes)
			sim_fail("out of memory");
	}
	while (last < write->id)
		writes[++last] = (struct write){.fences = false};
	writes[write->id] = (struct write){.fences = write->unseen && write->resent, .session = write->session};
}

void sim_lost_told(const struct sim_command *write)
{
	if (writes[write->id].fences)
		writes[write->id].last = last;
}

static uint64_t id_of(const struct sim_io *io)
{
	uint64_t id;

	memcpy(&id, io->copy ? io->copy : io->buffer, sizeof(id));
	return id <= last ? id : 0;
}

static bool is_lost_before(uint64_t lost, uint64_t later)
{
	return writes[lost].last && writes[lost].last < later &&
	       writes[lost].session == writes[later].session;
}

/* Given to the disk late: nothing that was begun after its loss may be there. */
static void check_late(const struct sim_disk *disk, const void *where, uint64_t lost)
{
	sim_reached("disk", "WRITE", "was called back as lost before");
	for (uint64_t id = writes[lost].last + 1; id <= last; id++)
		if (writes[id].where == where && is_lost_before(lost, id))
			sim_fail("%s: write %llu was lost, and comes behind write %llu, which was begun later (F5)",
				 disk->path, (unsigned long long)lost, (unsigned long long)id);
}

void sim_lost_stores(const struct sim_disk *disk, const void *where, const struct sim_io *io)
{
	uint64_t id = id_of(io), other;
	const struct sim_io *flying;

	if (!id || !writes[id].fences)
		return;
	if (writes[id].last)
		check_late(disk, where, id);
	writes[id].where = where;
	TAILQ_FOREACH(flying, &disk->inflight, link) {
		other = flying->kind == SIM_IO_WRITE ? id_of(flying) : 0;
		if (other == id && flying != io && flying->offset == io->offset)
			sim_fail("%s: write %llu is sent again, and is being stored (F5)", disk->path, (unsigned long long)id);
		if (other && is_lost_before(other, id))
			sim_fail("%s: write %llu was lost, and is being stored beside write %llu, which was begun later (F5)",
				 disk->path, (unsigned long long)other, (unsigned long long)id);
	}
}
