/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One thread for what has to be done later, or may block, and is asked for on librados' threads: to look at an image's
 * size, to watch again, to repeat an operation. Made with the first image, for the life of the process.
 */
#include "target/rbd/rbd.h"

#include <pthread.h>
#include <time.h>

#define NS_PER_S 1000000000ull

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static pthread_cond_t changed;
static bool started;
static struct rbd_task *queue; /* the next one first */
static struct rbd_task *running;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Lock held. The first whose time has come, no longer in the queue. */
static struct rbd_task *keeper_next(void)
{
	struct rbd_task *task = queue;
	struct timespec until;

	if (!task) {
		pthread_cond_wait(&changed, &lock);
		return NULL;
	}
	if (task->at_ns > now_ns()) {
		until = (struct timespec){.tv_sec = (time_t)(task->at_ns / NS_PER_S),
					  .tv_nsec = (long)(task->at_ns % NS_PER_S)};
		pthread_cond_timedwait(&changed, &lock, &until);
		return NULL;
	}
	queue = task->next;
	task->queued = false;
	return task;
}

static void *keeper_thread(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	for (;;) {
		struct rbd_task *task = keeper_next();

		if (!task)
			continue;
		running = task;
		pthread_mutex_unlock(&lock);
		task->run(task); /* it may be freed by that, or queued again */
		pthread_mutex_lock(&lock);
		running = NULL;
		pthread_cond_broadcast(&changed);
	}
	return NULL;
}

int tgt_rbd_keeper_start(void)
{
	pthread_condattr_t monotonic;
	pthread_t thread;
	int err = 0;

	pthread_mutex_lock(&lock);
	if (!started) {
		pthread_condattr_init(&monotonic);
		pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
		pthread_cond_init(&changed, &monotonic);
		pthread_condattr_destroy(&monotonic);
		err = -pthread_create(&thread, NULL, keeper_thread, NULL);
		started = !err;
		if (started) {
			pthread_setname_np(thread, "rbd keeper");
			pthread_detach(thread);
		}
	}
	pthread_mutex_unlock(&lock);
	return err;
}

void tgt_rbd_keeper_later(struct rbd_task *task, uint64_t pause_ns)
{
	struct rbd_task **place = &queue;

	pthread_mutex_lock(&lock);
	if (!task->queued) {
		task->queued = true;
		task->at_ns = now_ns() + pause_ns;
		while (*place && (*place)->at_ns <= task->at_ns)
			place = &(*place)->next;
		task->next = *place;
		*place = task;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
}

void tgt_rbd_keeper_forget(struct rbd_task *task)
{
	struct rbd_task **place = &queue;

	pthread_mutex_lock(&lock);
	while (running == task)
		pthread_cond_wait(&changed, &lock);
	while (*place && *place != task)
		place = &(*place)->next;
	if (*place)
		*place = task->next;
	task->queued = false;
	pthread_mutex_unlock(&lock);
}
