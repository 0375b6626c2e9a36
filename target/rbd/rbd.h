/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by the files of the rbd module. Each file calls only those before it in this list, but for cut_off, which asks
 * gateway about its watch, and store, whose table has the calls of open:
 *   thread       threads for work that waits, and waits with a limit
 *   keeper       tasks that are run later
 *   reach        whether the cluster's monitors answer
 *   shoot        shuts another client out of the cluster
 *   client       the process's rados client
 *   asked        this gateway's answers to other gateways
 *   cut_off      sends sessions away when this gateway is cut off from the cluster
 *   gateway      this process as a gateway of one image
 *   reservation  the reservation that an image's gateways share
 *   fence        fences at the other gateways, for sessions of this one
 *   image        an open image
 *   extents      which parts of an image hold data
 *   store        the store on an image
 *   open         opens a store, with a limit
 */
#ifndef RBLK_TARGET_RBD_H
#define RBLK_TARGET_RBD_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <rados/librados.h>
#include <rbd/librbd.h>
#include "target/store/module.h"

/* rblkd's functions; set before anything else. */
extern const struct tgt_module_host *tgt_rbd_host;

/* The monotonic clock. Any thread. */
static inline uint64_t tgt_rbd_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t tgt_rbd_now_ms(void)
{
	return tgt_rbd_now_ns() / 1000000;
}

/* The parts of POOL/[NAMESPACE/]IMAGE[@SNAPSHOT]. */
#define RBD_NAME_BYTES 256
#define RBD_PATH_BYTES (4 * RBD_NAME_BYTES)
struct rbd_name {
	char pool[RBD_NAME_BYTES], space[RBD_NAME_BYTES], image[RBD_NAME_BYTES];
	char snapshot[RBD_NAME_BYTES]; /* empty: none */
};

/* -- thread.c ------------------------------------------------------------------------------------ */

/* Starts a detached thread. 0 or negative errno. */
int tgt_rbd_thread(void *(*run)(void *arg), void *arg);
/* A condition for tgt_rbd_cond_wait(). */
void tgt_rbd_cond_init(pthread_cond_t *condition);
/* Lock held. Waits until `until_ns` of tgt_rbd_now_ns() at the latest. */
void tgt_rbd_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_ns);

/* -- keeper.c ---------------------------------------------------------------------------------- */

/* A task that runs after a pause, on a thread; embedded in its owner. */
struct rbd_task {
	struct rbd_task *next;
	uint64_t at_ns;
	bool in_time; /* fixed: run() never waits, and runs on the keeper's thread; else each run has its own thread */
	bool queued;  /* under the keeper's lock; run() may read it if nobody can queue the task meanwhile */
	/* Never runs twice at the same time. */
	void (*run)(struct rbd_task *task);
};

/* Any thread. A task that is queued already keeps its time. */
void tgt_rbd_keeper_later(struct rbd_task *task, uint64_t pause_ns);
/* Waits for its run to end; when this returns the task is neither queued nor running. */
void tgt_rbd_keeper_forget(struct rbd_task *task);
/* Starts the keeper's thread, if there is none. 0 or negative errno. */
int tgt_rbd_keeper_start(void);

/* -- reach.c ------------------------------------------------------------------------------------ */

/* Before and after a call that waits for the monitors; answered: they answered it. Any thread. */
void tgt_rbd_reach_begin(void);
void tgt_rbd_reach_end(bool answered);
/* The monitors have answered no call of this process for seconds. Any thread; does not wait. */
bool tgt_rbd_reach_silent(void);

/* -- shoot.c ------------------------------------------------------------------------------------ */

/*
 * Shuts the client `name` out of the cluster, and logs that. An OSD that has the map of this moment, or a later one,
 * carries out none of its operations. where: its address, as Ceph writes it; why: as "is silent". Blocks. 0, or
 * negative errno and error.
 */
int tgt_rbd_shoot(rados_t cluster, const char *name, const char *where, const char *why, char *error);

/* -- client.c ---------------------------------------------------------------------------------- */

/*
 * Gets a reference to the process's client of its cluster. The first caller makes the client; it is ended when nobody
 * has had a reference for a minute. If the cluster has shut the client out, a new one is made, which is used once it
 * has shut out former ones that have written. Blocks; not on a reactor. 0, or negative errno and error
 * (TGT_ERROR_BYTES).
 */
struct rbd_client;
int tgt_rbd_client_get(struct rbd_client **client, char *error);
void tgt_rbd_client_put(struct rbd_client *client);
/* A client exists, or is being made or ended, so threads of librados may run. Does not wait. */
bool tgt_rbd_client_is_there(void);
rados_t tgt_rbd_client_cluster(const struct rbd_client *client);
/* "UUID.NUMBER@HOST", unique: the process's UUID, and a number for each of its clients. */
#define RBD_CLIENT_BYTES 128
const char *tgt_rbd_client_name(const struct rbd_client *client);
/* `name` is that of a former client of this process. */
bool tgt_rbd_client_was(const struct rbd_client *client, const char *name);
/* From now on the client writes: it has to be shut out before its successor is used. */
void tgt_rbd_client_writes(struct rbd_client *client);
/* Waits for the cluster's latest map. 0, or negative errno and error; -ESHUTDOWN: it is shut out, and its users know.
 */
int tgt_rbd_client_map(struct rbd_client *client, char *error);
/*
 * The pool of the store's image was deleted: the store is lost, and no other one. False: it was not, or the client does
 * not know yet. Any thread; does not wait.
 */
bool tgt_rbd_client_pool_gone(rados_ioctx_t io, struct tgt_store *store);
/* A thread waits for the latest map for the present client, so that reach.c hears of it. Any thread; does not wait. */
void tgt_rbd_client_probe(void);
/*
 * Gives the client up, as the cluster has shut it out, or for another reason (`why`, a fixed text, else NULL). When
 * this has returned the stores of all its users are lost (module.h), so no result of the client's becomes an answer.
 * Any thread.
 */
void tgt_rbd_client_fenced(struct rbd_client *client, const char *why);
/* Gives up a client whose lock is gone, so that other gateways no longer ask it, and shuts it out itself. Blocks. */
void tgt_rbd_client_unlocked(struct rbd_client *client);
bool tgt_rbd_client_is_fenced(const struct rbd_client *client);

/* Embedded in a store that is lost with its client. */
struct rbd_user {
	struct rbd_user *next; /* client.c's */
	struct tgt_store *store;
};
/* 0, or -ESHUTDOWN: the client is shut out already. */
int tgt_rbd_client_join(struct rbd_client *client, struct rbd_user *user);
void tgt_rbd_client_leave(struct rbd_client *client, struct rbd_user *user);

/* How this process uses an image. */
enum rbd_use {
	RBD_READS,
	RBD_WRITES,	  /* other gateways may write at the same time */
	RBD_WRITES_ALONE, /* no other gateway may write at the same time */
};

/* -- asked.c ------------------------------------------------------------------------------------- */

struct rbd_gateway;
#define RBD_PASTS_MAX 64u

/*
 * A notify that asks for a fence of `pasts`, little-endian. A notify that is neither this nor struct rbd_news only asks
 * whether the gateway lives.
 */
struct rbd_question {
	char magic[8];
	uint64_t count;
	struct tgt_past pasts[RBD_PASTS_MAX];
};
#define RBD_QUESTION_MAGIC "rblkask1"
#define RBD_QUESTION_BYTES(count) (offsetof(struct rbd_question, pasts) + (size_t)(count) * sizeof(struct tgt_past))
static_assert(sizeof(struct tgt_past) == 32 && RBD_QUESTION_BYTES(0) == 16, "as it is sent");

/* A notify that tells of a changed reservation. */
struct rbd_news {
	char magic[8];
	struct tgt_reservation_note note;
};
#define RBD_NEWS_MAGIC "rblkres1"

/* The answer is the gateway's name. If it is quiet, this text and 8 bytes, `held` of struct tgt_store_ask, follow. */
#define RBD_ANSWER_QUIET " is quiet"

/* The callback of a gateway's watch. */
void tgt_rbd_asked(void *gateway, uint64_t notify, uint64_t watch, uint64_t notifier, void *data, size_t bytes);
/* The watch has ended, and nothing is under way. Waits for the thread that hands questions on. */
void tgt_rbd_asked_end(struct rbd_gateway *gateway);

/* -- cut_off.c ----------------------------------------------------------------------------------- */

/* Part of its gateway. Fields without a comment on their thread are the task's, which is never run twice at once. */
struct rbd_cut_off {
	struct rbd_task look; /* first */
	struct tgt_store_ask ask; /* tells this gateway's own sessions */
	_Atomic bool asks;	  /* `ask` is under way: it keeps the volume open, and with that the gateway */
	uint64_t heard_ns;	  /* when the cluster last confirmed the watch */
	unsigned int looks;	  /* how many in a row found the gateway cut off */
	uint64_t cut_ns;	  /* when the connections of sessions that have not left are closed */
};

/* Called when the gateway has entered, and before it leaves. */
void tgt_rbd_cut_off_begin(struct rbd_gateway *gateway);
void tgt_rbd_cut_off_end(struct rbd_gateway *gateway);

/* -- gateway.c --------------------------------------------------------------------------------- */

/* Part of its image, and used by the thread that opens or closes it. librados' threads call the watch's callbacks. */
struct rbd_gateway {
	struct rbd_task again; /* first: renews the watch */
	struct rbd_client *client;
	/* Set before it is entered: the store that gets others' questions, and its image's name, for messages. */
	struct tgt_store *store;
	const char *path;
	rados_ioctx_t io;	 /* the image's */
	char object[RBD_NAME_BYTES];
	bool alone; /* the lock is exclusive */
	/* Under gateway.c's `watch_lock`; changed by `again`, too, while it may run. */
	uint64_t watch; /* its handle, if `watching` */
	bool watching;
	bool entered;
	_Atomic bool leaving;		   /* the watch is not renewed */
	struct tgt_reservation_note noted; /* what was reserved when it entered */
	struct rbd_asked *news; /* others' struct rbd_news that wait for the map; under asked.c's `news_lock` */
	bool hearing;		/* they have a thread; likewise */
	struct rbd_cut_off cut_off;
	/* fence.c's, under its lock: */
	struct tgt_store_fence *fences; /* waiting, in their order */
	bool fencing;			/* they have a thread */
	uint64_t said_ms;		/* that thread's: when a failure was last logged */
};

/*
 * Makes this process a gateway of the image that others know. If it is the only one, no write of an earlier gateway can
 * land any more, and `client` has the map that sees to that. 0, or negative errno and error; -EBUSY: another gateway
 * serves the image, and one of the two is to be alone. May block for as long as the cluster does not answer.
 */
int tgt_rbd_gateway_enter(struct rbd_gateway *gateway, bool alone, struct rbd_client *client, rados_ioctx_t io,
			  const char *image_id, char *error);
/* Gives the lock and the watch back. Nothing may be in flight. */
void tgt_rbd_gateway_leave(struct rbd_gateway *gateway);
/*
 * Fences `pasts` at all other gateways of the image: each has ended what it has of them, or is shut out, and the
 * client has a map that says so. With count 0, only silent gateways are shut out. *held: a bit for each of `pasts` that
 * is an NVMe host whose I/O goes on at another gateway. Blocks. 0, or negative errno and error; -ESHUTDOWN: this
 * process is shut out itself, and error may not be set.
 */
int tgt_rbd_gateway_fence(struct rbd_gateway *gateway, const struct tgt_past *pasts, unsigned int count, uint64_t *held,
			  char *error);

/*
 * Puts `note` in force at all other gateways: each has ended the writes that it forbids, or is shut out, and the
 * clients of all of them, and this one, have a map that says so. Blocks, and fails, as tgt_rbd_gateway_fence().
 */
int tgt_rbd_gateway_tell(struct rbd_gateway *gateway, const struct tgt_reservation_note *note, char *error);
/* *ago_ms: how long ago the cluster last confirmed the watch. False: there is no watch. Does not wait. */
bool tgt_rbd_gateway_heard(struct rbd_gateway *gateway, uint64_t *ago_ms);

/* -- reservation.c ------------------------------------------------------------------------------ */

/* Reads the note from the cluster. Blocks. 0, or negative errno and error. */
int tgt_rbd_recall(const struct rbd_gateway *gateway, struct tgt_reservation_note *note, char *error);
/*
 * Tells the other gateways, if there are any, of the note that this one has read: the gateway that changed it may have
 * ended before it told them. Blocks.
 */
void tgt_rbd_remind(const struct rbd_gateway *gateway);
/* The store's `change`. */
void tgt_rbd_change(struct rbd_gateway *gateway, struct tgt_store_change *change);

/* -- fence.c ------------------------------------------------------------------------------------ */

/* The store's `fence`. */
void tgt_rbd_fence(struct rbd_gateway *gateway, struct tgt_store_fence *fence);
/* Waits until the thread for the fences has ended. No fence may begin any more. */
void tgt_rbd_fence_wait(struct rbd_gateway *gateway);

/* -- image.c ----------------------------------------------------------------------------------- */

/* librbd compares and writes one sector in a step (16.2). */
#define RBD_COMPARE_BYTES 512u

struct rbd_image {
	struct rbd_task look; /* first: looks at the size, and whether the image may be written */
	struct rbd_client *client;
	rados_ioctx_t io;
	rbd_image_t image;
	struct rbd_gateway gateway; /* unused if it is only read */
	struct rbd_task seek;	    /* looks whether it is in the trash */
	_Atomic bool trashed;
	enum rbd_use use;
	uint64_t updates; /* handle of the watch for changes of its size, if `watched` */
	bool watched;
	_Atomic uint64_t bytes; /* its present size */
	_Atomic bool secondary; /* it is mirrored to this cluster: not to be written */
	uint32_t object_bytes;
};

/* Opens the image and fills *info. Blocks. 0, or negative errno and error. */
int tgt_rbd_image_open(const struct rbd_name *name, enum rbd_use use, struct rbd_image *image,
		       struct tgt_store_info *info, char *error);
void tgt_rbd_image_close(struct rbd_image *image);

/* -- extents.c --------------------------------------------------------------------------------- */

/* Fills io's buffer (store.h) for at least the first part of the range. Blocks. 0 or negative errno. */
int tgt_rbd_extents(struct rbd_image *image, const struct tgt_io *io);

/* -- store.c ----------------------------------------------------------------------------------- */

struct rbd_store;
/* Blocks, so open.c calls it on a thread. 0, or negative errno and error. */
int tgt_rbd_store_open(const char *path, const struct rbd_name *name, enum rbd_use use, struct rbd_store **store,
		       char *error);
void tgt_rbd_store_close(struct tgt_store *store);
struct tgt_store *tgt_rbd_store_of(struct rbd_store *store);

/* -- open.c ------------------------------------------------------------------------------------ */

/* The store's `open_ahead`. */
void tgt_rbd_open_ahead(const struct tgt_volume_config *config);
/* The store's `open`: a thread opens the image, and this waits for it, with a limit. */
int tgt_rbd_open(const struct tgt_volume_config *config, struct tgt_store **store, char *error);
/* Called once, before any opening. */
void tgt_rbd_open_begin(void);

#endif
