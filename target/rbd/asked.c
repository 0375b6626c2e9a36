/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * This gateway's answers to other gateways, which ask by a notify on the object of the lock: whether it lives, whether
 * it has ended the I/O of some sessions, whether it has put a changed reservation in force. This file answers the first
 * question at once; rblkd answers the others when it is done.
 */
#include "target/rbd/rbd.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "target/base/error.h"

/*
 * A notify that is not answered yet; freed when it is answered. Once it is handed to the volume it keeps that open, and
 * so the gateway. News is in the gateway's list before that.
 */
struct rbd_asked {
	struct tgt_store_ask ask; /* first */
	struct rbd_asked *next;
	struct rbd_gateway *gateway;
	uint64_t notify, watch;
	union {
		struct rbd_question question;
		struct rbd_news news;
	};
};

static void gateway_answer(const struct rbd_gateway *gateway, uint64_t notify, uint64_t watch, bool quiet,
			   uint64_t held)
{
	char text[RBD_CLIENT_BYTES + sizeof(RBD_ANSWER_QUIET) + sizeof(held)];
	int bytes = snprintf(text, sizeof(text), "%s%s", tgt_rbd_client_name(gateway->client),
			     quiet ? RBD_ANSWER_QUIET : "");

	held = htole64(held);
	if (quiet) {
		memcpy(text + bytes, &held, sizeof(held));
		bytes += (int)sizeof(held);
	}

	rados_notify_ack(gateway->io, gateway->object, notify, watch, text, bytes);
}

/* A reactor's thread, librados', or the news' thread. */
static void asked_answer(struct tgt_store_ask *ask, bool quiet)
{
	struct rbd_asked *asked = (struct rbd_asked *)ask;

	gateway_answer(asked->gateway, asked->notify, asked->watch, quiet, ask->held);
	free(asked);
}

/* NULL: the data is no struct rbd_question, or there is no memory. */
static struct rbd_asked *asked_create(const void *data, size_t bytes)
{
	bool fits = bytes >= RBD_QUESTION_BYTES(1) && bytes <= sizeof(struct rbd_question);
	struct rbd_asked *asked = fits ? calloc(1, sizeof(*asked)) : NULL;
	struct rbd_question *question;

	if (!asked)
		return NULL;
	question = &asked->question;
	memcpy(question, data, bytes);
	question->count = le64toh(question->count);
	if (memcmp(question->magic, RBD_QUESTION_MAGIC, sizeof(question->magic)) || question->count > RBD_PASTS_MAX ||
	    bytes != RBD_QUESTION_BYTES(question->count)) {
		free(asked);
		return NULL;
	}
	for (uint64_t i = 0; i < question->count; i++) {
		uint8_t host;

		memcpy(&host, &question->pasts[i].host, sizeof(host));
		question->pasts[i].host = host != 0;
		question->pasts[i].epoch = le64toh(question->pasts[i].epoch);
	}
	asked->ask.pasts = question->pasts;
	asked->ask.count = (unsigned int)question->count;
	return asked;
}

/* NULL: the data is no struct rbd_news, or there is no memory. */
static struct rbd_asked *asked_create_news(const void *data, size_t bytes)
{
	bool fits = bytes == sizeof(struct rbd_news) && !memcmp(data, RBD_NEWS_MAGIC, sizeof(RBD_NEWS_MAGIC) - 1);
	struct rbd_asked *asked = fits ? calloc(1, sizeof(*asked)) : NULL;

	if (!asked)
		return NULL;
	memcpy(&asked->news, data, bytes); /* `data` may be unaligned */
	asked->ask.note = &asked->news.note;
	return asked;
}

static void asked_hand_on(struct rbd_asked *asked)
{
	tgt_rbd_host->asked(asked->gateway->store, &asked->ask);
}

static pthread_mutex_t news_lock = PTHREAD_MUTEX_INITIALIZER; /* of all gateways' `news` and `hearing` */
static pthread_cond_t heard = PTHREAD_COND_INITIALIZER;	      /* a thread has ended */

static void news_end(struct rbd_asked *asked, bool quiet)
{
	struct rbd_asked *next;

	for (; asked; asked = next) {
		next = asked->next;
		asked_answer(&asked->ask, quiet);
	}
}

/* Lock held. */
static struct rbd_asked *news_take(struct rbd_gateway *gateway)
{
	struct rbd_asked *first = gateway->news;

	gateway->news = NULL;
	return first;
}

/*
 * The gateway that tells of the reservation may have shut out the victim's. What this gateway reads from now on has to
 * come behind the victim's writes, so its client needs that map, too. This waits for the monitors.
 */
static void *news_thread(void *arg)
{
	struct rbd_gateway *gateway = arg;
	struct rbd_asked *asked, *next;
	char error[TGT_ERROR_BYTES];
	int err;

	pthread_mutex_lock(&news_lock);
	while ((asked = news_take(gateway))) { /* before the map is asked for: later news may need a later one */
		pthread_mutex_unlock(&news_lock);
		err = tgt_rbd_client_map(gateway->client, error);
		for (; asked && !err; asked = next) {
			next = asked->next;
			asked_hand_on(asked);
		}
		news_end(asked, false);
		pthread_mutex_lock(&news_lock);
	}
	gateway->hearing = false;
	pthread_cond_broadcast(&heard);
	pthread_mutex_unlock(&news_lock); /* the gateway may be gone */
	return NULL;
}

static void gateway_hear(struct rbd_gateway *gateway, struct rbd_asked *asked)
{
	pthread_mutex_lock(&news_lock);
	asked->next = gateway->news;
	gateway->news = asked;
	if (!gateway->hearing)
		gateway->hearing = !tgt_rbd_thread(news_thread, gateway);
	asked = gateway->hearing ? NULL : news_take(gateway);
	pthread_mutex_unlock(&news_lock);
	news_end(asked, false); /* no thread: the other gateway asks again */
}

void tgt_rbd_asked_end(struct rbd_gateway *gateway)
{
	struct rbd_asked *asked;

	pthread_mutex_lock(&news_lock);
	asked = news_take(gateway);
	while (gateway->hearing)
		pthread_cond_wait(&heard, &news_lock);
	pthread_mutex_unlock(&news_lock);
	news_end(asked, true);
}

/* librados' thread: another gateway, or this one itself, asks. */
void tgt_rbd_asked(void *arg, uint64_t notify_id, uint64_t handle, uint64_t notifier, void *data, size_t bytes)
{
	struct rbd_gateway *gateway = arg;
	struct rbd_asked *asked = NULL;

	if (notifier != rados_get_instance_id(tgt_rbd_client_cluster(gateway->client))) {
		asked = asked_create(data, bytes);
		asked = asked ? asked : asked_create_news(data, bytes);
	}
	if (!asked) {
		gateway_answer(gateway, notify_id, handle, false, 0);
		return;
	}
	asked->ask.answer = asked_answer;
	asked->gateway = gateway;
	asked->notify = notify_id;
	asked->watch = handle;
	if (asked->ask.note)
		gateway_hear(gateway, asked);
	else
		asked_hand_on(asked);
}
