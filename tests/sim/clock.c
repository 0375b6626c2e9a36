/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The agenda is a binary heap of the events' times and pointers to them; each of them knows its place in it.
 */
#include "tests/sim/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "tests/sim/actor.h"
#include "tests/sim/coverage.h"
#include "tests/sim/random.h"

/* The clock's start: not 0, so that "never" and "at the start" differ. */
#define START_NS (1000 * SIM_S)
#define AGENDA_MAX 65536

static struct {
	uint64_t now_ns, order, hurried_ns;
	bool hurry;
	size_t count;
	struct entry {
		uint64_t at_ns, order; /* the event's */
		struct sim_event *event;
	} heap[AGENDA_MAX + 1]; /* from 1 */
} agenda;

static struct {
	uint64_t ahead_ns;
	int32_t drift_ppm;
} clocks[SIM_CLOCKS];

void sim_clock_reset(void)
{
	memset(clocks, 0, sizeof(clocks));
	agenda.now_ns = START_NS;
	agenda.order = 0;
	agenda.count = 0;
	agenda.hurry = false;
}

uint64_t sim_now_ns(void)
{
	return agenda.now_ns;
}

void sim_clock_hurry(bool hurry)
{
	agenda.hurry = hurry;
	agenda.hurried_ns = 0;
}

static bool before(const struct entry *a, const struct entry *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void put(size_t place, struct entry entry)
{
	agenda.heap[place] = entry;
	entry.event->place = place;
}

static size_t sift_up(size_t place, struct entry entry)
{
	while (place > 1 && before(&entry, &agenda.heap[place / 2])) {
		put(place, agenda.heap[place / 2]);
		place /= 2;
	}
	put(place, entry);
	return place;
}

static void sift_down(size_t place, struct entry entry)
{
	for (;;) {
		size_t child = place * 2;

		if (child > agenda.count)
			break;
		if (child < agenda.count && before(&agenda.heap[child + 1], &agenda.heap[child]))
			child++;
		if (!before(&agenda.heap[child], &entry))
			break;
		put(place, agenda.heap[child]);
		place = child;
	}
	put(place, entry);
}

void sim_event_cancel(struct sim_event *event)
{
	size_t place = event->place;
	struct entry last;

	if (!place)
		return;
	event->place = 0;
	last = agenda.heap[agenda.count--];
	if (last.event != event)
		sift_down(sift_up(place, last), last);
}

void sim_event_at(struct sim_event *event, uint64_t at_ns)
{
	sim_event_cancel(event);
	assert(agenda.count < AGENDA_MAX && event->run);
	event->at_ns = at_ns > agenda.now_ns ? at_ns : agenda.now_ns;
	sift_up(++agenda.count,
		(struct entry){.at_ns = event->at_ns, .order = agenda.order++, .event = event});
}

void sim_event_in(struct sim_event *event, uint64_t delay_ns)
{
	sim_event_at(event, agenda.now_ns + delay_ns);
}

void sim_event_by(struct sim_event *event, uint64_t at_ns)
{
	if (!event->place || event->at_ns > at_ns)
		sim_event_at(event, at_ns);
}

bool sim_clock_step(void)
{
	struct sim_event *event;

	if (!agenda.count)
		return false;
	event = agenda.heap[1].event;
	sim_event_cancel(event);
	agenda.now_ns = event->at_ns;
	event->run(event->arg);
	return true;
}

/* -- proto/core/env.h ---------------------------------------------------------------------- */

/* Each machine's runs from a beginning of its own, a little fast or slow. */
static uint64_t clock_of(const struct sim_actor *actor)
{
	int64_t passed_ns = (int64_t)(agenda.now_ns - START_NS);

	if (!actor || actor->machine >= SIM_CLOCKS)
		return agenda.now_ns;
	return agenda.now_ns + clocks[actor->machine].ahead_ns +
	       (uint64_t)(passed_ns * clocks[actor->machine].drift_ppm / 1000000);
}

void sim_clock_skew(unsigned int machine, uint64_t ahead_ns, int32_t drift_ppm)
{
	sim_reached("machine", "has a clock that goes wrong", NULL);
	clocks[machine].ahead_ns = ahead_ns;
	clocks[machine].drift_ppm = drift_ppm;
}

uint64_t env_now_ns(void)
{
	if (agenda.hurry)
		agenda.hurried_ns += SIM_MS;
	return clock_of(sim_actor_self()) + (agenda.hurry ? agenda.hurried_ns : 0);
}

uint64_t env_thread_cpu_ns(void)
{
	return agenda.now_ns;
}

uint64_t env_wake_ns(void)
{
	return 5 * SIM_US;
}

/* Which machine it runs on changes no history. */
bool env_machine_id(const char *root, char id[ENV_MACHINE_ID_BYTES])
{
	(void)root;
	strcpy(id, "0123456789abcdef0123456789abcdef");
	return true;
}

void env_random(void *buffer, size_t bytes)
{
	unsigned char *next = buffer;

	/* A number to begin counting from: now and then it will soon be 0 again. */
	if (bytes == sizeof(uint32_t) && sim_chance(300000)) {
		uint32_t number = UINT32_MAX - (uint32_t)sim_below(4);

		sim_reached("number", "begins before its end", NULL);
		memcpy(buffer, &number, sizeof(number));
		return;
	}
	while (bytes) {
		uint64_t word = sim_random();
		size_t part = bytes < sizeof(word) ? bytes : sizeof(word);

		memcpy(next, &word, part);
		next += part;
		bytes -= part;
	}
}
