/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters by name. Names are looked up by the addresses of their parts, because it is done often;
 * the report puts together those that read the same. Also the states of the target's requests, the
 * judgements of its logins, the ends of its queues, the looks into its reply caches and the barriers of OPEN at other
 * reactors, to which the linker leads the calls of tgt_request_set_state(), core_login_judge(),
 * tgt_queue_close(), tgt_replay_begin() and tgt_barrier_begin(), tgt_barrier_is_over() and tgt_barrier_end().
 */
#include "tests/sim/coverage.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/login.h"
#include "proto/wire/wire_names.h"
#include "target/io/replay.h"
#include "target/io/request.h"
#include "target/serve/barrier.h"
#include "target/serve/queue.h"
#include "tests/sim/seen.h"
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
	[TGT_REQUEST_LIMITED] = "limited",
};

void sim_seen_state(const struct tgt_request *request, unsigned int entered)
{
	const char *opcode = rblk_opcode_name(request->opcode);

	sim_priority_seen(request, entered);
	sim_reached("point", "state", NULL);
	sim_reached("request", opcode, state_names[entered]);
	/* Dropped: its connection is closed. */
	if (entered == TGT_REQUEST_FREE && !request->io_queue->open)
		sim_reached("request dropped", opcode, state_names[request->state]);
}

/* -- its reply caches ---------------------------------------------------------------------- */

void sim_seen_operation(unsigned int operation, bool retry, const struct tgt_answer *answer)
{
	static const char *const operations[] = {
		[TGT_OPERATION_NEW] = "is to be done",
		[TGT_OPERATION_KNOWN] = "is known:",
		[TGT_OPERATION_INVALID] = "is not valid",
	};

	sim_reached("point", "operation", NULL);
	sim_reached(retry ? "operation sent again" : "operation", operations[operation],
		    operation == TGT_OPERATION_KNOWN ? rblk_status_text(answer->status) : NULL);
}

/* -- what OPEN waits for ------------------------------------------------------------------- */

void sim_seen_barrier_begin(const struct tgt_reactor *reactor)
{
	sim_reached("point", "barrier_begin", NULL);
	sim_reached("barrier", "begins", reactor->config.reactors > 1 ? "at several reactors" : "at its own reactor");
}

void sim_seen_barrier(bool over)
{
	sim_reached("point", "barrier", NULL);
	sim_reached("barrier", over ? "is over" : "is not over yet", NULL);
}

void sim_seen_barrier_end(bool over)
{
	sim_reached("point", "barrier_end", NULL);
	if (!over)
		sim_reached("barrier", "is given up", NULL);
}

/* -- its logins and queues ----------------------------------------------------------------- */

void sim_seen_login(const struct rblk_wire_login *login, const struct core_login_verdict *verdict)
{
	static const char *const actions[] = {
		[CORE_LOGIN_ACCEPT] = "joins its session", [CORE_LOGIN_CREATE] = "begins a session",
		[CORE_LOGIN_FENCE] = "fences its queue",   [CORE_LOGIN_FORGET] = "ends the last epoch",
		[CORE_LOGIN_REJECT] = "is refused",
	};

	sim_reached("point", "login", NULL);
	sim_reached("login", rblk_le16(login->queue_index) ? "of another queue" : "of queue 0",
		    actions[verdict->action]);
}

static const char *end_reason(const char *reason)
{
	static const char *const known[] = {
		"the connection was lost",
		"its device was removed",
		"fenced by another queue",
		"keep-alive timeout",
		"replaced by a newer incarnation",
		"the initiator restarted the session",
		"the target is shutting down",
		"the peer has disconnected",
	};

	for (unsigned int i = 0; reason && i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(reason, known[i]))
			return known[i];
	return reason ? "for another reason" : "already told";
}

static bool waits_for_memory(const struct tgt_io_queue *io_queue)
{
	for (uint16_t tag = 0; tag < io_queue->tags; tag++)
		if (io_queue->requests[tag].state == TGT_REQUEST_WAITING)
			return true;
	return false;
}

void sim_seen_queue_close(const struct tgt_queue *queue, const char *reason)
{
	const struct tgt_io_queue *io_queue = &queue->io_queue;

	sim_reached("point", "queue_close", NULL);
	sim_reached("queue", queue->session->ending ? "ends with its session" : "ends", end_reason(reason));
	if (io_queue->reads_out)
		sim_reached("queue", "ends", "with READs outstanding");
	if (io_queue->sent_head != io_queue->sent_tail)
		sim_reached("queue", "ends", "with replies on their way");
	if (waits_for_memory(io_queue))
		sim_reached("queue", "ends", "with commands that wait for memory");
	sim_reached("queue", "ends", io_queue->active ? "with commands" : "without commands");
}
