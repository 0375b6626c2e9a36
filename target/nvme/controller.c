/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The process's table of controllers, and of the threads that have queues of them. */
#include "target/nvme/controller.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "target/base/registrant.h"

#define WAKES_MAX 1024u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvme_controller *controllers[NVME_CONTROLLERS_MAX]; /* by id - 1 */
static uint64_t last_number;
static _Atomic unsigned int news;
static unsigned int next_slot; /* ids are used again late: a host may ask for one that is gone */
static int wakes[WAKES_MAX];
static unsigned int wake_count;

struct nvme_controller *nvme_controller_create(const struct nvme_identity *identity, const char name[RBLK_NAME_BYTES],
					       const struct rblk_wire_accept *accept, const __u8 session_id[16],
					       uint16_t queues)
{
	struct nvme_controller *controller = calloc(1, sizeof(*controller));
	unsigned int tried, slot = 0;

	if (!controller)
		return NULL;
	controller->references = 1;
	controller->queues = queues;
	controller->identity = *identity;
	controller->discovery = strcmp(identity->subsystem, NVME_DISCOVERY_NQN) == 0;
	tgt_registrant_name(identity->host_id, name, controller->registrant);
	memcpy(controller->session_id, session_id, sizeof(controller->session_id));
	pthread_mutex_lock(&lock);
	/* A host refuses a controller's id that it has from another target of the subsystem: each begins elsewhere. */
	if (!last_number)
		next_slot = (accept->target_instance[0] << 8 | accept->target_instance[1]) % NVME_CONTROLLERS_MAX;
	for (tried = 0; tried < NVME_CONTROLLERS_MAX; tried++) {
		slot = next_slot;
		next_slot = (next_slot + 1) % NVME_CONTROLLERS_MAX;
		if (!controllers[slot])
			break;
	}
	if (tried < NVME_CONTROLLERS_MAX) {
		controllers[slot] = controller;
		controller->id = (uint16_t)(slot + 1);
		controller->number = ++last_number;
	}
	pthread_mutex_unlock(&lock);
	if (controller->id)
		return controller;
	free(controller);
	return NULL;
}

struct nvme_controller *nvme_controller_get(uint16_t id, const struct nvme_identity *identity)
{
	struct nvme_controller *controller = NULL;

	if (!id || id > NVME_CONTROLLERS_MAX)
		return NULL;
	pthread_mutex_lock(&lock);
	controller = controllers[id - 1];
	if (controller && !controller->over && !memcmp(&controller->identity, identity, sizeof(*identity)))
		controller->references++;
	else
		controller = NULL;
	pthread_mutex_unlock(&lock);
	return controller;
}

void nvme_controller_put(struct nvme_controller *controller)
{
	bool last;

	if (!controller)
		return;
	pthread_mutex_lock(&lock);
	last = --controller->references == 0;
	if (last)
		controllers[controller->id - 1] = NULL;
	pthread_mutex_unlock(&lock);
	if (last)
		free(controller);
}

void nvme_controller_each(void (*call)(struct nvme_controller *controller, void *arg), void *arg)
{
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < NVME_CONTROLLERS_MAX; i++)
		if (controllers[i])
			call(controllers[i], arg);
	pthread_mutex_unlock(&lock);
}

void nvme_controller_end(struct nvme_controller *controller)
{
	controller->over = true;
	news++;
}

unsigned int nvme_controller_news(unsigned int seen)
{
	if (news == seen)
		return seen;
	/* Behind what its teller writes. */
	pthread_mutex_lock(&lock);
	seen = news;
	pthread_mutex_unlock(&lock);
	return seen;
}

void nvme_controller_tell(void)
{
	const uint64_t one = 1;

	/* Under the lock, so that none is closed meanwhile. One that is full wakes, too. */
	pthread_mutex_lock(&lock);
	news++;
	for (unsigned int i = 0; i < wake_count; i++)
		if (write(wakes[i], &one, sizeof(one)) < 0)
			continue;
	pthread_mutex_unlock(&lock);
}

void nvme_controller_listen(int eventfd)
{
	pthread_mutex_lock(&lock);
	if (wake_count < WAKES_MAX)
		wakes[wake_count++] = eventfd;
	pthread_mutex_unlock(&lock);
}

void nvme_controller_leave(int eventfd)
{
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < wake_count; i++)
		if (wakes[i] == eventfd)
			wakes[i--] = wakes[--wake_count];
	pthread_mutex_unlock(&lock);
}
