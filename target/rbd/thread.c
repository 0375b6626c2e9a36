/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Detached threads for work that waits for the cluster and has an end; conditions with a limit on the monotonic clock.
 * Used by the other files of the module.
 */
#include "target/rbd/rbd.h"

int tgt_rbd_thread(void *(*run)(void *arg), void *arg)
{
	pthread_attr_t detached;
	pthread_t thread;
	int err;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	err = -pthread_create(&thread, &detached, run, arg);
	pthread_attr_destroy(&detached);
	return err;
}

void tgt_rbd_cond_init(pthread_cond_t *condition)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

void tgt_rbd_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u), .tv_nsec = (long)(until_ns % 1000000000u)};

	pthread_cond_timedwait(condition, lock, &until);
}
