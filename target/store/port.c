/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A reactor's ports to volumes. The memory of a store is registered and deregistered by a job of
 * the store's worker (worker.h): that pins or releases every page of it, which takes a millisecond
 * and more for each gigabyte.
 */
#include "target/store/port.h"

#include <stdlib.h>
#include <string.h>
#include "target/base/log.h"
#include "target/store/submit.h"
#include "target/store/worker.h"

/* The work for one port, from its opening or closing to the end of that. */
struct port_job {
	struct tgt_job job; /* first: leads back here */
	struct tgt_port *port;
	struct tgt_port_owner owner;
};

/* -- what the worker does ---------------------------------------------------------------------- */

static void port_work(struct tgt_port *port)
{
	for (unsigned int i = 0; i < TGT_FABRICS_MAX; i++)
		if (port->mr[i])
			fab_mr_work(port->mr[i]);
}

static int port_job_run(struct tgt_job *job)
{
	port_work(((struct port_job *)job)->port);
	return 0;
}

/* On the worker's thread, then `done` on this one. False: no thread or memory for it. */
static bool port_work_aside(struct tgt_port *port, const struct tgt_port_owner *owner,
			    void (*done)(struct tgt_reactor *reactor, struct tgt_message *message))
{
	const struct tgt_store_ops *ops = port->store->ops;
	struct port_job *work;

	if (!port->ring || !ops->worker)
		return false;
	work = calloc(1, sizeof(*work));
	if (!work)
		return false;
	work->port = port;
	if (owner)
		work->owner = *owner;
	work->job.work = port_job_run;
	work->job.message.run = done;
	if (tgt_worker_submit(ops->worker(port->store), port->ring, &work->job) == 0)
		return true;
	free(work);
	return false;
}

/* -- opening ----------------------------------------------------------------------------------- */

static void register_failed(const struct tgt_port *port, struct fab *fab,
			    struct tgt_log_limit *limit)
{
	tgt_log_limited(limit, TGT_LOG_ERROR,
			"volume %s: cannot register its memory: %s (memlock limit? ulimit -l, "
			"LimitMEMLOCK=)",
			port->volume->config.name, fab_error(fab));
}

/* Ends the registrations that were begun and worked at. One that was refused is NULL then. */
static int port_register_end(struct tgt_port *port, struct tgt_log_limit *limit)
{
	int err = 0;

	for (unsigned int i = 0; i < TGT_FABRICS_MAX; i++) {
		struct fab *fab = port->mr[i] ? fab_mr_fab(port->mr[i]) : NULL;
		int one = fab ? fab_mr_end(port->mr[i]) : 0;

		if (!one)
			continue;
		register_failed(port, fab, limit);
		port->mr[i] = NULL;
		err = one;
	}
	port->state = err ? TGT_PORT_FAILED : TGT_PORT_READY;
	return err;
}

/* For local access only: no peer may access it. */
static int port_register_begin(struct tgt_port *port, struct fab *const *fabs, unsigned int count,
			       struct tgt_log_limit *limit)
{
	const struct tgt_store_info *info = &port->store->info;

	for (unsigned int i = 0; i < count && info->direct; i++) {
		int err = fab_mr_begin(fabs[i], info->direct, info->bytes, IBV_ACCESS_LOCAL_WRITE,
				       &port->mr[i]);

		if (!err)
			continue;
		register_failed(port, fabs[i], limit);
		port->mr[i] = NULL;
		port_work(port);
		port_register_end(port, limit);
		return err;
	}
	return 0;
}

static void port_opened(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct port_job *work = (struct port_job *)message; /* through its first members */
	struct tgt_port_owner owner = work->owner;
	struct tgt_port *port = work->port;

	free(work);
	port_register_end(port, owner.log_limit);
	owner.opened(port, owner.context);
}

int tgt_port_open(struct tgt_volume *volume, struct tgt_ring *ring, struct fab *const *fabs,
		  unsigned int fab_count, const struct tgt_port_owner *owner,
		  struct tgt_port **out)
{
	struct tgt_port *port;
	int err = tgt_volume_attach(volume, ring, &port);

	if (err) {
		tgt_log_limited(owner->log_limit, TGT_LOG_ERROR,
				"volume %s: a reactor cannot use its store: %s",
				volume->config.name, strerror(-err));
		tgt_volume_put(volume);
		return err;
	}
	port->volume = volume;
	err = port_register_begin(port, fabs, fab_count, owner->log_limit);
	if (!err && port->store->info.direct && port_work_aside(port, owner, port_opened)) {
		port->state = TGT_PORT_OPENING;
	} else if (!err) {
		port_work(port);
		err = port_register_end(port, owner->log_limit);
	}
	if (err) {
		tgt_port_close(port);
		return err;
	}
	*out = port;
	return 0;
}

/* -- closing ----------------------------------------------------------------------------------- */

static void port_finish(struct tgt_port *port)
{
	struct tgt_volume *volume = port->volume;

	for (unsigned int i = 0; i < TGT_FABRICS_MAX; i++)
		if (port->mr[i])
			fab_mr_end(port->mr[i]);
	tgt_volume_detach(volume, port);
	tgt_volume_put(volume);
}

static void port_closed(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct port_job *work = (struct port_job *)message;
	struct tgt_port *port = work->port;

	free(work);
	port_finish(port);
}

void tgt_port_close(struct tgt_port *port)
{
	bool registered = false;

	for (unsigned int i = 0; i < TGT_FABRICS_MAX; i++) {
		if (!port->mr[i])
			continue;
		fab_mr_retire(port->mr[i]);
		registered = true;
	}
	port->state = TGT_PORT_CLOSING;
	/* The next port of this reactor may be there before this one has gone: it has the reactor's place among the claims. */
	tgt_volume_retire(port);
	if (registered && port_work_aside(port, NULL, port_closed))
		return;
	port_work(port);
	port_finish(port);
}
