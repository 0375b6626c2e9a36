/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A helper thread for what may block and has no way through io_uring: SEEK_HOLE reads a file system's
 * metadata; BLKDISCARD; a driver makes a queue pair. It takes jobs one after the other from a bounded queue and
 * hands their ends back through the ring of the reactor that gave them. Each store has its own, so that a
 * disk that hangs delays no other volume; so have each reactor (serve/qp_helper.h) and the registry. The simulator
 * links one without a thread in its place.
 */
#ifndef RBLK_TARGET_STORE_WORKER_H
#define RBLK_TARGET_STORE_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include "target/store/ring.h"

/* Jobs that wait or run. Each session has few at a time (io/extents.c), each
 * connection one. */
#define TGT_WORKER_JOBS_MAX 256u

/* The reactor's until submit and from message.run on; the worker's in between. */
struct tgt_job {
	struct tgt_message message;	  /* first; its `run` is the owner's, for when the work is done */
	int (*work)(struct tgt_job *job); /* on the worker's thread */
	int result;			  /* of work() */
	struct tgt_ring *ring;
};

/* Its owner's (a store, a reactor, the registry), from opening to closing. */
struct tgt_worker {
	pthread_mutex_t mutex; /* of all that follows */
	pthread_cond_t wake;
	struct tgt_message *head, *tail; /* of jobs */
	unsigned int jobs;
	bool started, closing;
	const char *name; /* of the thread */
	pthread_t thread;
};

/* The thread's name, at most 15 characters, outlives the worker. */
int tgt_worker_init(struct tgt_worker *worker, const char *name);
/* No job waits or runs. */
void tgt_worker_fini(struct tgt_worker *worker);

/*
 * Any reactor. 0: message.run is called after work(), in the reap of `ring`.
 * -EBUSY: the queue is full, or negative errno: there is no thread; then nothing was begun.
 */
int tgt_worker_submit(struct tgt_worker *worker, struct tgt_ring *ring, struct tgt_job *job);

#endif
