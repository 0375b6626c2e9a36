/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A host begins a connection with ICReq, which is answered at once, and with Connect, out of which comes the login of a
 * queue of rblk's. Connect is answered when that login has been. Everything here is a stranger's.
 */
#include "target/nvme/tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "proto/core/env.h"
#include "proto/digest/digest.h"
#include "proto/fabric/fabric_tcp_hello.h"
#include "proto/wire/wire_check.h"

#define CAPSULE_HEADER (sizeof(struct nvme_pdu) + sizeof(struct nvme_command))
#define ALIGNMENT_MAX 31u /* as the field's largest */

/* tcp_request.state until the request is accepted: then it is a struct nvme_hello alone. */
struct greeting {
	struct nvme_hello hello; /* first */
	struct nvme_pdu_ic ic;
	uint32_t ic_bytes;
	uint8_t connect[CAPSULE_HEADER + sizeof(struct nvme_connect) + 2 * NVME_DIGEST_BYTES]
		__attribute__((aligned(8)));
	uint32_t connect_bytes;
};

static uint16_t queues_max = RBLK_QUEUES_MAX;

void nvme_greet_limits(uint16_t queues)
{
	queues_max = queues;
}

void nvme_forget_hello(void *state)
{
	struct nvme_hello *hello = state;

	nvme_controller_put(hello->controller);
	free(hello);
}

/* The digest that stands at `digest` is that of these bytes. */
static bool digest_matches(const uint8_t *digest, const void *data, uint32_t bytes)
{
	__le32 told;

	memcpy(&told, digest, sizeof(told));
	return rblk_le32(told) == rblk_digest(0, data, bytes);
}

static void greet_respond(int fd, struct rblk_tls *tls, const struct nvme_hello *hello, uint16_t status)
{
	uint32_t digest = nvme_header_digest_bytes(hello);
	struct {
		struct nvme_response response;
		__le32 digest;
	} answer = {
		.response.pdu = {.type = NVME_PDU_RESPONSE,
				 .flags = digest ? NVME_PDU_HEADER_DIGEST : 0,
				 .header_bytes = sizeof(answer.response),
				 .bytes = rblk_to_le32((uint32_t)sizeof(answer.response) + digest)},
		.response.completion =
			{
				.sq_id = rblk_to_le16(hello->queue),
				.id = hello->id,
				.status = rblk_to_le16((uint16_t)(status << 1)),
			},
	};

	answer.digest = rblk_to_le32(rblk_digest(0, &answer.response, sizeof(answer.response)));
	/* One that has gone needs no answer. */
	(void)tcp_first_send(fd, tls, &answer, (uint32_t)sizeof(answer.response) + digest);
}

/* A status that ends it. */
static int greet_refuse(struct tcp_request *request, const struct nvme_hello *hello, uint16_t status)
{
	greet_respond(request->source.fd, request->head.tls, hello, status);
	shutdown(request->source.fd, SHUT_WR);
	return -EPROTO;
}

/* -- ICReq --------------------------------------------------------------------------------------- */

static int greet_ic(struct tcp_request *request, struct greeting *greeting)
{
	const struct nvme_pdu_ic *ic = &greeting->ic;
	struct nvme_pdu_ic answer = {
		.pdu = {.type = NVME_PDU_IC_RESP,
			.header_bytes = sizeof(answer),
			.bytes = rblk_to_le32(sizeof(answer))},
		.digests = ic->digests & (NVME_DIGEST_HEADER | NVME_DIGEST_DATA),
		.most = rblk_to_le32(NVME_DATA_BYTES),
	};

	if (ic->pdu.type != NVME_PDU_IC_REQ || ic->pdu.flags || ic->pdu.header_bytes != sizeof(*ic) ||
	    rblk_le32(ic->pdu.bytes) != sizeof(*ic) || ic->version || ic->alignment > ALIGNMENT_MAX)
		return -EPROTO;
	greeting->hello.alignment = (ic->alignment + 1u) * 4;
	greeting->hello.digests = answer.digests;
	return tcp_first_send(request->source.fd, request->head.tls, &answer, sizeof(answer));
}

/* -- Connect ------------------------------------------------------------------------------------- */

/* An NQN as a host may send it: terminated, and printable. */
static bool nqn_valid(const char nqn[NVME_NQN_BYTES])
{
	size_t length = strnlen(nqn, NVME_NQN_BYTES);

	if (length == 0 || length > NVME_NQN_MAX)
		return false;
	for (size_t i = 0; i < length; i++)
		if (nqn[i] <= ' ' || nqn[i] > '~')
			return false;
	return true;
}

static void nqn_copy(char to[NVME_NQN_BYTES], const char from[NVME_NQN_BYTES])
{
	memset(to, 0, NVME_NQN_BYTES);
	memcpy(to, from, strnlen(from, NVME_NQN_MAX));
}

/* The initiator's name: the host's NQN, without the prefix that all have who have no domain. */
bool nvme_name_of(const char *nqn, char name[RBLK_NAME_BYTES])
{
	size_t prefix = strlen(NVME_STANDARD_PREFIX), length;

	if (strncmp(nqn, NVME_STANDARD_PREFIX, prefix) == 0)
		nqn += prefix;
	length = strlen(nqn);
	memset(name, 0, RBLK_NAME_BYTES);
	if (length >= RBLK_NAME_BYTES)
		return false;
	memcpy(name, nqn, length);
	return rblk_name_valid(name);
}

void nvme_login_fill(struct nvme_hello *hello)
{
	const struct nvme_controller *controller = hello->controller;
	struct rblk_wire_login *login = &hello->login;
	uint32_t credits = hello->queue ? hello->entries : RBLK_CREDITS_MIN;

	memset(login, 0, sizeof(*login));
	login->magic = rblk_to_le32(RBLK_MAGIC);
	login->version = rblk_to_le16(RBLK_PROTOCOL_VERSION);
	login->queue_index = rblk_to_le16(hello->queue);
	login->incarnation = rblk_to_le32(1);
	/* A controller is a session: it never comes again. */
	if (controller)
		memcpy(login->session_id, controller->session_id, sizeof(login->session_id));
	else
		env_random(login->session_id, sizeof(login->session_id));
	login->session_epoch = rblk_to_le64(1);
	login->queue_count = rblk_to_le16(controller ? controller->queues : queues_max);
	login->credits = rblk_to_le16((uint16_t)(credits < RBLK_CREDITS_MIN ? RBLK_CREDITS_MIN : credits));
	login->features = rblk_to_le32(RBLK_FEATURE_COMPARE_LIMIT |
				       (hello->digests & NVME_DIGEST_DATA ? RBLK_FEATURE_DIGEST : 0));
	if (!hello->queue && strcmp(hello->identity.subsystem, NVME_DISCOVERY_NQN) != 0)
		login->features |= rblk_to_le32(RBLK_FEATURE_EVENTS);
	/* A reply of 64 completions is 64 PDUs. */
	login->reply_bytes = rblk_to_le32(RBLK_REPLY_BATCH_MAX * sizeof(struct rblk_wire_completion));
}

uint16_t nvme_connect_check(struct nvme_hello *hello, const struct nvme_command *command,
			    const struct nvme_connect *data)
{
	uint32_t word10 = rblk_le32(command->word[0]), word11 = rblk_le32(command->word[1]);
	uint16_t controller = rblk_le16(data->controller);
	uint32_t entries = (word11 & 0xffff) + 1;

	if (word10 & 0xffff)
		return NVME_CONNECT_FORMAT;
	hello->queue = (uint16_t)(word10 >> 16);
	hello->keep_alive_ms = rblk_le32(command->word[2]);
	hello->entries = entries;
	hello->no_head = word11 & NVME_CONNECT_NO_HEAD;
	if (!nqn_valid(data->subsystem))
		return NVME_CONNECT_INVALID;
	if (!nqn_valid(data->host))
		return NVME_CONNECT_HOST;
	memcpy(hello->identity.host_id, data->host_id, sizeof(hello->identity.host_id));
	nqn_copy(hello->identity.host, data->host);
	nqn_copy(hello->identity.subsystem, data->subsystem);
	if (!nvme_name_of(hello->identity.host, hello->name))
		return NVME_CONNECT_HOST;
	if (entries < 2 || entries > (hello->queue ? NVME_ENTRIES_MAX : NVME_ADMIN_ENTRIES_MAX))
		return NVME_CONNECT_INVALID;
	if (hello->queue == 0)
		return controller == NVME_CONTROLLER_ANY ? NVME_OK : NVME_CONNECT_INVALID;
	hello->controller = nvme_controller_get(controller, &hello->identity);
	if (!hello->controller || hello->controller->discovery || hello->queue >= hello->controller->queues)
		return NVME_CONNECT_INVALID;
	return hello->controller->enabled ? NVME_OK : NVME_CONNECT_BUSY;
}

static uint32_t connect_bytes(const struct nvme_hello *hello)
{
	return CAPSULE_HEADER + nvme_header_digest_bytes(hello) + (uint32_t)sizeof(struct nvme_connect) +
	       nvme_data_digest_bytes(hello);
}

static bool connect_is_right(const struct greeting *greeting)
{
	const struct nvme_hello *hello = &greeting->hello;
	const struct nvme_pdu *pdu = (const void *)greeting->connect;
	const struct nvme_command *command = (const void *)(pdu + 1);
	uint32_t digest = nvme_header_digest_bytes(hello);

	/* Its flags are the same bits. */
	return pdu->type == NVME_PDU_COMMAND && pdu->flags == hello->digests && pdu->header_bytes == CAPSULE_HEADER &&
	       pdu->data_offset == CAPSULE_HEADER + digest && rblk_le32(pdu->bytes) == connect_bytes(hello) &&
	       command->opcode == NVME_FABRICS && (rblk_le32(command->namespace) & 0xff) == NVME_CONNECT;
}

static int greet_connect(struct tcp_request *request, struct greeting *greeting)
{
	const struct nvme_command *command = (const void *)(greeting->connect + sizeof(struct nvme_pdu));
	struct nvme_hello *hello = &greeting->hello;
	const uint8_t *data = greeting->connect + CAPSULE_HEADER + nvme_header_digest_bytes(hello);
	uint16_t status;

	if (nvme_header_digest_bytes(hello) &&
	    !digest_matches(greeting->connect + CAPSULE_HEADER, greeting->connect, CAPSULE_HEADER)) {
		struct nvme_pdu_term term = nvme_term_pdu(NVME_FATAL_DIGEST, 0);

		memcpy(term.field, greeting->connect + CAPSULE_HEADER, sizeof(term.field));
		(void)tcp_first_send(request->source.fd, request->head.tls, &term, sizeof(term));
		shutdown(request->source.fd, SHUT_WR);
		return -EPROTO;
	}
	if (!connect_is_right(greeting))
		return -EPROTO;
	hello->id = command->id;
	if (nvme_data_digest_bytes(hello) &&
	    !digest_matches(data + sizeof(struct nvme_connect), data, sizeof(struct nvme_connect)))
		return greet_refuse(request, hello, NVME_TRANSPORT);
	status = nvme_connect_check(hello, command, (const void *)data);
	hello->tls = request->head.tls;
	if (!status && hello->tls && !nvme_tls_is_of(hello->tls, &hello->identity))
		status = NVME_CONNECT_HOST;
	if (status)
		return greet_refuse(request, hello, status | (status == NVME_CONNECT_BUSY ? 0 : NVME_NO_RETRY));
	nvme_login_fill(hello);
	memcpy(request->hello.private_data, &hello->login, sizeof(hello->login));
	request->hello.private_bytes = sizeof(hello->login);
	request->hello.read_in = request->hello.read_out = TCP_READS_MAX;
	return 1;
}

int nvme_greet(struct tcp_request *request)
{
	struct greeting *greeting = request->state;
	bool had_ic;
	int ready;

	if (!greeting)
		request->state = greeting = calloc(1, sizeof(*greeting));
	if (!greeting)
		return -ENOMEM;
	had_ic = greeting->ic_bytes == sizeof(greeting->ic);
	ready = tcp_first_receive(request->source.fd, request->head.tls, &greeting->ic, sizeof(greeting->ic),
				  &greeting->ic_bytes);
	if (ready <= 0)
		return ready;
	if (!had_ic) {
		ready = greet_ic(request, greeting);
		if (ready < 0)
			return ready;
	}
	ready = tcp_first_receive(request->source.fd, request->head.tls, greeting->connect,
				  connect_bytes(&greeting->hello), &greeting->connect_bytes);
	return ready > 0 ? greet_connect(request, greeting) : ready;
}

/* -- refused ------------------------------------------------------------------------------------- */

uint16_t nvme_connect_status(const void *private_data, uint8_t bytes)
{
	const struct rblk_wire_reject *reject = private_data;

	if (bytes < sizeof(*reject))
		return NVME_INTERNAL;
	switch (rblk_le16(reject->reason)) {
	case RBLK_REJECT_DENIED:
		return NVME_CONNECT_HOST | NVME_NO_RETRY;
	case RBLK_REJECT_STALE_INCARNATION: /* the host has this queue already */
		return NVME_BAD_SEQUENCE | NVME_NO_RETRY;
	case RBLK_REJECT_NO_SESSION:
		return NVME_CONNECT_INVALID | NVME_NO_RETRY;
	default:
		return NVME_CONNECT_BUSY;
	}
}

void nvme_refuse(int fd, struct rblk_tls *tls, const struct nvme_hello *hello, const void *private_data, uint8_t bytes)
{
	greet_respond(fd, tls, hello, nvme_connect_status(private_data, bytes));
}

void nvme_reject(struct tcp_request *request, const void *private_data, uint8_t bytes)
{
	nvme_refuse(request->source.fd, request->head.tls, request->state, private_data, bytes);
}
