/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether the cluster's monitors answer this process, by what it asks them in any case, and by a question for that
 * alone when an image's watch is in doubt (client.c). They are the same for all images: one of which an OSD is slow
 * says nothing of the others.
 */
#include "target/rbd/rbd.h"

/* A monitor that lives answers in milliseconds; one that is elected, in about a second. */
#define SILENT_MS 2500u
/* Whatever was found out is forgotten if nobody has asked for so long. */
#define FORGET_MS 15000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int asking;
static uint64_t since_ms; /* of questions that are not answered, the first one; 0: there is none */
static uint64_t ended_ms; /* the last one */

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
