/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the process's registry of what is durable, see durable.h. I/O takes a lock only for a FLUSH
 * and for the first write that succeeds behind one.
 */
#include "initiator/durable.h"

#include <stdlib.h>
#include <string.h>
#include "proto/wire/wire.h"

struct ini_durables *ini_durables(void)
{
	static struct ini_durables process = {.lock = PTHREAD_MUTEX_INITIALIZER};

	return &process;
}

void ini_durables_init(struct ini_durables *durables)
{
	*durables = (struct ini_durables){.lock = PTHREAD_MUTEX_INITIALIZER};
}

struct ini_durable *ini_durable_alloc(void)
{
	struct ini_durable *durable = calloc(1, sizeof(*durable));

	if (!durable)
		return NULL;
	pthread_mutex_init(&durable->lock, NULL);
	core_durable_init(&durable->core);
	return durable;
}

static void durable_free(struct ini_durable *durable)
{
	pthread_mutex_destroy(&durable->lock);
	free(durable);
}

void ini_durables_fini(struct ini_durables *durables)
{
	struct ini_durable *durable;

	while ((durable = durables->list)) {
		durables->list = durable->next;
		durable_free(durable);
	}
	pthread_mutex_destroy(&durables->lock);
}

/* -- what a successor of this process has to know ------------------------------------------------
 */

/*
 * The process may be killed between any two stores. So a loss is there before the epoch that tells of it, and that a
 * write owes is there before the write counts; a loss goes only when it is acknowledged.
 */
static void keep(struct ini_durable *durable)
{
	struct rblk_kept_volume *kept = durable->kept;

	if (!kept)
		return;
	if (durable->core.unaware || durable->core.untold)
		__atomic_store_n(&kept->lost, 1, __ATOMIC_RELEASE);
	memcpy(kept->uuid, durable->uuid, sizeof(kept->uuid));
	memcpy(kept->cache_epoch, durable->core.epoch, sizeof(kept->cache_epoch));
	__atomic_store_n(&kept->known, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&kept->dirty, core_durable_dirty(&durable->core), __ATOMIC_RELEASE);
}

/* As a volume that was closed and is opened again. */
static void take_over(struct ini_durable *durable, struct rblk_kept_volume *kept)
{
	struct core_durable *core = &durable->core;

	if (!kept || durable->kept)
		return;
	durable->kept = kept;
	if (!kept->known || core->generation)
		return;
	memcpy(core->epoch, kept->cache_epoch, sizeof(core->epoch));
	core->generation = 1;
	core->written = kept->dirty ? core->next : 0;
	core->losses = kept->lost;
	core->untold = kept->lost;
}

/* -- opening, closing ----------------------------------------------------------------------------
 */

/* Each session looks in its next turn whether it is one of its volumes. */
static void loss_found(struct ini_durables *durables)
{
	__atomic_fetch_add(&durables->losses, 1, __ATOMIC_RELEASE);
}

static void unlink_it(struct ini_durables *durables, const struct ini_durable *durable)
{
	struct ini_durable **link = &durables->list;

	while (*link != durable)
		link = &(*link)->next;
	*link = durable->next;
}

static void link_first(struct ini_durables *durables, struct ini_durable *durable)
{
	durable->next = durables->list;
	durables->list = durable;
}

struct ini_durable *ini_durable_join(struct ini_durables *durables, struct ini_durable *own,
				     const u8 uuid[16], struct core_durable_open *open, struct rblk_kept_volume *kept)
{
	struct ini_durable *found;
	bool untold;

	pthread_mutex_lock(&durables->lock);
	found = durables->list;
	while (found && memcmp(found->uuid, uuid, sizeof(found->uuid)))
		found = found->next;
	if (found) {
		durable_free(own);
	} else {
		found = own;
		memcpy(found->uuid, uuid, sizeof(found->uuid));
		link_first(durables, found);
	}
	found->opens++;
	pthread_mutex_lock(&found->lock);
	take_over(found, kept);
	core_durable_join(&found->core, open);
	untold = open->unaware;
	pthread_mutex_unlock(&found->lock);
	pthread_mutex_unlock(&durables->lock);
	if (untold)
		loss_found(durables);
	return found;
}

/* The closed ones beyond the bound. Those that were closed last come first. */
static void forget_oldest(struct ini_durables *durables)
{
	struct ini_durable **link = &durables->list, *durable;
	u32 closed = 0;

	while ((durable = *link)) {
		if (durable->opens || ++closed <= INI_DURABLES_CLOSED_MAX) {
			link = &durable->next;
			continue;
		}
		*link = durable->next;
		durable_free(durable);
	}
}

void ini_durable_leave(struct ini_durables *durables, struct ini_durable *durable,
		       struct core_durable_open *open, u32 heard, bool remember)
{
	bool dirty;

	pthread_mutex_lock(&durables->lock);
	if (!durable->opens) { /* it was never opened, so nobody else has it */
		pthread_mutex_unlock(&durables->lock);
		durable_free(durable);
		return;
	}
	pthread_mutex_lock(&durable->lock);
	core_durable_leave(&durable->core, open, heard);
	dirty = core_durable_dirty(&durable->core) || durable->core.untold;
	pthread_mutex_unlock(&durable->lock);
	if (!--durable->opens) {
		unlink_it(durables, durable);
		if (dirty && remember)
			link_first(durables, durable);
		else
			durable_free(durable);
		forget_oldest(durables);
	}
	pthread_mutex_unlock(&durables->lock);
}

/* -- what becomes of writes ----------------------------------------------------------------------
 */

void ini_durable_learn(struct ini_durables *durables, struct ini_durable *durable,
		       struct core_durable_open *open, const u8 epoch[16])
{
	bool lost;

	pthread_mutex_lock(&durable->lock);
	lost = core_durable_learn(&durable->core, open, epoch);
	keep(durable);
	pthread_mutex_unlock(&durable->lock);
	if (lost)
		loss_found(durables);
}

u64 ini_durable_flush(struct ini_durable *durable)
{
	u64 number;

	pthread_mutex_lock(&durable->lock);
	number = core_durable_flush(&durable->core);
	pthread_mutex_unlock(&durable->lock);
	return number;
}

bool ini_durable_may_flush(struct ini_durable *durable, u64 number)
{
	bool may;

	pthread_mutex_lock(&durable->lock);
	may = core_durable_may_flush(&durable->core, number);
	pthread_mutex_unlock(&durable->lock);
	return may;
}

bool ini_durable_done(struct ini_durables *durables, struct ini_durable *durable, u8 opcode,
		      u32 generation, u64 number)
{
	bool good = true, lost = false;

	if (opcode != RBLK_OP_FLUSH && core_durable_noted(&durable->core, generation))
		return true;
	pthread_mutex_lock(&durable->lock);
	if (opcode != RBLK_OP_FLUSH && durable->kept)
		__atomic_store_n(&durable->kept->dirty, 1, __ATOMIC_RELEASE);
	if (opcode == RBLK_OP_FLUSH)
		good = core_durable_flushed(&durable->core, generation, number);
	else
		lost = core_durable_wrote(&durable->core, generation);
	keep(durable);
	pthread_mutex_unlock(&durable->lock);
	if (lost)
		loss_found(durables);
	return good;
}

bool ini_durable_acknowledge(struct ini_durable *durable, struct core_durable_open *open)
{
	bool unaware;

	pthread_mutex_lock(&durable->lock);
	unaware = core_durable_acknowledge(&durable->core, open);
	if (durable->kept && !durable->core.unaware && !durable->core.untold)
		durable->kept->lost = 0;
	pthread_mutex_unlock(&durable->lock);
	return unaware;
}

u32 ini_durable_loss(struct ini_durable *durable, const struct core_durable_open *open)
{
	u32 loss;

	pthread_mutex_lock(&durable->lock);
	loss = open->unaware;
	pthread_mutex_unlock(&durable->lock);
	return loss;
}
