/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rules that a target must keep when it posts work requests or frees memory. They are checked at that
 * moment, because a broken rule need not do harm in this seed. The fabric and the pool call these for
 * the targets' ends of connections; a broken rule ends the seed.
 */
#ifndef RBLK_TESTS_SIM_RULES_H
#define RBLK_TESTS_SIM_RULES_H

#include "tests/sim/fabric_sim.h"

/* A command message of `bytes` has been taken by the shared receive with this wr_id. */
void sim_rules_received(struct sim_conn *conn, uint64_t wr_id, const uint8_t *message,
			uint32_t bytes);
/* The shared receive is posted again. */
void sim_rules_posted(struct sim_fab *fab, const struct ibv_recv_wr *wr);
/* Storage is given this memory: it belongs to no receive that is posted. */
void sim_rules_storing(const struct sim_actor *actor, const void *memory, size_t bytes);
/* C5: a completion is posted; the receive of the commands that came with its own is there again. */
void sim_rules_replied(struct sim_conn *conn, const struct ibv_send_wr *wr);
/* C5: a login is accepted; its receives are there, beside all those that are promised. */
void sim_rules_accepted(struct sim_conn *conn, const void *accept, uint8_t bytes);

/*
 * Memory is given back, or its key ends: no posted work request of the actor's uses it. Nor does
 * storage use what is given back, or posted as a receive.
 */
void sim_rules_memory_free(const struct sim_actor *actor, const void *memory, size_t bytes);
void sim_rules_key_ends(const struct sim_fab *fab, uint32_t key);

#endif
