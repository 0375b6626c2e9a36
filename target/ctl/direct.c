/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The verbs that end something for others: kick. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "target/ctl/ctl.h"

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
