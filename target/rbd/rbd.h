/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by the files of the rbd module: one rados client for the process (client.c), whether its cluster answers
 * (reach.c), shutting others out of the cluster (shoot.c), the gateway that this process is for one image (gateway.c),
 * its answers to others (asked.c) and what it does when it is cut off from the cluster (cut_off.c), an open image
 * (image.c), the store on it (store.c), the threads of what waits (thread.c) and has to be done later (keeper.c), the
 * fence at the other gateways (fence.c), the reservation that they share (reservation.c). A file calls those before it:
 * thread, keeper, reach, shoot, client, asked, cut_off, gateway, reservation, fence, image, extents, store, open.
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

/* POOL/[NAMESPACE/]IMAGE[@SNAPSHOT], taken apart. */
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

/* Something to be done after a pause, on a thread; embedded in its owner. */
struct rbd_task {
	struct rbd_task *next;
	uint64_t at_ns;
	bool in_time; /* fixed: it never waits; others have a thread each, and are not run beside themselves */
	bool queued; /* under the keeper's lock; its own run() may look, if nobody queues it meanwhile */
	void (*run)(struct rbd_task *task);
};

/* Any thread. Once queued it is not queued again. */
void tgt_rbd_keeper_later(struct rbd_task *task, uint64_t pause_ns);
/* It is neither queued nor run any more. */
void tgt_rbd_keeper_forget(struct rbd_task *task);
/* 0 or negative errno: there is no thread. */
int tgt_rbd_keeper_start(void);

/* -- reach.c ------------------------------------------------------------------------------------ */

/* Around a call that waits for the monitors: whether they have answered it. Any thread. */
void tgt_rbd_reach_begin(void);
void tgt_rbd_reach_end(bool answered);
/* Any thread; does not wait. They have not answered this process for seconds, whatever was asked. */
bool tgt_rbd_reach_silent(void);

/* -- shoot.c ------------------------------------------------------------------------------------ */

/*
 * Shuts a client out: once the cluster's map is at least that of `cluster` now, nothing of it is carried out. `where`:
 * its address, as Ceph writes it; `why`: "is silent". Logged. Blocks. 0, or negative errno and error.
 */
int tgt_rbd_shoot(rados_t cluster, const char *name, const char *where, const char *why, char *error);

/* -- client.c ---------------------------------------------------------------------------------- */

/*
 * The process's client of its cluster, made for the first that gets it, ended when nobody has had it for a minute. If
 * the cluster has shut it out, the next one is another client, once that has shut out the former for long.
 * Blocks; not on a reactor. 0, or negative errno and error (TGT_ERROR_BYTES).
 */
struct rbd_client;
int tgt_rbd_client_get(struct rbd_client **client, char *error);
void tgt_rbd_client_put(struct rbd_client *client);
/* There is one, or it is made or ended: with threads that still run. Does not wait. */
bool tgt_rbd_client_is_there(void);
rados_t tgt_rbd_client_cluster(const struct rbd_client *client);
/* "UUID.NUMBER@HOST": the process's UUID, and a number for each of its clients: no other client has it. */
#define RBD_CLIENT_BYTES 128
const char *tgt_rbd_client_name(const struct rbd_client *client);
/* It is the name of a former client of this process. */
bool tgt_rbd_client_was(const struct rbd_client *client, const char *name);
/* From now on something is written by it. */
void tgt_rbd_client_writes(struct rbd_client *client);
/* It has the cluster's latest map. Blocks. 0, or negative errno and error; -ESHUTDOWN: it is shut out; users know. */
int tgt_rbd_client_map(struct rbd_client *client, char *error);
/* Any thread; does not wait: the present one asks the monitors for that, unless it does. */
void tgt_rbd_client_probe(void);
/*
 * Any thread: the cluster has shut it out; why: NULL, or another reason to have no more to do with it, a fixed text.
 * When this has returned the stores of all its users are lost (module.h): nothing that it ends becomes an answer.
 */
void tgt_rbd_client_fenced(struct rbd_client *client, const char *why);
/* The same of one that others do not ask any more, although nobody has shut it out: it does so itself. Blocks. */
void tgt_rbd_client_unlocked(struct rbd_client *client);
bool tgt_rbd_client_is_fenced(const struct rbd_client *client);

/* A store that is lost with the client; embedded in it. */
struct rbd_user {
	struct rbd_user *next; /* client.c's */
	struct tgt_store *store;
};
/* 0, or -ESHUTDOWN: it is shut out already. */
int tgt_rbd_client_join(struct rbd_client *client, struct rbd_user *user);
void tgt_rbd_client_leave(struct rbd_client *client, struct rbd_user *user);

/* How this process uses an image. */
enum rbd_use {
	RBD_READS,
	RBD_WRITES,	   /* as other gateways do at the same time */
	RBD_WRITES_ALONE, /* as long as it has it, nobody else serves it for writing */
};

/* -- asked.c ------------------------------------------------------------------------------------- */

struct rbd_gateway;
#define RBD_PASTS_MAX 64u

/* A notify: what to fence, and how many; little-endian. Anything else asks whether one lives. */
struct rbd_question {
	char magic[8];
	uint64_t count;
	struct tgt_past pasts[RBD_PASTS_MAX];
};
#define RBD_QUESTION_MAGIC "rblkask1"
#define RBD_QUESTION_BYTES(count) (offsetof(struct rbd_question, pasts) + (size_t)(count) * sizeof(struct tgt_past))
static_assert(sizeof(struct tgt_past) == 32 && RBD_QUESTION_BYTES(0) == 16, "as it is sent");

/* Another one: what has become of the reservation. */
struct rbd_news {
	char magic[8];
	struct tgt_reservation_note note;
};
#define RBD_NEWS_MAGIC "rblkres1"

/* The answer is a gateway's name, and behind that, if so, this and 8 bytes of what it holds (struct tgt_store_ask). */
#define RBD_ANSWER_QUIET " is quiet"

/* Its watch's callback; and when no more come, with nothing under way. */
void tgt_rbd_asked(void *gateway, uint64_t notify, uint64_t watch, uint64_t notifier, void *data, size_t bytes);
void tgt_rbd_asked_end(struct rbd_gateway *gateway);

/* -- cut_off.c ----------------------------------------------------------------------------------- */

/* Part of its gateway. */
struct rbd_cut_off {
	struct rbd_task look; /* first */
	struct tgt_store_ask ask; /* its own sessions are told by it; */
	_Atomic bool asks;	  /* under way: it keeps the volume open, and with that the gateway */
	uint64_t heard_ns;	  /* the cluster has confirmed the watch */
	unsigned int looks;	  /* since when the gateway seemed to be cut off; 0: it does not */
	uint64_t cut_ns;	  /* then connections of those end that are still here */
};

/* The gateway has entered; before it leaves. */
void tgt_rbd_cut_off_begin(struct rbd_gateway *gateway);
void tgt_rbd_cut_off_end(struct rbd_gateway *gateway);

/* -- gateway.c --------------------------------------------------------------------------------- */

/* Part of its image; the thread that opens and closes that. The callbacks of its watch are librados'. */
struct rbd_gateway {
	struct rbd_task again; /* first: watches again */
	struct rbd_client *client;
	struct tgt_store *store; /* whom others' asks are for; set before it is entered */
	rados_ioctx_t io;	 /* the image's */
	char object[RBD_NAME_BYTES];
	bool alone; /* the lock is exclusive */
	uint64_t watch; /* with `watching` that task's, too, while `again` may run; under a lock of gateway.c */
	bool watching;
	bool entered;
	_Atomic bool leaving; /* it does not watch again */
	struct tgt_reservation_note noted; /* what was reserved when it entered */
	struct rbd_asked *news;	/* of others, that wait for the map; with */
	bool hearing;		/* there is a thread for them: under a lock of asked.c */
	struct rbd_cut_off cut_off;
	/* fence.c's, under its lock: */
	struct tgt_store_fence *fences; /* that wait, the first one first */
	bool fencing;			/* there is a thread for them, and its: */
	uint64_t said_ms;		/* when a failure was last logged */
};

/*
 * From 0 on this process is a gateway of the image, and others know; if it is the only one, no write of an earlier
 * one can land any more, and the client sees that. -EBUSY: another one serves it alone, or this one cannot be alone.
 * May block for as long as the cluster does not answer.
 */
int tgt_rbd_gateway_enter(struct rbd_gateway *gateway, bool alone, struct rbd_client *client, rados_ioctx_t io,
			  const char *image_id, char *error);
/* Nothing is in flight. */
void tgt_rbd_gateway_leave(struct rbd_gateway *gateway);
/*
 * All other gateways of the image have ended what they have of these, or are shut out, and the client sees that;
 * without any, those that are silent are. *held: a bit for each that is a host whose I/O is another gateway's, which
 * goes on. Blocks. 0, or negative errno and error; -ESHUTDOWN, without: it is shut out itself.
 */
int tgt_rbd_gateway_fence(struct rbd_gateway *gateway, const struct tgt_past *pasts, unsigned int count, uint64_t *held,
			  char *error);

/*
 * All other gateways have put that in force, and have ended the writes that it stops, or are shut out, and their
 * clients and this one see that. Else as above.
 */
int tgt_rbd_gateway_tell(struct rbd_gateway *gateway, const struct tgt_reservation_note *note, char *error);
/* Does not wait: how long ago the cluster has confirmed its watch, in ms; false: it has none. */
bool tgt_rbd_gateway_heard(struct rbd_gateway *gateway, uint64_t *ago_ms);

/* -- reservation.c ------------------------------------------------------------------------------ */

/* Reads what is noted now. Blocks. */
int tgt_rbd_recall(const struct rbd_gateway *gateway, struct tgt_reservation_note *note, char *error);
/*
 * Who made the last change may have ended before others knew: they hear of what was noted, before it is reported here.
 * Blocks. Nobody has to be there.
 */
void tgt_rbd_remind(const struct rbd_gateway *gateway);
/* As the store's `change`. */
void tgt_rbd_change(struct rbd_gateway *gateway, struct tgt_store_change *change);

/* -- fence.c ------------------------------------------------------------------------------------ */

/* As the store's `fence`. */
void tgt_rbd_fence(struct rbd_gateway *gateway, struct tgt_store_fence *fence);
/* No fence is left, and no thread. None is begun any more. */
void tgt_rbd_fence_wait(struct rbd_gateway *gateway);

/* -- image.c ----------------------------------------------------------------------------------- */

/* librbd compares and writes one sector in a step (16.2). */
#define RBD_COMPARE_BYTES 512u

struct rbd_image {
	struct rbd_task look; /* first: at its size, and whether it may be written */
	struct rbd_client *client;
	rados_ioctx_t io;
	rbd_image_t image;
	struct rbd_gateway gateway; /* unused if it is only read */
	enum rbd_use use;
	uint64_t updates; /* handle of the watch for changes of its size */
	bool watched;
	_Atomic uint64_t bytes; /* what it has now */
	_Atomic bool secondary; /* it is mirrored to this cluster: not to be written */
	uint32_t object_bytes;
};

/* Blocks. 0, or negative errno and error; *info: but for the callbacks of store.c. */
int tgt_rbd_image_open(const struct rbd_name *name, enum rbd_use use, struct rbd_image *image,
		       struct tgt_store_info *info, char *error);
void tgt_rbd_image_close(struct rbd_image *image);

/* -- extents.c --------------------------------------------------------------------------------- */

/* Fills io's buffer (store.h), for a part of the range at least. Blocks. 0 or negative errno. */
int tgt_rbd_extents(struct rbd_image *image, const struct tgt_io *io);

/* -- store.c ----------------------------------------------------------------------------------- */

struct rbd_store;
/* Blocks: open.c has the thread for that. */
int tgt_rbd_store_open(const char *path, const struct rbd_name *name, enum rbd_use use, struct rbd_store **store,
		       char *error);
void tgt_rbd_store_close(struct tgt_store *store);
struct tgt_store *tgt_rbd_store_of(struct rbd_store *store);

/* -- open.c ------------------------------------------------------------------------------------ */

/* As the store's. */
void tgt_rbd_open_ahead(const struct tgt_volume_config *config);
/* As the store's `open`: waits for a thread that does it, with a limit. */
int tgt_rbd_open(const struct tgt_volume_config *config, struct tgt_store **store, char *error);
/* Once, before any opening. */
void tgt_rbd_open_begin(void);

#endif
