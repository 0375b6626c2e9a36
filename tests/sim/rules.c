/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rules of rules.h: C5 by what receives and completions say, memory by what is posted.
 */
#include "tests/sim/rules.h"

#include <arpa/inet.h>
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/history.h"
#include "tests/sim/trace.h"
#include "tests/sim/whitebox.h"
#include "tests/sim/world.h"

/* -- C5: receives behind credits ----------------------------------------------------------- */

static uint32_t *receive_serial(struct sim_fab *fab, uint64_t wr_id)
{
	uint32_t receive = (uint32_t)wr_id;

	if (receive >= SIM_SHARED_RECEIVES)
		sim_fail("%s: more shared receives than the simulator counts", fab->actor->name);
	return &fab->receive_serials[receive];
}

void sim_rules_received(struct sim_conn *conn, uint64_t wr_id, const uint8_t *message,
			uint32_t bytes)
{
	uint32_t serial = ++conn->fab->message_serial;
	const struct rblk_wire_command *last, *first;

	if (bytes < sizeof(*last))
		return;
	last = (const void *)(message + bytes - sizeof(*last));
	if ((last->index + 1u) * sizeof(*last) > bytes)
		return;
	if (conn->batch_max && last->index >= conn->batch_max)
		sim_fail("%s: qp %u: a message of %u commands, and it takes %u (C7)", conn->fab->actor->name,
			 conn->head.qp_num, last->index + 1u, conn->batch_max);
	if (conn->batch_max && last->index + 1u == conn->batch_max && conn->batch_max > 1)
		sim_reached("fabric", "a message of as many commands as the target takes", NULL);
	*receive_serial(conn->fab, wr_id) = serial;
	first = last - last->index;
	for (const struct rblk_wire_command *command = first; command <= last; command++) {
		uint16_t tag = rblk_le16(command->tag);

		/* The FENCE of all comes before that of a volume, which would find the target gone. */
		if ((command->opcode == RBLK_OP_FENCE && rblk_le32(command->volume)) ||
		    command->opcode == RBLK_OP_RESERVE)
			sim_world_lasts(conn->fab->actor);
		if (tag < SIM_TAGS)
			conn->brought[tag] =
				(struct sim_brought){.serial = serial,
						     .wr_id = wr_id,
						     .opcode = command->opcode,
						     .lba = (uint16_t)rblk_le64(command->lba),
						     .argument = (uint32_t)rblk_le64(command->argument)};
	}
}

void sim_rules_posted(struct sim_fab *fab, const struct ibv_recv_wr *wr)
{
	*receive_serial(fab, wr->wr_id) = 0;
	if (sim_disk_uses((const void *)(uintptr_t)wr->sg_list[0].addr, wr->sg_list[0].length))
		sim_fail("%s: a receive is posted, and storage uses its memory", fab->actor->name);
}

void sim_rules_storing(const struct sim_actor *actor, const void *memory, size_t bytes)
{
	uintptr_t first = (uintptr_t)memory;
	const struct sim_fab *fab;

	for (fab = sim_fabric_next(NULL); fab; fab = sim_fabric_next(fab)) {
		if (fab->actor != actor)
			continue;
		for (uint32_t i = 0; i < fab->srq.count; i++) {
			const struct ibv_sge *sge = &sim_receive_at(&fab->srq, i)->sge;

			if (sge->addr < first + bytes && first < sge->addr + sge->length)
				sim_fail("%s: storage is given the memory of a receive that is "
					 "posted",
					 actor->name);
		}
	}
}

static void tag_replied(struct sim_conn *conn, uint16_t tag, uint16_t status)
{
	struct sim_brought brought;

	if (tag >= SIM_TAGS || !conn->brought[tag].serial)
		return;
	brought = conn->brought[tag];
	conn->brought[tag].serial = 0;
	if (sim_history_is_kept())
		sim_history_replied(sim_whitebox_queue(conn), &brought, status);
	for (unsigned int i = 0; i < SIM_TAGS; i++)
		if (conn->brought[i].serial == brought.serial)
			return;
	if (*receive_serial(conn->fab, brought.wr_id) == brought.serial)
		sim_fail("%s: qp %u: a completion gives back a credit whose receive is not posted "
			 "(C5)",
			 conn->fab->actor->name, conn->head.qp_num);
}

void sim_rules_replied(struct sim_conn *conn, const struct ibv_send_wr *wr)
{
	const struct rblk_wire_completion *completion;
	size_t count;

	if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		tag_replied(conn, (uint16_t)(ntohl(wr->imm_data) >> 16), RBLK_OK);
	if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_INV)
		return;
	completion = (const void *)(uintptr_t)wr->sg_list[0].addr;
	count = wr->sg_list[0].length / sizeof(*completion);
	for (size_t i = 0; i < count; i++)
		if (!(completion[i].flags & RBLK_CPL_EVENT))
			tag_replied(conn, rblk_le16(completion[i].tag), rblk_le16(completion[i].status));
}

void sim_rules_accepted(struct sim_conn *conn, const void *data, uint8_t bytes)
{
	const struct rblk_wire_accept *accept = data;
	struct sim_fab *fab = conn->fab;
	const struct sim_conn *other;
	uint32_t promised = 0;

	if (bytes < sizeof(*accept))
		return;
	conn->promised = rblk_le16(accept->credits) + RBLK_RESERVED_TAGS;
	if (sim_history_is_kept())
		sim_history("ACCEPT", sim_whitebox_queue(conn), rblk_le64(accept->session_epoch),
			    rblk_le32(accept->incarnation));
	TAILQ_FOREACH(other, &fab->conns, link)
		if (!other->drained_told)
			promised += other->promised;
	if (promised > fab->head.options.srq_depth)
		sim_fail("%s: qp %u: %u receives are promised, and there are %u (C5)",
			 fab->actor->name, conn->head.qp_num, promised,
			 fab->head.options.srq_depth);
}

/* -- memory -------------------------------------------------------------------------------- */

/* The connection that has a work request posted by which the device may still come here, or NULL.
 * memory NULL: by its key. */
static const struct sim_conn *memory_user(const struct sim_fab *fab, const uint8_t *memory,
					  size_t bytes, uint32_t key)
{
	const struct sim_conn *conn;
	const struct sim_wqe *wqe;

	TAILQ_FOREACH(conn, &fab->conns, link)
		TAILQ_FOREACH(wqe, &conn->sq, link) {
			/* Of these the device has what it needs. */
			if (wqe->wr.send_flags & IBV_SEND_INLINE)
				continue;
			for (int i = 0; i < wqe->wr.num_sge; i++) {
				const uint8_t *at = (const uint8_t *)(uintptr_t)wqe->sge[i].addr;

				if (memory ? at < memory + bytes && memory < at + wqe->sge[i].length
					   : wqe->sge[i].lkey == key)
					return conn;
			}
		}
	return NULL;
}

void sim_rules_memory_free(const struct sim_actor *actor, const void *memory, size_t bytes)
{
	const struct sim_conn *conn;
	const struct sim_fab *fab;

	for (fab = sim_fabric_next(NULL); fab; fab = sim_fabric_next(fab)) {
		if (fab->actor != actor || fab->dead)
			continue;
		conn = memory_user(fab, memory, bytes, 0);
		if (conn)
			sim_fail("%s: memory is given back, and qp %u uses it", actor->name,
				 conn->head.qp_num);
	}
	if (sim_disk_uses(memory, bytes))
		sim_fail("%s: memory is given back, and storage uses it", actor->name);
}

void sim_rules_key_ends(const struct sim_fab *fab, uint32_t key)
{
	const struct sim_conn *conn = fab->dead ? NULL : memory_user(fab, NULL, 0, key);

	if (conn)
		sim_fail("%s: memory is deregistered, and qp %u uses it", fab->actor->name,
			 conn->head.qp_num);
}
