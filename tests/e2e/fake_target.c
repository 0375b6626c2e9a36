/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the scripted target, see fake_target.h. Without a script it does the least that a session
 * needs: accept, IDENTIFY, OPEN, and RBLK_OK for everything else.
 */
#include "tests/e2e/fake_target.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "proto/wire/wire_check.h"

#define RECEIVES 64 /* of a queue */
#define RECEIVE_BYTES RBLK_COMMAND_BYTES_MAX
#define COMMAND_BYTES 8192 /* granted, unless the script changes it */
#define SENDS 256

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "fake target: %s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* One connection; conn is NULL where there is none. */
struct fake_queue {
	struct fab_conn *conn;
	bool closing;
	u32 features, command_bytes;
	u16 max_batch;
};

struct fake_target {
	struct fake_script *script;
	pthread_t thread;
	int stop_fd;
	struct fab *fab;
	struct fab_listener *listener;
	struct fake_queue queues[FAKE_QUEUES];
	struct fake_queue *queue; /* whose command is being handled */
	u32 handle; /* that was opened last */
	struct fab_mr *mr;
	/* Receives of each queue, then replies, each at its own place. */
	u8 *memory;
	u32 sent;
	char uri[64];
	_Atomic unsigned int seen[RBLK_OP_MAX];
};

static size_t memory_bytes(void)
{
	/*
	 * One page more than needed: Soft-RoCE in 6.1 keeps its table of pages in rows of 256, and
	 * reads past the table where a message ends with the memory and the memory ends with a row.
	 */
	return FAKE_QUEUES * RECEIVES * RECEIVE_BYTES + SENDS * FAKE_RAW_BYTES + 4096;
}

/* index counts the receives of all queues; those of one queue are next to each other. */
static void post_receive(struct fake_target *fake, struct fake_queue *queue, u32 index)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(fake->memory + index * RECEIVE_BYTES),
		.length = RECEIVE_BYTES,
		.lkey = fab_mr_lkey(fake->mr, fab_conn_device(queue->conn)),
	};
	struct ibv_recv_wr wr = { .wr_id = index, .sg_list = &sge, .num_sge = 1 }, *bad;

	must(fab_post_recv(queue->conn, &wr, &bad) == 0);
}

static void post(struct fake_target *fake, const void *data, u32 bytes, struct ibv_send_wr wr)
{
	u8 *place = fake->memory + FAKE_QUEUES * RECEIVES * RECEIVE_BYTES + fake->sent % SENDS * FAKE_RAW_BYTES;
	struct ibv_sge sge = {
		.addr = (uintptr_t)place,
		.length = bytes,
		.lkey = fab_mr_lkey(fake->mr, fab_conn_device(fake->queue->conn)),
	};
	struct ibv_send_wr *bad;

	if (bytes)
		memcpy(place, data, bytes);
	fake->sent++;
	wr.wr_id = FAKE_QUEUES * RECEIVES;
	wr.sg_list = &sge;
	wr.num_sge = bytes ? 1 : 0;
	wr.send_flags = IBV_SEND_SIGNALED;
	must(fab_post_send(fake->queue->conn, &wr, &bad) == 0);
}

static void post_message(struct fake_target *fake, const void *data, u32 bytes)
{
	post(fake, data, bytes, (struct ibv_send_wr){ .opcode = IBV_WR_SEND });
}

void fake_target_send_event(struct fake_target *fake, u16 event, u32 number, u32 handle)
{
	struct rblk_wire_completion completion = {
		.tag = rblk_to_le16(RBLK_TAG_EVENT),
		.status = rblk_to_le16(event),
		.flags = RBLK_CPL_EVENT,
		.result = rblk_to_le64((u64)number << 32 | (handle ? fake->handle + handle - FAKE_HANDLE : 0)),
	};

	post_message(fake, &completion, sizeof(completion));
}

void fake_target_report(struct fake_target *fake, const struct rblk_wire_command *command,
			const void *data, u32 bytes)
{
	post(fake, data, bytes,
	     (struct ibv_send_wr){
		     .opcode = IBV_WR_RDMA_WRITE,
		     .wr.rdma = { .remote_addr = rblk_le64(command->segment.address),
				  .rkey = rblk_le32(command->segment.rkey) },
	     });
}

static void report_volume(struct fake_target *fake, const struct rblk_wire_command *command)
{
	struct rblk_wire_volume volume = {
		.name = "disk",
		.uuid = { 1 },
		.blocks = rblk_to_le64(FAKE_VOLUME_BLOCKS),
		.handle = command->volume,
		.block_bytes = rblk_to_le32(512),
		.physical_bytes = rblk_to_le32(512),
		.flags = rblk_to_le32(RBLK_VOLUME_FLUSH | RBLK_VOLUME_FUA),
		.max_io_bytes = rblk_to_le32(1 << 20),
		.max_capsule_bytes = rblk_to_le32(4096),
	};

	fake->handle = rblk_le32(command->volume);
	if (fake->script->volume)
		fake->script->volume(&volume);
	fake_target_report(fake, command, &volume, sizeof(volume));
}

static void answer_immediate(struct fake_target *fake, const struct rblk_wire_command *command)
{
	static const u8 zeroes[512];

	post(fake, zeroes, 512,
	     (struct ibv_send_wr){
		     .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		     .imm_data = htonl(rblk_immediate(rblk_le16(command->tag), 0, 0)),
		     .wr.rdma = { .remote_addr = rblk_le64(command->segment.address),
				  .rkey = rblk_le32(command->segment.rkey) },
	     });
}

static void handle_command(struct fake_target *fake, const struct rblk_wire_command *command)
{
	struct fake_script *script = fake->script;
	enum fake_answer answer = FAKE_REPLY;
	struct rblk_wire_completion completion = {
		.tag = command->tag,
		.sequence = command->sequence,
	};

	fake->seen[command->opcode]++;
	if (script->command)
		answer = script->command(fake, command, &completion);
	if (command->opcode == RBLK_OP_OPEN && answer == FAKE_REPLY && !completion.status)
		report_volume(fake, command);
	switch (answer) {
	case FAKE_SILENT:
		break;
	case FAKE_CLOSE:
		fake->queue->closing = true;
		fab_conn_close(fake->queue->conn);
		break;
	case FAKE_REPLY_RAW:
		post_message(fake, script->raw, script->raw_bytes);
		break;
	case FAKE_IMMEDIATE:
		answer_immediate(fake, command);
		break;
	case FAKE_IMMEDIATE_ELSEWHERE:
		post(fake, NULL, 0,
		     (struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					   .imm_data = htonl(rblk_immediate(
						   rblk_le16(completion.tag), 0, 0)) });
		break;
	case FAKE_REPLY_INVALIDATE:
		post(fake, &completion, sizeof(completion),
		     (struct ibv_send_wr){ .opcode = IBV_WR_SEND_WITH_INV,
					   .invalidate_rkey = rblk_le32(command->segment.rkey) });
		break;
	case FAKE_REPLY_WITH_IMMEDIATE:
		post(fake, &completion, sizeof(completion),
		     (struct ibv_send_wr){ .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(1) });
		break;
	case FAKE_REPLY_TWICE:
		post_message(fake, &completion, sizeof(completion));
		/* fall through */
	case FAKE_REPLY:
		post_message(fake, &completion, sizeof(completion));
		break;
	}
}

static void handle_message(struct fake_target *fake, u32 index, u32 bytes)
{
	const struct rblk_wire_command *commands;
	enum rblk_wire_error broken;
	u32 capsule;
	u16 count;

	fake->queue = &fake->queues[index / RECEIVES];
	if (fake->queue->closing)
		return;
	broken = rblk_check_message(fake->memory + index * RECEIVE_BYTES, bytes,
				    fake->queue->features, fake->queue->max_batch,
				    fake->queue->command_bytes, &commands, &count, &capsule);
	if (broken)
		fprintf(stderr, "fake target: %s\n", rblk_wire_error_text(broken));
	must(!broken);
	for (u16 i = 0; i < count && !fake->queue->closing; i++)
		handle_command(fake, &commands[i]);
	if (!fake->queue->closing)
		post_receive(fake, fake->queue, index);
}

/* -- login -------------------------------------------------------------------------------------- */

static void handle_request(struct fake_target *fake, const struct fab_event *event)
{
	struct rblk_wire_login login;
	struct fab_conn_options options = {
		.send_depth = SENDS,
		.recv_depth = RECEIVES,
		.send_sge = 1,
		.read_in = 1,
		.read_out = 16,
	};
	struct rblk_wire_accept accept = {
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_PROTOCOL_VERSION),
		.credits = rblk_to_le16(8),
		.target_instance = { 9 },
		.session_epoch = rblk_to_le64(1),
		.command_bytes = rblk_to_le32(COMMAND_BYTES),
		.max_io_bytes = rblk_to_le32(1 << 20),
		.max_batch = rblk_to_le16(RBLK_BATCH_MAX),
	};

	const struct rblk_wire_reject busy = {
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_PROTOCOL_VERSION),
		.reason = rblk_to_le16(RBLK_REJECT_NO_RESOURCES),
	};
	struct fake_queue *queue;

	must(event->private_bytes >= sizeof(login));
	memcpy(&login, event->private_data, sizeof(login));
	must(rblk_check_login(&login, sizeof(login)) == RBLK_WIRE_OK);
	if ((fake->script->reject.reason || fake->script->reject_silent) &&
	    rblk_le16(login.queue_index) >= fake->script->reject_from &&
	    (!fake->script->reject_epoch ||
	     rblk_le64(login.session_epoch) == fake->script->reject_epoch)) {
		fab_reject(event->request, &fake->script->reject,
			   fake->script->reject_silent ? 0 : sizeof(fake->script->reject));
		return;
	}
	must(rblk_le16(login.queue_index) < FAKE_QUEUES);
	queue = &fake->queues[rblk_le16(login.queue_index)];
	if (queue->conn) { /* it is still being drained: the initiator tries again */
		fab_reject(event->request, &busy, sizeof(busy));
		return;
	}
	accept.incarnation = login.incarnation;
	accept.session_epoch = login.session_epoch;
	accept.features = login.features;
	queue->features = rblk_le32(accept.features);
	if (fake->script->accept)
		fake->script->accept(&accept);
	queue->command_bytes = rblk_le32(accept.command_bytes);
	queue->max_batch = rblk_le16(accept.max_batch);
	/* The initiator may give up at any moment, here and below. */
	if (fab_accept(fake->fab, event->request, &options, &queue->conn)) {
		queue->conn = NULL;
		fab_reject(event->request, NULL, 0);
		return;
	}
	queue->closing = false;
	for (u32 i = 0; i < RECEIVES; i++)
		post_receive(fake, queue, (u32)(queue - fake->queues) * RECEIVES + i);
	if (fab_conn_establish(queue->conn, &accept, sizeof(accept)) == 0)
		return;
	queue->closing = true;
	fab_conn_close(queue->conn);
}

static struct fake_queue *find_queue(struct fake_target *fake, const struct fab_conn *conn)
{
	for (u32 i = 0; i < FAKE_QUEUES; i++)
		if (fake->queues[i].conn == conn)
			return &fake->queues[i];
	abort();
}

static void handle_events(struct fake_target *fake)
{
	struct fake_queue *queue;
	struct fab_event event;

	while (fab_poll_event(fake->fab, &event) == 1) {
		switch (event.type) {
		case FAB_EVENT_REQUEST:
			handle_request(fake, &event);
			break;
		case FAB_EVENT_FAILED: /* the initiator refused the acceptance */
		case FAB_EVENT_DISCONNECTED:
			queue = find_queue(fake, event.conn);
			queue->closing = true;
			fab_conn_close(queue->conn);
			break;
		case FAB_EVENT_DRAINED:
			queue = find_queue(fake, event.conn);
			fab_conn_destroy(queue->conn);
			queue->conn = NULL;
			break;
		default:
			break;
		}
	}
}

static void turn(struct fake_target *fake)
{
	struct ibv_wc wc[16];
	int count = fab_poll(fake->fab, wc, 16);

	for (int i = 0; i < count; i++)
		if (wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id < FAKE_QUEUES * RECEIVES)
			handle_message(fake, (u32)wc[i].wr_id, wc[i].byte_len);
	handle_events(fake);
}

static void *run(void *arg)
{
	struct fake_target *fake = arg;
	struct pollfd fds[2] = { { .fd = fab_fd(fake->fab), .events = POLLIN },
				 { .fd = fake->stop_fd, .events = POLLIN } };

	while (!(fds[1].revents & POLLIN)) {
		turn(fake);
		if (fab_arm(fake->fab) == 0)
			poll(fds, 2, fab_timeout_ms(fake->fab));
		else
			poll(fds + 1, 1, 0);
	}
	for (u32 i = 0; i < FAKE_QUEUES; i++) {
		fake->queues[i].closing = true;
		if (fake->queues[i].conn)
			fab_conn_close(fake->queues[i].conn);
		while (fake->queues[i].conn)
			turn(fake);
	}
	return NULL;
}

struct fake_target *fake_target_start(struct fake_script *script)
{
	struct fake_target *fake = calloc(1, sizeof(*fake));
	struct fab_options options = { .cq_depth = FAKE_QUEUES * (SENDS + RECEIVES), .recv_sge = 1 };
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_storage bound;
	char error[FAB_ERROR_BYTES];

	must(fake);
	fake->script = script;
	fake->stop_fd = eventfd(0, EFD_CLOEXEC);
	must(fake->stop_fd >= 0);
	if (script->rdma)
		address = *script->rdma;
	fake->fab = fab_open(script->rdma ? FAB_VERBS : FAB_TCP, &options, error);
	must(fake->fab);
	fake->memory = aligned_alloc(4096, (memory_bytes() + 4095) / 4096 * 4096);
	must(fake->memory);
	must(fab_mr_register(fake->fab, fake->memory, memory_bytes(), IBV_ACCESS_LOCAL_WRITE,
			     &fake->mr) == 0);
	must(fab_listen(fake->fab, (struct sockaddr *)&address, 8, &fake->listener) == 0);
	must(fab_listener_address(fake->listener, &bound) == 0);
	snprintf(fake->uri, sizeof(fake->uri), "%s://%s:%u/disk", script->rdma ? "rblk" : "rblk+tcp",
		 inet_ntoa(address.sin_addr), ntohs(((struct sockaddr_in *)&bound)->sin_port));
	must(pthread_create(&fake->thread, NULL, run, fake) == 0);
	return fake;
}

void fake_target_stop(struct fake_target *fake)
{
	must(eventfd_write(fake->stop_fd, 1) == 0);
	pthread_join(fake->thread, NULL);
	fab_listener_destroy(fake->listener);
	fab_mr_deregister(fake->mr);
	fab_close(fake->fab);
	close(fake->stop_fd);
	free(fake->memory);
	free(fake);
}

const char *fake_target_uri(const struct fake_target *fake)
{
	return fake->uri;
}

struct fake_script *fake_target_script(struct fake_target *fake)
{
	return fake->script;
}

void fake_target_forget(struct fake_target *fake)
{
	fake->script->reject = (struct rblk_wire_reject){
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_PROTOCOL_VERSION),
		.reason = rblk_to_le16(RBLK_REJECT_NO_SESSION),
	};
	fake->script->reject_epoch = 1;
}

unsigned int fake_target_queue(const struct fake_target *fake)
{
	return (unsigned int)(fake->queue - fake->queues);
}

unsigned int fake_target_seen(struct fake_target *fake, u8 opcode)
{
	return fake->seen[opcode];
}
