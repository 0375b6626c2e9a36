/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* rblkctl events: those that the daemon has kept, and with --follow each new one. */
#include <stdio.h>
#include <unistd.h>

#include "target/ctl/ctl.h"

#define FOLLOW_S 1

static void event_print(const json_t *event)
{
	printf("%s  %-7s  %-15s  ", ctl_string(event, "time"), ctl_string(event, "level"),
	       ctl_string(event, "event"));
	ctl_print_clean(ctl_string(event, "message"));
	if (ctl_integer(event, "suppressed"))
		printf(" (and %llu like it before)",
		       (unsigned long long)ctl_integer(event, "suppressed"));
	putchar('\n');
}

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
	if (values->json)
		return ctl_json_print(json_pack("{s:o}", "events", all));
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
