/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An NVMe host's paths: how a controller is set up, kept alive, and lost.
 */
#include "tests/sim/nvme_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "tests/sim/coverage.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"
#include "tests/sim/whitebox.h"

/* Identifiers of an admin queue's commands. */
#define ID_STEP 1u
#define ID_EVENT 2u
#define ID_ALIVE 3u
#define ID_ABORT 4u
#define ENTRIES 32u
/* It looks around at least so often. */
#define TURN_NS (5 * SIM_MS)
#define OPTIMIZED 1u

/* -- commands of the setup ----------------------------------------------------------------- */

static struct nvme_command admin_command(uint8_t opcode, uint16_t id)
{
	return (struct nvme_command){.opcode = opcode, .flags = NVME_FLAGS_SGL, .id = rblk_to_le16(id)};
}

static void send_admin(struct sim_nvme_path *path, struct nvme_command *command, uint32_t reads)
{
	if (reads) {
		command->sgl = NVME_SGL_TRANSPORT;
		command->length = rblk_to_le32(reads);
	}
	sim_nvme_send(&path->queues[0], command, NULL, 0);
}

static void send_connect(struct sim_nvme_queue *queue)
{
	struct nvme_command command = admin_command(NVME_FABRICS, ID_STEP);
	struct sim_nvme *nvme = queue->path->nvme;
	struct nvme_connect data = {
		.controller = rblk_to_le16(queue->index ? queue->path->controller : NVME_CONTROLLER_ANY),
	};
	uint8_t u[16];

	sim_whitebox_uuid(queue->path->host, nvme->volume, u);
	command.namespace = rblk_to_le32(NVME_CONNECT);
	command.sgl = NVME_SGL_CAPSULE;
	command.length = rblk_to_le32(sizeof(data));
	command.word[0] = rblk_to_le32(queue->index << 16);
	command.word[1] = rblk_to_le32(ENTRIES - 1);
	command.word[2] = rblk_to_le32(queue->index ? 0 : nvme->keep_alive_ms);
	memcpy(data.host_id, nvme->host_id, sizeof(data.host_id));
	snprintf(data.host, sizeof(data.host), NVME_STANDARD_PREFIX "%s", nvme->actor.name);
	snprintf(data.subsystem, sizeof(data.subsystem),
		 NVME_UUID_PREFIX "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
		 u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
	sim_nvme_send(queue, &command, &data, sizeof(data));
}

static void send_identify(struct sim_nvme_path *path, enum nvme_cns what, uint32_t namespace)
{
	struct nvme_command command = admin_command(NVME_IDENTIFY, ID_STEP);

	command.namespace = rblk_to_le32(namespace);
	command.word[0] = rblk_to_le32(what);
	send_admin(path, &command, NVME_IDENTIFY_BYTES);
}

static void send_ana(struct sim_nvme_path *path)
{
	struct nvme_command command = admin_command(NVME_GET_LOG_PAGE, ID_STEP);

	command.word[0] = rblk_to_le32(NVME_LOG_ANA | (sizeof(struct nvme_ana) / 4 - 1) << 16);
	send_admin(path, &command, sizeof(struct nvme_ana));
	path->asks = true;
	path->changed = false;
	path->step_ns = sim_now_ns();
}

static void send_feature(struct sim_nvme_path *path, enum nvme_feature feature, uint32_t value)
{
	struct nvme_command command = admin_command(NVME_SET_FEATURES, ID_STEP);

	command.word[0] = rblk_to_le32(feature);
	command.word[1] = rblk_to_le32(value);
	send_admin(path, &command, 0);
}

static void send_event_request(struct sim_nvme_path *path)
{
	struct nvme_command command = admin_command(NVME_ASYNC_EVENT, ID_EVENT);

	send_admin(path, &command, 0);
}

static void send_property(struct sim_nvme_path *path, bool sets, enum nvme_property property, uint32_t value)
{
	struct nvme_command command = admin_command(NVME_FABRICS, ID_STEP);

	command.namespace = rblk_to_le32(sets ? NVME_PROPERTY_SET : NVME_PROPERTY_GET);
	command.word[1] = rblk_to_le32(property);
	command.word[2] = rblk_to_le32(value);
	send_admin(path, &command, 0);
}

void sim_nvme_abort(const struct sim_nvme_queue *queue, uint16_t cid)
{
	struct nvme_command command = admin_command(NVME_ABORT, ID_ABORT);

	sim_trace(queue->path->nvme->actor.name, "asks for an abort of id %#x", cid);
	command.word[0] = rblk_to_le32((uint32_t)cid << 16 | queue->index);
	send_admin(queue->path, &command, 0);
}

static void queue_connect(struct sim_nvme_path *path, unsigned int index)
{
	struct sim_nvme_queue *queue = &path->queues[index];

	queue->path = path;
	queue->index = index;
	queue->digests = 0;
	queue->in_bytes = 0;
	queue->greeted = false;
	queue->state = SIM_NVME_CONNECTING;
	queue->socket = sim_socket_connect(&path->nvme->actor, path->host->machine, path->portal, SIM_NVME_PORT);
}

/* -- steps --------------------------------------------------------------------------------- */

static void step_begin(struct sim_nvme_path *path, enum sim_nvme_step step)
{
	path->step = step;
	path->step_ns = sim_now_ns();
	switch (step) {
	case SIM_NVME_STEP_CONNECT:
		queue_connect(path, 0);
		break;
	case SIM_NVME_STEP_ENABLE:
		send_property(path, true, NVME_CC, NVME_CC_ENABLE | 6u << 16 | 4u << 20);
		break;
	case SIM_NVME_STEP_STATUS:
		send_property(path, false, NVME_CSTS, 0);
		break;
	case SIM_NVME_STEP_CONTROLLER:
		send_identify(path, NVME_CNS_CONTROLLER, 0);
		break;
	case SIM_NVME_STEP_NAMESPACE:
		send_identify(path, NVME_CNS_NAMESPACE, 1);
		break;
	case SIM_NVME_STEP_FEATURES:
		send_feature(path, NVME_FEATURE_QUEUES, (path->nvme->queue_count - 2) * 0x10001u);
		break;
	case SIM_NVME_STEP_EVENTS:
		send_feature(path, NVME_FEATURE_EVENTS, NVME_EVENT_ANA | NVME_EVENT_NAMESPACE);
		break;
	case SIM_NVME_STEP_ANA:
		send_event_request(path);
		send_ana(path);
		break;
	case SIM_NVME_STEP_QUEUES:
		for (unsigned int i = 1; i < path->nvme->queue_count; i++)
			queue_connect(path, i);
		break;
	case SIM_NVME_STEP_LIVE:
		sim_trace(path->nvme->actor.name, "path %u is live, ANA state %u", path->number, path->ana);
		path->alive_ns = sim_now_ns();
		break;
	case SIM_NVME_STEP_NONE:
	case SIM_NVME_STEP_ENDS:
		break;
	}
}

static void controller_read(struct sim_nvme_path *path)
{
	const struct nvme_identify_controller *controller = (const void *)path->page;
	uint16_t optional = rblk_le16(controller->optional);

	path->nvme->has_zeroes = optional & NVME_OPTIONAL_ZEROES;
	path->nvme->has_discard = optional & NVME_OPTIONAL_DSM;
	path->nvme->has_compare = optional & NVME_OPTIONAL_COMPARE;
	if (rblk_le16(controller->id) != path->controller)
		sim_fail("%s: another controller than Connect's", path->nvme->actor.name);
}

/* False: it has none any more, as its volume was removed. */
static bool namespace_read(struct sim_nvme_path *path)
{
	const struct nvme_identify_namespace *namespace = (const void *)path->page;

	if (!namespace->blocks)
		return false;
	path->nvme->blocks = rblk_le64(namespace->blocks);
	path->nvme->block_bytes = 1u << (rblk_le32(namespace->format_0) >> 16 & 0xff);
	return true;
}

static void ana_read(struct sim_nvme_path *path)
{
	const struct nvme_ana *page = (const void *)path->page;

	path->asks = false;
	path->ana = page->state;
	sim_trace(path->nvme->actor.name, "path %u: ANA state %u", path->number, path->ana);
	if (path->step == SIM_NVME_STEP_LIVE && path->ana == OPTIMIZED)
		sim_reached("NVMe host", "a path has become the optimized one", NULL);
}

static void connected(struct sim_nvme_queue *queue, const struct nvme_completion *completion)
{
	struct sim_nvme_path *path = queue->path;
	struct sim_nvme *nvme = path->nvme;
	struct sim_opening opening;

	queue->state = SIM_NVME_LIVE;
	if (!queue->index) {
		opening = sim_model_opening(nvme->host->volumes[nvme->volume]);
		path->life = opening.life;
		path->controller = (uint16_t)rblk_le64(completion->result);
		step_begin(path, SIM_NVME_STEP_ENABLE);
		return;
	}
	for (unsigned int i = 1; i < nvme->queue_count; i++)
		if (path->queues[i].state != SIM_NVME_LIVE)
			return;
	step_begin(path, SIM_NVME_STEP_LIVE);
}

static void step_answered(struct sim_nvme_path *path, const struct nvme_completion *completion)
{
	switch (path->step) {
	case SIM_NVME_STEP_STATUS:
		if (!(rblk_le64(completion->result) & NVME_CSTS_READY))
			sim_fail("%s: a controller that was enabled, and is not ready", path->nvme->actor.name);
		break;
	case SIM_NVME_STEP_CONTROLLER:
		controller_read(path);
		break;
	case SIM_NVME_STEP_NAMESPACE:
		if (namespace_read(path))
			break;
		sim_reached("NVMe host", "its volume was removed", "before it was known");
		sim_nvme_lose(path, "its namespace is gone");
		return;
	case SIM_NVME_STEP_ANA:
	case SIM_NVME_STEP_QUEUES:
	case SIM_NVME_STEP_LIVE:
		ana_read(path);
		if (path->step != SIM_NVME_STEP_ANA)
			return;
		break;
	case SIM_NVME_STEP_ENDS:
		sim_reached("NVMe host", "shuts a controller down", NULL);
		path->step = SIM_NVME_STEP_NONE;
		return;
	default:
		break;
	}
	step_begin(path, path->step + 1);
}

void sim_nvme_answered(struct sim_nvme_queue *queue, const struct nvme_completion *completion)
{
	uint16_t status = rblk_le16(completion->status) >> 1;
	struct sim_nvme_path *path = queue->path;

	if (status && rblk_le16(completion->id) == ID_ABORT && queue->state == SIM_NVME_LIVE) {
		sim_reached("NVMe host", "too many Aborts", NULL);
		return;
	}
	if (status) {
		sim_trace(path->nvme->actor.name, "path %u queue %u: command %u of step %u: status %#x", path->number,
			  queue->index, rblk_le16(completion->id), path->step, status);
		sim_reached("NVMe host",
			    queue->state == SIM_NVME_CONNECTS ? "Connect is refused" : "an admin command fails", NULL);
		sim_nvme_lose(path, "it is refused");
		return;
	}
	if (queue->state == SIM_NVME_CONNECTS) {
		connected(queue, completion);
		return;
	}
	switch (rblk_le16(completion->id)) {
	case ID_STEP:
		step_answered(path, completion);
		break;
	case ID_EVENT:
		sim_reached("NVMe host", "is told of an event", NULL);
		/* Hosts look for their namespaces again; this one by another Connect. */
		if ((rblk_le64(completion->result) >> 16 & 0xff) == NVME_LOG_CHANGED) {
			sim_nvme_lose(path, "its namespaces have changed");
			break;
		}
		send_event_request(path);
		path->changed = true;
		break;
	case ID_ALIVE:
		path->asked_ns = 0;
		break;
	case ID_ABORT:
		break;
	default:
		sim_fail("%s: an answer to no command", path->nvme->actor.name);
	}
}

/* -- the end of a controller --------------------------------------------------------------- */

static enum sim_socket_end any_end(const struct sim_nvme *nvme)
{
	uint64_t dice = nvme->calm ? 0 : sim_below(10);

	return dice < 4 ? SIM_SOCKET_CLOSE : dice < 7 ? SIM_SOCKET_LATE : SIM_SOCKET_SILENT;
}

static void path_end(struct sim_nvme_path *path, enum sim_socket_end how)
{
	for (unsigned int i = 0; i < SIM_NVME_QUEUES; i++) {
		struct sim_nvme_queue *queue = &path->queues[i];

		if (queue->socket)
			sim_socket_end(queue->socket, how);
		queue->socket = NULL;
		queue->state = SIM_NVME_DOWN;
	}
	path->step = SIM_NVME_STEP_NONE;
	path->asks = path->changed = false;
	path->asked_ns = 0;
	path->ana = 0;
	path->denied = 0;
}

void sim_nvme_lose(struct sim_nvme_path *path, const char *why)
{
	struct sim_nvme *nvme = path->nvme;

	sim_trace(nvme->actor.name, "path %u is lost: %s", path->number, why);
	if (path->step == SIM_NVME_STEP_LIVE)
		sim_reached("NVMe host", "a path is lost", nvme->path_count > 1 ? "of several" : "its only one");
	path_end(path, any_end(nvme));
	sim_nvme_requests_lost(path);
	path->again_ns = sim_now_ns() + (sim_chance(300000) ? 0 : sim_below(nvme->reconnect_ns));
}

/* -- a turn -------------------------------------------------------------------------------- */

static void queue_run(struct sim_nvme_queue *queue)
{
	if (queue->state == SIM_NVME_CONNECTING && sim_socket_state(queue->socket) == SIM_SOCKET_UP) {
		queue->state = SIM_NVME_GREETS;
		sim_nvme_greet(queue);
	}
	if (!sim_nvme_receive(queue)) {
		sim_nvme_lose(queue->path, "a connection has ended");
		return;
	}
	if (queue->socket && queue->greeted) {
		queue->greeted = false;
		send_connect(queue);
	}
}

uint64_t sim_nvme_patience_ns(const struct sim_nvme *nvme)
{
	return nvme->calm ? 10 * SIM_S : nvme->command_ms * SIM_MS;
}

static void path_alive(struct sim_nvme_path *path)
{
	struct nvme_command command = admin_command(NVME_KEEP_ALIVE, ID_ALIVE);
	uint64_t now_ns = sim_now_ns();

	if (path->asked_ns && now_ns - path->asked_ns > sim_nvme_patience_ns(path->nvme)) {
		sim_nvme_lose(path, "keep alive is not answered");
		return;
	}
	if (path->asked_ns || now_ns < path->alive_ns)
		return;
	path->asked_ns = now_ns;
	path->alive_ns = now_ns + path->nvme->keep_alive_ms * SIM_MS / 2;
	send_admin(path, &command, 0);
}

static void path_run(struct sim_nvme_path *path)
{
	uint64_t now_ns = sim_now_ns(), patience_ns = sim_nvme_patience_ns(path->nvme);

	if (path->step == SIM_NVME_STEP_NONE) {
		if (now_ns >= path->again_ns)
			step_begin(path, SIM_NVME_STEP_CONNECT);
		return;
	}
	for (unsigned int i = 0; i < SIM_NVME_QUEUES; i++)
		if (path->queues[i].socket)
			queue_run(&path->queues[i]);
	if (path->step == SIM_NVME_STEP_NONE)
		return;
	/* Connect may wait for what the target has of the host's. */
	if (path->step == SIM_NVME_STEP_CONNECT)
		patience_ns += path->nvme->connect_ns;
	if ((path->step < SIM_NVME_STEP_LIVE || path->asks) && now_ns - path->step_ns > patience_ns) {
		sim_nvme_lose(path, "an answer does not come");
		return;
	}
	if (path->step == SIM_NVME_STEP_LIVE && path->changed && !path->asks)
		send_ana(path);
	if (path->step == SIM_NVME_STEP_LIVE)
		path_alive(path);
}

/* It is killed, and starts anew at once. */
static void reboot(struct sim_nvme *nvme)
{
	sim_trace(nvme->actor.name, "is killed");
	for (unsigned int i = 0; i < nvme->path_count; i++) {
		path_end(&nvme->paths[i], any_end(nvme));
		nvme->paths[i].again_ns = sim_now_ns() + sim_below(nvme->reconnect_ns);
	}
	sim_nvme_requests_leave(nvme);
}

/* Each controller that is live is shut down in good order. */
static void shut_down(struct sim_nvme *nvme)
{
	for (unsigned int i = 0; i < nvme->path_count; i++) {
		struct sim_nvme_path *path = &nvme->paths[i];
		uint64_t until_ns = sim_now_ns() + SIM_S;

		if (path->step != SIM_NVME_STEP_LIVE || path->asks)
			continue;
		path->step = SIM_NVME_STEP_ENDS;
		send_property(path, true, NVME_CC, NVME_CC_ENABLE | 1u << 14);
		while (path->step == SIM_NVME_STEP_ENDS && sim_now_ns() < until_ns) {
			sim_fiber_wait(TURN_NS);
			queue_run(&path->queues[0]);
		}
	}
}

static void nvme_run(void *arg)
{
	struct sim_nvme *nvme = arg;

	while (!nvme->finished) {
		nvme->doing = "works";
		for (unsigned int i = 0; i < nvme->path_count; i++)
			path_run(&nvme->paths[i]);
		sim_nvme_work(nvme);
		if (!nvme->calm && sim_chance(nvme->reboot))
			reboot(nvme);
		if (nvme->calm && !nvme->load.ops_left && !nvme->under_way)
			nvme->finished = sim_nvme_verify(nvme);
		if (!nvme->finished)
			sim_fiber_wait(TURN_NS);
	}
	nvme->doing = "closes its connections";
	shut_down(nvme);
	for (unsigned int i = 0; i < nvme->path_count; i++)
		path_end(&nvme->paths[i], SIM_SOCKET_CLOSE);
	nvme->doing = "has finished";
}

static void nvme_wake(struct sim_actor *actor)
{
	struct sim_nvme *nvme = (struct sim_nvme *)actor;

	sim_fiber_wake(&nvme->fiber, SIM_US + sim_below(nvme->think_ns));
}

void sim_nvme_start(struct sim_nvme *nvme, unsigned int machine)
{
	snprintf(nvme->actor.name, sizeof(nvme->actor.name), "nvme%u", machine);
	nvme->actor.machine = machine;
	nvme->actor.wake = nvme_wake;
	for (unsigned int i = 0; i < SIM_NVME_PATHS; i++) {
		nvme->paths[i].nvme = nvme;
		nvme->paths[i].number = i;
		nvme->paths[i].host = nvme->host;
		nvme->paths[i].portal = i;
	}
	for (unsigned int i = 0; i < SIM_NVME_REQUESTS; i++) {
		nvme->requests[i].memory = malloc(SIM_NVME_BYTES);
		if (!nvme->requests[i].memory)
			sim_fail("out of memory");
	}
	sim_fiber_start(&nvme->fiber, &nvme->actor, nvme_run, nvme);
}

void sim_nvme_fini(struct sim_nvme *nvme)
{
	sim_fiber_fini(&nvme->fiber);
	for (unsigned int i = 0; i < SIM_NVME_REQUESTS; i++)
		free(nvme->requests[i].memory);
}
