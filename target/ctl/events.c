/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* rblkctl events: those that the daemon has kept, and with --follow each new one; those that are asked for, and like ones together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "target/ctl/ctl.h"

#define FOLLOW_S 1

/* Like events are one line, if each is no longer than this after the one before. */
#define GROUP_S 600

/* -- which are shown --------------------------------------------------------------------------- */

/* Numbers the words of verbs.c, the most important first. */
static unsigned int level_number(const char *level)
{
	static const char *const levels[] = {"error", "warning", "info", "debug"};
	unsigned int number = 0;

	while (number < 3 && strcmp(levels[number], level))
		number++;
	return number;
}

/* Seconds since the epoch, of "2026-01-31T12:00:00.250Z"; 0: it is none. */
static time_t event_s(const json_t *event)
{
	struct tm utc = {0};

	return strptime(ctl_string(event, "time"), "%Y-%m-%dT%H:%M:%S", &utc) ? timegm(&utc) : 0;
}

static bool is_wanted(const struct ctl_values *values, const json_t *event)
{
	if (values->level && level_number(ctl_string(event, "level")) > level_number(values->level))
		return false;
	if (values->volume && strcmp(ctl_string(event, "volume"), values->volume))
		return false;
	if (values->initiator && strcmp(ctl_string(event, "initiator"), values->initiator))
		return false;
	return !values->since_ms || event_s(event) + (time_t)(values->since_ms / 1000) >= time(NULL);
}

static void events_choose(const struct ctl_values *values, json_t *events)
{
	for (size_t i = json_array_size(events); i-- > 0;)
		if (!is_wanted(values, json_array_get(events, i)))
			json_array_remove(events, i);
}

/* -- like ones --------------------------------------------------------------------------------- */

static bool is_like(const json_t *a, const json_t *b)
{
	static const char *const keys[] = {"event", "level", "volume", "initiator", "error"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(ctl_string(a, keys[i]), ctl_string(b, keys[i])))
			return false;
	return event_s(b) - event_s(a) <= GROUP_S;
}

/*
 * An event takes the place of like ones before it, with how many they were ("like") and when the first of them was
 * ("first"). What was not kept ("suppressed") was of the kind, and perhaps of another volume or
 * initiator. The daemon keeps 1,000 events, so looking through all is short.
 */
static void events_group(json_t *events)
{
	for (size_t i = 0; i < json_array_size(events); i++) {
		json_t *event = json_array_get(events, i);
		uint64_t like, lost;
		const char *first = NULL;

		for (size_t j = i; j-- > 0;) {
			const json_t *before = json_array_get(events, j);

			if (!is_like(before, event))
				continue;
			like = ctl_integer(before, "like") + 1;
			lost = ctl_integer(before, "suppressed") + ctl_integer(event, "suppressed");
			first = *ctl_string(before, "first") ? ctl_string(before, "first") : ctl_string(before, "time");
			json_object_set_new(event, "first", json_string(first));
			json_object_set_new(event, "like", json_integer((json_int_t)like));
			json_object_set_new(event, "suppressed", json_integer((json_int_t)lost));
			json_array_remove(events, j);
			i--;
			break;
		}
	}
}

static void event_print(const json_t *event)
{
	unsigned long long like = ctl_integer(event, "like"), lost = ctl_integer(event, "suppressed");

	printf("%s  %-7s  %-15s  ", ctl_string(event, "time"), ctl_string(event, "level"),
	       ctl_string(event, "event"));
	ctl_print_clean(ctl_string(event, "message"));
	if (like)
		printf(" (and %llu like it since %s)", like, ctl_string(event, "first"));
	if (lost)
		printf(" (%llu more of its kind were not kept)", lost);
	putchar('\n');
}

/* -- printing ---------------------------------------------------------------------------------- */

/* One line each. False: standard output takes no more. */
static bool events_print(const json_t *events, bool as_json)
{
	const json_t *event;
	size_t i;

	json_array_foreach(events, i, event)
	{
		if (!as_json) {
			event_print(event);
			continue;
		}
		json_dumpf(event, stdout, JSON_COMPACT);
		putchar('\n');
	}
	return !fflush(stdout);
}

/* The events that have been read: up to the one with this number. */
struct events_read {
	uint64_t after;
	bool all; /* nothing that was there at first is left to read */
};

/* The next events. NULL after a message. */
static json_t *events_next(struct ctl_connection *connection, struct events_read *read)
{
	json_t *result = ctl_call(connection, "events",
				  json_pack("{s:I}", "after", (json_int_t)read->after));
	const json_t *events = json_object_get(result, "events");
	size_t count = json_array_size(events);
	uint64_t last, missed;

	if (!count) {
		read->all = true;
		return result;
	}
	last = ctl_integer(json_array_get(events, count - 1), "number");
	missed = last > read->after + count ? last - read->after - count : 0;
	/* At first, what is gone is simply old. */
	if (read->all && missed)
		fprintf(stderr, "rblkctl: %llu events came too fast, and were missed\n",
			(unsigned long long)missed);
	read->after = last;
	return result;
}

/* Until the daemon ends, or nobody reads. */
static int events_follow(const struct ctl_values *values, struct ctl_connection *connection)
{
	struct events_read read = {0};
	json_t *result;
	bool any, taken;

	while ((result = events_next(connection, &read))) {
		any = json_array_size(json_object_get(result, "events"));
		events_choose(values, json_object_get(result, "events"));
		taken = events_print(json_object_get(result, "events"), values->json);
		json_decref(result);
		if (!taken)
			return CTL_FAILED;
		if (!any)
			sleep(FOLLOW_S);
	}
	return CTL_FAILED;
}

static int events_all(const struct ctl_values *values, struct ctl_connection *connection)
{
	json_t *all = json_array(), *result;
	struct events_read read = {0};
	bool any = true;

	while (any && (result = events_next(connection, &read))) {
		any = json_array_size(json_object_get(result, "events"));
		json_array_extend(all, json_object_get(result, "events"));
		json_decref(result);
	}
	if (any) {
		json_decref(all);
		return CTL_FAILED;
	}
	events_choose(values, all);
	if (values->json)
		return ctl_json_print(json_pack("{s:o}", "events", all));
	if (!values->each)
		events_group(all);
	if (!json_array_size(all))
		printf("no events\n");
	any = events_print(all, false);
	json_decref(all);
	return any ? CTL_OK : CTL_FAILED;
}

int ctl_events(const struct ctl_values *values, char **operands, int count)
{
	struct ctl_connection *connection = ctl_connect(values->socket);
	int status;

	(void)operands;
	(void)count;
	if (!connection)
		return CTL_FAILED;
	status =
		values->follow ? events_follow(values, connection) : events_all(values, connection);
	ctl_disconnect(connection);
	return status;
}
