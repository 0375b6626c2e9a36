/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The raw initiator's block commands. One is begun once, for the model, and sent as often as it takes:
 * again when it was answered that nothing was done, and again behind the fence when its connection
 * was lost. Nothing that a lost attempt may have done is ever said not to have been done.
 */
#include "tests/sim/raw_initiator.h"

#include <string.h>
#include "proto/wire/wire_names.h"
#include "tests/sim/crc32c.h"
#include "tests/sim/disk.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

/* Until what was answered BUSY or the like is sent again. */
#define AGAIN_NS (20 * SIM_MS)

static __attribute__((noreturn)) void request_fail(const struct sim_raw_request *request, const char *what)
{
	sim_fail("%s: #%u: %s", request->raw->actor.name, request->number, what);
}

/* -- the end ------------------------------------------------------------------------------- */

static void request_end(struct sim_raw_request *request, enum sim_outcome outcome)
{
	struct sim_raw_initiator *raw = request->raw;

	raw->completed += outcome == SIM_OUTCOME_DONE;
	if (request->command)
		sim_raw_learn(request, outcome == SIM_OUTCOME_DONE);
	if (!request->zombie)
		sim_model_end(request->command, outcome, request->memory);
	if (request->memory)
		sim_guard_return(&raw->guard, request->memory);
	request->memory = NULL;
	request->state = SIM_RAW_REQUEST_FREE;
	raw->under_way--;
}

static void request_again(struct sim_raw_request *request)
{
	request->state = SIM_RAW_REQUEST_READY;
	request->not_before_ns = sim_now_ns() + sim_between(SIM_US, AGAIN_NS);
}

/* Answered that nothing was done; perhaps that is enough of it. */
static void request_nothing(struct sim_raw_request *request)
{
	/* A reservation may have come when a part of it was done. */
	if (!request->lost_once && !request->raw->calm && sim_chance(100000))
		request_end(request,
			    request->raw->reserver.often ? SIM_OUTCOME_FAILED : SIM_OUTCOME_NOTHING);
	else
		request_again(request);
}

static void request_check_digest(const struct sim_raw_request *request)
{
	const struct rblk_wire_completion *answer = &request->order.answer;

	if (!(request->order.command.flags & RBLK_CMD_DIGEST))
		return;
	if (request->kind != SIM_COMMAND_READ) {
		if (request->wrong_digest)
			request_fail(request, "stored, and its digest does not match");
		return;
	}
	if (!(answer->flags & RBLK_CPL_DIGEST))
		request_fail(request, "a digest was asked for, and there is none");
	if (rblk_le32(answer->digest) !=
	    sim_crc32c(0, request->memory, (size_t)request->sectors * SIM_SECTOR))
		request_fail(request, "the digest is not that of the data");
}

static void request_answered(struct sim_raw_request *request)
{
	struct sim_raw_initiator *raw = request->raw;
	uint16_t status = rblk_le16(request->order.answer.status);

	sim_reserve_judge(request, status);
	switch (status) {
	case RBLK_OK:
		request_check_digest(request);
		request_end(request, SIM_OUTCOME_DONE);
		return;
	case RBLK_E_COMPARE:
		if (request->kind != SIM_COMMAND_COMPARE)
			request_fail(request, "it compares nothing");
		request_check_digest(request);
		sim_model_differs(request->command, rblk_le64(request->order.answer.result));
		request_end(request, SIM_OUTCOME_NOTHING);
		return;
	case RBLK_E_IO:
	case RBLK_E_MEDIUM:
	case RBLK_E_NO_RESOURCES:
		request_end(request, SIM_OUTCOME_FAILED);
		return;
	case RBLK_E_DIGEST:
		if (!request->wrong_digest)
			request_fail(request, "a digest that matches is refused");
		request_end(request, SIM_OUTCOME_NOTHING);
		return;
	case RBLK_E_NO_VOLUME:
		/* Closed meanwhile: it is opened again. */
		if (request->handle == raw->handle && request->epoch == raw->epoch)
			request_fail(request, "an open handle is not known");
		request_nothing(request);
		return;
	case RBLK_E_GONE:
		/* To be opened again, as it is now. */
		if (request->handle == raw->handle)
			raw->handle = 0;
		request_nothing(request);
		return;
	case RBLK_E_RESERVED:
		/* An answer that is kept: to be done, it wants another number (F8). */
		request->lost_once &= !request->operation;
		request->operation = 0;
		/* Its holder may never release it: what its queue 0 would need at the target is ours. */
		if (raw->calm && sim_chance(1000))
			request_end(request, SIM_OUTCOME_FAILED);
		else
			request_nothing(request);
		return;
	case RBLK_E_ABORTED:
		/* By a reservation, when a part of it was done. */
		if (raw->reserver.often)
			request_end(request, SIM_OUTCOME_FAILED);
		else
			request_nothing(request);
		return;
	case RBLK_E_BUSY:
	case RBLK_E_DRAINING:
		request_nothing(request);
		return;
	}
	sim_fail("%s: #%u: a command that nothing is wrong with: %s", raw->actor.name,
		 request->number, rblk_status_text(status));
}

static void on_done(struct sim_order *order, bool answered)
{
	struct sim_raw_request *request = (struct sim_raw_request *)order;
	struct sim_raw_initiator *raw = request->raw;

	sim_trace(raw->actor.name, "#%u %s", request->number,
		  answered ? rblk_status_text(rblk_le16(order->answer.status)) : "is lost");
	if (request->mr)
		fab_mr_deregister(request->mr);
	request->mr = NULL;
	if (request->zombie) {
		if (answered)
			request_fail(request, "answered on a connection that is fenced (F5)");
		request_end(request, SIM_OUTCOME_NOTHING);
		return;
	}
	sim_raw_check_abort(request,
			    answered && rblk_le16(order->answer.status) == RBLK_E_ABORTED);
	if (answered) {
		sim_model_waited(raw->actor.name, rblk_le32(order->answer.queued_us));
		request_answered(request);
		return;
	}
	request->lost_once = true;
	request->state = SIM_RAW_REQUEST_LOST;
}

void sim_raw_abandon(struct sim_raw_initiator *raw)
{
	for (unsigned int i = 0; i < SIM_RAW_REQUESTS; i++) {
		struct sim_raw_request *request = &raw->requests[i];

		if (request->state != SIM_RAW_REQUEST_FREE)
			request_end(request,
				    request->lost_once ? SIM_OUTCOME_LOST : SIM_OUTCOME_NOTHING);
	}
}

/* -- sending ------------------------------------------------------------------------------- */

static uint8_t request_flags(const struct sim_raw_request *request, const struct sim_wire_connection *connection)
{
	uint8_t flags = request->lost_once ? RBLK_CMD_RETRY : 0;

	if (request->fua)
		flags |= RBLK_CMD_FUA;
	if (request->capsule)
		flags |= RBLK_CMD_CAPSULE;
	if (request->digest && connection->features & RBLK_FEATURE_DIGEST)
		flags |= RBLK_CMD_DIGEST;
	if (request->invalidate && connection->features & RBLK_FEATURE_INVALIDATE)
		flags |= RBLK_CMD_INVALIDATE;
	if (request->immediate && connection->features & RBLK_FEATURE_IMMEDIATE &&
	    !(flags & (RBLK_CMD_DIGEST | RBLK_CMD_INVALIDATE)))
		flags |= RBLK_CMD_IMMEDIATE;
	if (connection->features & RBLK_FEATURE_PRIORITY && sim_sector_priority(request->sector))
		flags |= RBLK_CMD_PRIORITY;
	return flags;
}

/* What its memory holds: for COMPARE_AND_WRITE what is expected, and what is new. */
static uint32_t request_bytes(const struct sim_raw_request *request)
{
	return (uint32_t)request->sectors * SIM_SECTOR *
	       (request->kind == SIM_COMMAND_COMPARE ? 2 : 1);
}

static uint32_t request_rkey(struct sim_raw_request *request, const struct sim_wire_connection *connection, uint8_t flags)
{
	struct fab_mr *mr = request->raw->guard_mr;

	if (flags & RBLK_CMD_INVALIDATE) {
		fab_mr_register(connection->fab, request->memory, request_bytes(request),
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					IBV_ACCESS_REMOTE_WRITE,
				&request->mr);
		mr = request->mr;
	}
	return fab_mr_rkey(mr, fab_conn_device(connection->conn));
}

static void request_encode(struct sim_raw_request *request, const struct sim_wire_connection *connection)
{
	static const uint8_t opcodes[SIM_COMMAND_KINDS] = {
		RBLK_OP_READ,	 RBLK_OP_WRITE, RBLK_OP_WRITE_ZEROES,
		RBLK_OP_DISCARD, RBLK_OP_FLUSH, RBLK_OP_COMPARE_AND_WRITE};
	const struct sim_raw_initiator *raw = request->raw;
	struct rblk_wire_command *command = &request->order.command;
	uint32_t bytes = (uint32_t)request->sectors * SIM_SECTOR;

	memset(command, 0, sizeof(*command));
	command->opcode = opcodes[request->kind];
	command->flags = request_flags(request, connection);
	command->volume = rblk_to_le32(raw->handle);
	if (request->kind == SIM_COMMAND_FLUSH)
		return;
	command->lba = rblk_to_le64(request->sector * SIM_SECTOR / raw->block_bytes);
	command->blocks = rblk_to_le32(bytes / raw->block_bytes);
	command->argument = rblk_to_le64(request->operation);
	if (!request->memory)
		return;
	bytes = request_bytes(request);
	command->segment.length = rblk_to_le32(bytes);
	if (!request->capsule) {
		command->segment.address = rblk_to_le64((uintptr_t)request->memory);
		command->segment.rkey = rblk_to_le32(request_rkey(request, connection, command->flags));
	}
	if (request->kind != SIM_COMMAND_READ && command->flags & RBLK_CMD_DIGEST)
		command->digest = rblk_to_le32(sim_crc32c(0, request->memory, bytes) ^
					       (request->wrong_digest ? 1 : 0));
}

/* F5: an earlier attempt, of an incarnation that is fenced, is no more with the store. */
static void request_check_fenced(const struct sim_raw_request *request)
{
	const struct sim_raw_initiator *raw = request->raw;
	const struct sim_disk *disk = raw->host->disks[raw->volume];

	if (disk && request->id && sim_disk_is_writing(disk, request->id))
		request_fail(request, "its incarnation is fenced, and it is being stored (F5)");
}

/* There is room. */
static void request_send(struct sim_raw_request *request, struct sim_wire_connection *connection)
{
	const struct sim_raw_initiator *raw = request->raw;

	if (request->lost_once)
		request_check_fenced(request);
	if (!request->zombie) {
		request->command->life = request->command->own_life = raw->life;
		sim_model_again(request->command, request->lost_once);
	}
	/* A lie that cannot be told is none. */
	request->wrong_digest &= (connection->features & RBLK_FEATURE_DIGEST) != 0;
	request_encode(request, connection);
	request->state = SIM_RAW_REQUEST_SENT;
	request->epoch = connection->epoch;
	request->queue = connection->queue;
	request->incarnation = connection->incarnation;
	request->handle = raw->handle;
	request->abort_told = false;
	sim_reserve_begins(request);
	request->order.capsule_lkey = fab_mr_lkey(raw->guard_mr, fab_conn_device(connection->conn));
	sim_wire_connection_add(connection, &request->order);
	sim_trace(connection->name, "#%u goes by queue %u incarnation %u tag %u sequence %u",
		  request->number, connection->queue, connection->incarnation, request->order.tag,
		  request->order.sequence);
}

/* F5: behind the fence of the incarnation by which it went. */
static bool request_is_fenced(const struct sim_raw_request *request)
{
	const struct sim_raw_initiator *raw = request->raw;

	return request->epoch < raw->epoch ||
	       request->incarnation <= raw->slots[request->queue].fenced;
}

static bool request_may_go(struct sim_raw_request *request)
{
	bool ready = request->state == SIM_RAW_REQUEST_READY && sim_now_ns() >= request->not_before_ns;
	bool lost = request->state == SIM_RAW_REQUEST_LOST && request_is_fenced(request);

	return (ready || lost) &&
	       (request->kind != SIM_COMMAND_COMPARE || sim_compare_may_go(request));
}

/* -- beginning ----------------------------------------------------------------------------- */

/* The longest that the target takes. */
static uint64_t bytes_max(const struct sim_raw_initiator *raw)
{
	uint64_t most = raw->host->config.max_io_bytes;

	return most < SIM_SLOT_BYTES ? most : SIM_SLOT_BYTES;
}

/* Any range, often of the same few blocks. */
static void request_choose_range(struct sim_raw_request *request)
{
	const struct sim_raw_initiator *raw = request->raw;
	uint64_t block = raw->block_bytes / SIM_SECTOR;
	uint64_t most = bytes_max(raw) / raw->block_bytes;
	uint64_t count = sim_between(1, sim_chance(800000) ? 4 : most);

	if (count > raw->blocks)
		count = raw->blocks;
	request->sectors = count * block;
	request->sector = sim_below(sim_chance(500000) && raw->blocks - count > 4
					    ? 4
					    : raw->blocks - count + 1) *
			  block;
}

static void request_choose(struct sim_raw_request *request)
{
	const struct sim_raw_initiator *raw = request->raw;
	uint32_t can = raw->volume_flags;

	request->kind = SIM_COMMAND_WRITE;
	if (can & RBLK_VOLUME_FLUSH && sim_chance(raw->flush)) {
		request->kind = SIM_COMMAND_FLUSH;
		return;
	}
	request_choose_range(request);
	/* It reads first what it does not know. */
	if (can & RBLK_VOLUME_COMPARE_AND_WRITE && sim_chance(raw->compare))
		request->kind = sim_compare_expect(request) ? SIM_COMMAND_COMPARE : SIM_COMMAND_READ;
	else if (sim_chance(raw->read))
		request->kind = SIM_COMMAND_READ;
	else if (can & RBLK_VOLUME_WRITE_ZEROES && sim_chance(raw->zeroes))
		request->kind = SIM_COMMAND_ZEROES;
	else if (can & RBLK_VOLUME_DISCARD && sim_chance(50000))
		request->kind = SIM_COMMAND_DISCARD;
	request->fua = can & RBLK_VOLUME_FUA && sim_chance(raw->fua) &&
		       (request->kind == SIM_COMMAND_WRITE || request->kind == SIM_COMMAND_ZEROES ||
			request->kind == SIM_COMMAND_COMPARE);
}

/* Memory, and how the data is to travel. False: there is none. */
static bool request_equip(struct sim_raw_request *request)
{
	struct sim_raw_initiator *raw = request->raw;
	bool compare = request->kind == SIM_COMMAND_COMPARE, read = request->kind == SIM_COMMAND_READ;
	const struct sim_command command = {.sector = request->sector,
					    .sectors = request->sectors,
					    .id = request->id,
					    .expected = request->expected};
	uint32_t bytes = request_bytes(request);

	if (!read && !compare && request->kind != SIM_COMMAND_WRITE)
		return true;
	request->memory = sim_guard_lend(&raw->guard, bytes, read);
	if (!request->memory)
		return false;
	request->capsule = !read && bytes <= 16384 && sim_chance(500000);
	request->invalidate = !request->capsule && sim_chance(300000);
	request->immediate = read && sim_chance(800000);
	request->digest = sim_chance(raw->digest);
	request->wrong_digest = request->digest && !read && !raw->calm && sim_chance(200000);
	request->order.capsule_bytes = request->capsule ? bytes : 0;
	request->order.capsule = request->memory;
	if (compare)
		sim_compare_fill(&command, request->memory);
	for (uint64_t i = 0; i < request->sectors && !read && !compare; i++)
		sim_sector_fill(request->memory + i * SIM_SECTOR, request->id, request->sector + i);
	return true;
}

static struct sim_raw_request *request_new(struct sim_raw_initiator *raw)
{
	for (unsigned int i = 0; i < SIM_RAW_REQUESTS; i++) {
		struct sim_raw_request *request = &raw->requests[i];

		if (request->state != SIM_RAW_REQUEST_FREE)
			continue;
		memset(request, 0, sizeof(*request));
		request->raw = raw;
		request->order.done = on_done;
		return request;
	}
	return NULL;
}

/* Tell the model; from here on it is to be sent until it is over. */
static bool request_begin(struct sim_raw_request *request)
{
	struct sim_raw_initiator *raw = request->raw;
	struct sim_command command = {
		.kind = request->kind,
		.volume = raw->host->volumes[raw->volume],
		.session = raw->session,
		.life = raw->life,
		.own_life = raw->life,
		.resent = true,
		.fua = request->fua,
		.sector = request->sector,
		.sectors = request->sectors,
		.expected = request->expected,
	};

	if (request->kind == SIM_COMMAND_WRITE || request->kind == SIM_COMMAND_COMPARE)
		request->id = command.id = sim_model_id();
	if (!request_equip(request))
		return false;
	request->command = sim_model_begin(&command);
	if (request->zombie)
		sim_model_end(request->command, SIM_OUTCOME_NOTHING, NULL);
	request->number = ++raw->number;
	request->state = SIM_RAW_REQUEST_READY;
	raw->under_way++;
	sim_trace(raw->actor.name, "#%u begins: kind %u%s %llu+%llu id %llu%s", request->number,
		  request->kind, request->fua ? " FUA" : "", (unsigned long long)request->sector,
		  (unsigned long long)request->sectors, (unsigned long long)command.id,
		  request->wrong_digest ? ", its digest wrong" : "");
	return true;
}

/* -- work ------------------------------------------------------------------------------------ */

/* Commands go in the order of their slots, which is any: by whichever connection has room. */
static void raw_send(struct sim_raw_initiator *raw)
{
	struct sim_wire_connection *connection = sim_raw_live(raw, false);

	for (unsigned int i = 0; i < SIM_RAW_REQUESTS; i++)
		if (raw->requests[i].state != SIM_RAW_REQUEST_FREE &&
		    sim_compare_is_unknown(&raw->requests[i]))
			request_end(&raw->requests[i], SIM_OUTCOME_LOST);
	if (!connection || !raw->handle)
		return;
	for (unsigned int i = 0; i < SIM_RAW_REQUESTS; i++) {
		struct sim_raw_request *request = &raw->requests[i];

		if (!request_may_go(request))
			continue;
		if (!sim_wire_connection_room(connection, &request->order)) {
			sim_wire_connection_send(connection);
			connection = sim_raw_live(raw, false);
			if (!sim_wire_connection_room(connection, &request->order))
				break;
		}
		request_send(request, connection);
	}
	sim_wire_connection_send(connection);
}

void sim_raw_work(struct sim_raw_initiator *raw)
{
	unsigned int burst = (unsigned int)sim_between(0, raw->depth);

	while (raw->handle && raw->ops_left && raw->under_way < raw->depth &&
	       burst--) {
		struct sim_raw_request *request = request_new(raw);

		if (!request)
			break;
		request_choose(request);
		if (!request_begin(request))
			break;
		raw->ops_left--;
	}
	raw_send(raw);
}

bool sim_raw_verify(struct sim_raw_initiator *raw)
{
	uint64_t sectors = raw->blocks * raw->block_bytes / SIM_SECTOR;

	raw->doing = "verifies";
	while (raw->handle && raw->verified < sectors &&
	       raw->under_way < raw->depth) {
		struct sim_raw_request *request = request_new(raw);

		if (!request)
			break;
		request->kind = SIM_COMMAND_READ;
		request->sector = raw->verified;
		request->sectors = bytes_max(raw) / SIM_SECTOR;
		if (request->sectors > sectors - raw->verified)
			request->sectors = sectors - raw->verified;
		if (!request_begin(request))
			break;
		raw->verified += request->sectors;
	}
	return raw->handle && raw->verified == sectors && !raw->under_way;
}

void sim_raw_check_fence(struct sim_raw_initiator *raw, uint16_t queue, uint32_t incarnation)
{
	for (unsigned int i = 0; i < SIM_RAW_REQUESTS; i++) {
		const struct sim_raw_request *request = &raw->requests[i];

		if ((request->state == SIM_RAW_REQUEST_SENT || request->state == SIM_RAW_REQUEST_LOST) &&
		    request->epoch == raw->epoch && request->queue == queue && request->incarnation <= incarnation)
			request_check_fenced(request);
	}
}

/*
 * Behind the fence's acknowledgement nothing that is sent by the old connection exists: for the
 * model this WRITE is over, without effect, before it begins.
 */
void sim_raw_haunt(struct sim_raw_initiator *raw, struct sim_wire_connection *connection)
{
	struct sim_raw_request *request = raw->handle ? request_new(raw) : NULL;

	if (request) {
		request->kind = SIM_COMMAND_WRITE;
		request->zombie = true;
		request_choose_range(request);
	}
	if (!request || !request_begin(request) || !sim_wire_connection_room(connection, &request->order)) {
		if (request && request->state == SIM_RAW_REQUEST_READY)
			request_end(request, SIM_OUTCOME_NOTHING);
		sim_wire_connection_close(connection, false);
		return;
	}
	request_send(request, connection);
	sim_wire_connection_send(connection);
}
