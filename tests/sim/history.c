/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The history of history.h, in memory until it is printed.
 */
#include "tests/sim/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "initiator/queue.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/seen.h"
#include "tests/sim/trace.h"

#define EVENTS_MAX 4000u
#define MESSAGE_BYTES (1u << 20)

static struct {
	bool wanted, kept;
	unsigned int count;
	uint64_t writing; /* what the write under way says */
	struct {
		const char *event;
		unsigned int queue;
		uint64_t x, y;
	} events[EVENTS_MAX];
	uint8_t message[MESSAGE_BYTES];
} history;

void sim_history_start(void)
{
	memset(&history, 0, sizeof(history));
	history.wanted = true;
}

void sim_history_begin(bool target_runs, bool other_runs)
{
	if (!history.wanted)
		return;
	history.kept = true;
	history.count = 0;
	/* The model begins with the first target alone. */
	if (!target_runs)
		sim_history("KILL", 0, 0, 0);
	if (other_runs)
		sim_history("SERVE", 1, 0, 0);
}

void sim_history_end(void)
{
	history.kept = history.wanted = false;
}

void sim_history_print(void)
{
	for (unsigned int i = 0; i < history.count; i++)
		printf("%s %u %" PRIu64 " %" PRIu64 "\n", history.events[i].event,
		       history.events[i].queue, history.events[i].x, history.events[i].y);
}

bool sim_history_is_kept(void)
{
	return history.kept;
}

void sim_history(const char *event, unsigned int queue, uint64_t x, uint64_t y)
{
	if (!history.kept)
		return;
	if (history.count == EVENTS_MAX)
		sim_fail("a history of more than %u events", EVENTS_MAX);
	history.events[history.count].event = event;
	history.events[history.count].queue = queue;
	history.events[history.count].x = x;
	history.events[history.count++].y = y;
	sim_trace("history", "%s %u %" PRIu64 " %" PRIu64, event, queue, x, y);
}

/* -- the initiator ------------------------------------------------------------------------- */

static uint32_t message_gather(const struct ibv_send_wr *wr)
{
	uint32_t bytes = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length > MESSAGE_BYTES - bytes)
			sim_fail("a message that is too long for a history");
		memcpy(history.message + bytes, (void *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		bytes += wr->sg_list[i].length;
	}
	return bytes;
}

static void command_posted(unsigned int queue, const struct rblk_wire_command *command)
{
	uint64_t address = rblk_le64(command->segment.address);
	const void *data = command->flags & RBLK_CMD_CAPSULE ? history.message + address
							     : (const void *)(uintptr_t)address;

	switch (command->opcode) {
	case RBLK_OP_WRITE:
		memcpy(&history.writing, data, sizeof(history.writing));
		sim_history("SENT", queue, history.writing, 0);
		break;
	case RBLK_OP_FLUSH:
		sim_history("SENT_FLUSH", queue, 0, 0);
		break;
	case RBLK_OP_OPEN:
		sim_history("OPEN_SENT", queue, 0, 0);
		break;
	case RBLK_OP_FENCE:
		sim_history("FENCE_SENT", (unsigned int)rblk_le64(command->lba),
			    rblk_le64(command->argument), queue);
		break;
	}
}

void sim_history_posted(const struct sim_conn *conn, const struct ibv_send_wr *wr)
{
	const struct rblk_wire_command *last;
	uint32_t bytes;

	if (!history.kept || wr->opcode != IBV_WR_SEND)
		return;
	bytes = message_gather(wr);
	last = (const void *)(history.message + bytes - sizeof(*last));
	for (const struct rblk_wire_command *command = last - last->index; command <= last;
	     command++)
		command_posted(((const struct ini_queue *)conn->head.user)->index, command);
}

/* It counts as answered from here on, whatever becomes of its connection. */
void sim_seen_answered(const struct ini_queue *queue, unsigned int tag, unsigned int status)
{
	sim_reached("point", "answered", NULL);
	if (!history.kept)
		return;
	if (queue->slots[tag].command.opcode == RBLK_OP_WRITE)
		sim_history("HEARD", queue->index, history.writing, 0);
	else if (queue->slots[tag].command.opcode == RBLK_OP_FLUSH)
		sim_history("HEARD_FLUSH", queue->index, 0, 0);
	else if (queue->slots[tag].command.opcode == RBLK_OP_OPEN && !status)
		sim_history("OPEN_HEARD", queue->index, 0, 0);
	else if (queue->slots[tag].command.opcode == RBLK_OP_FENCE && !status)
		sim_history("FENCE_HEARD", (unsigned int)rblk_le64(queue->slots[tag].command.lba),
			    rblk_le64(queue->slots[tag].command.argument), queue->index);
}

/* -- the target ---------------------------------------------------------------------------- */

void sim_history_stores(unsigned int queue, const uint8_t *data, unsigned int machine)
{
	uint64_t word;

	memcpy(&word, data, sizeof(word));
	sim_history("STORE", queue, word, machine);
}

void sim_history_stored(const uint8_t *data, unsigned int machine)
{
	uint64_t word;

	memcpy(&word, data, sizeof(word));
	sim_history("LAND", 0, word, machine);
}

void sim_history_replied(unsigned int queue, const struct sim_brought *command, uint16_t status)
{
	if (command->opcode == RBLK_OP_WRITE)
		sim_history("REPLY", queue, 0, 0);
	else if (command->opcode == RBLK_OP_OPEN && !status)
		sim_history("OPEN_REPLY", queue, 0, 0);
	else if (command->opcode == RBLK_OP_FENCE && !status)
		sim_history("FENCE_REPLY", command->lba, command->argument, queue);
}
