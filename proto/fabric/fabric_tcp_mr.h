/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Registered memory of fabric_tcp: keys, and the table that leads from a key to its region. Keys
 * are looked up whenever bytes are about to move, also in the middle of a message, so that nothing
 * holds a pointer into memory that has been deregistered or invalidated meanwhile.
 */
#ifndef RBLK_FABRIC_TCP_MR_H
#define RBLK_FABRIC_TCP_MR_H

#include "proto/fabric/fabric_impl.h"

struct tcp_mr;

/* Keys to memory: open addressing, at most half full. */
struct tcp_mr_table {
	struct tcp_mr **slots;
	uint32_t mask; /* slots - 1; 0: no slots yet */
	uint32_t used;
};

int tcp_mr_create(struct tcp_mr_table *table, struct fab *fab, void *addr, size_t bytes, int access,
		  struct fab_mr **mr);
void tcp_mr_destroy(struct tcp_mr_table *table, struct fab_mr *mr);
/* Memory of [address, address + length) under this key, or NULL. access: all of these rights. */
void *tcp_mr_local(const struct tcp_mr_table *table, const struct ibv_sge *sge, int access);
void *tcp_mr_remote(const struct tcp_mr_table *table, uint32_t key, uint64_t address,
		    uint32_t length, int access);
/* The key is dead for the peer from now on. False: there is no such live key. */
bool tcp_mr_invalidate(const struct tcp_mr_table *table, uint32_t key);

#endif
