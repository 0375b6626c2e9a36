/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two threads for what has to be done later, and is asked for on librados' threads: one for what may wait for the
 * cluster, as to look at an image's size, or to watch again; and one for what has to be done in time, and does not.
 * Made with the first image, for the life of the process.
 */
#include "target/rbd/rbd.h"

#include <pthread.h>
#include <time.h>

#define NS_PER_S 1000000000ull

static struct keeper {
	char name[16];
	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t changed;
	bool started;
	struct rbd_task *queue; /* the next one first */
	struct rbd_task *running;
} keepers[] = {
	{.name = "rbd keeper", .lock = PTHREAD_MUTEX_INITIALIZER},
	{.name = "rbd in time", .lock = PTHREAD_MUTEX_INITIALIZER},
};
#define KEEPERS (sizeof(keepers) / sizeof(keepers[0]))

static struct keeper *keeper_of(const struct rbd_task *task)
{
	return &keepers[task->in_time];
}

/* Lock held. The first whose time has come, no longer in the queue. */
static struct rbd_task *keeper_next(struct keeper *keeper)
{
	struct rbd_task *task = keeper->queue;
	struct timespec until;

	if (!task) {
		pthread_cond_wait(&keeper->changed, &keeper->lock);
		return NULL;
	}
	if (task->at_ns > tgt_rbd_now_ns()) {
		until = (struct timespec){.tv_sec = (time_t)(task->at_ns / NS_PER_S),
					  .tv_nsec = (long)(task->at_ns % NS_PER_S)};
		pthread_cond_timedwait(&keeper->changed, &keeper->lock, &until);
		return NULL;
	}
	keeper->queue = task->next;
	task->queued = false;
	return task;
}

static void *keeper_thread(void *arg)
{
	struct keeper *keeper = arg;

	pthread_mutex_lock(&keeper->lock);
	for (;;) {
		struct rbd_task *task = keeper_next(keeper);

		if (!task)
			continue;
		keeper->running = task;
		pthread_mutex_unlock(&keeper->lock);
		task->run(task); /* it may be freed by that, or queued again */
		pthread_mutex_lock(&keeper->lock);
		keeper->running = NULL;
		pthread_cond_broadcast(&keeper->changed);
	}
	return NULL;
}

static int keeper_start(struct keeper *keeper)
{
	pthread_condattr_t monotonic;
	pthread_t thread;
	int err = 0;

	pthread_mutex_lock(&keeper->lock);
	if (!keeper->started) {
		pthread_condattr_init(&monotonic);
		pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
		pthread_cond_init(&keeper->changed, &monotonic);
		pthread_condattr_destroy(&monotonic);
		err = -pthread_create(&thread, NULL, keeper_thread, keeper);
		keeper->started = !err;
		if (keeper->started) {
			pthread_setname_np(thread, keeper->name);
			pthread_detach(thread);
		}
	}
	pthread_mutex_unlock(&keeper->lock);
	return err;
}

int tgt_rbd_keeper_start(void)
{
	int err = 0;

	for (unsigned int i = 0; i < KEEPERS && !err; i++)
		err = keeper_start(&keepers[i]);
	return err;
}

void tgt_rbd_keeper_later(struct rbd_task *task, uint64_t pause_ns)
{
	struct keeper *keeper = keeper_of(task);
	struct rbd_task **place = &keeper->queue;

	pthread_mutex_lock(&keeper->lock);
	if (!task->queued) {
		task->queued = true;
		task->at_ns = tgt_rbd_now_ns() + pause_ns;
		while (*place && (*place)->at_ns <= task->at_ns)
			place = &(*place)->next;
		task->next = *place;
		*place = task;
		pthread_cond_broadcast(&keeper->changed);
	}
	pthread_mutex_unlock(&keeper->lock);
}

void tgt_rbd_keeper_forget(struct rbd_task *task)
{
	struct keeper *keeper = keeper_of(task);
	struct rbd_task **place = &keeper->queue;

	pthread_mutex_lock(&keeper->lock);
	while (keeper->running == task)
		pthread_cond_wait(&keeper->changed, &keeper->lock);
	while (*place && *place != task)
		place = &(*place)->next;
	if (*place)
		*place = task->next;
	task->queued = false;
	pthread_mutex_unlock(&keeper->lock);
}
