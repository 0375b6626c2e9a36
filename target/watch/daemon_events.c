/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Makes JSON of daemon events, which people know as events. */
#include "target/watch/daemon_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* "2026-01-31T12:00:00.250Z" */
static void event_time(const struct tgt_daemon_event *event, char text[32])
{
	time_t seconds = (time_t)(event->time_ns / 1000000000u);
	struct tm utc;
	size_t length;

	gmtime_r(&seconds, &utc);
	length = strftime(text, 24, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text + length, 32 - length, ".%03uZ",
		 (unsigned int)(event->time_ns / 1000000u % 1000u));
}

static void add_text(json_t *object, const char *key, const char *text)
{
	if (*text)
		json_object_set_new(object, key, tgt_rpc_text(text));
}

json_t *tgt_daemon_event_report(const struct tgt_daemon_event *event)
{
	char time[32];
	json_t *object;

	event_time(event, time);
	object = json_pack("{s:I, s:s, s:s, s:s}", "number", (json_int_t)event->number, "time",
			   time, "event", tgt_daemon_event_name(event->kind), "level",
			   tgt_log_level_name(event->level));
	if (!object)
		return NULL;
	add_text(object, "volume", event->volume);
	add_text(object, "initiator", event->initiator);
	add_text(object, "address", event->address);
	if (event->error) {
		json_object_set_new(object, "errno", json_integer(event->error));
		json_object_set_new(object, "error", json_string(strerrorname_np(event->error)));
	}
	if (event->suppressed)
		json_object_set_new(object, "suppressed", json_integer(event->suppressed));
	json_object_set_new(object, "message", tgt_rpc_text(event->message));
	return object;
}

json_t *tgt_daemon_events_report(uint64_t after)
{
	struct tgt_daemon_event *events = calloc(TGT_DAEMON_EVENTS_ANSWER, sizeof(*events));
	json_t *array = json_array();
	uint64_t last = tgt_daemon_events_last();
	unsigned int count;

	if (!events) {
		json_decref(array);
		return NULL;
	}
	count = tgt_daemon_events_after(after, events, TGT_DAEMON_EVENTS_ANSWER);
	for (unsigned int i = 0; i < count; i++)
		json_array_append_new(array, tgt_daemon_event_report(&events[i]));
	free(events);
	return json_pack("{s:o, s:I}", "events", array, "last", (json_int_t)last);
}

json_t *tgt_daemon_events_method(struct tgt_rpc_call *call)
{
	const json_t *after = json_object_get(call->params, "after");

	if (after && (!json_is_integer(after) || json_integer_value(after) < 0))
		return tgt_rpc_fail(call, TGT_RPC_PARAMS, "after: not the number of an event");
	return tgt_daemon_events_report((uint64_t)json_integer_value(after));
}
