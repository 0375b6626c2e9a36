/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An NVMe host's block commands. One is begun once, for the model, and sent as often as it takes: again when its path
 * was lost, by the other one or the next controller, and again when it was answered that nothing was done.
 */
#include "tests/sim/nvme_host.h"

#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

/* Until what was answered "not now" is sent again. */
#define AGAIN_NS (20 * SIM_MS)
#define OPTIMIZED 1u
#define DENIED_MAX 3u
#define CAPSULE_BYTES 8192u
#define COMPARE_BYTES 8192u
/* An identifier: which request, and which attempt of it. */
#define ID_SHIFT 4u

static_assert(SIM_NVME_REQUESTS == 1u << ID_SHIFT, "an identifier has room for all");

static __attribute__((noreturn)) void request_fail(const struct sim_nvme *nvme, const struct sim_nvme_request *request,
						   const char *what, unsigned int status)
{
	sim_fail("%s: #%u: %s (status %#x)", nvme->actor.name, request->number, what, status);
}

/* -- the end ------------------------------------------------------------------------------- */

static void request_end(struct sim_nvme *nvme, struct sim_nvme_request *request, enum sim_outcome outcome)
{
	struct sim_command *command = request->command;

	sim_trace(nvme->actor.name, "#%u %s", request->number, sim_outcome_name(outcome));
	nvme->completed += outcome == SIM_OUTCOME_DONE;
	sim_reached("NVMe host", request->compare ? "Compare" : sim_command_kind_name(command->kind),
		    sim_outcome_name(outcome));
	sim_model_end(command, outcome, request->memory);
	request->state = SIM_NVME_FREE;
	nvme->under_way--;
}

static void request_again(struct sim_nvme_request *request)
{
	request->state = SIM_NVME_READY;
	request->not_before_ns = sim_now_ns() + sim_between(SIM_US, AGAIN_NS);
}

void sim_nvme_requests_lost(struct sim_nvme_path *path)
{
	struct sim_nvme *nvme = path->nvme;

	for (unsigned int i = 0; i < SIM_NVME_REQUESTS; i++) {
		struct sim_nvme_request *request = &nvme->requests[i];

		if (request->state != SIM_NVME_SENT || request->queue->path != path)
			continue;
		request->state = SIM_NVME_READY;
		request->not_before_ns = 0;
		request->repeated = true;
	}
}

/* -- answers ------------------------------------------------------------------------------- */

static void compare_begin(struct sim_nvme *nvme, struct sim_nvme_request *read);

static void request_done(struct sim_nvme *nvme, struct sim_nvme_request *request, const struct sim_nvme_path *path)
{
	bool reads = request->command->kind == SIM_COMMAND_READ && !request->compare;

	if (reads && request->placed != request->bytes)
		request_fail(nvme, request, "a READ is answered, and not all of its data is here", request->placed);
	request->command->life = request->command->own_life = path->life;
	request_end(nvme, request, SIM_OUTCOME_DONE);
	if (reads && nvme->has_compare && request->bytes <= COMPARE_BYTES && sim_chance(nvme->compare))
		compare_begin(nvme, request);
}

struct sim_nvme_request *sim_nvme_request_of(struct sim_nvme_queue *queue, uint16_t cid)
{
	struct sim_nvme_request *request = &queue->path->nvme->requests[cid & (SIM_NVME_REQUESTS - 1)];

	return request->state == SIM_NVME_SENT && request->queue == queue && request->cid == cid ? request : NULL;
}

void sim_nvme_request_answered(struct sim_nvme_queue *queue, const struct nvme_completion *completion)
{
	struct sim_nvme_request *request = sim_nvme_request_of(queue, rblk_le16(completion->id));
	uint16_t status = rblk_le16(completion->status) >> 1 & (uint16_t)~NVME_NO_RETRY;
	struct sim_nvme *nvme = queue->path->nvme;

	if (!request)
		sim_fail("%s: path %u queue %u: an answer to no command", nvme->actor.name, queue->path->number,
			 queue->index);
	if (status)
		sim_trace(nvme->actor.name, "#%u: status %#x", request->number, status);
	switch (status) {
	case NVME_OK:
		request_done(nvme, request, queue->path);
		break;
	case NVME_DIFFERS:
		if (!request->compare)
			request_fail(nvme, request, "it is no Compare", status);
		request_end(nvme, request, SIM_OUTCOME_NOTHING);
		break;
	case NVME_INTERNAL:
	case NVME_MEDIUM_READ:
	case NVME_MEDIUM_WRITE:
	case NVME_RESERVED:
	case NVME_PREEMPTED:
		request_end(nvme, request, SIM_OUTCOME_FAILED);
		break;
	case NVME_INACCESSIBLE:
		/* As Linux's: it looks at the states again. A controller that was in charge is about to end. */
		if (queue->path->ana == OPTIMIZED && ++queue->path->denied > DENIED_MAX)
			request_fail(nvme, request, "its path is optimized, and refuses it again and again", status);
		queue->path->ana = 0;
		queue->path->changed = true;
		request_again(request);
		break;
	case NVME_ABORTED:
		sim_reached("NVMe host", "a command is aborted", request->aborted ? "as it has asked" : NULL);
		request_again(request);
		break;
	case NVME_INTERRUPTED:
	case NVME_TRANSPORT:
	case NVME_WRITE_PROTECTED:
		request_again(request);
		break;
	case NVME_BAD_NAMESPACE: /* its volume was removed: it is found anew */
		sim_reached("NVMe host", "its volume was removed", NULL);
		sim_nvme_lose(queue->path, "its namespace is gone");
		break;
	default:
		request_fail(nvme, request, "a command that nothing is wrong with", status);
	}
}

/* -- sending ------------------------------------------------------------------------------- */

static const uint8_t opcodes[SIM_COMMAND_KINDS] = {
	[SIM_COMMAND_READ] = NVME_READ,		  [SIM_COMMAND_WRITE] = NVME_WRITE,
	[SIM_COMMAND_ZEROES] = NVME_WRITE_ZEROES, [SIM_COMMAND_DISCARD] = NVME_DATASET_MANAGEMENT,
	[SIM_COMMAND_FLUSH] = NVME_FLUSH,
};

static void request_send(struct sim_nvme *nvme, struct sim_nvme_request *request, struct sim_nvme_queue *queue)
{
	const struct sim_command *asked = request->command;
	uint64_t block = nvme->block_bytes / SIM_SECTOR, lba = asked->sector / block, blocks = asked->sectors / block;
	struct nvme_command command = {
		.opcode = request->compare ? NVME_COMPARE : opcodes[asked->kind],
		.flags = NVME_FLAGS_SGL,
		.namespace = rblk_to_le32(1),
	};
	struct nvme_range range = {.blocks = rblk_to_le32((uint32_t)blocks), .lba = rblk_to_le64(lba)};
	const void *data = request->memory;
	uint32_t capsule = 0;

	request->cid = (uint16_t)(++request->serial << ID_SHIFT | (request - nvme->requests));
	command.id = rblk_to_le16(request->cid);
	request->placed = 0;
	if (asked->kind == SIM_COMMAND_DISCARD) {
		command.word[1] = rblk_to_le32(NVME_DSM_DEALLOCATE);
		data = &range;
		request->bytes = sizeof(range);
		request->capsule = true;
	} else if (asked->kind != SIM_COMMAND_FLUSH) {
		command.word[0] = rblk_to_le32((uint32_t)lba);
		command.word[2] = rblk_to_le32((uint32_t)(blocks - 1) | (asked->fua ? NVME_FUA : 0));
	}
	if (request->bytes) {
		capsule = request->capsule ? request->bytes : 0;
		command.sgl = capsule ? NVME_SGL_CAPSULE : NVME_SGL_TRANSPORT;
		command.length = rblk_to_le32(request->bytes);
	}
	sim_trace(nvme->actor.name, "#%u is sent%s by path %u queue %u, id %#x", request->number,
		  request->repeated ? " again" : "", queue->path->number, queue->index, request->cid);
	sim_model_again(request->command, request->repeated);
	if (request->repeated)
		sim_reached("NVMe host", "sends again what its lost path had",
			    request->queue->path->host != queue->path->host ? "by another gateway" : NULL);
	request->queue = queue;
	request->aborted = false;
	request->state = SIM_NVME_SENT;
	request->sent_ns = sim_now_ns();
	sim_nvme_send(queue, &command, data, capsule);
}

/* The path in charge, as the host knows it; NULL: there is none. */
static struct sim_nvme_path *path_of(struct sim_nvme *nvme)
{
	for (unsigned int i = 0; i < nvme->path_count; i++)
		if (nvme->paths[i].step == SIM_NVME_STEP_LIVE && nvme->paths[i].ana == OPTIMIZED)
			return &nvme->paths[i];
	return NULL;
}

static void send_ready(struct sim_nvme *nvme)
{
	struct sim_nvme_path *path = path_of(nvme);

	if (path)
		sim_nvme_requests_over(nvme);
	for (unsigned int i = 0; path && i < SIM_NVME_REQUESTS; i++) {
		struct sim_nvme_request *request = &nvme->requests[i];

		if (request->state != SIM_NVME_READY || sim_now_ns() < request->not_before_ns)
			continue;
		request_send(nvme, request, &path->queues[sim_between(1, nvme->queue_count - 1)]);
	}
}

/* As Linux does it: first it is aborted, perhaps, then its controller is reset. */
static void requests_time(struct sim_nvme *nvme)
{
	for (unsigned int i = 0; i < SIM_NVME_REQUESTS; i++) {
		struct sim_nvme_request *request = &nvme->requests[i];

		if (request->state != SIM_NVME_SENT || sim_now_ns() - request->sent_ns <= sim_nvme_patience_ns(nvme))
			continue;
		if (request->aborted || !sim_chance(nvme->abort)) {
			sim_nvme_lose(request->queue->path, "a command is not answered");
			continue;
		}
		request->aborted = true;
		request->sent_ns = sim_now_ns();
		sim_nvme_abort(request->queue, request->cid);
	}
}

void sim_nvme_requests_leave(struct sim_nvme *nvme)
{
	for (unsigned int i = 0; i < SIM_NVME_REQUESTS; i++) {
		struct sim_nvme_request *request = &nvme->requests[i];
		bool sent = request->state == SIM_NVME_SENT || request->repeated;

		if (request->state != SIM_NVME_SENT && request->state != SIM_NVME_READY)
			continue;
		if (!sent || request->command->kind == SIM_COMMAND_READ ||
		    request->command->kind == SIM_COMMAND_FLUSH) {
			request_end(nvme, request, sent ? SIM_OUTCOME_LOST : SIM_OUTCOME_NOTHING);
			continue;
		}
		request->command->resent = request->command->unseen = false;
		request->state = SIM_NVME_LEFT;
	}
}

void sim_nvme_requests_over(struct sim_nvme *nvme)
{
	for (unsigned int i = 0; i < SIM_NVME_REQUESTS; i++)
		if (nvme->requests[i].state == SIM_NVME_LEFT) {
			sim_reached("NVMe host", "what its killed process had is over", NULL);
			request_end(nvme, &nvme->requests[i], SIM_OUTCOME_LOST);
		}
}

/* -- beginning ----------------------------------------------------------------------------- */

static struct sim_nvme_request *request_new(struct sim_nvme *nvme)
{
	for (unsigned int i = 0; i < SIM_NVME_REQUESTS; i++) {
		struct sim_nvme_request *request = &nvme->requests[i];

		if (request->state != SIM_NVME_FREE)
			continue;
		request->compare = request->capsule = request->repeated = false;
		request->number = ++nvme->number;
		request->not_before_ns = 0;
		request->bytes = 0;
		return request;
	}
	return NULL;
}

static void request_begin(struct sim_nvme *nvme, struct sim_nvme_request *request, struct sim_command *command)
{
	command->volume = nvme->host->volumes[nvme->volume];
	command->session = SIM_NVME_SESSION + nvme->actor.machine;
	command->resent = command->unseen = true;
	if (command->kind == SIM_COMMAND_READ || command->kind == SIM_COMMAND_WRITE)
		request->bytes = (uint32_t)(command->sectors * SIM_SECTOR);
	if (command->kind == SIM_COMMAND_WRITE) {
		sim_command_fill(command, request->memory);
		request->capsule = request->bytes <= CAPSULE_BYTES && sim_chance(600000);
	}
	request->sector = command->sector;
	request->command = sim_model_begin(command);
	request->state = SIM_NVME_READY;
	nvme->under_way++;
	sim_trace(nvme->actor.name, "#%u %s %llu+%llu id %llu%s", request->number,
		  request->compare ? "Compare" : sim_command_kind_name(command->kind),
		  (unsigned long long)command->sector, (unsigned long long)command->sectors,
		  (unsigned long long)command->id, command->fua ? " FUA" : "");
}

/* What was read is there still, perhaps: its memory has it. */
static void compare_begin(struct sim_nvme *nvme, struct sim_nvme_request *read)
{
	struct sim_command command = {
		.kind = SIM_COMMAND_READ,
		.sector = read->sector,
		.sectors = read->bytes / SIM_SECTOR,
	};

	read->compare = true;
	read->repeated = false;
	read->number = ++nvme->number;
	read->capsule = sim_chance(500000);
	read->not_before_ns = 0;
	request_begin(nvme, read, &command);
}

void sim_nvme_work(struct sim_nvme *nvme)
{
	/* Of a volume in memory the target refuses both, as nothing there lasts. */
	bool lasts = nvme->host->disks[nvme->volume];
	unsigned int burst = sim_chance(nvme->rests) ? 0 : (unsigned int)sim_between(0, nvme->load.depth);
	const struct sim_scope scope = {
		.block_bytes = nvme->block_bytes,
		.blocks = nvme->blocks,
		.max_bytes = SIM_NVME_BYTES,
		.flush = lasts,
		.fua = lasts,
		.zeroes = nvme->has_zeroes,
		.discard = nvme->has_discard,
	};

	requests_time(nvme);
	while (nvme->blocks && nvme->load.ops_left && nvme->under_way < nvme->load.depth && burst--) {
		struct sim_nvme_request *request = request_new(nvme);
		struct sim_command command;

		if (!request)
			break;
		command = sim_load_choose(&nvme->load, &scope);
		request_begin(nvme, request, &command);
		nvme->load.ops_left--;
	}
	send_ready(nvme);
}

bool sim_nvme_verify(struct sim_nvme *nvme)
{
	uint64_t sectors = nvme->blocks * nvme->block_bytes / SIM_SECTOR;

	nvme->doing = "verifies";
	while (sectors && nvme->verified < sectors && nvme->under_way < nvme->load.depth) {
		struct sim_nvme_request *request = request_new(nvme);
		struct sim_command command = {.kind = SIM_COMMAND_READ, .sector = nvme->verified};

		if (!request)
			break;
		command.sectors = SIM_NVME_BYTES / SIM_SECTOR;
		if (command.sectors > sectors - nvme->verified)
			command.sectors = sectors - nvme->verified;
		request_begin(nvme, request, &command);
		nvme->verified += command.sectors;
	}
	send_ready(nvme);
	return sectors && nvme->verified == sectors && !nvme->under_way;
}
