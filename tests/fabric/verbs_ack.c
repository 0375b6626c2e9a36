/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no field of a cm event's id is read after the event was acknowledged, because from then on
 * the thread that has the id's request may free it. Method: the test replaces librdmacm's two
 * calls; the acknowledgement fills the id with invalid pointers and frees it, as that thread could.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/fabric/fabric_verbs.h"

static struct verbs_fab fab;
static struct rdma_cm_event event;
static unsigned int acks;

int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **out);
int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **out)
{
	(void)channel;
	*out = &event;
	return 0;
}

int __wrap_rdma_ack_cm_event(struct rdma_cm_event *acked);
int __wrap_rdma_ack_cm_event(struct rdma_cm_event *acked)
{
	memset(acked->id, 0xdd, sizeof(*acked->id));
	free(acked->id);
	acks++;
	return 0;
}

int main(void)
{
	/* Events that a listener gets for a request that another thread is about to refuse. */
	static const enum rdma_cm_event_type types[] = {
		RDMA_CM_EVENT_UNREACHABLE,
		RDMA_CM_EVENT_CONNECT_ERROR,
		RDMA_CM_EVENT_DEVICE_REMOVAL,
	};

	TAILQ_INIT(&fab.listeners);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		event = (struct rdma_cm_event){.event = types[i]};
		event.id = calloc(1, sizeof(*event.id));
		if (!event.id)
			return EXIT_FAILURE;
		event.id->context = &fab;
		verbs_cm_event(&fab);
		if (acks != i + 1 || fab.listener_gone) {
			fprintf(stderr, "event %d: not recognised as an event of a request\n", (int)types[i]);
			return EXIT_FAILURE;
		}
	}
	return EXIT_SUCCESS;
}
