/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A session with a scripted target (fake_target.h) and commands in flight, for tests of targets
 * that misbehave. Whatever happens, each command must be called back once.
 */
#ifndef RBLK_TESTS_E2E_LIB_FIXTURE_H
#define RBLK_TESTS_E2E_LIB_FIXTURE_H

#include "initiator/rblk.h"
#include "tests/e2e/fake_target.h"

#define COMMANDS 4
#define BYTES 8192 /* more than fits into a capsule */

struct outcome {
	int calls;
	struct rblk_result last;
};

struct fixture {
	struct fake_script script;
	struct rblk_options
		options; /* changed before lib_open(); all zero: fake_target_options() */
	struct fake_target *fake;
	struct rblk_session *session;
	struct rblk_volume *volume;
	u8 *data;
	struct outcome outcomes[COMMANDS];
};

/* The callback of every command: arg is its outcome. */
void lib_done(void *arg, const struct rblk_result *result);
void lib_assert_words(const char *words, const char *expected);

void lib_open(struct fixture *f);
void lib_close(struct fixture *f);
/* COMMANDS reads, or as many writes. */
void lib_start_io(struct fixture *f, bool writes);
/* Until every command was called back once; the last with `error`, and the session with `words`. */
void lib_expect_failure(struct fixture *f, int error, const char *words);

bool lib_is_io(const struct rblk_wire_command *command);

#endif
