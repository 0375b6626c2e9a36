/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Gives handles their buckets at limits; a reactor has one for each limit that a handle of its needs. */
#include "target/serve/limits.h"

#include <stdlib.h>
#include "target/io/throttle.h"
#include "target/serve/queue.h"
#include "target/store/submit.h"

/* NULL: there is no limit; or no memory: nothing is refused for that. */
static struct tgt_token_bucket *bucket_get(const struct tgt_session *session, struct tgt_limit *limit)
{
	struct tgt_loop *loop = &session->reactor->loop;
	struct tgt_token_bucket *bucket;

	if (!limit)
		return NULL;
	TAILQ_FOREACH(bucket, &loop->buckets, link)
		if (bucket->limit == limit) {
			bucket->users++;
			/* The next one is often for the same. */
			TAILQ_REMOVE(&loop->buckets, bucket, link);
			TAILQ_INSERT_HEAD(&loop->buckets, bucket, link);
			return bucket;
		}
	bucket = malloc(sizeof(*bucket));
	if (!bucket) {
		tgt_log_limited(&loop->log_limit, TGT_LOG_WARNING, "session %u [%s]: out of memory: it is not limited",
				session->number, session->peer);
		return NULL;
	}
	tgt_token_bucket_init(bucket, tgt_limit_ref(limit));
	bucket->users = 1;
	TAILQ_INSERT_TAIL(&loop->buckets, bucket, link);
	return bucket;
}

static void bucket_put(struct tgt_loop *loop, struct tgt_token_bucket *bucket)
{
	if (!bucket || --bucket->users)
		return;
	TAILQ_REMOVE(&loop->buckets, bucket, link);
	tgt_token_bucket_fini(bucket, loop->now_ns);
	free(bucket);
}

static void handle_set(struct tgt_handle *handle, struct tgt_limit *volume, struct tgt_limit *initiator)
{
	struct tgt_loop *loop = &handle->session->reactor->loop;
	struct tgt_access *access = &handle->access;
	struct tgt_limit *limits[TGT_ACCESS_BUCKETS] = {volume, initiator};

	access->limited = false;
	for (unsigned int i = 0; i < TGT_ACCESS_BUCKETS; i++) {
		struct tgt_token_bucket *before = access->buckets[i];

		if (limits[i] != (before ? before->limit : NULL)) {
			access->buckets[i] = bucket_get(handle->session, limits[i]);
			bucket_put(loop, before);
		}
		access->limited |= access->buckets[i] != NULL;
	}
}

/* The handle, or all of the session. */
static void session_limit(struct tgt_session *session, struct tgt_handle *only)
{
	struct tgt_rules *rules = tgt_reactor_rules(session->reactor);
	const struct tgt_who who = tgt_session_who(session);
	struct tgt_limit *initiator = tgt_rules_initiator_limit(rules, &who);
	bool priority = tgt_rules_initiator_priority(rules, &who);
	struct tgt_handle *handle;

	session->weight = tgt_rules_weight(rules, &who);
	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++)
		if (session->slots[i].queue)
			session->slots[i].queue->io_queue.owner =
				tgt_inflight_owner(session->number, session->weight);
	tgt_session_each_handle(handle, session)
		if (handle->access.channel && (!only || handle == only)) {
			const char *volume = tgt_handle_volume(handle)->config.name;

			handle_set(handle, tgt_rules_volume_limit(rules, volume), initiator);
			tgt_volume_pace(handle->access.channel, tgt_rules_volume_paced(rules, volume));
			handle->access.flags =
				priority || tgt_rules_volume_priority(rules, volume) ? RBLK_CMD_PRIORITY : 0;
		}
	tgt_rules_put(rules);
}

void tgt_limits_opened(struct tgt_handle *handle)
{
	session_limit(handle->session, handle);
}

void tgt_limits_closed(struct tgt_handle *handle)
{
	handle_set(handle, NULL, NULL);
}

void tgt_limits_named(struct tgt_session *session)
{
	session_limit(session, NULL);
	tgt_throttle_again(&session->reactor->loop);
}

void tgt_limits_changed(struct tgt_reactor *reactor)
{
	struct tgt_session *session;

	TAILQ_FOREACH(session, &reactor->sessions, link)
		session_limit(session, NULL);
	tgt_throttle_again(&reactor->loop);
}
