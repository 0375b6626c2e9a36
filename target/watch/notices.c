/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Makes JSON of notices, which people know as events. */
#include "target/watch/notices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* "2026-01-31T12:00:00.250Z" */
static void notice_time(const struct tgt_notice *notice, char text[32])
{
	time_t seconds = (time_t)(notice->time_ns / 1000000000u);
	struct tm utc;
	size_t length;

	gmtime_r(&seconds, &utc);
	length = strftime(text, 24, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text + length, 32 - length, ".%03uZ",
		 (unsigned int)(notice->time_ns / 1000000u % 1000u));
}

static void add_text(json_t *object, const char *key, const char *text)
{
	if (*text)
		json_object_set_new(object, key, tgt_rpc_text(text));
}

json_t *tgt_notice_report(const struct tgt_notice *notice)
{
	char time[32];
	json_t *object;

	notice_time(notice, time);
	object = json_pack("{s:I, s:s, s:s, s:s}", "number", (json_int_t)notice->number, "time",
			   time, "event", tgt_notice_name(notice->kind), "level",
			   tgt_log_level_name(notice->level));
	if (!object)
		return NULL;
	add_text(object, "volume", notice->volume);
	add_text(object, "initiator", notice->initiator);
	add_text(object, "address", notice->address);
	if (notice->error) {
		json_object_set_new(object, "errno", json_integer(notice->error));
		json_object_set_new(object, "error", json_string(strerrorname_np(notice->error)));
	}
	if (notice->suppressed)
		json_object_set_new(object, "suppressed", json_integer(notice->suppressed));
	json_object_set_new(object, "message", tgt_rpc_text(notice->message));
	return object;
}

json_t *tgt_notices_report(uint64_t after)
{
	struct tgt_notice *notices = calloc(TGT_NOTICES_ANSWER, sizeof(*notices));
	json_t *array = json_array();
	uint64_t last = tgt_notices_last();
	unsigned int count;

	if (!notices) {
		json_decref(array);
		return NULL;
	}
	count = tgt_notices_after(after, notices, TGT_NOTICES_ANSWER);
	for (unsigned int i = 0; i < count; i++)
		json_array_append_new(array, tgt_notice_report(&notices[i]));
	free(notices);
	return json_pack("{s:o, s:I}", "events", array, "last", (json_int_t)last);
}

json_t *tgt_notices_method(struct tgt_rpc_call *call)
{
	const json_t *after = json_object_get(call->params, "after");

	if (after && (!json_is_integer(after) || json_integer_value(after) < 0))
		return tgt_rpc_fail(call, TGT_RPC_PARAMS, "after: not the number of an event");
	return tgt_notices_report((uint64_t)json_integer_value(after));
}
