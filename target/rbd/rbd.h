/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by the files of the rbd module: one rados client for the process (client.c), the gateway that this process is
 * for one image (gateway.c), an open image (image.c), the store on it (store.c), the thread of what has to be done
 * later (keeper.c). A file calls those before it: keeper, client, gateway, image, store, open.
 */
#ifndef RBLK_TARGET_RBD_H
#define RBLK_TARGET_RBD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <rados/librados.h>
#include <rbd/librbd.h>
#include "target/store/module.h"

/* rblkd's functions; set before anything else. */
extern const struct tgt_module_host *tgt_rbd_host;

/* POOL/[NAMESPACE/]IMAGE[@SNAPSHOT], taken apart. */
#define RBD_NAME_BYTES 256
#define RBD_PATH_BYTES (4 * RBD_NAME_BYTES)
struct rbd_name {
	char pool[RBD_NAME_BYTES], space[RBD_NAME_BYTES], image[RBD_NAME_BYTES];
	char snapshot[RBD_NAME_BYTES]; /* empty: none */
};

/* -- keeper.c ---------------------------------------------------------------------------------- */

/* Something to be done after a pause, on the keeper's thread; embedded in its owner. */
struct rbd_task {
	struct rbd_task *next;
	uint64_t at_ns;
	bool queued; /* under the keeper's lock; its own run() may look, if nobody queues it meanwhile */
	void (*run)(struct rbd_task *task);
};

/* Any thread. Once queued it is not queued again. */
void tgt_rbd_keeper_later(struct rbd_task *task, uint64_t pause_ns);
/* It is neither queued nor run any more. */
void tgt_rbd_keeper_forget(struct rbd_task *task);
/* 0 or negative errno: there is no thread. */
int tgt_rbd_keeper_start(void);

/* -- client.c ---------------------------------------------------------------------------------- */

/*
 * The process's client of its cluster, made for the first that gets it, ended when nobody has had it for a minute.
 * Blocks; not on a reactor. 0, or negative errno and error (TGT_ERROR_BYTES).
 */
struct rbd_client;
int tgt_rbd_client_get(struct rbd_client **client, char *error);
void tgt_rbd_client_put(struct rbd_client *client);
/* There is one, or it is made or ended: with threads that still run. Does not wait. */
bool tgt_rbd_client_is_there(void);
rados_t tgt_rbd_client_cluster(const struct rbd_client *client);
/* "UUID@HOST": no other client has it, also of this process. */
#define RBD_CLIENT_BYTES 128
const char *tgt_rbd_client_name(const struct rbd_client *client);
/* Any thread: the cluster has shut it out. Does not return. */
void tgt_rbd_client_fenced(struct rbd_client *client) __attribute__((noreturn));

/* -- gateway.c --------------------------------------------------------------------------------- */

/* Part of its image; the thread that opens and closes that. The callbacks of its watch are librados'. */
struct rbd_gateway {
	struct rbd_task again; /* first: watches again */
	struct rbd_client *client;
	rados_ioctx_t io; /* the image's */
	char object[RBD_NAME_BYTES];
	uint64_t watch;
	bool watching; /* with `watch` the keeper's, too, while `again` may run */
	bool entered;
	_Atomic bool leaving; /* it does not watch again */
};

/*
 * From 0 on this process is the gateway of the image, no write of an earlier one can land any more, and the client sees
 * that. -EBUSY: another one serves it, and lives. May block for as long as the cluster does not answer.
 */
int tgt_rbd_gateway_enter(struct rbd_gateway *gateway, struct rbd_client *client, rados_ioctx_t io,
			  const char *image_id, char *error);
/* Nothing is in flight. */
void tgt_rbd_gateway_leave(struct rbd_gateway *gateway);

/* -- image.c ----------------------------------------------------------------------------------- */

struct rbd_image {
	struct rbd_task look; /* first: at its size */
	struct rbd_client *client;
	rados_ioctx_t io;
	rbd_image_t image;
	struct rbd_gateway gateway; /* unused if it is only read */
	bool writes;
	uint64_t updates; /* handle of the watch for changes of its size */
	bool watched;
	_Atomic uint64_t bytes; /* what it has now */
};

/* Blocks. 0, or negative errno and error; *info: but for the callbacks of store.c. */
int tgt_rbd_image_open(const struct rbd_name *name, bool read_only, struct rbd_image *image,
		       struct tgt_store_info *info, char *error);
void tgt_rbd_image_close(struct rbd_image *image);

/* -- store.c ----------------------------------------------------------------------------------- */

struct rbd_store;
/* Blocks: open.c has the thread for that. */
int tgt_rbd_store_open(const char *path, const struct rbd_name *name, bool read_only, struct rbd_store **store,
		       char *error);
void tgt_rbd_store_close(struct tgt_store *store);
struct tgt_store *tgt_rbd_store_of(struct rbd_store *store);

/* -- open.c ------------------------------------------------------------------------------------ */

/* As the store's `open`: waits for a thread that does it, with a limit. */
int tgt_rbd_open(const struct tgt_volume_config *config, struct tgt_store **store, char *error);
/* Once, before any opening. */
void tgt_rbd_open_begin(void);

#endif
