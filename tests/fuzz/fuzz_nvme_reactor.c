/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tests/fuzz/fuzz_nvme_reactor.h"

#define DATA (memory + REACTOR_BUFFERS * REACTOR_BUFFER_BYTES)
#define RECEIVE (1ull << 63) /* in a wr_id, with its number; others: a tag */

static unsigned char memory[REACTOR_BUFFERS * REACTOR_BUFFER_BYTES + REACTOR_DATA_BYTES];
static struct fab_device *device;
static struct fab_mr *mr;

static void buffer_post(uint64_t index)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory + index * REACTOR_BUFFER_BYTES,
			      .length = REACTOR_BUFFER_BYTES,
			      .lkey = fab_mr_lkey(mr, device)};
	struct ibv_recv_wr wr = {.wr_id = RECEIVE | index, .sg_list = &sge, .num_sge = 1}, *bad;

	FUZZ_ASSERT(fab_post_srq_recv(device, &wr, &bad) == 0);
}

void reactor_begin(struct fab *fab, struct fab_device *of)
{
	device = of;
	FUZZ_ASSERT(fab_mr_register(fab, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE, &mr) == 0);
	for (uint64_t i = 0; i < REACTOR_BUFFERS; i++)
		buffer_post(i);
}

static void post(struct reactor *reactor, enum ibv_wr_opcode opcode, const struct rblk_wire_command *command,
		 const void *data, uint32_t bytes, uint64_t wr_id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)data, .length = bytes, .lkey = fab_mr_lkey(mr, device)};
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;

	wr.send_flags = IBV_SEND_SIGNALED | (opcode == IBV_WR_SEND ? IBV_SEND_INLINE : 0);
	if (opcode != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = rblk_le64(command->segment.address);
		wr.wr.rdma.rkey = rblk_le32(command->segment.rkey);
	}
	fab_post_send(reactor->conn, &wr, &bad);
}

static void complete(struct reactor *reactor, uint16_t tag, enum rblk_status status, uint64_t result)
{
	struct rblk_wire_completion completion = {
		.tag = rblk_to_le16(tag), .status = rblk_to_le16((uint16_t)status), .result = rblk_to_le64(result)};

	FUZZ_ASSERT(reactor->tags[tag]);
	reactor->tags[tag] = false;
	post(reactor, IBV_WR_SEND, NULL, &completion, sizeof(completion), 0);
}

/* Two registrants, of either kind. */
static void reservations_fill(void)
{
	struct rblk_wire_reservation_report *report = (void *)DATA;
	struct rblk_wire_registrant *list = (void *)(report + 1);

	memset(report, 0, sizeof(*report) + 2 * sizeof(*list));
	report->registrants = report->total = rblk_to_le32(2);
	strcpy(list[0].initiator, "hostid:01234567-89ab-cdef-0123-456789abcdef:0123456789abcdef");
	strcpy(list[1].initiator, "b");
}

static void volume_fill(void)
{
	struct rblk_wire_volume *volume = (void *)DATA;

	memset(volume, 0, sizeof(*volume));
	strcpy(volume->name, "disk");
	memset(volume->uuid, 1, sizeof(volume->uuid));
	volume->blocks = rblk_to_le64(2048);
	volume->block_bytes = rblk_to_le32(512);
	volume->flags = rblk_to_le32(RBLK_VOLUME_FLAGS_ALL & ~RBLK_VOLUME_READ_ONLY);
	volume->max_io_bytes = rblk_to_le32(REACTOR_DATA_BYTES);
	volume->max_discard_blocks = rblk_to_le32(100);
}

static void answer(struct reactor *reactor, const struct rblk_wire_command *command, const void *capsule)
{
	static const enum rblk_status reserved[] = {RBLK_OK, RBLK_E_BUSY, RBLK_E_INVALID, RBLK_E_RESERVED};
	uint32_t length = rblk_le32(command->segment.length);
	uint16_t tag = rblk_le16(command->tag);

	FUZZ_ASSERT(tag < reactor->credits + RBLK_RESERVED_TAGS && !reactor->tags[tag]);
	FUZZ_ASSERT(tag < reactor->credits || rblk_opcode_reserved_tag(command->opcode));
	FUZZ_ASSERT(rblk_le32(command->sequence) == reactor->sequence++);
	reactor->tags[tag] = true;
	switch (command->opcode) {
	case RBLK_OP_LIST:
	case RBLK_OP_OPEN:
		volume_fill();
		post(reactor, IBV_WR_RDMA_WRITE, command, DATA, sizeof(struct rblk_wire_volume), 0);
		complete(reactor, tag, RBLK_OK, 1ull << 32 | 1);
		break;
	case RBLK_OP_READ:
		FUZZ_ASSERT(length <= REACTOR_DATA_BYTES);
		post(reactor, IBV_WR_RDMA_WRITE, command, DATA, length, 0);
		complete(reactor, tag, RBLK_OK, 0);
		break;
	case RBLK_OP_WRITE:
		FUZZ_ASSERT(length <= REACTOR_DATA_BYTES);
		if (command->flags & RBLK_CMD_CAPSULE)
			complete(reactor, tag, RBLK_OK, 0);
		else
			post(reactor, IBV_WR_RDMA_READ, command, DATA, length, tag);
		break;
	case RBLK_OP_RESERVE: /* a right one, but for what depends on the volume */
		FUZZ_ASSERT(rblk_check_reservation(capsule, length) == RBLK_WIRE_OK);
		complete(reactor, tag, reserved[rblk_le32(command->sequence) % 4], 0);
		break;
	case RBLK_OP_RESERVATIONS:
		FUZZ_ASSERT(length <= REACTOR_DATA_BYTES);
		reservations_fill();
		post(reactor, IBV_WR_RDMA_WRITE, command, DATA, length, 0);
		complete(reactor, tag, tag % 3 ? RBLK_OK : RBLK_E_BUSY, length);
		break;
	default:
		complete(reactor, tag, tag >= reactor->credits || tag % 3 ? RBLK_OK : RBLK_E_RANGE, 0);
	}
}

static void received(struct reactor *reactor, const struct ibv_wc *wc)
{
	uint64_t index = wc->wr_id & ~RECEIVE;
	const struct rblk_wire_command *commands;
	const unsigned char *message = memory + index * REACTOR_BUFFER_BYTES;
	u32 capsule_bytes;
	u16 count;

	FUZZ_ASSERT(index < REACTOR_BUFFERS);
	if (wc->status == IBV_WC_SUCCESS) {
		FUZZ_ASSERT(reactor && rblk_check_message(message, wc->byte_len, reactor->features, RBLK_BATCH_MAX,
							  REACTOR_BUFFER_BYTES, &commands, &count,
							  &capsule_bytes) == RBLK_WIRE_OK);
		for (u16 i = 0; i < count; i++)
			answer(reactor, &commands[i], message);
	}
	buffer_post(index);
}

void reactor_completed(struct reactor *reactor, const struct ibv_wc *wc)
{
	if (wc->wr_id & RECEIVE)
		received(reactor, wc);
	else if (reactor && wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RDMA_READ)
		complete(reactor, (uint16_t)wc->wr_id, RBLK_OK, 0);
}
