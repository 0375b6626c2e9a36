/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One rblkd that serves the volume "disk" and listens twice; a proxy before each address counts
 * what it forwards, and can be cut. For tests of sessions with two paths. The test's thread calls
 * all.
 */
#ifndef RBLK_TESTS_E2E_TWO_PATHS_H
#define RBLK_TESTS_E2E_TWO_PATHS_H

#include <stdint.h>
#include "tests/e2e/load.h"
#include "tests/e2e/proxy.h"

#define PATHS 2u

/* Both are valid from two_paths_start() to two_paths_stop(). */
extern struct proxy *paths[PATHS];
extern char two_paths_uri[256];

/* The disk has so many bytes. `second_scheme` stands before the second host of the URI: "" for TCP
 * as the first, or another scheme with "://". `keepalive` is rblkd's option, and so is `fault`, if
 * it is not NULL. */
void two_paths_start(uint64_t bytes, const char *second_scheme, const char *keepalive, const char *fault);
/* Returns what e2e_daemon_stop() returns. */
int two_paths_stop(void);
/* Until the path has carried 64 KiB more and the load has done more operations; fails the test if
 * that takes two minutes. */
void two_paths_wait(const struct load *load, unsigned int path);

#endif
