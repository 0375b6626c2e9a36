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

/* Functions of rblkd that a module calls. */
struct tgt_module_host {
	int (*error)(char *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
	void (*log)(enum tgt_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
	void (*ring_expect)(struct tgt_ring *ring);
	void (*ring_post)(struct tgt_ring *ring, struct tgt_message *message);
	bool (*interrupted)(void); /* path.h: a wait of an open is to end */
	/* The process ends at once, as if it were killed, but for its log. Any thread. */
	void (*end)(void) __attribute__((noreturn));
};

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
