/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters by name. Names are looked up by the addresses of their parts, because it is done often;
 * the report puts together those that read the same. Also the states of the target's requests, to
 * which the linker leads the calls of tgt_request_set_state().
 */
#include "tests/sim/coverage.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/wire/wire_names.h"
#include "target/io/request.h"
#include "tests/sim/trace.h"

#define ENTRIES 4096u
#define NAME_BYTES 96

static struct entry {
	const char *group, *what, *detail;
	uint64_t seed; /* the last in which it was reached */
	uint64_t seeds;
} entries[ENTRIES];

static uint64_t seed;

void sim_coverage_seed(void)
{
	seed++;
}

void sim_reached(const char *group, const char *what, const char *detail)
{
	uintptr_t hash = (uintptr_t)group * 31 + (uintptr_t)what * 131 + (uintptr_t)detail * 1031;
	unsigned int place = (unsigned int)((hash ^ hash >> 12) % ENTRIES), tries = 0;
	struct entry *entry = &entries[place];

	while (entry->group &&
	       (entry->group != group || entry->what != what || entry->detail != detail)) {
		entry = &entries[++place % ENTRIES];
		if (++tries == ENTRIES)
			sim_fail("too many names of what was reached");
	}
	if (entry->group && entry->seed == seed)
		return;
	entry->group = group;
	entry->what = what;
	entry->detail = detail;
	entry->seed = seed;
	entry->seeds++;
}

/* -- the report ---------------------------------------------------------------------------- */

struct line {
	char name[NAME_BYTES];
	uint64_t seeds;
};

static int line_compare(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->name, ((const struct line *)b)->name);
}

/* Sorted, each name once: of several the most seeds, which is a lower bound. */
static unsigned int lines_make(struct line *lines)
{
	unsigned int count = 0, kept = 0;

	for (unsigned int i = 0; i < ENTRIES; i++) {
		if (!entries[i].group)
			continue;
		snprintf(lines[count].name, NAME_BYTES, "%s: %s%s%s", entries[i].group,
			 entries[i].what, entries[i].detail ? " " : "",
			 entries[i].detail ? entries[i].detail : "");
		lines[count++].seeds = entries[i].seeds;
	}
	qsort(lines, count, sizeof(*lines), line_compare);
	for (unsigned int i = 0; i < count; i++) {
		if (kept && !strcmp(lines[kept - 1].name, lines[i].name)) {
			if (lines[kept - 1].seeds < lines[i].seeds)
				lines[kept - 1].seeds = lines[i].seeds;
			continue;
		}
		lines[kept++] = lines[i];
	}
	return kept;
}

static unsigned int floor_check(const struct line *lines, unsigned int count, const char *path)
{
	FILE *file = fopen(path, "r");
	unsigned int missing = 0;
	struct line wanted;

	if (!file) {
		printf("%s: %s\n", path, strerror(errno));
		return 1;
	}
	while (fgets(wanted.name, sizeof(wanted.name), file)) {
		wanted.name[strcspn(wanted.name, "\n")] = 0;
		if (!wanted.name[0] || wanted.name[0] == '#')
			continue;
		if (bsearch(&wanted, lines, count, sizeof(*lines), line_compare))
			continue;
		printf("never reached: %s\n", wanted.name);
		missing++;
	}
	fclose(file);
	return missing;
}

unsigned int sim_coverage_report(const char *floor)
{
	struct line *lines = calloc(ENTRIES, sizeof(*lines));
	unsigned int count, missing;

	if (!lines)
		sim_fail("out of memory");
	count = lines_make(lines);
	for (unsigned int i = 0; i < count; i++)
		printf("%8llu %s\n", (unsigned long long)lines[i].seeds, lines[i].name);
	missing = floor ? floor_check(lines, count, floor) : 0;
	free(lines);
	return missing;
}

/* -- the target's requests ----------------------------------------------------------------- */

static const char *const state_names[TGT_REQUEST_STATES] = {
	[TGT_REQUEST_FREE] = "is over",		[TGT_REQUEST_RECEIVED] = "received",
	[TGT_REQUEST_WAITING] = "waits",	[TGT_REQUEST_DATA_IN] = "data in",
	[TGT_REQUEST_STORING] = "storing",	[TGT_REQUEST_DATA_OUT] = "data out",
	[TGT_REQUEST_REPLYING] = "replying",	[TGT_REQUEST_HELD] = "held",
};

bool __real_tgt_request_set_state(struct tgt_request *request, enum tgt_request_state state);
bool __wrap_tgt_request_set_state(struct tgt_request *request, enum tgt_request_state state);
bool __wrap_tgt_request_set_state(struct tgt_request *request, enum tgt_request_state state)
{
	const char *opcode = rblk_opcode_name(request->opcode);

	sim_reached("request", opcode, state_names[state]);
	/* Dropped: its connection is closed. */
	if (state == TGT_REQUEST_FREE && !request->lane->open)
		sim_reached("request dropped", opcode, state_names[request->state]);
	return __real_tgt_request_set_state(request, state);
}
