/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The thread for Diffie-Hellman, and what waits for it. */
#include "target/nvme/dh.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>
#include "proto/core/env.h"
#include "target/base/affinity.h"

enum job_state {
	JOB_IDLE,  /* its owner's */
	JOB_WAITS, /* in the list */
	JOB_RUNS,  /* the thread's */
	JOB_LEFT,  /* likewise, and has no owner any more */
	JOB_DONE,  /* its owner's, who has not been told */
};

struct nvme_dh_job {
	TAILQ_ENTRY(nvme_dh_job) link;
	enum job_state state; /* the lock's */
	uint8_t group;
	bool agrees, well;
	uint8_t network[FAB_NETWORK_BYTES];
	EVP_PKEY *own;
	uint8_t public[NVME_DH_MAX], value[NVME_DH_MAX], shared[NVME_DH_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static TAILQ_HEAD(, nvme_dh_job) waiting = TAILQ_HEAD_INITIALIZER(waiting);
static unsigned int waiting_count;
static const struct nvme_dh_job *running;
static pthread_t thread;
static bool started, stopping;

/* -- the thread ---------------------------------------------------------------------------------- */

static void job_destroy(struct nvme_dh_job *job)
{
	EVP_PKEY_free(job->own);
	OPENSSL_cleanse(job->shared, sizeof(job->shared));
	free(job);
}

/* NULL: the end. */
static struct nvme_dh_job *job_take(void)
{
	struct nvme_dh_job *job;

	pthread_mutex_lock(&lock);
	while (TAILQ_EMPTY(&waiting) && !stopping)
		pthread_cond_wait(&wake, &lock);
	job = stopping ? NULL : TAILQ_FIRST(&waiting);
	if (job) {
		TAILQ_REMOVE(&waiting, job, link);
		waiting_count--;
		job->state = JOB_RUNS;
		running = job;
	}
	pthread_mutex_unlock(&lock);
	return job;
}

static void job_run(struct nvme_dh_job *job)
{
	if (job->agrees) {
		job->well = nvme_dh_agree(job->own, job->value, job->shared);
		return;
	}
	job->own = nvme_dh_create(job->group, job->public);
	job->well = job->own;
}

static void job_give(struct nvme_dh_job *job)
{
	bool left;

	pthread_mutex_lock(&lock);
	left = job->state == JOB_LEFT;
	job->state = JOB_DONE;
	running = NULL;
	pthread_mutex_unlock(&lock);
	if (left)
		job_destroy(job);
}

static void *dh_thread(void *arg)
{
	struct nvme_dh_job *job;

	(void)arg;
	tgt_affinity_roam();
	while ((job = job_take())) {
		uint64_t began_ns = env_now_ns(), took_ns;
		struct timespec rest;

		job_run(job);
		job_give(job);
		took_ns = env_now_ns() - began_ns;
		rest.tv_sec = (time_t)(took_ns / 1000000000u);
		rest.tv_nsec = (long)(took_ns % 1000000000u);
		nanosleep(&rest, NULL);
	}
	return NULL;
}

/* From the first host on. With the lock. */
static bool thread_start(void)
{
	if (started)
		return true;
	if (pthread_create(&thread, NULL, dh_thread, NULL))
		return false;
	pthread_setname_np(thread, "nvme-dh");
	started = true;
	return true;
}

void nvme_dh_stop(void)
{
	bool joins;

	pthread_mutex_lock(&lock);
	stopping = true;
	joins = started;
	pthread_cond_signal(&wake);
	pthread_mutex_unlock(&lock);
	if (joins)
		pthread_join(thread, NULL);
}

/* -- its owner ----------------------------------------------------------------------------------- */

struct nvme_dh_job *nvme_dh_job_create(uint8_t group, const uint8_t network[FAB_NETWORK_BYTES])
{
	struct nvme_dh_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->group = group;
	memcpy(job->network, network, sizeof(job->network));
	return job;
}

static bool is_alike(const struct nvme_dh_job *one, const struct nvme_dh_job *other)
{
	return one->agrees == other->agrees && !memcmp(one->network, other->network, sizeof(one->network));
}

/* A network has one job that makes a key pair, and one that has a pair: or those of a subnet with many hosts would end
 * only by luck. With the lock. */
static bool network_has_one(const struct nvme_dh_job *job)
{
	const struct nvme_dh_job *other;

	if (running && is_alike(running, job))
		return true;
	TAILQ_FOREACH(other, &waiting, link)
		if (is_alike(other, job))
			return true;
	return false;
}

/* Those that have a key pair end first, however many others begin. With the lock. */
static void job_queue(struct nvme_dh_job *job)
{
	struct nvme_dh_job *before = job->agrees ? TAILQ_FIRST(&waiting) : NULL;

	while (before && before->agrees)
		before = TAILQ_NEXT(before, link);
	if (before)
		TAILQ_INSERT_BEFORE(before, job, link);
	else
		TAILQ_INSERT_TAIL(&waiting, job, link);
	job->state = JOB_WAITS;
	waiting_count++;
	pthread_cond_signal(&wake);
}

bool nvme_dh_job_run(struct nvme_dh_job *job, bool *well)
{
	bool done;

	pthread_mutex_lock(&lock);
	done = job->state == JOB_DONE;
	if (done)
		job->state = JOB_IDLE;
	else if (job->state == JOB_IDLE && (job->agrees || waiting_count < NVME_DH_JOBS_MAX) && !stopping &&
		 !network_has_one(job) && thread_start())
		job_queue(job);
	pthread_mutex_unlock(&lock);
	*well = done && job->well;
	return done;
}

const uint8_t *nvme_dh_job_public(const struct nvme_dh_job *job)
{
	return job->public;
}

void nvme_dh_job_peer(struct nvme_dh_job *job, const uint8_t *value)
{
	memcpy(job->value, value, nvme_dh_bytes(job->group));
	job->agrees = true;
}

const uint8_t *nvme_dh_job_shared(const struct nvme_dh_job *job)
{
	return job->shared;
}

void nvme_dh_job_free(struct nvme_dh_job *job)
{
	bool runs;

	if (!job)
		return;
	pthread_mutex_lock(&lock);
	runs = job->state == JOB_RUNS;
	if (runs) {
		job->state = JOB_LEFT;
	} else if (job->state == JOB_WAITS) {
		TAILQ_REMOVE(&waiting, job, link);
		waiting_count--;
	}
	pthread_mutex_unlock(&lock);
	if (!runs)
		job_destroy(job);
}
