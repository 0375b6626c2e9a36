/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Paths: the controllers that one host has of one subsystem, each by another portal, in a line. The first is in charge:
 * its namespace is optimized (ANA). The others wait, and theirs is inaccessible. When the first has ended, the next one
 * opens the volume again, which waits for the writes of those before it (F5), and is in charge then. Who connects at
 * the portal of one of them takes its place. Where other targets serve the volume, too, that OPEN asks them, and the
 * first one here stays behind one that is in charge there. Any thread.
 */
#include "target/nvme/queue.h"

#include <pthread.h>
#include <string.h>
#include "target/base/registrant.h"

#define PATHS_MAX 8u /* of a host and subsystem */
#define OPTIMIZED 1u
#define INACCESSIBLE 3u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD(, nvme_controller) line = TAILQ_HEAD_INITIALIZER(line); /* all hosts' */

/* The next of the same host and subsystem, from `from` on. NULL: there is none. */
static struct nvme_controller *find(struct nvme_controller *from, const struct nvme_identity *identity)
{
	while (from && memcmp(&from->identity, identity, sizeof(*identity)) != 0)
		from = TAILQ_NEXT(from, path.link);
	return from;
}

static bool is_same_portal(const struct nvme_path *one, const struct nvme_path *other)
{
	return one->transport == other->transport && !memcmp(&one->address, &other->address, sizeof(one->address));
}

/* From now on each thread ends its queues when an OPEN asks for ends (fabric.c). */
static void leave(struct nvme_controller *controller)
{
	TAILQ_REMOVE(&line, controller, path.link);
	controller->path.state = NVME_PATH_LEFT;
	nvme_controller_end(controller);
}

static enum nvme_path_state join(struct nvme_controller *controller)
{
	struct nvme_controller *other = TAILQ_FIRST(&line), *older = NULL;
	unsigned int count = 0;
	bool waits;

	for (; (other = find(other, &controller->identity)); other = TAILQ_NEXT(other, path.link), count++)
		if (is_same_portal(&other->path, &controller->path))
			older = other;
	/* The host has given this one up, if its next Connect is here already. */
	if (older ? older->number > controller->number : count == PATHS_MAX)
		return NVME_PATH_LEFT;
	if (!older) {
		TAILQ_INSERT_TAIL(&line, controller, path.link);
		return count ? NVME_PATH_WAITS : NVME_PATH_OPENS;
	}
	TAILQ_INSERT_BEFORE(older, controller, path.link);
	waits = older->path.state == NVME_PATH_WAITS;
	older->replaced = true;
	leave(older);
	return waits ? NVME_PATH_WAITS : NVME_PATH_OPENS;
}

enum nvme_path_state nvme_path_connect(struct nvme_queue *queue)
{
	struct nvme_path *path = &queue->controller->path;
	enum nvme_path_state state;

	pthread_mutex_lock(&lock);
	if (path->state == NVME_PATH_NEW) {
		path->transport = queue->transport->kind;
		queue->transport->local(queue, &path->address);
		path->state = join(queue->controller);
	} else if (path->state == NVME_PATH_OPENS) {
		path->state = NVME_PATH_OPTIMIZED;
	}
	state = path->state;
	pthread_mutex_unlock(&lock);
	return state;
}

static bool change(struct nvme_controller *controller, enum nvme_path_state from, enum nvme_path_state to)
{
	bool is_there;

	pthread_mutex_lock(&lock);
	is_there = controller->path.state == from;
	if (is_there)
		controller->path.state = to;
	pthread_mutex_unlock(&lock);
	return is_there;
}

void nvme_path_opens(struct nvme_controller *controller)
{
	change(controller, NVME_PATH_DUE, NVME_PATH_OPENS);
}

bool nvme_path_opened(struct nvme_controller *controller)
{
	return change(controller, NVME_PATH_OPENS, NVME_PATH_OPTIMIZED);
}

void nvme_path_leave(struct nvme_controller *controller)
{
	struct nvme_controller *next = NULL;
	enum nvme_path_state state;

	pthread_mutex_lock(&lock);
	state = controller->path.state;
	if (state == NVME_PATH_NEW || state == NVME_PATH_LEFT)
		nvme_controller_end(controller);
	else
		leave(controller);
	/* F5: only now, as its OPEN relies on that end. */
	if (state == NVME_PATH_DUE || state == NVME_PATH_OPENS || state == NVME_PATH_OPTIMIZED)
		next = find(TAILQ_FIRST(&line), &controller->identity);
	if (next)
		next->path.state = NVME_PATH_DUE;
	pthread_mutex_unlock(&lock);
	if (next)
		nvme_controller_tell();
}

/* -- the other targets of a volume ------------------------------------------------------------- */

/* With the lock. */
static struct nvme_controller *claimant(const uint8_t volume[16], const uint8_t host[16])
{
	struct nvme_controller *controller;
	char subsystem[NVME_NQN_BYTES];
	uint8_t digest[16];

	nvme_subsystem_of(volume, subsystem);
	TAILQ_FOREACH(controller, &line, path.link) {
		if (strcmp(controller->identity.subsystem, subsystem) ||
		    (controller->path.state != NVME_PATH_OPENS && controller->path.state != NVME_PATH_OPTIMIZED))
			continue;
		tgt_registrant_digest(controller->registrant, digest);
		if (!memcmp(digest, host, sizeof(digest)))
			return controller;
	}
	return NULL;
}

static bool path_keeps(const uint8_t volume[16], const uint8_t host[16], uint64_t rank)
{
	struct nvme_controller *controller;
	bool keeps = false;

	pthread_mutex_lock(&lock);
	controller = claimant(volume, host);
	if (controller)
		keeps = controller->path.state == NVME_PATH_OPTIMIZED ||
			tgt_registrant_rank(controller->session_id) > rank;
	/* An answer to an earlier question is void: the other one may be in charge first. */
	if (controller && !keeps)
		controller->path.state = NVME_PATH_DUE;
	pthread_mutex_unlock(&lock);
	return keeps;
}

static bool path_in_charge(const uint8_t session[16])
{
	struct nvme_controller *controller;
	bool in_charge = false;

	pthread_mutex_lock(&lock);
	TAILQ_FOREACH(controller, &line, path.link)
		in_charge |= controller->path.state == NVME_PATH_OPTIMIZED &&
			     !memcmp(controller->session_id, session, sizeof(controller->session_id));
	pthread_mutex_unlock(&lock);
	return in_charge;
}

const struct tgt_paths nvme_paths = {.in_charge = path_in_charge, .keeps = path_keeps};

void nvme_path_log(const struct nvme_queue *queue, bool groups, uint8_t *data, uint64_t bytes)
{
	bool optimized = queue->controller->path.state == NVME_PATH_OPTIMIZED;
	struct nvme_ana page = {
		.changes = rblk_to_le64(queue->path_changes),
		.groups = rblk_to_le16(1),
		.group = rblk_to_le32(1),
		.namespaces = rblk_to_le32(!groups && !queue->absent),
		.group_changes = rblk_to_le64(queue->path_changes + 1), /* 0: they are not counted */
		.state = optimized ? OPTIMIZED : INACCESSIBLE,
		.namespace = rblk_to_le32(!groups && !queue->absent),
	};

	memcpy(data, &page, bytes < sizeof(page) ? bytes : sizeof(page));
}
