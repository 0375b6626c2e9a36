/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The process's table of controllers. */
#include "target/nvme/controller.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "target/nvme/wake.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvme_controller *controllers[NVME_CONTROLLERS_MAX]; /* by id - 1 */
static uint64_t last_number;
static _Atomic unsigned int news;
static unsigned int next_slot; /* ids are used again late: a host may ask for one that is gone */

struct nvme_controller *nvme_controller_create(const struct nvme_identity *identity, const __u8 session_id[16],
					       uint16_t queues)
{
	struct nvme_controller *controller = calloc(1, sizeof(*controller));
	unsigned int tried, slot = 0;

	if (!controller)
		return NULL;
	nvme_errors_init(&controller->errors);
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
	nvme_errors_fini(&controller->errors);
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
	if (last) {
		nvme_errors_fini(&controller->errors);
		free(controller);
	}
}

void nvme_controller_end(struct nvme_controller *controller)
{
	controller->over = true;
	news++;
}

unsigned int nvme_controller_news(void)
{
	return news;
}

void nvme_controller_tell(void)
{
	news++;
	nvme_wake_all();
}

/* -- aborts -------------------------------------------------------------------------------------- */

int nvme_controller_abort_ask(struct nvme_controller *controller, uint16_t queue, uint16_t id)
{
	int index = -1;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < NVME_ABORTS_MAX && index < 0; i++)
		if (controller->aborts[i].state == NVME_ABORT_FREE)
			index = (int)i;
	if (index >= 0) {
		controller->aborts[index] = (struct nvme_abort){.state = NVME_ABORT_ASKED, .queue = queue, .id = id};
		controller->aborts_open++;
	}
	pthread_mutex_unlock(&lock);
	if (index >= 0)
		nvme_controller_tell();
	return index;
}

void nvme_controller_abort_answer(struct nvme_controller *controller, unsigned int index, bool dropped)
{
	pthread_mutex_lock(&lock);
	controller->aborts[index].state = NVME_ABORT_ANSWERED;
	controller->aborts[index].dropped = dropped;
	pthread_mutex_unlock(&lock);
	nvme_controller_tell();
}

int nvme_controller_abort_take(struct nvme_controller *controller, uint16_t queue, uint16_t *id)
{
	int index = -1;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < NVME_ABORTS_MAX && index < 0; i++)
		if (controller->aborts[i].state == NVME_ABORT_ASKED && controller->aborts[i].queue == queue)
			index = (int)i;
	if (index >= 0) {
		controller->aborts[index].state = NVME_ABORT_TAKEN;
		*id = controller->aborts[index].id;
	}
	pthread_mutex_unlock(&lock);
	return index;
}

bool nvme_controller_abort_hear(struct nvme_controller *controller, unsigned int index, bool gives_up, bool *dropped)
{
	struct nvme_abort *abort = &controller->aborts[index];
	bool over;

	pthread_mutex_lock(&lock);
	over = abort->state == NVME_ABORT_ANSWERED || (gives_up && abort->state == NVME_ABORT_ASKED);
	if (over) {
		*dropped = abort->state == NVME_ABORT_ANSWERED && abort->dropped;
		abort->state = NVME_ABORT_FREE;
		controller->aborts_open--;
	}
	pthread_mutex_unlock(&lock);
	return over;
}
