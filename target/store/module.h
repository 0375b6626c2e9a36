/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A kind of store that is a shared object of its own, loaded when a volume of it is configured, because what it needs
 * is large, or not everywhere (rbd.c loads the one for Ceph). Both sides are of one build: the module includes this
 * room's headers, and gets what it calls as a table, so that rblkd exports no symbols.
 */
#ifndef RBLK_TARGET_MODULE_H
#define RBLK_TARGET_MODULE_H

#include <stdbool.h>
#include "target/store/store.h"

struct tgt_job;
struct tgt_worker;

/* Functions of rblkd that a module calls. */
struct tgt_module_host {
	int (*error)(char *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
	void (*log)(enum tgt_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
	void (*ring_expect)(struct tgt_ring *ring);
	void (*ring_post)(struct tgt_ring *ring, struct tgt_message *message);
	bool (*interrupted)(void); /* path.h: a wait of an open is to end */
	/* volume.h: another target asks this one. Any thread that its close waits for. */
	void (*asked)(struct tgt_store *store, struct tgt_store_ask *ask);
	/* worker.h: a thread of the store's */
	int (*worker_init)(struct tgt_worker *worker, const char *name);
	void (*worker_fini)(struct tgt_worker *worker);
	int (*worker_submit)(struct tgt_worker *worker, struct tgt_ring *ring, struct tgt_job *job);
	/*
	 * volume.h: the store is lost, for this reason, a fixed text; its volume is opened again. Any thread that its
	 * close waits for.
	 */
	void (*lost)(struct tgt_store *store, const char *why);
};

/* They, for who loads it. */
#define TGT_MODULE_HOST                                                                                               \
	{                                                                                                             \
		.error = tgt_error, .log = tgt_log, .ring_expect = tgt_ring_expect, .ring_post = tgt_ring_post,       \
		.interrupted = tgt_path_interrupted, .asked = tgt_volume_asked, .worker_init = tgt_worker_init,       \
		.worker_fini = tgt_worker_fini, .worker_submit = tgt_worker_submit, .lost = tgt_volume_lost           \
	}

/* A module has one symbol, of this type and name. */
struct tgt_module {
	const char *version; /* RBLK_VERSION, and */
	size_t io_bytes,
		info_bytes; /* sizes of struct tgt_io and struct tgt_store_info: another build's differ, or may */
	/* Once, before any other call. `host` stays. */
	const struct tgt_store_ops *(*begin)(const struct tgt_module_host *host);
};
#define TGT_MODULE_SYMBOL rblkd_module
#define TGT_MODULE_NAME "rblkd_module"

#endif
