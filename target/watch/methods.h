/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The methods of the control socket; rblkctl(1) says what they are for. One thread. */
#ifndef RBLK_TARGET_WATCH_METHODS_H
#define RBLK_TARGET_WATCH_METHODS_H

#include <stdatomic.h>
#include "target/base/change.h"
#include "target/watch/health.h"
#include "target/watch/history.h"
#include "target/watch/rpc.h"
#include "target/watch/view.h"

/* The objects that methods need. */
struct tgt_methods {
	struct tgt_watch_source source;
	const struct tgt_changer *changer; /* NULL: none */
	const char *(*address)(const void *context, unsigned int n); /* see watch.h */
	const void *address_context;
	uint64_t started_ns;
	double started_s; /* the same since the epoch, by the clock of that time: it may be set since */
	uint64_t view_ns; /* when the view was taken; 0: there is none */
	struct tgt_view view;
	struct tgt_busy busy; /* of the last seconds, whether or not there are views */
	struct tgt_history *history; /* for the page; NULL: none is kept */
	_Atomic bool draining; /* control thread sets */
};

/* The context of a call is a struct tgt_methods. */
extern const struct tgt_rpc_method tgt_methods[];

/* A view that is not old; NULL: no memory. So the reactors answer no more often than ten times a
 * second, however many ask. */
const struct tgt_view *tgt_methods_view(struct tgt_methods *methods);
/* The problems by that view; as tgt_health_take(). */
int tgt_methods_health(const struct tgt_methods *methods, const struct tgt_view *view, struct tgt_health *health);
/* The answer of the method status, with the reasons of problems or without them: a new reference, or NULL: no memory. */
json_t *tgt_methods_status(const struct tgt_methods *methods, const struct tgt_view *view, bool reasons);
void tgt_methods_fini(struct tgt_methods *methods);

#endif
