/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Loaded before rblkd (LD_PRELOAD): a process that may make only $RBD_THREADS threads, as under a limit. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef int create_call(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
							  void *(*start)(void *), void *argument)
{
	create_call *real = (create_call *)dlsym(RTLD_NEXT, "pthread_create");
	const char *most = getenv("RBD_THREADS");
	static _Atomic int made;

	return atomic_fetch_add(&made, 1) < atoi(most ? most : "0") ? real(thread, attributes, start, argument)
								    : EAGAIN;
}
