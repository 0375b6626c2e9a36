/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The helper thread of worker.h. It is started with the first job: most stores never have one. A
 * job in flight counts as in flight in its ring, so that the ring, the channel and the store outlive
 * it.
 */
#include "target/store/worker.h"

#include <assert.h>
#include <errno.h>
#include "target/base/affinity.h"

static struct tgt_job *worker_next(struct tgt_worker *worker)
{
	struct tgt_message *job;

	pthread_mutex_lock(&worker->mutex);
	while (!worker->head && !worker->closing)
		pthread_cond_wait(&worker->wake, &worker->mutex);
	job = worker->head;
	if (job)
		worker->head = job->next;
	pthread_mutex_unlock(&worker->mutex);
	return (struct tgt_job *)job;
}

static void *worker_serve(void *arg)
{
	struct tgt_worker *worker = arg;
	struct tgt_job *job;

	tgt_affinity_roam();
	while ((job = worker_next(worker))) {
		job->result = job->work(job);
		pthread_mutex_lock(&worker->mutex);
		worker->jobs--;
		pthread_mutex_unlock(&worker->mutex);
		/* Last: from here on the job, and with the last one the worker, may be freed. */
		tgt_ring_post(job->ring, &job->message);
	}
	return NULL;
}

int tgt_worker_init(struct tgt_worker *worker, const char *name)
{
	*worker = (struct tgt_worker){.name = name};
	if (pthread_mutex_init(&worker->mutex, NULL))
		return -ENOMEM;
	if (pthread_cond_init(&worker->wake, NULL)) {
		pthread_mutex_destroy(&worker->mutex);
		return -ENOMEM;
	}
	return 0;
}

void tgt_worker_fini(struct tgt_worker *worker)
{
	pthread_mutex_lock(&worker->mutex);
	assert(!worker->jobs);
	worker->closing = true;
	pthread_cond_signal(&worker->wake);
	pthread_mutex_unlock(&worker->mutex);
	if (worker->started)
		pthread_join(worker->thread, NULL);
	pthread_cond_destroy(&worker->wake);
	pthread_mutex_destroy(&worker->mutex);
}

/* The mutex is held. Signals are blocked, as in the calling reactor. */
static int worker_start(struct tgt_worker *worker)
{
	int err =
		worker->started ? 0 : -pthread_create(&worker->thread, NULL, worker_serve, worker);

	if (err || worker->started)
		return err;
	worker->started = true;
	pthread_setname_np(worker->thread, worker->name);
	return 0;
}

int tgt_worker_submit(struct tgt_worker *worker, struct tgt_ring *ring, struct tgt_job *job)
{
	int err = -EBUSY;

	pthread_mutex_lock(&worker->mutex);
	if (worker->jobs < TGT_WORKER_JOBS_MAX)
		err = worker_start(worker);
	if (!err) {
		tgt_ring_expect(ring);
		job->ring = ring;
		job->message.next = NULL;
		if (worker->head)
			worker->tail->next = &job->message;
		else
			worker->head = &job->message;
		worker->tail = &job->message;
		worker->jobs++;
		pthread_cond_signal(&worker->wake);
	}
	pthread_mutex_unlock(&worker->mutex);
	return err;
}
