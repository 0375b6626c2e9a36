/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The volumes that a process serves: a registry by name, kept by the thread that configures (the
 * control thread, and the reloader's while there is one), read by sessions when they LIST and OPEN.
 * Holding a reference keeps a volume's store open; a removed volume is not found any more, and its
 * store is closed with the last reference: on a thread of its own, because closing may block for
 * long (a device's dirty pages are written, a large memory is unmapped) and the last user may be a
 * reactor.
 */
#ifndef RBLK_TARGET_VOLUME_H
#define RBLK_TARGET_VOLUME_H

#include <pthread.h>
#include <stdatomic.h>
#include "proto/wire/payload.h"
#include "target/base/settings.h"
#include "target/store/orphans.h"
#include "target/store/reservations.h"
#include "target/store/store.h"

/*
 * Made by the control thread before the first volume and reactor, destroyed after the last; one for
 * a process (a program that simulates several has several).
 */
struct tgt_registry;

/* The failures of a volume's store; owned by submit.c and sync.c. Any reactor writes and reads. */
struct tgt_volume_trouble {
	/* F9: when a sync failed, CLOCK_REALTIME; 0: none has, or all sessions have closed the volume since. */
	_Atomic uint64_t lost_ns;
	/* The lock of `channels`, and of forgetting with the last one: a reactor that opens the volume
	 * meanwhile may set `lost_ns` again, so it waits for that. Not on the way of an operation. */
	pthread_mutex_t lock;
	_Atomic unsigned int channels; /* reactors that have it open; changes under the lock */
	/* Under the lock. F9: the target has ended a channel whose sessions have not closed the volume: nothing is forgotten. */
	bool unclosed;
	/* F7: mixed into the store's cache epoch; drawn at each such failure, and where nothing vouches for what an
	 * earlier process has left (epoch.h). */
	_Atomic uint64_t epoch;
	struct tgt_orphans syncs; /* under way, counted as orphans are */
	struct tgt_failed_sync_file *file;   /* the same beyond the end of the process; NULL: not kept, or only read */
	struct tgt_channel *_Atomic waiting; /* channels to wake when one ends: a stack */
	_Atomic uint64_t errors[TGT_IO_KINDS];
	_Atomic uint64_t first_error_time_ns; /* CLOCK_REALTIME; 0: there was none */
	_Atomic uint64_t error_time_ns;	      /* the last one's; */
	_Atomic int error;		/* its errno */
};

/* `limit = auto`, for people; submit.c's. Any reactor writes and reads. */
struct tgt_volume_pace {
	_Atomic unsigned int window; /* the sum of its channels'; 0: there is none */
	_Atomic uint64_t mean_ns, mean_quiet_ns; /* of the channel that wrote last (pace.h) */
};

/*
 * Fixed after creation but for: trouble, pace, store->info.bytes, fence_domain, `removed` and `leaves` (configuring
 * thread writes, reactors read: atomic), refs. `slot` is unique among living volumes and <
 * RBLK_VOLUMES_MAX: reactors index their channels with it.
 */
struct tgt_volume {
	struct tgt_registry *registry;
	struct tgt_volume_config config;
	struct tgt_store *store;
	struct tgt_store_id id; /* the store's; known until that is closed */
	uint32_t block_bytes;
	_Atomic uint64_t blocks;
	/* F10, in two halves. Configuring thread writes, reactors read: a report of two reloads' halves is nobody's domain. */
	_Atomic uint64_t fence_domain[2];
	_Atomic bool removed;
	_Atomic bool leaves; /* it is to be served elsewhere: nobody opens it, until that is decided */
	unsigned int slot;
	_Atomic unsigned int refs;
	/* F5: writes in flight whose connection has ended, or whose initiator lost its rights to
	 * a reservation; any reactor. */
	struct tgt_orphans orphans;
	struct tgt_volume_trouble trouble;
	struct tgt_volume_pace pace;
	struct tgt_range_locks range_locks;
	struct tgt_reservations reservations; /* reactors share it under its lock */
	struct tgt_volume *next; /* the registry's */
};

/* Control thread. 0 or -ENOMEM. */
int tgt_registry_create(struct tgt_registry **registry);
/* A volume that was removed and whose store is still being closed; NULL: there is none. The name is
 * copied to the caller's buffer. Any thread. */
const char *tgt_registry_closing(struct tgt_registry *registry, char name[RBLK_NAME_BYTES]);
/* No references to volumes are left; waits until all stores are closed. NULL: no effect. */
void tgt_registry_destroy(struct tgt_registry *registry);
/* Control thread, before the first volume: stores are closed on threads. Otherwise, and if no
 * thread can be created, the caller that puts the last reference closes. */
void tgt_registry_use_threads(struct tgt_registry *registry);
/* Likewise: failed syncs are remembered in that folder beyond the end of the process (failed_sync_file.h). The
 * text stays the caller's. */
void tgt_registry_remember(struct tgt_registry *registry, const char *folder);
/* Likewise: persistent reservations are kept in that folder, which is made if it is missing.
 * False: they cannot be kept; the reason is logged. The caller keeps owning the text. */
bool tgt_registry_keep(struct tgt_registry *registry, const char *folder);
/* The thread that writes there, for all volumes. */
struct tgt_worker *tgt_registry_keeper(struct tgt_registry *registry);
/*
 * Who answers when another target asks for a fence (store.h); NULL: nobody has a volume open any more. Takes over a
 * reference to the volume. Any thread calls it, with the registry's lock held. Control thread.
 */
typedef void tgt_registry_ask(void *context, struct tgt_volume *volume, struct tgt_store_ask *ask);
void tgt_registry_on_ask(struct tgt_registry *registry, tgt_registry_ask *run, void *context);
/* Any thread that the store's close waits for. Answers at once if nothing here can have the volume open. */
void tgt_volume_asked(struct tgt_store *store, struct tgt_store_ask *ask);
/*
 * Who is to open lost volumes again (lost.c); NULL: nobody. Any thread calls it, with the registry's lock held: it does
 * not wait. Control thread.
 */
void tgt_registry_on_lost(struct tgt_registry *registry, void (*run)(void *context), void *context);
/* lost.c's. */
void tgt_registry_lost(struct tgt_registry *registry);
/* Tells an initiator that it is the same target as before: random, drawn with the registry. */
const uint8_t *tgt_registry_instance(const struct tgt_registry *registry);

/*
 * Configuring thread, these five; may wait for a lock. On failure nothing has changed and error
 * (TGT_ERROR_BYTES) says why. -EBUSY: another process has the path; -EAGAIN: this one has it, for a
 * volume that was removed or refused and has not ended yet; -EALREADY: this one serves it, under another name.
 * An open volume cannot be found before it is published; the reference is the caller's, and the
 * registry's from then on.
 */
int tgt_volume_open(struct tgt_registry *registry, const struct tgt_volume_config *config,
		    struct tgt_volume **volume, char *error);
int tgt_volume_publish(struct tgt_volume *volume, char *error);
/* Both. */
int tgt_volume_add(struct tgt_registry *registry, const struct tgt_volume_config *config, char *error);
/* Not found any more; the registry's reference is returned to the caller, which tells the reactors
 * and then puts it. NULL if there is no such volume. */
struct tgt_volume *tgt_volume_remove(struct tgt_registry *registry, const char *name);
/* The same of one that is lost, and that its sessions will find again: it is not removed. */
struct tgt_volume *tgt_volume_take_out(struct tgt_registry *registry, const char *name);
/* Any thread; a lock inside, so not for the data path. tgt_volume_get: NULL if there is none. */
struct tgt_volume *tgt_volume_get(struct tgt_registry *registry, const char *name);
struct tgt_volume *tgt_volume_ref(struct tgt_volume *volume);
void tgt_volume_put(struct tgt_volume *volume);

/* The volumes in order of their names from index `first`; each is referenced. Returns how many,
 * *total: of all. */
unsigned int tgt_volume_list(struct tgt_registry *registry, unsigned int first,
			     struct tgt_volume **list, unsigned int max, unsigned int *total);

/* -- describe.c -------------------------------------------------------------------------------- */

/* As the wire describes it (handle 0). features, max_io and max_capsule are the session's. */
void tgt_volume_describe(const struct tgt_volume *volume, uint32_t features, uint32_t max_io_bytes,
			 uint32_t max_capsule_bytes, struct rblk_wire_volume *out);

/* The shortest and the longest untorn write of a session whose commands have so much data at most; both 0: none. */
void tgt_volume_untorn(const struct tgt_volume *volume, uint32_t max_io_bytes, uint32_t *min, uint32_t *max);
#define TGT_VOLUME_SIZE_BYTES 64
/* "4 MiB in blocks of 512 bytes". Returns `words`. Any thread. */
const char *tgt_volume_size_words(const struct tgt_volume *volume, char words[TGT_VOLUME_SIZE_BYTES]);
/* Any thread. -EALREADY, and error (TGT_ERROR_BYTES) says that `other` has the file or device;
 * same_node: by whatever name, else by another path to the disk. */
int tgt_volume_taken(const struct tgt_volume_config *config, const struct tgt_volume_config *other,
		     bool same_node, char *error);

/* F10: what OPEN reports as its fence domain. Any thread. */
void tgt_volume_fence_domain(const struct tgt_volume *volume, uint8_t domain[16]);
/* Configuring thread. From now on it is the configured one, or, if that is all zero, the store's; true if that is a change
 * (reactors are then told). */
bool tgt_volume_set_fence_domain(struct tgt_volume *volume, const uint8_t configured[16]);

/* -- lost.c ------------------------------------------------------------------------------------- */

/*
 * Nothing of the store can be had any more by what has it open; `why` is a fixed text. Its volume is opened again, and
 * until then no command of it is answered: initiators take what was under way for lost. Any thread that its close
 * waits for; does not wait.
 */
void tgt_volume_lost(struct tgt_store *store, const char *why);
/* Why; NULL: it is not lost. Any thread. */
const char *tgt_volume_why_lost(const struct tgt_volume *volume);

/* -- submit.c ----------------------------------------------------------------------------------- */

/* A reactor has it open, and so a session. Any thread. */
bool tgt_volume_is_open(struct tgt_volume *volume);

/* -- size.c ------------------------------------------------------------------------------------- */

/* Configuring thread. How many blocks its store has now. */
uint64_t tgt_volume_blocks_now(struct tgt_volume *volume);
/* Configuring thread. Serve so many; true if that is a change (reactors are then told). */
bool tgt_volume_refresh(struct tgt_volume *volume);
/* Any thread; does not wait. Serve all of a device that has grown; true if it has (likewise). */
bool tgt_volume_grow(struct tgt_volume *volume);

#endif
