/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An initiator's knowledge of one volume: is there an acknowledged write that is not durable, and
 * may one be lost? Specification section 8, F7. There is one struct core_durable for a volume (its
 * uuid) in a process or a kernel; every open of the volume has a part in it, because a FLUSH speaks
 * for all of them.
 *
 * FLUSHes are numbered as they are asked for. `written` is the number of the next FLUSH as of the
 * last acknowledged write, so a write costs three loads, and a store only once between two FLUSHes.
 * Another cache epoch begins another generation, and each command carries the generation of the
 * handle that it was sent with: an answer of an older generation may be heard when another open has
 * learnt of the loss already.
 *
 * The caller owns the memory, and has a lock for each struct core_durable. All functions are called
 * with it, but core_durable_owes(), which belongs to the open's session, and core_durable_noted().
 */
#ifndef RBLK_CORE_DURABLE_H
#define RBLK_CORE_DURABLE_H

#include "proto/wire/types.h"

/*
 * Reads without the lock, of what is stored with it. On 32 bits a read may be torn: when a number
 * exceeds them, it seems to be another one, and the lock is taken in vain.
 */
#ifdef __KERNEL__
#include <linux/compiler.h>
#include <asm/barrier.h>

#define core_durable_load(x) READ_ONCE(x)
#define core_durable_store(x, value) WRITE_ONCE(x, value)
#define core_durable_acquire(x)                  \
	({                                       \
		typeof(x) value_ = READ_ONCE(x); \
		smp_rmb();                       \
		value_;                          \
	})
#define core_durable_release(x, value) \
	({                             \
		smp_wmb();             \
		WRITE_ONCE(x, value);  \
	})
#else
#define core_durable_load(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define core_durable_store(x, value) __atomic_store_n(&(x), value, __ATOMIC_RELAXED)
#define core_durable_acquire(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define core_durable_release(x, value) __atomic_store_n(&(x), value, __ATOMIC_RELEASE)
#endif

/* One open of the volume: its owner's memory, from core_durable_join() until core_durable_leave().
 */
struct core_durable_open {
	struct core_durable_open *next;
	u32 learnt;   /* generation that its last OPEN has shown; 0: there was none */
	u32 adopted;  /* generation of the handle that it uses. Its session's, as the next: */
	bool caches;  /* the volume has a volatile cache, as that handle's report has it */
	u32 unaware;  /* of core_durable.losses: the last one that it has not acknowledged; 0: none */
};

struct core_durable {
	struct core_durable_open *opens; /* that are told of a loss */
	u64 next;			 /* FLUSH to be asked for */
	u64 flushed;			 /* the last one that succeeded */
	u64 written; /* an acknowledged write: this FLUSH, or a later one, covers it; 0: there was
			none */
	u64 floor;   /* a FLUSH below was asked for before a loss: it fails */
	u32 generation; /* counts cache epochs; 0: none is known */
	u32 losses;	/* so many times acknowledged writes may have been lost */
	u32 unaware;	/* of `opens`: while there is one, every FLUSH fails */
	bool untold;	/* the next open has to be told of a loss */
	u8 epoch[16];	/* the volume's cache epoch as of the last OPEN */
};

/* Nothing was written, and nobody has it open. */
void core_durable_init(struct core_durable *durable);
/* It is told of losses from here on. */
void core_durable_join(struct core_durable *durable, struct core_durable_open *open);
/*
 * It is not any more, and nobody has to wait for it. heard: the last loss that its users have heard of, of core_durable.losses. If
 * it is unaware of a later one, the next that joins has to know.
 */
void core_durable_leave(struct core_durable *durable, struct core_durable_open *open, u32 heard);

/*
 * An OPEN has shown this cache epoch. True: acknowledged writes may be lost, which nobody knew, and
 * somebody is told: from now on FLUSH fails. Earlier writes are then neither durable nor owed
 * any more.
 */
bool core_durable_learn(struct core_durable *durable, struct core_durable_open *open,
			const u8 epoch[16]);
/* From here on the open uses the handle of the OPEN that it has learnt from. caches:
 * RBLK_VOLUME_VOLATILE_CACHE. */
void core_durable_adopt(struct core_durable_open *open, bool caches);

/*
 * A command is about to be sent with the open's handle: 0, or the generation by which its success
 * counts, as core_durable_wrote() or, of a FLUSH, core_durable_flushed() has it.
 */
u32 core_durable_owes(const struct core_durable_open *open, u8 opcode, u8 flags);
/* A write of this generation has succeeded: is that known already? Without the lock; any thread. */
static inline bool core_durable_noted(const struct core_durable *durable, u32 generation)
{
	u64 written = core_durable_acquire(durable->written);

	return written == core_durable_load(durable->next) &&
	       generation == core_durable_load(durable->generation);
}
/* It is not: it is from here on. True: it may be lost, as core_durable_learn() has it. */
bool core_durable_wrote(struct core_durable *durable, u32 generation);

/* A FLUSH is asked for: its number. It does not cover writes acknowledged from here on. */
u64 core_durable_flush(struct core_durable *durable);
/* Can it succeed, as far as is known? If not, it fails with EIO. */
bool core_durable_may_flush(const struct core_durable *durable, u64 number);
/* It was answered with success, sent with a handle of this generation. False: it fails with EIO all
 * the same. */
bool core_durable_flushed(struct core_durable *durable, u32 generation, u64 number);

/* The open's users know of the loss. True: there was one that they had not acknowledged. */
bool core_durable_acknowledge(struct core_durable *durable, struct core_durable_open *open);
/* Is there an acknowledged write that no FLUSH has covered? */
static inline bool core_durable_dirty(const struct core_durable *durable)
{
	return durable->written > durable->flushed;
}

#endif
