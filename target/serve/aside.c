/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The fabrics' long work, on the reactor's helper thread. */
#include "target/serve/aside.h"

#include <stdlib.h>
#include "target/serve/reactor_impl.h"

struct aside_job {
	struct tgt_job job; /* first: leads back here */
	struct fab_job *work;
};

static int aside_run(struct tgt_job *job)
{
	struct fab_job *work = ((struct aside_job *)job)->work;

	work->run(work);
	return 0;
}

static void aside_end(struct tgt_ring_op *op, int result, uint32_t flags)
{
	struct aside_job *aside = (struct aside_job *)op; /* through its first members */
	struct fab_job *work = aside->work;

	(void)result;
	(void)flags;
	free(aside);
	work->end(work);
}

bool tgt_aside_take(struct fab_job *work, void *user)
{
	struct tgt_reactor *reactor = user;
	struct aside_job *aside = calloc(1, sizeof(*aside));

	if (!aside)
		return false;
	aside->work = work;
	aside->job.run = aside_run;
	aside->job.post.op.complete = aside_end;
	if (tgt_worker_submit(&reactor->aside, reactor->ring, &aside->job) == 0)
		return true;
	free(aside);
	return false;
}
