/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The bytes of an NVMe host's queue: PDUs, both ways. A host that does nothing wrong is never told that it has.
 */
#include "tests/sim/nvme_host.h"

#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/crc32c.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

#define HEAD_MAX 128u

static __attribute__((noreturn)) void queue_fail(const struct sim_nvme_queue *queue, const char *what)
{
	sim_fail("%s: path %u queue %u: %s", queue->path->nvme->actor.name, queue->path->number, queue->index, what);
}

/* -- sending ------------------------------------------------------------------------------- */

static void put_digest(uint8_t *to, const void *data, uint32_t bytes)
{
	__le32 digest = rblk_to_le32(sim_crc32c(0, data, bytes));

	memcpy(to, &digest, sizeof(digest));
}

/* header: of header->header_bytes. */
static void send_pdu(struct sim_nvme_queue *queue, struct nvme_pdu *header, const void *data, uint32_t bytes)
{
	uint32_t head = header->header_bytes, digest = queue->digests & NVME_DIGEST_HEADER ? NVME_DIGEST_BYTES : 0;
	uint32_t behind = bytes && queue->digests & NVME_DIGEST_DATA ? NVME_DIGEST_BYTES : 0;
	uint8_t out[HEAD_MAX + NVME_DIGEST_BYTES];

	header->flags |= (digest ? NVME_PDU_HEADER_DIGEST : 0) | (behind ? NVME_PDU_DATA_DIGEST : 0);
	header->data_offset = bytes ? (__u8)(head + digest) : 0;
	header->bytes = rblk_to_le32(head + digest + bytes + behind);
	memcpy(out, header, head);
	if (digest)
		put_digest(out + head, out, head);
	sim_socket_write(queue->socket, out, head + digest);
	if (bytes)
		sim_socket_write(queue->socket, data, bytes);
	if (behind) {
		put_digest(out, data, bytes);
		sim_socket_write(queue->socket, out, behind);
	}
}

void sim_nvme_greet(struct sim_nvme_queue *queue)
{
	struct nvme_pdu_ic ic = {
		.pdu = {.type = NVME_PDU_IC_REQ, .header_bytes = sizeof(ic), .bytes = rblk_to_le32(sizeof(ic))},
		.digests = queue->path->nvme->digests,
	};

	sim_socket_write(queue->socket, &ic, sizeof(ic));
}

void sim_nvme_send(struct sim_nvme_queue *queue, struct nvme_command *command, const void *data, uint32_t bytes)
{
	struct {
		struct nvme_pdu pdu;
		struct nvme_command command;
	} capsule = {
		.pdu = {.type = NVME_PDU_COMMAND, .header_bytes = sizeof(capsule)},
		.command = *command,
	};

	send_pdu(queue, &capsule.pdu, data, bytes);
}

/* An R2T: all that it asks for, in one PDU or several. */
static void answer_r2t(struct sim_nvme_queue *queue, const struct nvme_pdu_data *r2t)
{
	struct sim_nvme_request *request = sim_nvme_request_of(queue, rblk_le16(r2t->command));
	uint32_t offset = rblk_le32(r2t->offset), left = rblk_le32(r2t->length);

	if (!request || request->capsule || !left || offset + left > request->bytes)
		queue_fail(queue, "an R2T of no command that has such data");
	while (left) {
		uint32_t part = left > 1 && sim_chance(200000) ? (uint32_t)sim_between(1, left - 1) : left;
		struct nvme_pdu_data pdu = {
			.pdu = {.type = NVME_PDU_H2C_DATA,
				.header_bytes = sizeof(pdu),
				.flags = part == left ? NVME_PDU_LAST : 0},
			.command = r2t->command,
			.transfer = r2t->transfer,
			.offset = rblk_to_le32(offset),
			.length = rblk_to_le32(part),
		};

		send_pdu(queue, &pdu.pdu, request->memory + offset, part);
		offset += part;
		left -= part;
	}
}

/* -- receiving ----------------------------------------------------------------------------- */

static void take_data(struct sim_nvme_queue *queue, const struct nvme_pdu_data *pdu, const uint8_t *data)
{
	uint32_t offset = rblk_le32(pdu->offset), bytes = rblk_le32(pdu->length);
	struct sim_nvme_request *request;

	if (!queue->index) {
		if (offset + bytes > sizeof(queue->path->page))
			queue_fail(queue, "more data than was asked for");
		memcpy(queue->path->page + offset, data, bytes);
		return;
	}
	request = sim_nvme_request_of(queue, rblk_le16(pdu->command));
	if (!request || request->command->kind != SIM_COMMAND_READ || request->compare ||
	    offset + bytes > request->bytes)
		queue_fail(queue, "data of no command that reads so much");
	memcpy(request->memory + offset, data, bytes);
	request->placed += bytes;
}

static void take_ic(struct sim_nvme_queue *queue, const struct nvme_pdu_ic *ic)
{
	if (queue->state != SIM_NVME_GREETS || ic->version)
		queue_fail(queue, "ICResp, and nobody has asked");
	queue->digests = ic->digests;
	if (queue->digests & ~queue->path->nvme->digests)
		queue_fail(queue, "digests that the host has not asked for");
	queue->state = SIM_NVME_CONNECTS;
	queue->greeted = true;
}

/* header: one that is whole, with its data behind it. */
static void take_pdu(struct sim_nvme_queue *queue, const struct nvme_pdu *header)
{
	const uint8_t *bytes = (const void *)header;
	uint32_t data = header->data_offset, end = rblk_le32(header->bytes);
	__le32 digest;

	if (header->flags & NVME_PDU_HEADER_DIGEST) {
		memcpy(&digest, bytes + header->header_bytes, sizeof(digest));
		if (rblk_le32(digest) != sim_crc32c(0, bytes, header->header_bytes))
			queue_fail(queue, "a header that does not match its digest");
	}
	if (header->flags & NVME_PDU_DATA_DIGEST) {
		end -= NVME_DIGEST_BYTES;
		memcpy(&digest, bytes + end, sizeof(digest));
		if (rblk_le32(digest) != sim_crc32c(0, bytes + data, end - data))
			queue_fail(queue, "data that does not match its digest");
	}
	switch (header->type) {
	case NVME_PDU_IC_RESP:
		take_ic(queue, (const void *)header);
		break;
	case NVME_PDU_RESPONSE: {
		const struct nvme_response *response = (const void *)header;

		if (queue->index && queue->state == SIM_NVME_LIVE)
			sim_nvme_request_answered(queue, &response->completion);
		else
			sim_nvme_answered(queue, &response->completion);
		break;
	}
	case NVME_PDU_C2H_DATA:
		if (!data || end - data != rblk_le32(((const struct nvme_pdu_data *)header)->length))
			queue_fail(queue, "a PDU of data whose length is not that of its data");
		take_data(queue, (const void *)header, bytes + data);
		break;
	case NVME_PDU_R2T:
		answer_r2t(queue, (const void *)header);
		break;
	case NVME_PDU_C2H_TERM:
		queue_fail(queue, "it is told that it has broken a rule");
	default:
		queue_fail(queue, "a PDU of a kind that no target sends");
	}
}

bool sim_nvme_receive(struct sim_nvme_queue *queue)
{
	struct sim_socket *socket = queue->socket;
	uint32_t whole;
	size_t got;

	do {
		got = sim_socket_read(socket, queue->in + queue->in_bytes, sizeof(queue->in) - queue->in_bytes);
		queue->in_bytes += (uint32_t)got;
		/* What it brings may end the connection. */
		while (queue->socket == socket && queue->in_bytes >= sizeof(struct nvme_pdu)) {
			const struct nvme_pdu *header = (const void *)queue->in;

			whole = rblk_le32(header->bytes);
			if (whole < sizeof(*header) || whole > sizeof(queue->in))
				queue_fail(queue, "a PDU that is too short, or too long");
			if (queue->in_bytes < whole)
				break;
			take_pdu(queue, header);
			if (queue->socket != socket)
				return true;
			queue->in_bytes -= whole;
			memmove(queue->in, queue->in + whole, queue->in_bytes);
		}
	} while (got);
	return sim_socket_state(socket) != SIM_SOCKET_ENDED;
}
