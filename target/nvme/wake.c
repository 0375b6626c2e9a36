/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The process's table of eventfds. */
#include "target/nvme/wake.h"

#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#define WAKES_MAX 1024u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int wakes[WAKES_MAX];
static unsigned int count;

void nvme_wake_add(int eventfd)
{
	pthread_mutex_lock(&lock);
	if (count < WAKES_MAX)
		wakes[count++] = eventfd;
	pthread_mutex_unlock(&lock);
}

void nvme_wake_remove(int eventfd)
{
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < count; i++)
		if (wakes[i] == eventfd)
			wakes[i--] = wakes[--count];
	pthread_mutex_unlock(&lock);
}

void nvme_wake_all(void)
{
	const uint64_t one = 1;

	/* Under the lock, so that none is closed meanwhile. One that is full wakes, too. */
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < count; i++)
		if (write(wakes[i], &one, sizeof(one)) < 0)
			continue;
	pthread_mutex_unlock(&lock);
}
