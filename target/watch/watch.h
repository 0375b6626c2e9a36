/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The services for people and programs that look at the daemon: the control socket, HTTP, and what
 * goes to systemd's journal, on a thread of their own, so that nobody who asks or reads delays a
 * login or an I/O. Control thread, all of these.
 */
#ifndef RBLK_TARGET_WATCH_WATCH_H
#define RBLK_TARGET_WATCH_WATCH_H

#include "target/base/change.h"
#include "target/watch/view.h"

struct tgt_watch;

struct tgt_watch_options {
	struct tgt_watch_source source;
	const struct tgt_changer *changer; /* NULL: the configuration cannot be changed */
	const char *control_socket; /* the path; "none": there is none */
	const char *journal; /* the socket of systemd's journal; "none": events do not go there */
	const char *http;	    /* "[HOST:]PORT" of HTTP; "": none. The text stays the caller's */
	bool require_http;	    /* it is an error if that cannot be listened on */
	/* The n-th address that is listened on; NULL: there are no more. Each text stays. Any thread. */
	const char *(*address)(const void *context, unsigned int n);
	const void *context;
};

/*
 * A path or an address of HTTP that cannot be used is logged, and tried again: serving volumes goes on
 * without. 0, or negative errno and error (TGT_ERROR_BYTES): there is no thread.
 */
int tgt_watch_create(const struct tgt_watch_options *options, struct tgt_watch **watch, char *error);
/* The daemon drains now. NULL: no effect. */
void tgt_watch_draining(struct tgt_watch *watch);
/* Before what it looks at ends: nobody is answered any more. NULL: no effect. */
void tgt_watch_stop(struct tgt_watch *watch);
/* After stop. Who is still connected learns by this that all has ended. NULL: no effect. */
void tgt_watch_destroy(struct tgt_watch *watch);

#endif
