/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The address that a test's TCP connections come from: another address of the loopback device is another host to the
 * target. A wrapped connect() binds to it, so the test is linked with --wrap=connect.
 */
#ifndef RBLK_TESTS_E2E_SOURCE_ADDRESS_H
#define RBLK_TESTS_E2E_SOURCE_ADDRESS_H

/* "127.0.0.2", say; NULL, as at the start: the system chooses. Only while no other thread connects. */
extern const char *source_address;

#endif
