/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The fabrics' long work, on the reactor's helper thread. */
#include "target/serve/qp_helper.h"

#include <stdlib.h>
#include "proto/words/units.h"
#include "target/serve/reactor_impl.h"

#define NS_PER_S 1000000000ull
/* A driver that works takes milliseconds. */
#define LATE_NS (5 * NS_PER_S)

struct qp_helper_job {
	struct tgt_job job; /* first: leads back here */
	struct fab_job *work;
};

static int job_run(struct tgt_job *job)
{
	struct fab_job *work = ((struct qp_helper_job *)job)->work;

	work->run(work);
	return 0;
}

static void job_end(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct qp_helper_job *qp_helper = (struct qp_helper_job *)message; /* through its first members */
	struct fab_job *work = qp_helper->work;

	reactor->qp_helper_jobs--;
	reactor->qp_helper_since_ns = reactor->loop.now_ns;
	free(qp_helper);
	work->end(work);
}

bool tgt_qp_helper_take(struct fab_job *work, void *user)
{
	struct tgt_reactor *reactor = user;
	struct qp_helper_job *qp_helper = calloc(1, sizeof(*qp_helper));

	if (!qp_helper)
		return false;
	qp_helper->work = work;
	qp_helper->job.work = job_run;
	qp_helper->job.message.run = job_end;
	if (tgt_worker_submit(&reactor->qp_helper, reactor->ring, &qp_helper->job)) {
		free(qp_helper);
		return false;
	}
	if (!reactor->qp_helper_jobs++)
		reactor->qp_helper_since_ns = reactor->loop.now_ns;
	return true;
}

void tgt_qp_helper_check(struct tgt_reactor *reactor)
{
	uint64_t late_ns = reactor->loop.now_ns - reactor->qp_helper_since_ns;
	char late[UNITS_TEXT_BYTES];

	if (reactor->qp_helper_jobs && late_ns >= LATE_NS)
		tgt_log_limited(&reactor->loop.log_limit, TGT_LOG_ERROR,
				"reactor %u: a driver has taken %s to make or destroy a queue pair: logins and the ends "
				"of connections wait for it",
				reactor->index, units_format_span(late_ns, late));
}
