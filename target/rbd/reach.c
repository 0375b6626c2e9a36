/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether the cluster's monitors answer this process: the calls that wait for them tell, and a probe when an image's
 * watch is in doubt (client.c). The monitors are the same for all images; a slow OSD would say nothing of the images
 * that are not on it.
 */
#include "target/rbd/rbd.h"

/* A monitor that lives answers in milliseconds, and in about a second while monitors elect. */
#define SILENT_MS 2500u
/* If nobody has asked for so long, the outcome is forgotten. */
#define FORGET_MS 15000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static unsigned int asking;				 /* calls under way */
static uint64_t since_ms; /* when the first call began that has had no answer; 0: there is none */
static uint64_t ended_ms; /* when the last call ended */

/* Lock held. */
static void forget_old(uint64_t now)
{
	if (!asking && now - ended_ms >= FORGET_MS)
		since_ms = 0;
}

void tgt_rbd_reach_begin(void)
{
	uint64_t now = tgt_rbd_now_ms();

	pthread_mutex_lock(&lock);
	forget_old(now);
	asking++;
	since_ms = since_ms ? since_ms : now;
	pthread_mutex_unlock(&lock);
}

void tgt_rbd_reach_end(bool answered)
{
	pthread_mutex_lock(&lock);
	ended_ms = tgt_rbd_now_ms();
	asking--;
	if (answered)
		since_ms = asking ? ended_ms : 0;
	pthread_mutex_unlock(&lock);
}

bool tgt_rbd_reach_silent(void)
{
	uint64_t now = tgt_rbd_now_ms();
	bool silent;

	pthread_mutex_lock(&lock);
	forget_old(now);
	silent = since_ms && now - since_ms >= SILENT_MS;
	pthread_mutex_unlock(&lock);
	return silent;
}
