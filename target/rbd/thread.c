/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Threads for what waits for the cluster, has an end, and is joined by nobody. */
#include "target/rbd/rbd.h"

#include <pthread.h>

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
