/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The keeper: a thread for tasks that have to be done later, or not on librados' threads, which ask for them. It runs
 * tasks that never wait (in_time) itself. A task that may wait for the cluster, as one that looks at an image's size or
 * renews a watch, has a thread for each run, so that an image whose objects cannot be reached holds up no other one.
 * The keeper is started with the first image, for the life of the process.
 */
#include "target/rbd/rbd.h"

#include <stdlib.h>

/* The pause after which a task is tried again for which there was no thread. */
#define AGAIN_NS 1000000000ull

/* A task that runs just now. */
struct run {
	struct rbd_task *task;
	struct run *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static pthread_cond_t changed;
static bool started;
static struct rbd_task *queue; /* by at_ns */
static struct run *runs;

/* Lock held. */
static bool is_running(const struct rbd_task *task)
{
	const struct run *run = runs;

	while (run && run->task != task)
		run = run->next;
	return run;
}

/* Lock held. */
static void queue_add(struct rbd_task *task, uint64_t pause_ns)
{
	struct rbd_task **place = &queue;

	task->queued = true;
	task->at_ns = tgt_rbd_now_ns() + pause_ns;
	while (*place && (*place)->at_ns <= task->at_ns)
		place = &(*place)->next;
	task->next = *place;
	*place = task;
}

/* Lock held. Takes the first task that is due, and not running. NULL: there was none, and this has waited. */
static struct rbd_task *queue_next(void)
{
	struct rbd_task **place = &queue, *task;

	while (*place && is_running(*place))
		place = &(*place)->next;
	task = *place;
	if (!task) {
		pthread_cond_wait(&changed, &lock);
		return NULL;
	}
	if (task->at_ns > tgt_rbd_now_ns()) {
		tgt_rbd_cond_wait(&changed, &lock, task->at_ns);
		return NULL;
	}
	*place = task->next;
	task->queued = false;
	return task;
}

/* Runs one of `runs`, and frees it. */
static void *run_thread(void *arg)
{
	struct run *run = arg, **place = &runs;

	run->task->run(run->task); /* this may free the task, or queue it again */
	pthread_mutex_lock(&lock);
	while (*place != run)
		place = &(*place)->next;
	*place = run->next;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	free(run);
	return NULL;
}

/* Lock held; it is released while an in_time task runs. */
static void task_run(struct rbd_task *task)
{
	struct run *run = calloc(1, sizeof(*run));
	bool in_time = task->in_time;

	if (!run) {
		queue_add(task, AGAIN_NS);
		return;
	}
	*run = (struct run){.task = task, .next = runs};
	runs = run;
	if (in_time) {
		pthread_mutex_unlock(&lock);
		run_thread(run);
		pthread_mutex_lock(&lock);
	} else if (tgt_rbd_thread(run_thread, run)) {
		runs = run->next;
		free(run);
		queue_add(task, AGAIN_NS);
	}
}

static void *keeper_thread(void *arg)
{
	struct rbd_task *task;

	(void)arg;
	pthread_mutex_lock(&lock);
	for (;;) {
		task = queue_next();
		if (task)
			task_run(task);
	}
	return NULL;
}

int tgt_rbd_keeper_start(void)
{
	int err = 0;

	pthread_mutex_lock(&lock);
	if (!started) {
		tgt_rbd_cond_init(&changed);
		err = tgt_rbd_thread(keeper_thread, NULL);
		started = !err;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

void tgt_rbd_keeper_later(struct rbd_task *task, uint64_t pause_ns)
{
	pthread_mutex_lock(&lock);
	if (!task->queued) {
		queue_add(task, pause_ns);
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
}

void tgt_rbd_keeper_forget(struct rbd_task *task)
{
	struct rbd_task **place = &queue;

	pthread_mutex_lock(&lock);
	while (is_running(task))
		pthread_cond_wait(&changed, &lock);
	while (*place && *place != task)
		place = &(*place)->next;
	if (*place)
		*place = task->next;
	task->queued = false;
	pthread_mutex_unlock(&lock);
}
