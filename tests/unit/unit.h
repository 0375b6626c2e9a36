/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cmocka with the headers that it needs before it, and the little else that unit tests share.
 */
#ifndef RBLK_TESTS_UNIT_H
#define RBLK_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define UNIT_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#endif
