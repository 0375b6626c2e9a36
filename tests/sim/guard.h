/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An application's I/O memory and who may touch it (F4). Memory that is not lent to librblk is
 * filled with a pattern of its own: a device that reads or writes it then is caught at once, and
 * whatever else changes it is found when it is lent again.
 */
#ifndef RBLK_TESTS_SIM_GUARD_H
#define RBLK_TESTS_SIM_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_SLOT_BYTES (136u << 10)
#define SIM_SLOTS 24u

/* One application's; registered with its session as a whole. */
struct sim_guard {
	uint8_t *base; /* SIM_SLOTS * SIM_SLOT_BYTES, page aligned */
	const char *owner;
	uint32_t lent_bytes[SIM_SLOTS];	 /* 0: ours */
	uint32_t dirty_bytes[SIM_SLOTS]; /* beyond, the pattern was never touched */
	bool device_writes[SIM_SLOTS];
	struct sim_guard *next;
};

void sim_guard_init(struct sim_guard *guard, const char *owner);
void sim_guard_fini(struct sim_guard *guard);
/* A slot for librblk; device_writes: it will receive data. NULL: all are lent. */
uint8_t *sim_guard_lend(struct sim_guard *guard, uint32_t bytes, bool device_writes);
/* It is ours again. */
void sim_guard_return(struct sim_guard *guard, uint8_t *memory);
unsigned int sim_guard_lent(const struct sim_guard *guard);
/* A device touches memory: may it? */
void sim_guard_check(const void *memory, size_t bytes, bool writes);

#endif
