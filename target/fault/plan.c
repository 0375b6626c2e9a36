/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reading a fault plan (plan.h):
 *
 *   plan    = item *( "," item )
 *   item    = "seed=" number | "untorn=" bytes | action "=" part *( ":" part ) | "after=" number | "count=" number
 *   action  = "delay" | "fail" | "tear" | "lose" | "power"
 *   part    = kinds ( "write", "read+flush", ... ) | time | probability | errno's name
 *
 * The parts of an item may stand in any order; after and count belong to the item before them.
 */
#include "target/fault/plan.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/words/units.h"

#define UNTORN_BYTES_MAX (1u << 24)
#define ALL_KINDS ((1u << TGT_IO_KINDS) - 1)

static int kind_bits(const char *part, unsigned int *bits)
{
	static const struct {
		const char *name;
		unsigned int bits;
	} kinds[] = {
		{"read", 1u << TGT_IO_READ},	       {"write", 1u << TGT_IO_WRITE},
		{"flush", 1u << TGT_IO_FLUSH},	       {"discard", 1u << TGT_IO_DISCARD},
		{"zeroes", 1u << TGT_IO_WRITE_ZEROES}, {"extents", 1u << TGT_IO_EXTENTS},
		{"close", TGT_FAULT_CLOSE},	       {"all", ALL_KINDS},
	};
	unsigned int i, found = 0;

	while (*part) {
		size_t length = strcspn(part, "+");

		for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			if (strlen(kinds[i].name) == length &&
			    strncmp(part, kinds[i].name, length) == 0)
				break;
		if (i == sizeof(kinds) / sizeof(kinds[0]))
			return -EINVAL;
		found |= kinds[i].bits;
		part += length + (part[length] == '+');
	}
	if (!found)
		return -EINVAL;
	*bits = found;
	return 0;
}

static int error_number(const char *part, int *error)
{
	static const struct {
		const char *name;
		int number;
	} errors[] = {
		{"EIO", EIO},
		{"ENOSPC", ENOSPC},
		{"ENODATA", ENODATA},
		{"ETIMEDOUT", ETIMEDOUT},
	};
	size_t i;

	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (strcmp(part, errors[i].name) != 0)
			continue;
		*error = -errors[i].number;
		return 0;
	}
	return -EINVAL;
}

static int probability(const char *part, double *value)
{
	char *end;

	if (!isdigit((unsigned char)part[0]))
		return -EINVAL;
	*value = strtod(part, &end);
	return *end || !(*value >= 0 && *value <= 1) ? -EINVAL : 0;
}

static int parse_part(struct tgt_fault_rule *rule, const char *part, char *why, size_t bytes)
{
	char unused[UNITS_WHY_BYTES];
	uint64_t time_us;

	if (kind_bits(part, &rule->kinds) == 0 || probability(part, &rule->probability) == 0)
		return 0;
	if (rule->action != TGT_FAULT_DELAY && error_number(part, &rule->error) == 0)
		return 0;
	if (rule->action == TGT_FAULT_DELAY && units_read(UNITS_TIME_US, part, 0, TGT_FAULT_DELAY_MS_MAX * 1000ull, &time_us, unused) == 0) {
		rule->delay_us = (uint32_t)time_us;
		return 0;
	}
	snprintf(why, bytes, "\"%s\" is neither kinds of operations nor a probability nor %s", part,
		 rule->action == TGT_FAULT_DELAY ? "a time up to 60s" : "an error's name");
	return -EINVAL;
}

static int parse_rule(struct tgt_fault_plan *plan, enum tgt_fault_action action, char *parts,
		      char *why, size_t bytes)
{
	struct tgt_fault_rule *rule = &plan->rules[plan->rule_count];
	char *part, *rest;
	int status;

	if (plan->rule_count == TGT_FAULT_RULES_MAX) {
		snprintf(why, bytes, "more than %d faults", TGT_FAULT_RULES_MAX);
		return -EINVAL;
	}
	*rule = (struct tgt_fault_rule){
		.action = action,
		.kinds = action == TGT_FAULT_TEAR   ? 1u << TGT_IO_WRITE
			 : action == TGT_FAULT_LOSE ? 1u << TGT_IO_FLUSH
			 : action == TGT_FAULT_POWER ? 0
						     : ALL_KINDS,
		.probability = 1,
		.count = UINT64_MAX,
		.error = -EIO,
	};
	for (part = strtok_r(parts, ":", &rest); part; part = strtok_r(NULL, ":", &rest)) {
		status = parse_part(rule, part, why, bytes);
		if (status < 0)
			return status;
	}
	if (action == TGT_FAULT_DELAY && !rule->delay_us) {
		snprintf(why, bytes, "\"delay\" needs a time, as in delay=5ms");
		return -EINVAL;
	}
	if (action != TGT_FAULT_DELAY && action != TGT_FAULT_FAIL && rule->kinds & TGT_FAULT_CLOSE) {
		snprintf(why, bytes, "\"close\" can only be delayed or fail");
		return -EINVAL;
	}
	if (action == TGT_FAULT_TEAR && rule->kinds != 1u << TGT_IO_WRITE) {
		snprintf(why, bytes, "\"tear\" is for writes only");
		return -EINVAL;
	}
	if (action == TGT_FAULT_LOSE && rule->kinds != 1u << TGT_IO_FLUSH) {
		snprintf(why, bytes, "\"lose\" is for flushes only");
		return -EINVAL;
	}
	if (action == TGT_FAULT_POWER && rule->kinds) {
		snprintf(why, bytes, "\"power\" is not of some kinds of operations");
		return -EINVAL;
	}
	plan->rule_count++;
	return 0;
}

static int parse_number(struct tgt_fault_plan *plan, const char *name, const char *text, char *why,
			size_t bytes)
{
	struct tgt_fault_rule *last = plan->rule_count ? &plan->rules[plan->rule_count - 1] : NULL;
	uint64_t *place = strcmp(name, "seed") == 0     ? &plan->seed
			  : strcmp(name, "untorn") == 0 ? &plan->untorn_bytes
							: NULL;

	if (!place && !last) {
		snprintf(why, bytes, "\"%s\" needs a fault before it", name);
		return -EINVAL;
	}
	if (!place)
		place = strcmp(name, "after") == 0 ? &last->after : &last->count;
	if (units_count(text, place) < 0) {
		snprintf(why, bytes, "\"%s\" is not a number", text);
		return -EINVAL;
	}
	if (plan->untorn_bytes & (plan->untorn_bytes - 1) || plan->untorn_bytes > UNTORN_BYTES_MAX) {
		snprintf(why, bytes, "\"untorn\" is a power of two, at most %u", UNTORN_BYTES_MAX);
		return -EINVAL;
	}
	return 0;
}

static int parse_item(struct tgt_fault_plan *plan, char *item, char *why, size_t bytes)
{
	static const char *const actions[] = {
		[TGT_FAULT_DELAY] = "delay",
		[TGT_FAULT_FAIL] = "fail",
		[TGT_FAULT_TEAR] = "tear",
		[TGT_FAULT_LOSE] = "lose",
		[TGT_FAULT_POWER] = "power",
	};
	char *equals = strchr(item, '=');
	unsigned int i;

	if (equals) {
		*equals = 0;
		for (i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
			if (strcmp(item, actions[i]) == 0)
				return parse_rule(plan, (enum tgt_fault_action)i, equals + 1, why,
						  bytes);
		if (strcmp(item, "seed") == 0 || strcmp(item, "untorn") == 0 || strcmp(item, "after") == 0 ||
		    strcmp(item, "count") == 0)
			return parse_number(plan, item, equals + 1, why, bytes);
	}
	snprintf(why, bytes,
		 "\"%s\" is not one of delay=, fail=, tear=, lose=, power=, untorn=, after=, count=, seed=", item);
	return -EINVAL;
}

int tgt_fault_parse(const char *text, struct tgt_fault_plan *plan, char *why, size_t bytes)
{
	char *copy = strdup(text), *item, *rest;
	int status = 0;

	if (!copy) {
		snprintf(why, bytes, "out of memory");
		return -ENOMEM;
	}
	memset(plan, 0, sizeof(*plan));
	plan->seed = 1;
	for (item = strtok_r(copy, ", ", &rest); item && status == 0;
	     item = strtok_r(NULL, ", ", &rest))
		status = parse_item(plan, item, why, bytes);
	free(copy);
	if (status == 0 && !plan->rule_count && !plan->untorn_bytes) {
		snprintf(why, bytes, "it has no fault");
		status = -EINVAL;
	}
	return status;
}
