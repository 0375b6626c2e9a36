/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The thread that reloads: it reads the configuration again, opens volumes and waits for locks, so
 * that the control thread, with its logins and watchdog, never does. One reload at a time; requests
 * meanwhile are merged into one, which begins when the present one has ended, and interrupts its
 * waits. Between reloads it tries again to serve what could not be served.
 */
#ifndef RBLK_TARGET_RELOADER_H
#define RBLK_TARGET_RELOADER_H

#include "target/base/settings.h"
#include "target/control/reload.h"

struct tgt_reloader;

/* What the reloader works on. It owns the volumes of *config until it is stopped. */
struct tgt_reloader_options {
	int argc;
	char **argv;
	struct tgt_config *config; /* in force */
	struct tgt_registry *registry;
	struct tgt_reactor **reactors;
	struct tgt_rulebook *rules;
};

/* Control thread, all of these. error: TGT_ERROR_BYTES. */
int tgt_reloader_create(const struct tgt_reloader_options *options, struct tgt_reloader **reloader,
			char *error);
/* Returns at once. */
void tgt_reloader_request(struct tgt_reloader *reloader);
/* Readable when a reload may have ended. */
int tgt_reloader_fd(const struct tgt_reloader *reloader);
/* All requested reloads have ended since the last call. */
bool tgt_reloader_ended(struct tgt_reloader *reloader);
/* No further reload begins, and the present one stops waiting. Returns at once. */
void tgt_reloader_interrupt(struct tgt_reloader *reloader);
/* Interrupts, waits until `deadline_ns` at most. False: it is blocked in the kernel, and keeps
   running. */
bool tgt_reloader_destroy(struct tgt_reloader *reloader, uint64_t deadline_ns); /* NULL: nothing */

#endif
