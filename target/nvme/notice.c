/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Notices of reservations: what others have done to a host's registration, or to the reservation that it has a part in.
 * Each controller of the host keeps some; an event tells it that there are any, and its log page has one at a time.
 */
#include "target/nvme/queue.h"

#include <pthread.h>
#include <string.h>
#include "target/base/registrant.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all controllers' */

/* The argument of nvme_controller_each(): a notice to the registrant of that subsystem. */
struct notice {
	const char *registrant;
	char subsystem[NVME_NQN_BYTES];
	enum tgt_notice notice;
};

static void keep(struct nvme_controller *controller, void *arg)
{
	struct nvme_notices *notices = &controller->notices;
	const struct notice *notice = arg;
	struct nvme_notice *last;

	if (strcmp(controller->registrant, notice->registrant) || notices->mask & 1u << notice->notice ||
	    strcmp(controller->identity.subsystem, notice->subsystem))
		return;
	pthread_mutex_lock(&lock);
	/* Without room the newest takes the place of the last: the gap in the counts shows how many are lost. */
	if (notices->waiting < NVME_NOTICES_MAX)
		notices->waiting++;
	last = &notices->kept[(notices->first + notices->waiting - 1) % NVME_NOTICES_MAX];
	*last = (struct nvme_notice){.count = rblk_to_le64(++notices->count), .type = (__u8)notice->notice};
	pthread_mutex_unlock(&lock);
}

/* On the thread of whoever has done it. */
void nvme_notice_tell(const uint8_t volume[16], const char *registrant, enum tgt_notice kind)
{
	struct notice notice = {.registrant = registrant, .notice = kind};

	if (strncmp(registrant, TGT_REGISTRANT_HOST, strlen(TGT_REGISTRANT_HOST)) != 0)
		return;
	nvme_subsystem_of(volume, notice.subsystem);
	nvme_controller_each(keep, &notice);
	nvme_controller_tell();
}

void nvme_notice_news(struct nvme_queue *queue)
{
	if (!queue->answered || !queue->controller->notices.waiting || queue->changed & NVME_EVENT_RESERVATIONS)
		return;
	queue->changed |= NVME_EVENT_RESERVATIONS;
	nvme_event_tell(queue);
	queue->transport->wake(queue);
}

void nvme_notice_read(struct nvme_queue *queue, bool keeps, uint8_t *data, uint64_t bytes)
{
	struct nvme_notices *notices = &queue->controller->notices;
	struct nvme_notice page = {.count = 0};

	nvme_event_read(queue, NVME_EVENT_RESERVATIONS, keeps);
	pthread_mutex_lock(&lock);
	if (notices->waiting) {
		page = notices->kept[notices->first];
		page.available = (__u8)(notices->waiting - 1);
		page.namespace = rblk_to_le32(1);
	}
	if (notices->waiting && !keeps) {
		notices->first = (notices->first + 1) % NVME_NOTICES_MAX;
		notices->waiting--;
	}
	pthread_mutex_unlock(&lock);
	memcpy(data, &page, bytes < sizeof(page) ? bytes : sizeof(page));
}
