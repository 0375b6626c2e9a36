/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Gives handles their seats at limits; a reactor has one for each limit that a handle of its needs. */
#include "target/serve/limits.h"

#include <stdlib.h>
#include "target/io/limited.h"
#include "target/serve/queue.h"

/* NULL: there is no limit; or no memory: nothing is refused for that. */
static struct tgt_seat *seat_get(struct tgt_turn *turn, struct tgt_limit *limit)
{
	struct tgt_seat *seat;

	if (!limit)
		return NULL;
	TAILQ_FOREACH(seat, &turn->seats, link)
		if (seat->limit == limit) {
			seat->users++;
			/* The next one is often for the same. */
			TAILQ_REMOVE(&turn->seats, seat, link);
			TAILQ_INSERT_HEAD(&turn->seats, seat, link);
			return seat;
		}
	seat = malloc(sizeof(*seat));
	if (!seat) {
		tgt_log_limited(&turn->log_limit, TGT_LOG_WARNING,
				"out of memory: a session is not limited");
		return NULL;
	}
	tgt_seat_init(seat, tgt_limit_ref(limit));
	seat->users = 1;
	TAILQ_INSERT_TAIL(&turn->seats, seat, link);
	return seat;
}

static void seat_put(struct tgt_turn *turn, struct tgt_seat *seat)
{
	if (!seat || --seat->users)
		return;
	TAILQ_REMOVE(&turn->seats, seat, link);
	tgt_seat_fini(seat, turn->now_ns);
	free(seat);
}

static void handle_set(struct tgt_handle *handle, struct tgt_limit *volume, struct tgt_limit *initiator)
{
	struct tgt_turn *turn = &handle->session->reactor->turn;
	struct tgt_access *access = &handle->access;
	struct tgt_limit *limits[TGT_ACCESS_SEATS] = {volume, initiator};

	access->limited = false;
	for (unsigned int i = 0; i < TGT_ACCESS_SEATS; i++) {
		struct tgt_seat *before = access->seats[i];

		if (limits[i] != (before ? before->limit : NULL)) {
			access->seats[i] = seat_get(turn, limits[i]);
			seat_put(turn, before);
		}
		access->limited |= access->seats[i] != NULL;
	}
}

/* `initiator`: its session's limit. */
static void handle_look(struct tgt_handle *handle, const struct tgt_rules *rules, struct tgt_limit *initiator)
{
	if (handle->access.port)
		handle_set(handle, tgt_rules_volume_limit(rules, handle->access.port->volume->config.name), initiator);
}

static struct tgt_limit *session_limit(const struct tgt_session *session, const struct tgt_rules *rules)
{
	const struct tgt_who who = tgt_session_who(session);

	return tgt_rules_initiator_limit(rules, &who);
}

static void session_weigh(struct tgt_session *session, const struct tgt_rules *rules)
{
	const struct tgt_who who = tgt_session_who(session);

	session->weight = tgt_rules_weight(rules, &who);
	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++)
		if (session->places[i].queue)
			session->places[i].queue->lane.owner =
				tgt_window_owner(session->number, session->weight);
}

void tgt_limits_opened(struct tgt_handle *handle)
{
	struct tgt_rules *rules = tgt_reactor_rules(handle->session->reactor);

	handle_look(handle, rules, session_limit(handle->session, rules));
	session_weigh(handle->session, rules);
	tgt_rules_put(rules);
}

void tgt_limits_closed(struct tgt_handle *handle)
{
	handle_set(handle, NULL, NULL);
}

static void session_look(struct tgt_session *session, const struct tgt_rules *rules)
{
	struct tgt_limit *limit = session_limit(session, rules);

	session_weigh(session, rules);
	for (uint32_t i = 0; i < session->handle_slots; i++)
		if (session->handles[i])
			handle_look(session->handles[i], rules, limit);
}

void tgt_limits_named(struct tgt_session *session)
{
	struct tgt_rules *rules = tgt_reactor_rules(session->reactor);

	session_look(session, rules);
	tgt_rules_put(rules);
	tgt_limited_again(&session->reactor->turn);
}

void tgt_limits_changed(struct tgt_reactor *reactor)
{
	struct tgt_rules *rules = tgt_reactor_rules(reactor);
	struct tgt_session *session;

	TAILQ_FOREACH(session, &reactor->sessions, link)
		session_look(session, rules);
	tgt_rules_put(rules);
	tgt_limited_again(&reactor->turn);
}
