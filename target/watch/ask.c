/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Asks all reactors for a snapshot, and waits for their answers. */
#include "target/watch/ask.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include "target/serve/peers.h"
#include "target/serve/reactor.h"

/* Freed by the last who has it: who asked, or a reactor. */
struct ask {
	struct question {
		struct tgt_message message; /* first */
		struct ask *ask;
		struct tgt_snapshot *snapshot;
	} questions[TGT_REACTORS_MAX];
	pthread_mutex_t lock; /* owns all below */
	pthread_cond_t changed;
	unsigned int users;
	unsigned int open; /* answers that are missing */
};

/* Lock held; releases it. */
static void ask_put(struct ask *ask)
{
	bool last = --ask->users == 0;

	pthread_mutex_unlock(&ask->lock);
	if (!last)
		return;
	for (unsigned int i = 0; i < TGT_REACTORS_MAX; i++)
		free(ask->questions[i].snapshot);
	pthread_cond_destroy(&ask->changed);
	pthread_mutex_destroy(&ask->lock);
	free(ask);
}

/* The reactor's thread. */
static void question_run(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct question *question = (struct question *)message;
	struct tgt_snapshot *snapshot = tgt_snapshot_take(reactor);
	struct ask *ask = question->ask;

	pthread_mutex_lock(&ask->lock);
	question->snapshot = snapshot;
	ask->open--;
	pthread_cond_signal(&ask->changed);
	ask_put(ask);
}

static struct ask *ask_create(void)
{
	struct ask *ask = calloc(1, sizeof(*ask));
	pthread_condattr_t monotonic;

	if (!ask)
		return NULL;
	pthread_mutex_init(&ask->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&ask->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	ask->users = 1;
	return ask;
}

static void ask_send(struct ask *ask, unsigned int i, struct tgt_reactor *reactor)
{
	if (tgt_reactor_drained(reactor))
		return;
	pthread_mutex_lock(&ask->lock);
	ask->users++;
	ask->open++;
	pthread_mutex_unlock(&ask->lock);
	ask->questions[i].message.run = question_run;
	ask->questions[i].ask = ask;
	tgt_reactor_send(reactor, &ask->questions[i].message);
}

int tgt_snapshot_ask(struct tgt_reactor *const *reactors, unsigned int count, unsigned int timeout_ms,
		     struct tgt_snapshot *out[TGT_REACTORS_MAX])
{
	struct ask *ask = ask_create();
	struct timespec until;
	int err = 0;

	if (!ask)
		return -ENOMEM;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	for (unsigned int i = 0; i < count; i++)
		ask_send(ask, i, reactors[i]);
	pthread_mutex_lock(&ask->lock);
	while (ask->open && !err)
		err = pthread_cond_timedwait(&ask->changed, &ask->lock, &until);
	for (unsigned int i = 0; i < TGT_REACTORS_MAX; i++) {
		out[i] = ask->questions[i].snapshot;
		ask->questions[i].snapshot = NULL;
	}
	ask_put(ask);
	return 0;
}
