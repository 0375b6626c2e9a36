/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Implements raw.h: an initiator that keeps no rules.
 */
#include "tests/e2e/raw.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <poll.h>
#include "proto/core/env.h"

#define RECEIVES 200u

static void die(const char *what, const char *why)
{
	fprintf(stderr, "raw initiator: %s: %s\n", what, why);
	abort();
}

void raw_init(struct raw *raw)
{
	struct fab_options options = {.cq_depth = 4096, .recv_sge = 1};
	char error[FAB_ERROR_BYTES];

	memset(raw, 0, sizeof(*raw));
	raw->memory =
		mmap(NULL, RAW_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (raw->memory == MAP_FAILED)
		die("memory", "none");
	raw->fab = fab_open(FAB_TCP, &options, error);
	if (!raw->fab)
		die("open", error);
	if (fab_mr_register(raw->fab, raw->memory, RAW_MEMORY,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				    IBV_ACCESS_REMOTE_WRITE,
			    &raw->mr))
		die("register", fab_error(raw->fab));
	raw->login_bytes = sizeof(raw->login);
	raw->receives = RECEIVES;
	raw->login.magic = rblk_to_le32(RBLK_MAGIC);
	raw->login.version = rblk_to_le16(RBLK_PROTOCOL_VERSION);
	raw->login.incarnation = rblk_to_le32(1);
	raw->login.session_epoch = rblk_to_le64(1);
	raw->login.queue_count = rblk_to_le16(1);
	raw->login.credits = rblk_to_le16(32);
	raw->login.reply_bytes = rblk_to_le32(RAW_REPLY_BYTES);
	env_random(raw->login.session_id, sizeof(raw->login.session_id));
}

static void post_receive(struct raw *raw, uint64_t index)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)raw->memory + RAW_RECEIVES + index * RAW_REPLY_BYTES,
		.length = RAW_REPLY_BYTES,
		.lkey = fab_mr_lkey(raw->mr, fab_conn_device(raw->conn)),
	};
	struct ibv_recv_wr wr = {.wr_id = 1000 + index, .sg_list = &sge, .num_sge = 1}, *bad;

	if (fab_post_recv(raw->conn, &wr, &bad))
		die("receive", fab_error(raw->fab));
}

static int prepare(struct fab_conn *conn, void *user)
{
	struct raw *raw = user;

	raw->conn = conn;
	for (uint64_t i = 0; i < raw->receives; i++)
		post_receive(raw, i);
	return 0;
}

void raw_connect_begin(struct raw *raw, const char *host)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	struct fab_conn_options options = {
		.send_depth = 256,
		.recv_depth = RECEIVES,
		.send_sge = 1,
		.read_in = 16,
		.read_out = 16,
		.private_data = &raw->login,
		.private_bytes = raw->login_bytes,
		.timeout_ms = RAW_WAIT_MS,
		.user = raw,
	};
	char ip[64];
	const char *colon = strrchr(host, ':');

	snprintf(ip, sizeof(ip), "%.*s", (int)(colon - host), host);
	inet_pton(AF_INET, ip, &addr.sin_addr);
	addr.sin_port = htons((uint16_t)atoi(colon + 1));
	if (fab_connect(raw->fab, (struct sockaddr *)&addr, &options, prepare, &raw->conn))
		die("connect", fab_error(raw->fab));
}

static void take_reply(struct raw *raw, const struct ibv_wc *wc)
{
	const struct rblk_wire_completion *completion =
		(void *)(raw->memory + RAW_RECEIVES + (wc->wr_id - 1000) * RAW_REPLY_BYTES);

	if (wc->byte_len > raw->reply_bytes_seen)
		raw->reply_bytes_seen = wc->byte_len;
	for (uint32_t i = 0; i < wc->byte_len / sizeof(*completion); i++) {
		uint16_t tag = rblk_le16(completion[i].tag);

		if (completion[i].flags & RBLK_CPL_EVENT) {
			raw->event = completion[i];
			continue;
		}
		raw->replies++;
		if (tag >= sizeof(raw->last) / sizeof(raw->last[0]))
			die("reply", "a tag that was never used");
		raw->last[tag] = completion[i];
		raw->last[tag].sequence = rblk_to_le32(rblk_le32(completion[i].sequence) + 1);
	}
	post_receive(raw, wc->wr_id - 1000);
}

static size_t smaller(size_t one, size_t two)
{
	return one < two ? one : two;
}

static void take_event(struct raw *raw, const struct fab_event *event)
{
	switch (event->type) {
	case FAB_EVENT_ESTABLISHED:
		raw->established = true;
		memcpy(&raw->accept, event->private_data, smaller(event->private_bytes, sizeof(raw->accept)));
		break;
	case FAB_EVENT_REJECTED:
		raw->rejected = true;
		memcpy(&raw->reject, event->private_data, smaller(event->private_bytes, sizeof(raw->reject)));
		break;
	case FAB_EVENT_FAILED:
		die("connect", fab_error(raw->fab));
		break;
	case FAB_EVENT_DISCONNECTED:
		raw->gone = true;
		break;
	case FAB_EVENT_DRAINED:
		raw->drained = true;
		break;
	default:
		break;
	}
}

/* Handles completions and events. Returns how many there were. */
static int poll_once(struct raw *raw)
{
	struct ibv_wc wc[16];
	struct fab_event event;
	int count = fab_poll(raw->fab, wc, 16);
	int events = 0;

	for (int i = 0; i < count; i++) {
		if (wc[i].wr_id < 1000)
			raw->sends--;
		else if (wc[i].status == IBV_WC_SUCCESS)
			take_reply(raw, &wc[i]);
	}
	while (fab_poll_event(raw->fab, &event) > 0) {
		take_event(raw, &event);
		events++;
	}
	return (count > 0 ? count : 0) + events;
}

void raw_poll(struct raw *raw)
{
	poll_once(raw);
}

void raw_step(struct raw *raw)
{
	struct pollfd pfd = {.fd = fab_fd(raw->fab), .events = POLLIN};

	if (!poll_once(raw) && fab_arm(raw->fab) == 0)
		poll(&pfd, 1, 10);
}

#define WAIT_FOR(raw, condition, what)                                       \
	do {                                                                 \
		uint64_t until_ns = env_now_ns() + RAW_WAIT_MS * 1000000ull; \
		while (!(condition)) {                                       \
			if (env_now_ns() > until_ns)                         \
				die(what, "it did not happen");              \
			raw_step(raw);                                       \
		}                                                            \
	} while (0)

bool raw_connect_wait(struct raw *raw)
{
	WAIT_FOR(raw, raw->established || raw->rejected, "connect");
	return raw->established;
}

bool raw_connect(struct raw *raw, const char *host)
{
	raw_connect_begin(raw, host);
	return raw_connect_wait(raw);
}

void raw_close(struct raw *raw)
{
	if (raw->conn) {
		fab_conn_close(raw->conn);
		WAIT_FOR(raw, raw->drained, "drain");
		fab_conn_destroy(raw->conn);
	}
	fab_mr_deregister(raw->mr);
	fab_close(raw->fab);
	munmap(raw->memory, RAW_MEMORY);
}

struct rblk_wire_command *raw_command(struct raw *raw, uint32_t capsule, unsigned int n)
{
	return (struct rblk_wire_command *)(raw->memory + RAW_SEND + capsule) + n;
}

void raw_fill(struct raw *raw, struct rblk_wire_command *command, unsigned int n, uint8_t opcode,
	      uint16_t tag)
{
	memset(command, 0, sizeof(*command));
	command->opcode = opcode;
	command->index = (uint8_t)n;
	command->tag = rblk_to_le16(tag);
	command->sequence = rblk_to_le32(raw->sequence++);
}

void raw_segment(struct raw *raw, struct rblk_wire_command *command, uint32_t bytes)
{
	command->segment.address = rblk_to_le64((uintptr_t)raw->memory + RAW_DATA);
	command->segment.rkey = rblk_to_le32(fab_mr_rkey(raw->mr, fab_conn_device(raw->conn)));
	command->segment.length = rblk_to_le32(bytes);
}

void raw_send(struct raw *raw, uint32_t bytes)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)raw->memory + RAW_SEND,
		.length = bytes,
		.lkey = fab_mr_lkey(raw->mr, fab_conn_device(raw->conn)),
	};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	raw_post(raw, &wr);
}

void raw_post(struct raw *raw, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	wr->wr_id = 1;
	wr->send_flags = IBV_SEND_SIGNALED;
	if (fab_post_send(raw->conn, wr, &bad))
		die("send", fab_error(raw->fab));
	/* The next message is built in the same place. */
	raw->sends++;
	WAIT_FOR(raw, !raw->sends || raw->gone, "send");
}

void raw_wait_either(struct raw *raw, uint16_t tag)
{
	WAIT_FOR(raw, raw->last[tag].sequence || raw->gone, "reply");
}

uint16_t raw_wait(struct raw *raw, uint16_t tag)
{
	uint16_t status;

	raw_wait_either(raw, tag);
	if (raw->gone && !raw->last[tag].sequence)
		die("reply", "the connection ended");
	status = rblk_le16(raw->last[tag].status);
	raw->last[tag].sequence = 0;
	return status;
}

void raw_wait_gone(struct raw *raw)
{
	WAIT_FOR(raw, raw->gone, "end of the connection");
}

uint16_t raw_simple(struct raw *raw, uint8_t opcode, uint16_t tag)
{
	return raw_simple_numbers(raw, opcode, tag, 0, 0);
}

uint16_t raw_simple_numbers(struct raw *raw, uint8_t opcode, uint16_t tag, uint64_t lba,
			    uint64_t argument)
{
	struct rblk_wire_command *command = raw_command(raw, 0, 0);

	raw_fill(raw, command, 0, opcode, tag);
	command->lba = rblk_to_le64(lba);
	command->argument = rblk_to_le64(argument);
	raw_send(raw, 64);
	return raw_wait(raw, tag);
}

uint32_t raw_open(struct raw *raw, const char *volume)
{
	return raw_open_flags(raw, volume, 0);
}

void raw_open_begin(struct raw *raw, const char *volume, uint32_t flags, uint32_t handle)
{
	struct rblk_wire_open *open = (void *)(raw->memory + RAW_SEND);
	struct rblk_wire_command *command = raw_command(raw, RBLK_CAPSULE_ALIGN, 0);

	memset(open, 0, RBLK_CAPSULE_ALIGN);
	strncpy(open->name, volume, sizeof(open->name) - 1);
	open->flags = rblk_to_le32(flags);
	raw_fill(raw, command, 0, RBLK_OP_OPEN, 0);
	command->volume = rblk_to_le32(handle);
	command->flags = RBLK_CMD_CAPSULE;
	raw_segment(raw, command, sizeof(struct rblk_wire_volume));
	raw_send(raw, RBLK_CAPSULE_ALIGN + 64);
}

uint32_t raw_open_flags(struct raw *raw, const char *volume, uint32_t flags)
{
	static uint32_t handles;

	raw_open_begin(raw, volume, flags, ++handles);
	return raw_wait(raw, 0) == RBLK_OK ? handles : 0;
}

uint16_t raw_open_as(struct raw *raw, const char *volume, uint32_t handle)
{
	raw_open_begin(raw, volume, 0, handle);
	return raw_wait(raw, 0);
}

void raw_close_begin(struct raw *raw, uint16_t tag, uint32_t handle)
{
	struct rblk_wire_command *command = raw_command(raw, 0, 0);

	raw_fill(raw, command, 0, RBLK_OP_CLOSE, tag);
	command->volume = rblk_to_le32(handle);
	raw_send(raw, 64);
}

uint16_t raw_close_handle(struct raw *raw, uint32_t handle)
{
	raw_close_begin(raw, 0, handle);
	return raw_wait(raw, 0);
}

void raw_io(struct raw *raw, uint8_t opcode, uint16_t tag, uint32_t handle, uint64_t lba,
	    uint32_t blocks, uint32_t bytes)
{
	struct rblk_wire_command *command = raw_command(raw, 0, 0);

	raw_fill(raw, command, 0, opcode, tag);
	command->volume = rblk_to_le32(handle);
	command->lba = rblk_to_le64(lba);
	command->blocks = rblk_to_le32(blocks);
	raw_segment(raw, command, bytes);
	raw_send(raw, 64);
}
