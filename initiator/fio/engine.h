/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parts of fio's I/O engine "rblk", and what they share: a job's options (engine_options.c),
 * its volume before and when it begins (engine_open.c, whose functions are here), and its I/O
 * (rblk_engine.c).
 */
#ifndef RBLK_FIO_ENGINE_H
#define RBLK_FIO_ENGINE_H

#include <stdint.h>
#include "initiator/rblk.h"

struct thread_data; /* fio's */

#define ENGINE_CREDITS_MAX 1024u /* the most that librblk grants */

struct engine_options {
	struct thread_data *td; /* fio's; also keeps the offset of the first option from being 0 */
	char *uri;
	char *stats_path;
	char *name, *key_file, *device, *source;
	unsigned int tos, ack_timeout;
	unsigned int tls; /* enum rblk_tls_use */
	unsigned int digest;
	unsigned int priority;
	unsigned int queues;
	unsigned int credits;
	unsigned int polling; /* enum rblk_polling */
	unsigned int fua;
	unsigned int policy; /* enum rblk_policy */
	unsigned int give_up_ms, fail_fast_ms;
};

/* Prints `text`, and ends the job. Returns 1. */
int engine_fail(struct thread_data *td, int error, const char *where, const char *text);
/* 0 or negative errno with a message in `error` (RBLK_ERROR_BYTES). */
int engine_open(const struct thread_data *td, struct rblk_session **session,
		struct rblk_volume **volume, char *error);
/* fio's setup(): the size of what is to be measured. `volume`: of the job's session, or NULL: the
 * job has not begun. */
int engine_measure(struct thread_data *td, const struct rblk_volume *volume);

#endif
