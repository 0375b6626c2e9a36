/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * target/store/worker.h without a thread: a job runs at once, and its end is found by the ring's
 * next reap. Linked instead of target/store/worker.c.
 */
#include "target/store/worker.h"

int tgt_worker_init(struct tgt_worker *worker, const char *name)
{
	*worker = (struct tgt_worker){.name = name};
	return 0;
}

void tgt_worker_fini(struct tgt_worker *worker)
{
	(void)worker; /* what it was given is in its ring, which says so if it is ended too early */
}

int tgt_worker_submit(struct tgt_worker *worker, struct tgt_ring *ring, struct tgt_job *job)
{
	job->result = job->work(job);
	tgt_ring_send(ring, &job->message);
	return 0;
}
