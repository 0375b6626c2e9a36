/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* See env_shift.h. */
#include "env_shift.h"

static uint64_t shift_ns;

uint64_t __real_env_now_ns(void);
uint64_t __wrap_env_now_ns(void);

void env_shift_ms(uint32_t ms)
{
	shift_ns += ms * 1000000ull;
}

uint64_t __wrap_env_now_ns(void)
{
	return __real_env_now_ns() + shift_ns;
}
