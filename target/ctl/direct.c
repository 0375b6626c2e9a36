/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The verbs that end something for others, and what they end: reservations, clear, kick. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "target/ctl/ctl.h"

#define CELLS(...) ((const char *const[]){__VA_ARGS__})

/* How long a volume's file of reservations may take to be written. */
#define CLEAR_MS 30000
#define CLEAR_STEP_MS 50

static void reservation_rows(struct screen_table *table, const json_t *reservation)
{
	const json_t *registrant;
	size_t i;

	json_array_foreach(json_object_get(reservation, "registrants"), i, registrant)
		screen_table_row(table, CELLS(ctl_string(reservation, "volume"), ctl_string(reservation, "type"),
					      json_is_true(json_object_get(reservation, "persistent")) ? "yes" : "no",
					      ctl_string(registrant, "initiator"), ctl_string(registrant, "key"),
					      json_is_true(json_object_get(registrant, "holder")) ? "yes" : "no"));
}

static void reservations_print(const json_t *result)
{
	struct screen_table *table = screen_table_create(6);
	const json_t *reservation;
	size_t i;

	screen_table_row(table, CELLS("VOLUME", "TYPE", "PERSISTENT", "REGISTRANT", "KEY", "HOLDER"));
	json_array_foreach(json_object_get(result, "reservations"), i, reservation)
		reservation_rows(table, reservation);
	screen_table_list(table, "no registrations");
	screen_table_destroy(table);
}

int ctl_reservations(const struct ctl_values *values, char **operands, int count)
{
	json_t *params = count ? json_pack("{s:s}", "volume", operands[0]) : NULL;

	return ctl_show(values, ctl_ask(values, "reservations", params), reservations_print);
}

static void clear_print(const json_t *result)
{
	(void)result;
	printf("cleared\n");
}

/* The daemon clears it in steps, as for an initiator. False after a message. */
static bool clear_wait(const struct ctl_values *values, const char *volume)
{
	for (unsigned int waited_ms = 0; waited_ms < CLEAR_MS; waited_ms += CLEAR_STEP_MS) {
		json_t *now = ctl_ask(values, "reservations", json_pack("{s:s}", "volume", volume));
		bool asked = now, left = json_array_size(json_object_get(now, "reservations"));

		json_decref(now);
		if (!asked || !left)
			return asked;
		usleep(CLEAR_STEP_MS * 1000);
	}
	ctl_error("clear: volume %s is not cleared: the daemon's log says why", volume);
	return false;
}

int ctl_clear(const struct ctl_values *values, char **operands, int count)
{
	json_t *result;

	if (count != 1)
		return ctl_usage("clear");
	result = ctl_ask(values, "clear", json_pack("{s:s, s:b}", "volume", operands[0], "force", values->force));
	if (result && !clear_wait(values, operands[0])) {
		json_decref(result);
		return CTL_FAILED;
	}
	return ctl_show(values, result, clear_print);
}

/* Digits alone are a session's number. */
static json_t *kick_params(const char *operand)
{
	unsigned long long number;
	char *end;

	errno = 0;
	number = isdigit((unsigned char)*operand) ? strtoull(operand, &end, 10) : 0;
	if (isdigit((unsigned char)*operand) && !*end && !errno && number <= INT32_MAX)
		return json_pack("{s:I}", "session", (json_int_t)number);
	return json_pack("{s:s}", "initiator", operand);
}

static void kick_print(const json_t *result)
{
	const json_t *session;
	size_t i;

	json_array_foreach(json_object_get(result, "sessions"), i, session)
		printf("session %" PRIu64 " of %s [%s] is ended\n", ctl_integer(session, "session"),
		       ctl_string(session, "initiator"), ctl_string(session, "peer"));
}

int ctl_kick(const struct ctl_values *values, char **operands, int count)
{
	if (count != 1)
		return ctl_usage("kick");
	return ctl_show(values, ctl_ask(values, "kick", kick_params(operands[0])), kick_print);
}
