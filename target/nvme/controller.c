/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The process's table of controllers. */
#include "target/nvme/controller.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvme_controller *controllers[NVME_CONTROLLERS_MAX]; /* by id - 1 */
static uint64_t last_number;
static _Atomic unsigned int ends;
static unsigned int next_slot; /* ids are used again late: a host may ask for one that is gone */

struct nvme_controller *nvme_controller_create(const struct nvme_identity *identity, const __u8 session_id[16],
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
	memcpy(controller->session_id, session_id, sizeof(controller->session_id));
	pthread_mutex_lock(&lock);
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

void nvme_controller_end(struct nvme_controller *controller)
{
	controller->over = true;
	ends++;
}

bool nvme_controller_replace(const struct nvme_controller *by)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < NVME_CONTROLLERS_MAX; i++) {
		struct nvme_controller *older = controllers[i];

		if (!older || older->number >= by->number ||
		    memcmp(&older->identity, &by->identity, sizeof(by->identity)) != 0)
			continue;
		/* Also one that is over: queues of it may still be there. */
		older->replaced = true;
		nvme_controller_end(older);
		found = true;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

unsigned int nvme_controller_ends(void)
{
	return ends;
}
