/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The fabrics' long work, on the reactor's helper thread. */
#include "target/serve/aside.h"

#include <stdlib.h>
#include "target/serve/reactor_impl.h"

#define NS_PER_S 1000000000ull
/* A driver that works takes milliseconds. */
#define ASIDE_LATE_NS (5 * NS_PER_S)

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

static void aside_end(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct aside_job *aside = (struct aside_job *)message; /* through its first members */
	struct fab_job *work = aside->work;

	reactor->aside_jobs--;
	reactor->aside_since_ns = reactor->loop.now_ns;
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
	aside->job.work = aside_run;
	aside->job.message.run = aside_end;
	if (tgt_worker_submit(&reactor->aside, reactor->ring, &aside->job)) {
		free(aside);
		return false;
	}
	if (!reactor->aside_jobs++)
		reactor->aside_since_ns = reactor->loop.now_ns;
	return true;
}

void tgt_aside_check(struct tgt_reactor *reactor)
{
	uint64_t late_ns = reactor->loop.now_ns - reactor->aside_since_ns;

	if (reactor->aside_jobs && late_ns >= ASIDE_LATE_NS)
		tgt_log_limited(&reactor->loop.log_limit, TGT_LOG_ERROR,
				"reactor %u: a driver has taken %llu s to make or destroy a queue pair: logins and the ends "
				"of connections wait for it",
				reactor->index, (unsigned long long)(late_ns / NS_PER_S));
}
