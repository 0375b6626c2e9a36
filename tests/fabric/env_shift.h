/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The machine's clock, which a test can put forward, so that the fabric's time limits pass at once.
 * The program is linked with --wrap=env_now_ns.
 */
#ifndef RBLK_TESTS_FABRIC_ENV_SHIFT_H
#define RBLK_TESTS_FABRIC_ENV_SHIFT_H

#include <stdint.h>

void env_shift_ms(uint32_t ms);

#endif
