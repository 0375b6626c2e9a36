/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Queues: what a login allocates, how a message becomes requests, and the two phases of the end.
 */
#include "target/serve/queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "proto/wire/wire_check.h"
#include "target/io/transfer.h"

/* Messages of a measuring connection: PING, SCRATCH, KEEPALIVE, IDENTIFY. */
#define SCRATCH_COMMAND_BYTES 1024u

/* -- creating ---------------------------------------------------------------------------------- */

static uint32_t power_of_two_up(uint32_t value)
{
	return value <= 1 ? 1 : 1u << (32 - __builtin_clz(value - 1));
}

static int queue_alloc_slots(struct tgt_queue *queue)
{
	queue->requests = calloc(queue->tags, sizeof(*queue->requests));
	queue->sent = calloc(queue->sent_mask + 1, sizeof(*queue->sent));
	if (!queue->requests || !queue->sent)
		return -ENOMEM;
	for (uint16_t tag = 0; tag < queue->tags; tag++) {
		queue->requests[tag].queue = queue;
		queue->requests[tag].tag = tag;
	}
	return 0;
}

/*
 * Replies and receives of a measuring connection, in its own protection domain: the reply ring, one
 * page for reports, one to be scratched, then the receives.
 */
static int queue_arena_create(struct tgt_queue *queue)
{
	size_t receives = (size_t)queue->tags * SCRATCH_COMMAND_BYTES;
	size_t bytes = queue->reply_bytes + 2 * TGT_POOL_PAGE + receives;
	int err = tgt_region_map(&queue->arena, bytes, false, NULL);

	if (err)
		return err;
	queue->replies = (void *)queue->arena.base;
	return 0;
}

/* What is left of it needs the connection's protection domain. */
static int queue_arena_register(struct tgt_queue *queue)
{
	char *receives = queue->arena.base + queue->reply_bytes + 2 * TGT_POOL_PAGE;
	int err = fab_mr_register_private(queue->conn, queue->arena.base, queue->arena.bytes,
					  IBV_ACCESS_LOCAL_WRITE, &queue->arena_mr);

	if (err)
		return err;
	queue->lkey = fab_mr_lkey(queue->arena_mr, fab_conn_device(queue->conn));
	err = tgt_inbox_init(&queue->inbox, receives, SCRATCH_COMMAND_BYTES, queue->tags,
			     queue->lkey);
	if (err)
		return err;
	queue->inbox.conn = queue->conn;
	return tgt_inbox_post(&queue->inbox);
}

static void queue_free(struct tgt_queue *queue)
{
	struct tgt_reactor *reactor = queue->reactor;

	fab_mr_deregister(queue->scratch_mr);
	fab_mr_deregister(queue->arena_mr);
	fab_conn_destroy(queue->conn);
	tgt_inbox_fini(&queue->inbox);
	if (queue->arena.base)
		tgt_region_unmap(&queue->arena);
	else if (queue->replies)
		tgt_pool_free(reactor->reserve, queue->replies, queue->reply_bytes);
	free(queue->requests);
	free(queue->sent);
	free(queue);
}

static struct tgt_queue *queue_alloc(struct tgt_session *session, struct tgt_fabric *fabric,
				     struct tgt_device *device, const struct tgt_queue_terms *terms)
{
	struct tgt_reactor *reactor = session->reactor;
	struct tgt_queue *queue = calloc(1, sizeof(*queue));
	int err;

	if (!queue)
		return NULL;
	queue->reactor = reactor;
	queue->session = session;
	queue->fabric = fabric;
	queue->device = terms->scratch ? NULL : device;
	queue->index = terms->index;
	queue->incarnation = terms->incarnation;
	queue->features = terms->features;
	queue->credits = terms->credits;
	queue->tags = terms->credits + RBLK_RESERVED_TAGS;
	queue->command_bytes = terms->scratch ? SCRATCH_COMMAND_BYTES : TGT_COMMAND_BYTES;
	queue->reply_batch = (uint16_t)(terms->reply_bytes / sizeof(struct rblk_wire_completion));
	if (queue->reply_batch > RBLK_REPLY_BATCH_MAX)
		queue->reply_batch = RBLK_REPLY_BATCH_MAX;
	queue->send_depth = queue->tags * TGT_SENDS_PER_TAG;
	queue->sent_mask = power_of_two_up(queue->send_depth) - 1;
	/* A completion per tag, and as many again whose SENDs are not known to be complete. */
	queue->reply_mask = queue->sent_mask;
	queue->reply_bytes = (queue->reply_mask + 1) * sizeof(struct rblk_wire_completion);
	if (queue->reply_bytes < TGT_POOL_PAGE)
		queue->reply_bytes = TGT_POOL_PAGE;
	TAILQ_INIT(&queue->waiting);
	TAILQ_INIT(&queue->fetching);
	TAILQ_INIT(&queue->done);
	TAILQ_INIT(&queue->chained);
	err = queue_alloc_slots(queue);
	if (!err && terms->scratch)
		err = queue_arena_create(queue);
	else if (!err)
		queue->replies = tgt_pool_alloc(reactor->reserve, queue->reply_bytes);
	if (!err && queue->replies)
		return queue;
	queue_free(queue);
	return NULL;
}

static int queue_accept(struct tgt_queue *queue, struct fab_request *request, bool scratch)
{
	struct fab_conn_options options = {
		.send_depth = queue->send_depth,
		.recv_depth = queue->tags,
		.send_sge = 1,
		.inline_bytes = 4 * sizeof(struct rblk_wire_completion),
		.private_domain = scratch,
		.user = queue,
	};
	uint8_t in, out;

	/* The fabric lowers these to what device and peer can do. */
	fab_request_read_depth(request, &in, &out);
	options.read_in = out;
	options.read_out = in;
	return fab_accept(queue->fabric->fab, request, &options, &queue->conn);
}

static void queue_join(struct tgt_queue *queue)
{
	struct tgt_reactor *reactor = queue->reactor;
	struct tgt_place *place = &queue->session->places[queue->index];

	place->queue = queue;
	if (queue->index == 0)
		tgt_session_event_restart(queue->session);
	place->incarnation = queue->incarnation;
	queue->session->queues_here++;
	reactor->queue_count++;
	if (queue->device)
		queue->device->promised += queue->tags;
	else
		reactor->scratch_count++;
	queue->heard_ns = reactor->now_ns;
	TAILQ_INSERT_TAIL(&reactor->alive, queue, alive_link);
	if (reactor->keepalive_ns)
		tgt_reactor_timer(reactor, queue->heard_ns + reactor->keepalive_ns);
}

int tgt_queue_create(struct tgt_session *session, struct tgt_fabric *fabric,
		     struct tgt_device *device, struct fab_request *request,
		     const struct tgt_queue_terms *terms, struct tgt_queue **out)
{
	struct tgt_queue *queue = queue_alloc(session, fabric, device, terms);
	int err;

	*out = NULL;
	if (!queue)
		return -ENOMEM;
	err = queue_accept(queue, request, terms->scratch);
	if (err) {
		queue_free(queue);
		return err;
	}
	queue->max_msg_bytes = fab_device_limits(fab_conn_device(queue->conn))->max_msg_bytes;
	queue_join(queue);
	if (terms->scratch)
		err = queue_arena_register(queue);
	else
		queue->lkey = fab_mr_lkey(fabric->mr, fab_conn_device(queue->conn));
	*out = queue;
	return err;
}

/* -- messages ---------------------------------------------------------------------------------- */

/* What the validator cannot know. NULL, or the rule that is broken. */
static const char *command_rule(const struct tgt_queue *queue,
				const struct rblk_wire_command *command)
{
	uint16_t tag = rblk_le16(command->tag);

	if (tag >= queue->tags)
		return "tag beyond the credits granted";
	if (queue->requests[tag].state != TGT_REQUEST_FREE)
		return "tag is in use";
	if (rblk_le32(command->sequence) != queue->sequence)
		return "sequence number is not the next";
	if (tag >= queue->credits && !rblk_opcode_reserved_tag(command->opcode))
		return "reserved tag used for I/O";
	return NULL;
}

void tgt_queue_receive(struct tgt_queue *queue, struct tgt_inbox *inbox, uint32_t index,
		       uint32_t bytes)
{
	char *message = tgt_inbox_buffer(inbox, index);
	const struct rblk_wire_command *commands;
	enum rblk_wire_error error;
	u32 capsule_bytes;
	u16 count;

	queue->messages_in++;
	tgt_queue_heard(queue);
	error = rblk_check_message(message, bytes, queue->features, RBLK_BATCH_MAX,
				   queue->command_bytes, &commands, &count, &capsule_bytes);
	if (error) {
		tgt_queue_violation(queue, rblk_wire_error_text(error));
		return;
	}
	for (u16 i = 0; i < count && queue->state == TGT_QUEUE_OPEN; i++) {
		const char *rule = command_rule(queue, &commands[i]);
		u32 offset = 0, length = 0;
		bool capsule;

		if (rule) {
			tgt_queue_violation(queue, rule);
			return;
		}
		queue->sequence++;
		capsule = rblk_command_capsule(&commands[i], &offset, &length);
		tgt_request_begin(&queue->requests[rblk_le16(commands[i].tag)], &commands[i],
				  capsule ? message + offset : NULL, length, index);
	}
}

/* -- the end ----------------------------------------------------------------------------------- */

void tgt_queue_violation(struct tgt_queue *queue, const char *rule)
{
	if (queue->state != TGT_QUEUE_OPEN)
		return;
	tgt_log_limited(&queue->reactor->log_limit, TGT_LOG_WARNING,
			"session %u queue %u [%s]: closed: the peer broke the protocol: %s",
			queue->session->number, queue->index, fab_conn_peer(queue->conn), rule);
	tgt_queue_close(queue, NULL);
}

void tgt_queue_close(struct tgt_queue *queue, const char *reason)
{
	if (queue->state != TGT_QUEUE_OPEN)
		return;
	if (reason)
		tgt_log_limited(&queue->reactor->chat_limit, TGT_LOG_INFO,
				"session %u queue %u [%s]: closed: %s", queue->session->number,
				queue->index, fab_conn_peer(queue->conn), reason);
	TAILQ_REMOVE(&queue->reactor->alive, queue, alive_link);
	queue->state = TGT_QUEUE_CLOSING;
	/* Unreachable: from here on nothing of the peer's is taken, nothing is posted. */
	fab_conn_close(queue->conn);
	tgt_transfer_orphan(queue);
	for (uint16_t tag = 0; tag < queue->tags; tag++) {
		struct tgt_request *request = &queue->requests[tag];

		switch ((enum tgt_request_state)request->state) {
		case TGT_REQUEST_DATA_IN:
			if (request->moved) /* the fabric may still write there */
				break;
			tgt_request_drop(request);
			break;
		case TGT_REQUEST_WAITING:
		case TGT_REQUEST_HELD:
		case TGT_REQUEST_DATA_OUT:
		case TGT_REQUEST_REPLYING:
			tgt_request_drop(request);
			break;
		case TGT_REQUEST_STORING: /* F5: nothing can recall it; its end is waited for */
			tgt_request_orphan(request);
			break;
		case TGT_REQUEST_RECEIVED:
		case TGT_REQUEST_FREE:
		case TGT_REQUEST_STATES:
			break;
		}
	}
}

void tgt_queue_drained(struct tgt_queue *queue)
{
	tgt_queue_close(queue, NULL);
	queue->drained = true;
	tgt_transfer_abandon(queue);
	for (uint16_t tag = 0; tag < queue->tags; tag++)
		if (queue->requests[tag].state == TGT_REQUEST_DATA_IN)
			tgt_request_drop(&queue->requests[tag]);
	tgt_queue_check_end(queue);
}

void tgt_queue_check_end(struct tgt_queue *queue)
{
	if (queue->state != TGT_QUEUE_CLOSING || !queue->drained || queue->active ||
	    queue->is_ended)
		return;
	queue->is_ended = true;
	TAILQ_INSERT_TAIL(&queue->reactor->ended, queue, ended_link);
}

static void counters_add(struct fab_counters *total, const struct fab_counters *one)
{
	total->sends += one->sends;
	total->writes += one->writes;
	total->write_imms += one->write_imms;
	total->reads += one->reads;
	total->others += one->others;
	total->doorbells += one->doorbells;
}

/*
 * Nothing points here any more: the fabric has drained, every slot is free, so no store, list or
 * send entry has a request of it; the reactor's lists are left here. The connection's destruction
 * may take the fabric a while, during which this reactor serves nobody else.
 */
void tgt_queue_destroy(struct tgt_queue *queue)
{
	struct tgt_reactor *reactor = queue->reactor;
	struct tgt_session *session = queue->session;
	struct fab_counters counters;

	assert(queue->drained && !queue->active);
	if (queue->is_dirty)
		TAILQ_REMOVE(&reactor->dirty, queue, dirty_link);
	if (queue->is_starving)
		TAILQ_REMOVE(&reactor->starving, queue, starving_link);
	TAILQ_REMOVE(&reactor->ended, queue, ended_link);
	fab_conn_counters(queue->conn, &counters);
	counters_add(&session->out, &counters);
	reactor->queue_count--;
	if (queue->device)
		queue->device->promised -= queue->tags;
	else
		reactor->scratch_count--;
	tgt_session_queue_ended(session, queue);
	queue_free(queue);
}

/* -- keep-alive -------------------------------------------------------------------------------- */

uint64_t tgt_queue_check_alive(struct tgt_reactor *reactor)
{
	uint64_t now = reactor->now_ns, limit = reactor->keepalive_ns;
	uint64_t next_ns = UINT64_MAX;
	struct tgt_queue *queue, *following;

	if (!limit && now < reactor->pressed_until_ns)
		limit = TGT_PRESSED_NS;
	if (!limit)
		return next_ns;
	/* In the order in which they were last heard: the first that is not silent ends the walk.
	 */
	for (queue = TAILQ_FIRST(&reactor->alive); queue; queue = following) {
		uint64_t due_ns = queue->heard_ns + limit;

		following = TAILQ_NEXT(queue, alive_link);
		if (now >= due_ns && !queue->suspect_ns) {
			queue->suspect_ns = now;
			/*
			 * Not before both ends are connected, but without a command: an initiator with a
			 * queue for each processor has those that nobody uses.
			 */
			if (queue->established || queue->messages_in)
				tgt_transfer_probe(queue);
		}
		/* From the probe on, however late it was: it may be this end that was away. */
		if (queue->suspect_ns)
			due_ns = queue->suspect_ns + limit;
		if (now >= due_ns) {
			tgt_queue_close(queue, "no sign of life");
			continue;
		}
		if (due_ns < next_ns)
			next_ns = due_ns;
		if (!queue->suspect_ns)
			break;
	}
	return next_ns;
}

void tgt_queue_check_pressed(struct tgt_reactor *reactor)
{
	struct tgt_queue *queue;

	if (reactor->keepalive_ns)
		return;
	/* Who was looked into when the last such time ended has not had its chance to answer. */
	if (reactor->now_ns >= reactor->pressed_until_ns)
		TAILQ_FOREACH(queue, &reactor->alive, alive_link)
			queue->suspect_ns = 0;
	/* Until who is silent now has been probed, and has had its time to answer. */
	reactor->pressed_until_ns = reactor->now_ns + 3 * TGT_PRESSED_NS;
	tgt_reactor_timer(reactor, reactor->now_ns);
}
