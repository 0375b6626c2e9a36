/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fixture for hostile initiators, one offence after the other: a rblkd, a load that checks its
 * data there all the time, and a count of the offences that the log reports. An offender has a
 * second queue in its session, which must keep working.
 */
#ifndef RBLK_TESTS_E2E_HOSTILE_H
#define RBLK_TESTS_E2E_HOSTILE_H

#include "tests/e2e/daemon.h"
#include "tests/e2e/hostile_rules.h"
#include "tests/e2e/raw.h"

/* Group set-up and tear-down of cmocka: the daemon serves "mem" and the load's volume. At the
 * end the daemon must exit with 0; under a sanitizer that also means without a leak. */
int hostile_start(void **state);
int hostile_stop(void **state);
const char *hostile_host(void);

/*
 * Runs commit(raw, arg) on a connection of its own, and checks: that connection ends, the other
 * queue of its session answers, the load goes on, and the log has one more line with `words` after
 * "closed: ". Lines are rate-limited, so it tries again until its line is not suppressed.
 */
void hostile_offend(void (*commit)(struct raw *raw, const void *arg), const void *arg,
		    const char *words);
/* Once only; its line may be suppressed. */
void hostile_offend_quietly(void (*commit)(struct raw *raw, const void *arg), const void *arg);
/* Counts an offence that the test committed without these: it has a line in the log, too. */
void hostile_offended(void);
/* Waits until every offence of this process has been logged or counted as suppressed, once each. */
void hostile_settle(void (*commit)(struct raw *raw, const void *arg), const void *arg);
/* Waits until the load has done a few more operations. */
void hostile_goes_on(void);

#endif
