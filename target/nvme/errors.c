/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The error log of a controller: the last commands of all of its queues that have failed. */
#include "target/nvme/queue.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all controllers' */

void nvme_errors_keep(const struct nvme_queue *queue, const struct nvme_slot *slot, uint16_t status)
{
	struct nvme_errors *errors = &queue->controller->errors;
	const struct nvme_command *command = &slot->command;
	const struct nvme_io *io = nvme_io_of(command->opcode);
	struct nvme_error *entry;

	pthread_mutex_lock(&lock);
	entry = &errors->last[errors->count++ % NVME_ERRORS_MAX];
	*entry = (struct nvme_error){
		.number = rblk_to_le64(errors->count),
		.queue = rblk_to_le16(queue->hello.queue),
		.id = command->id,
		.status = rblk_to_le16((uint16_t)(status << 1)),
		.location = rblk_to_le16(0xffff),
		.transport = queue->transport->kind,
	};
	/* Fabrics commands have their type there. */
	if (!nvme_is_admin(queue) && command->opcode != NVME_FABRICS) {
		entry->namespace = command->namespace;
		if (io && io->ranged)
			entry->block = rblk_to_le64(nvme_block(command));
	}
	pthread_mutex_unlock(&lock);
}

uint64_t nvme_errors_read(struct nvme_errors *errors, uint8_t *data, uint64_t bytes)
{
	uint64_t count;

	pthread_mutex_lock(&lock);
	count = errors->count;
	for (uint64_t i = 0; i < NVME_ERRORS_MAX && i < count && i * sizeof(errors->last[0]) < bytes; i++) {
		uint64_t left = bytes - i * sizeof(errors->last[0]);

		memcpy(data + i * sizeof(errors->last[0]), &errors->last[(count - 1 - i) % NVME_ERRORS_MAX],
		       left < sizeof(errors->last[0]) ? left : sizeof(errors->last[0]));
	}
	pthread_mutex_unlock(&lock);
	return count;
}
