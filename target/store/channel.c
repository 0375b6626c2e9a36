/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A reactor's channels to volumes. The memory of a store is registered and deregistered by a job of
 * the store's worker (worker.h): that pins or releases every page of it, which takes a millisecond
 * and more for each gigabyte.
 */
#include "target/store/channel.h"

#include <stdlib.h>
#include <string.h>
#include "target/base/log.h"
#include "target/store/submit.h"
#include "target/store/worker.h"

/* The work for one channel, from its opening or closing to the end of that. */
struct channel_job {
	struct tgt_job job; /* first: leads back here */
	struct tgt_channel *channel;
	struct tgt_channel_owner owner;
};

/* -- what the worker does ---------------------------------------------------------------------- */

static void channel_work(struct tgt_channel *channel)
{
	for (unsigned int i = 0; i < TGT_FABRICS_MAX; i++)
		if (channel->mr[i])
			fab_mr_work(channel->mr[i]);
}

static int channel_job_run(struct tgt_job *job)
{
	channel_work(((struct channel_job *)job)->channel);
	return 0;
}

/* On the worker's thread, then `done` on this one. False: no thread or memory for it. */
static bool channel_work_on_worker(struct tgt_channel *channel, const struct tgt_channel_owner *owner,
				   void (*done)(struct tgt_reactor *reactor, struct tgt_message *message))
{
	const struct tgt_store_ops *ops = channel->store->ops;
	struct channel_job *work;

	if (!channel->ring || !ops->worker)
		return false;
	work = calloc(1, sizeof(*work));
	if (!work)
		return false;
	work->channel = channel;
	if (owner)
		work->owner = *owner;
	work->job.work = channel_job_run;
	work->job.message.run = done;
	if (tgt_worker_submit(ops->worker(channel->store), channel->ring, &work->job) == 0)
		return true;
	free(work);
	return false;
}

/* -- opening ----------------------------------------------------------------------------------- */

static void register_failed(const struct tgt_channel *channel, struct fab *fab,
			    struct tgt_log_limit *limit)
{
	tgt_log_limited(limit, TGT_LOG_ERROR,
			"volume %s: cannot register its memory: %s (memlock limit? ulimit -l, "
			"LimitMEMLOCK=)",
			channel->volume->config.name, fab_error(fab));
}

/* Ends the registrations that were begun and worked at. One that was refused is NULL then. */
static int channel_register_end(struct tgt_channel *channel, struct tgt_log_limit *limit)
{
	int err = 0;

	for (unsigned int i = 0; i < TGT_FABRICS_MAX; i++) {
		struct fab *fab = channel->mr[i] ? fab_mr_fab(channel->mr[i]) : NULL;
		int one = fab ? fab_mr_end(channel->mr[i]) : 0;

		if (!one)
			continue;
		register_failed(channel, fab, limit);
		channel->mr[i] = NULL;
		err = one;
	}
	channel->state = err ? TGT_CHANNEL_FAILED : TGT_CHANNEL_READY;
	return err;
}

/* For local access only: no peer may access it. */
static int channel_register_begin(struct tgt_channel *channel, struct fab *const *fabs, unsigned int count,
				  struct tgt_log_limit *limit)
{
	const struct tgt_store_info *info = &channel->store->info;

	for (unsigned int i = 0; i < count && info->direct; i++) {
		int err = fab_mr_begin(fabs[i], info->direct, info->bytes, IBV_ACCESS_LOCAL_WRITE,
				       &channel->mr[i]);

		if (!err)
			continue;
		register_failed(channel, fabs[i], limit);
		channel->mr[i] = NULL;
		channel_work(channel);
		channel_register_end(channel, limit);
		return err;
	}
	return 0;
}

static void channel_opened(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct channel_job *work = (struct channel_job *)message; /* through its first members */
	struct tgt_channel_owner owner = work->owner;
	struct tgt_channel *channel = work->channel;

	free(work);
	channel_register_end(channel, owner.log_limit);
	owner.opened(channel, owner.context);
}

int tgt_channel_open(struct tgt_volume *volume, struct tgt_ring *ring, struct fab *const *fabs,
		     unsigned int fab_count, const struct tgt_channel_owner *owner,
		     struct tgt_channel **out)
{
	struct tgt_channel *channel;
	int err = tgt_volume_attach(volume, ring, &channel);

	if (err) {
		tgt_log_limited(owner->log_limit, TGT_LOG_ERROR,
				"volume %s: a reactor cannot use its store: %s",
				volume->config.name, strerror(-err));
		tgt_volume_put(volume);
		return err;
	}
	channel->volume = volume;
	err = channel_register_begin(channel, fabs, fab_count, owner->log_limit);
	if (!err && channel->store->info.direct && channel_work_on_worker(channel, owner, channel_opened)) {
		channel->state = TGT_CHANNEL_OPENING;
	} else if (!err) {
		channel_work(channel);
		err = channel_register_end(channel, owner->log_limit);
	}
	if (err) {
		tgt_channel_close(channel);
		return err;
	}
	*out = channel;
	return 0;
}

/* -- closing ----------------------------------------------------------------------------------- */

static void channel_finish(struct tgt_channel *channel)
{
	struct tgt_volume *volume = channel->volume;

	for (unsigned int i = 0; i < TGT_FABRICS_MAX; i++)
		if (channel->mr[i])
			fab_mr_end(channel->mr[i]);
	tgt_volume_detach(volume, channel);
	tgt_volume_put(volume);
}

static void channel_closed(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct channel_job *work = (struct channel_job *)message;
	struct tgt_channel *channel = work->channel;

	free(work);
	channel_finish(channel);
}

void tgt_channel_close(struct tgt_channel *channel)
{
	bool registered = false;

	for (unsigned int i = 0; i < TGT_FABRICS_MAX; i++) {
		if (!channel->mr[i])
			continue;
		fab_mr_retire(channel->mr[i]);
		registered = true;
	}
	channel->state = TGT_CHANNEL_CLOSING;
	/* The next channel of this reactor may be there before this one has gone: it has the reactor's place among
	 * the range locks. */
	tgt_volume_retire(channel);
	if (registered && channel_work_on_worker(channel, NULL, channel_closed))
		return;
	channel_work(channel);
	channel_finish(channel);
}
