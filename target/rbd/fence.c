/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fences that sessions of this gateway wait for. Asking the other gateways blocks, so each image has a thread for it
 * while fences wait; it asks for up to RBD_PASTS_MAX of them at once. A fence keeps its volume open, and so the
 * gateway.
 */
#include "target/rbd/rbd.h"

#include <errno.h>
#include <string.h>
#include "target/base/error.h"

#define LOG_MS 10000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all gateways' fences */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;	 /* a thread has ended */

/* Lock held. Takes the first fences, at most RBD_PASTS_MAX, from the list; NULL: none waits. */
static struct tgt_store_fence *fences_take(struct rbd_gateway *gateway, struct tgt_past *pasts, unsigned int *count)
{
	struct tgt_store_fence *first = gateway->fences, *last = NULL;

	for (*count = 0; gateway->fences && *count < RBD_PASTS_MAX; (*count)++) {
		last = gateway->fences;
		pasts[*count] = last->past;
		gateway->fences = last->next;
	}
	if (last)
		last->next = NULL;
	return first;
}

static void fences_done(struct tgt_store_fence *fence, int err, uint64_t held)
{
	struct tgt_store_fence *next;

	for (; fence; fence = next, held >>= 1) {
		next = fence->next;
		fence->held = held & 1;
		fence->done(fence, err);
	}
}

/* Logs a failure every LOG_MS at most: initiators ask again and again. */
static void fence_log(struct rbd_gateway *gateway, const char *error)
{
	uint64_t now = tgt_rbd_now_ms();

	if (gateway->said_ms && now < gateway->said_ms + LOG_MS)
		return;
	gateway->said_ms = now;
	tgt_rbd_host->log(TGT_LOG_WARNING, "rbd: %s: sessions cannot open it for writing: %s", gateway->path, error);
}

static void *fence_thread(void *arg)
{
	struct rbd_gateway *gateway = arg;
	struct tgt_past pasts[RBD_PASTS_MAX];
	struct tgt_store_fence *fence;
	char error[TGT_ERROR_BYTES];
	unsigned int count;
	uint64_t held;
	int err;

	pthread_mutex_lock(&lock);
	while ((fence = fences_take(gateway, pasts, &count))) {
		pthread_mutex_unlock(&lock);
		held = 0;
		err = tgt_rbd_gateway_fence(gateway, pasts, count, &held, error);
		if (err && err != -ESHUTDOWN)
			fence_log(gateway, error);
		fences_done(fence, err, held);
		pthread_mutex_lock(&lock);
	}
	gateway->fencing = false;
	pthread_cond_broadcast(&ended);
	pthread_mutex_unlock(&lock); /* the gateway may be gone */
	return NULL;
}

void tgt_rbd_fence(struct rbd_gateway *gateway, struct tgt_store_fence *fence)
{
	struct tgt_store_fence **place = &gateway->fences;
	int err = 0;

	fence->next = NULL;
	pthread_mutex_lock(&lock);
	if (!gateway->fencing)
		err = tgt_rbd_thread(fence_thread, gateway);
	gateway->fencing = !err;
	while (!err && *place)
		place = &(*place)->next;
	if (!err)
		*place = fence;
	pthread_mutex_unlock(&lock);
	if (err)
		fence->done(fence, err);
}

void tgt_rbd_fence_wait(struct rbd_gateway *gateway)
{
	pthread_mutex_lock(&lock);
	while (gateway->fencing)
		pthread_cond_wait(&ended, &lock);
	pthread_mutex_unlock(&lock);
}
