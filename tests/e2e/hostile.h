/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fixture for hostile initiators, one offence after the other: a rblkd, a load that checks its
 * data there all the while, and the account of what the log says of offences. An offender has a
 * second queue in its session, which must keep working.
 */
#ifndef RBLK_TESTS_E2E_HOSTILE_H
#define RBLK_TESTS_E2E_HOSTILE_H

#include "tests/e2e/daemon.h"
#include "tests/e2e/hostile_rules.h"
#include "tests/e2e/raw.h"

/* Group set-up and tear-down of cmocka: the daemon serves "mem" and the load's volume. At the end
 * it must stop with 0, which under a sanitizer means without a leak, too. */
int hostile_start(void **state);
int hostile_stop(void **state);
const char *hostile_host(void);

/*
 * commit(raw, arg) on a connection of its own: that one ends, the other queue of its session
 * answers, the load gets on, and the log has a line more with `words` behind "closed: ". Lines are
 * rate-limited, so it is tried again until its line was not among those suppressed.
 */
void hostile_offend(void (*commit)(struct raw *raw, const void *arg), const void *arg,
		    const char *words);
/* Once, and the line may be among those suppressed. */
void hostile_offend_quietly(void (*commit)(struct raw *raw, const void *arg), const void *arg);
/* An offence that was committed without these: it will have its line, too. */
void hostile_offended(void);
/* Until every offence of this process has been logged or counted as suppressed: once each. */
void hostile_settle(void (*commit)(struct raw *raw, const void *arg), const void *arg);
/* The load does a few operations more. */
void hostile_goes_on(void);

#endif
