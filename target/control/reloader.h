/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The thread that changes the configuration: it reads the files again, or edits what it has read, opens
 * volumes and waits for locks, so that the control thread, with its logins and watchdog, never does. One
 * change at a time, and all by reload.h. Signals that come meanwhile are merged into one reload. A
 * reload interrupts what a change before it waits for. Between changes it tries again to serve what could
 * not be served.
 */
#ifndef RBLK_TARGET_RELOADER_H
#define RBLK_TARGET_RELOADER_H

#include "target/base/settings.h"
#include "target/control/reload.h"

struct tgt_document;
struct tgt_reloader;

/* The objects that the reloader works on. It owns the volumes of *config until it is stopped. */
struct tgt_reloader_options {
	int argc;
	char **argv;
	struct tgt_config *config; /* in force */
	const struct tgt_document *document; /* that it was read from; copied */
	struct tgt_registry *registry;
	struct tgt_reactor **reactors;
	struct tgt_rulebook *rules;
	struct tgt_unserved *unserved; /* outlives it */
	/* As in struct tgt_reload; NULL: volumes in use may always go. */
	unsigned int (*used)(const void *context, const char *volume, bool connected, char *words);
	const void *used_context;
};

/* Control thread, all of these. error: TGT_ERROR_BYTES. */
int tgt_reloader_create(const struct tgt_reloader_options *options, struct tgt_reloader **reloader,
			char *error);
/* A reload that removes what is in use, too (SIGHUP). Returns at once. */
void tgt_reloader_request(struct tgt_reloader *reloader);
/* Readable when a reload may have ended. */
int tgt_reloader_fd(const struct tgt_reloader *reloader);
/* All requested reloads have ended since the last call, or what was missing is served. */
bool tgt_reloader_ended(struct tgt_reloader *reloader);
/* No further reload begins, and the present one stops waiting. Returns at once. */
void tgt_reloader_interrupt(struct tgt_reloader *reloader);
/* Interrupts, waits until `deadline_ns` at most. False: it is blocked in the kernel, and keeps
   running. Changes are refused from then on, and those that wait are not begun. NULL: no effect. */
bool tgt_reloader_stop(struct tgt_reloader *reloader, uint64_t deadline_ns);
void tgt_reloader_destroy(struct tgt_reloader *reloader); /* after stop; NULL: no effect */

/* For those who ask for changes, until it is destroyed. */
const struct tgt_changer *tgt_reloader_changer(const struct tgt_reloader *reloader);

#endif
