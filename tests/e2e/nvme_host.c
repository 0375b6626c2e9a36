/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tests/e2e/nvme_host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "proto/digest/digest.h"
#include "tests/unit/unit.h"

#define WAIT_MS 60000
#define NO_RETRY_BIT 0x4000u

/* -- bytes --------------------------------------------------------------------------------------- */

void nvme_host_write(int fd, const void *data, size_t bytes)
{
	assert_int_equal(send(fd, data, bytes, MSG_NOSIGNAL), bytes);
}

/* False: the end of the stream. */
static bool read_all(int fd, void *data, size_t bytes)
{
	struct pollfd polled = {.fd = fd, .events = POLLIN};

	for (size_t done = 0; done < bytes;) {
		ssize_t got;

		assert_int_equal(poll(&polled, 1, WAIT_MS), 1);
		got = recv(fd, (char *)data + done, bytes - done, MSG_DONTWAIT);
		if (got <= 0)
			return false;
		done += (size_t)got;
	}
	return true;
}

void nvme_host_read(struct nvme_host *host, void *data, size_t bytes)
{
	assert_true(read_all(host->fd, data, bytes));
}

int nvme_host_ended(int fd)
{
	struct nvme_pdu pdu;
	int type = -1;

	while (read_all(fd, &pdu, sizeof(pdu))) {
		char *rest = malloc(rblk_le32(pdu.bytes));

		type = pdu.type;
		assert_true(rblk_le32(pdu.bytes) >= sizeof(pdu) && rblk_le32(pdu.bytes) < 1u << 24);
		read_all(fd, rest, rblk_le32(pdu.bytes) - sizeof(pdu));
		free(rest);
	}
	close(fd);
	return type;
}

/* -- connecting ---------------------------------------------------------------------------------- */

static int dial_from(const char *address, uint8_t from)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000u + from)};
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1))};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char ip[INET_ADDRSTRLEN];

	assert_true(fd >= 0);
	snprintf(ip, sizeof(ip), "%.*s", (int)(strrchr(address, ':') - address), address);
	assert_int_equal(inet_pton(AF_INET, ip, &addr.sin_addr), 1);
	if (from)
		assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

int nvme_host_dial(const char *address)
{
	return dial_from(address, 0);
}

void nvme_host_greet_with(struct nvme_host *host, const char *address)
{
	struct nvme_pdu_ic ic = {
		.pdu = {.type = NVME_PDU_IC_REQ, .header_bytes = sizeof(ic), .bytes = rblk_to_le32(sizeof(ic))},
		.digests = host->digests};

	host->fd = dial_from(address, host->from);
	nvme_host_write(host->fd, &ic, sizeof(ic));
	assert_true(read_all(host->fd, &ic, sizeof(ic)));
	assert_int_equal(ic.pdu.type, NVME_PDU_IC_RESP);
	assert_int_equal(ic.digests, host->digests);
}

int nvme_host_greet(const char *address)
{
	struct nvme_host host = {.fd = -1};

	nvme_host_greet_with(&host, address);
	return host.fd;
}

uint16_t nvme_host_connect(struct nvme_host *host, const char *address, const char *subsystem, const char *nqn,
			   uint16_t queue, uint16_t entries)
{
	struct nvme_connect connect = {.controller = rblk_to_le16(queue ? host->controller : NVME_CONTROLLER_ANY)};
	struct nvme_host_command command = {.way = NVME_HOST_CAPSULE, .data = &connect, .bytes = sizeof(connect)};
	uint16_t status;

	nvme_host_greet_with(host, address);
	connect.host_id[15] = host->host_id;
	snprintf(connect.subsystem, sizeof(connect.subsystem), "%s", subsystem);
	snprintf(connect.host, sizeof(connect.host), "%s", nqn);
	command.command.opcode = NVME_FABRICS;
	command.command.namespace = rblk_to_le32(NVME_CONNECT);
	command.command.word[0] = rblk_to_le32((uint32_t)queue << 16);
	command.command.word[1] = rblk_to_le32((entries - 1u) | (host->no_head ? NVME_CONNECT_NO_HEAD : 0));
	status = nvme_host_run(host, &command);
	host->authenticates = !status && command.result & NVME_CONNECT_AUTHENTICATE;
	if (!status && !queue)
		host->controller = (uint16_t)command.result;
	if (status)
		nvme_host_ended(host->fd);
	return status;
}

void nvme_host_attach(struct nvme_host *admin, struct nvme_host *io, const char *address, const char *subsystem,
		      const char *nqn, uint16_t entries)
{
	assert_int_equal(nvme_host_connect(admin, address, subsystem, nqn, 0, 32), NVME_OK);
	nvme_host_enable(admin);
	io->controller = admin->controller;
	assert_int_equal(nvme_host_connect(io, address, subsystem, nqn, 1, entries), NVME_OK);
}

void nvme_host_close(struct nvme_host *host)
{
	close(host->fd);
}

/* -- commands ------------------------------------------------------------------------------------ */

static void write_digest(struct nvme_host *host, uint8_t which, const void *data, uint32_t bytes)
{
	__le32 digest = rblk_to_le32(rblk_digest(0, data, bytes) ^ (host->damage & which));

	if (!(host->digests & which))
		return;
	host->damage &= (uint8_t)~which;
	nvme_host_write(host->fd, &digest, sizeof(digest));
}

void nvme_host_send_pdu(struct nvme_host *host, struct nvme_pdu *header, const void *data, uint32_t bytes)
{
	uint32_t head = header->header_bytes + (host->digests & NVME_DIGEST_HEADER ? 4u : 0);

	header->flags |= host->digests & (bytes ? 3 : NVME_DIGEST_HEADER);
	header->data_offset = (__u8)(bytes ? head : 0);
	header->bytes = rblk_to_le32(head + bytes + (bytes && host->digests & NVME_DIGEST_DATA ? 4 : 0));
	nvme_host_write(host->fd, header, header->header_bytes);
	write_digest(host, NVME_DIGEST_HEADER, header, header->header_bytes);
	if (!bytes)
		return;
	nvme_host_write(host->fd, data, bytes);
	write_digest(host, NVME_DIGEST_DATA, data, bytes);
}

static void check_digest(const struct nvme_host *host, uint8_t which, const void *data, uint32_t bytes)
{
	__le32 digest;

	if (!(host->digests & which))
		return;
	assert_true(read_all(host->fd, &digest, sizeof(digest)));
	assert_int_equal(rblk_le32(digest), rblk_digest(0, data, bytes));
}

void nvme_host_send(struct nvme_host *host, struct nvme_host_command *command)
{
	bool capsule = command->way == NVME_HOST_CAPSULE;
	struct {
		struct nvme_pdu pdu;
		struct nvme_command command;
	} header = {.pdu = {.type = NVME_PDU_COMMAND, .header_bytes = sizeof(header)}};

	command->ended = false;
	command->arrived = 0;
	command->command.flags |= NVME_FLAGS_SGL;
	command->command.id = rblk_to_le16(++host->id);
	command->command.length = rblk_to_le32(command->way ? command->bytes : 0);
	command->command.sgl = capsule ? NVME_SGL_CAPSULE : NVME_SGL_TRANSPORT;
	header.command = command->command;
	nvme_host_send_pdu(host, &header.pdu, command->data, capsule ? command->bytes : 0);
}

/* In two pieces, if it is not too short. */
static void answer_r2t(struct nvme_host *host, const struct nvme_host_command *command, const struct nvme_pdu_data *r2t)
{
	uint32_t offset = rblk_le32(r2t->offset), left = rblk_le32(r2t->length);

	host->r2ts++;
	assert_int_equal(command->way, NVME_HOST_R2T);
	assert_true(offset <= command->bytes && left <= command->bytes - offset);
	while (left) {
		uint32_t part = left > 1024 ? left / 2 : left;
		struct nvme_pdu_data pdu = {
			.pdu = {.type = NVME_PDU_H2C_DATA,
				.flags = part == left ? NVME_PDU_LAST : 0,
				.header_bytes = sizeof(pdu)},
			.command = r2t->command,
			.transfer = r2t->transfer,
			.offset = rblk_to_le32(offset),
			.length = rblk_to_le32(part),
		};

		nvme_host_send_pdu(host, &pdu.pdu, (const char *)command->data + offset, part);
		offset += part;
		left -= part;
	}
}

static void take_data(struct nvme_host *host, struct nvme_host_command *command, const struct nvme_pdu_data *pdu)
{
	uint32_t length = rblk_le32(pdu->length);
	char *to = (char *)command->data + command->arrived;

	assert_int_equal(command->way, NVME_HOST_IN);
	assert_int_equal(rblk_le32(pdu->offset), command->arrived);
	assert_true(length <= command->bytes - command->arrived);
	assert_true(read_all(host->fd, to, length));
	check_digest(host, NVME_DIGEST_DATA, to, length);
	command->arrived += length;
}

/* One PDU, which is of one of these. Returns that one if it has ended, or leaves. */
static struct nvme_host_command *receive(struct nvme_host *host, struct nvme_host_command *commands, unsigned int count)
{
	struct nvme_host_command *command = NULL;
	struct nvme_response response;
	struct nvme_pdu_data data;
	__le16 id;

	nvme_host_read(host, &response, sizeof(response));
	check_digest(host, NVME_DIGEST_HEADER, &response, sizeof(response));
	memcpy(&data, &response, sizeof(data));
	id = response.pdu.type == NVME_PDU_RESPONSE ? response.completion.id : data.command;
	for (unsigned int i = 0; i < count; i++)
		if (commands[i].command.id == id && !commands[i].ended)
			command = &commands[i];
	assert_non_null(command);
	switch (response.pdu.type) {
	case NVME_PDU_RESPONSE:
		assert_int_equal(response.completion.sq_head == 0xffff, host->no_head);
		command->result = rblk_le64(response.completion.result);
		command->status = rblk_le16(response.completion.status) >> 1 & ~NO_RETRY_BIT;
		command->final = rblk_le16(response.completion.status) >> 1 & NO_RETRY_BIT;
		command->ended = true;
		return command;
	case NVME_PDU_R2T:
		answer_r2t(host, command, &data);
		command->status = NVME_OK;
		return command->leaves ? command : NULL;
	case NVME_PDU_C2H_DATA:
		take_data(host, command, &data);
		if (!(data.pdu.flags & NVME_PDU_SUCCESS))
			break;
		assert_true(host->no_head && data.pdu.flags & NVME_PDU_LAST && command->arrived == command->bytes);
		host->successes++;
		command->result = 0;
		command->status = NVME_OK;
		command->ended = true;
		return command;
	default:
		fail_msg("a PDU of type %u", response.pdu.type);
	}
	return NULL;
}

uint16_t nvme_host_await(struct nvme_host *host, struct nvme_host_command *command)
{
	while (!receive(host, command, 1))
		;
	return command->status;
}

void nvme_host_await_all(struct nvme_host *host, struct nvme_host_command *commands, unsigned int count)
{
	for (unsigned int ended = 0; ended < count;)
		ended += receive(host, commands, count) != NULL;
}

void nvme_host_run_pair(struct nvme_host *host, struct nvme_host_command pair[2], uint16_t statuses[2])
{
	nvme_host_send(host, &pair[0]);
	nvme_host_send(host, &pair[1]);
	nvme_host_await_all(host, pair, 2);
	statuses[0] = pair[0].status;
	statuses[1] = pair[1].status;
}

uint16_t nvme_host_run(struct nvme_host *host, struct nvme_host_command *command)
{
	nvme_host_send(host, command);
	return nvme_host_await(host, command);
}

uint16_t nvme_host_io(struct nvme_host *host, uint8_t opcode, enum nvme_host_way way, uint64_t lba, uint32_t word12,
		      void *data, uint32_t bytes)
{
	struct nvme_host_command command = {.way = way, .data = data, .bytes = bytes};

	command.command.opcode = opcode;
	command.command.namespace = rblk_to_le32(1);
	command.command.word[0] = rblk_to_le32((uint32_t)lba);
	command.command.word[1] = rblk_to_le32((uint32_t)(lba >> 32));
	command.command.word[2] = rblk_to_le32(word12);
	return nvme_host_run(host, &command);
}

uint16_t nvme_host_admin(struct nvme_host *host, uint8_t opcode, uint32_t namespace, uint32_t word10, uint32_t word11,
			 void *data, uint32_t bytes)
{
	struct nvme_host_command command = {.way = data ? NVME_HOST_IN : NVME_HOST_NONE, .data = data, .bytes = bytes};

	command.command.opcode = opcode;
	command.command.namespace = rblk_to_le32(namespace);
	command.command.word[0] = rblk_to_le32(word10);
	command.command.word[1] = rblk_to_le32(word11);
	return nvme_host_run(host, &command);
}

struct nvme_host_command nvme_host_ask_event(struct nvme_host *host)
{
	struct nvme_host_command event = {.way = NVME_HOST_NONE};

	event.command.opcode = NVME_ASYNC_EVENT;
	nvme_host_send(host, &event);
	return event;
}

void nvme_host_enable(struct nvme_host *host)
{
	struct nvme_host_command set = {.way = NVME_HOST_NONE}, get = {.way = NVME_HOST_NONE};

	set.command.opcode = get.command.opcode = NVME_FABRICS;
	set.command.namespace = rblk_to_le32(NVME_PROPERTY_SET);
	set.command.word[1] = rblk_to_le32(NVME_CC);
	set.command.word[2] = rblk_to_le32(NVME_CC_ENABLE | 6u << 16 | 4u << 20);
	assert_int_equal(nvme_host_run(host, &set), NVME_OK);
	get.command.namespace = rblk_to_le32(NVME_PROPERTY_GET);
	get.command.word[1] = rblk_to_le32(NVME_CSTS);
	assert_int_equal(nvme_host_run(host, &get), NVME_OK);
	assert_int_equal(get.result & NVME_CSTS_READY, NVME_CSTS_READY);
}

void nvme_host_discover(const char *address, char nqn[NVME_NQN_BYTES])
{
	struct {
		struct nvme_discovery header;
		struct nvme_discovery_entry entry;
	} page;
	struct nvme_host_command log = {.way = NVME_HOST_IN, .data = &page, .bytes = sizeof(page)};
	struct nvme_host host = {.fd = -1};

	assert_int_equal(nvme_host_connect(&host, address, NVME_DISCOVERY_NQN, NVME_HOST_NQN, 0, 32), NVME_OK);
	nvme_host_enable(&host);
	log.command.opcode = NVME_GET_LOG_PAGE;
	log.command.word[0] = rblk_to_le32(NVME_LOG_DISCOVERY | (sizeof(page) / 4 - 1) << 16);
	assert_int_equal(nvme_host_run(&host, &log), NVME_OK);
	assert_int_equal(log.arrived, sizeof(page));
	assert_int_equal(rblk_le64(page.header.records), 1);
	assert_int_equal(page.entry.transport, 3);
	assert_string_equal(page.entry.address, "127.0.0.1");
	assert_string_equal(page.entry.service, strrchr(address, ':') + 1);
	memcpy(nqn, page.entry.subsystem, NVME_NQN_BYTES);
	nvme_host_close(&host);
}
