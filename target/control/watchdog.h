/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Notifies systemd's watchdog only while every reactor answers: each is asked by message, and a
 * reactor that hangs in a turn does not answer. Control thread.
 */
#ifndef RBLK_TARGET_WATCHDOG_H
#define RBLK_TARGET_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>
#include "target/base/settings.h"
#include "target/store/messages.h"

/* It outlives the reactors, to which its messages go. */
struct tgt_watchdog {
	struct tgt_reactor **reactors;
	unsigned int reactor_count;
	uint64_t tick_ns; /* 0: no watchdog */
	uint64_t due_ns;
	uint64_t asked_ns;	       /* when the reactors were asked last */
	bool silent[TGT_REACTORS_MAX]; /* was logged for this reactor */
	struct tgt_watchdog_question {
		struct tgt_message message; /* first */
		_Atomic bool asked;	    /* and not answered */
	} questions[TGT_REACTORS_MAX];
};

void tgt_watchdog_init(struct tgt_watchdog *watchdog, struct tgt_reactor **reactors,
		       unsigned int count);
/* When the next step is due, in milliseconds; -1: never. */
int tgt_watchdog_timeout_ms(const struct tgt_watchdog *watchdog);
void tgt_watchdog_step(struct tgt_watchdog *watchdog);

#endif
