/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The control law of pace.h. */
#include "target/store/pace.h"

/* So many are judged together, or as many as the window has. */
#define JUDGED_MIN 8u
#define JUDGED_MAX 64u

static unsigned int clamp(unsigned int value, unsigned int least, unsigned int most)
{
	return value < least ? least : value > most ? most : value;
}

/* Those that began before `now_ns` had another window. */
static void pace_change(struct tgt_pace *pace, unsigned int window, uint64_t now_ns)
{
	pace->window = window;
	pace->changed_ns = now_ns;
	pace->judged = pace->late = 0;
	pace->wanted = false;
}

static void pace_plan(struct tgt_pace *pace, uint64_t now_ns)
{
	uint64_t period_ns = TGT_PACE_PERIOD_NS;

	while (period_ns < 5 * pace->probing_ns && period_ns < TGT_PACE_PERIOD_NS << TGT_PACE_DOUBLINGS)
		period_ns *= 2;
	pace->next_ns = (now_ns / period_ns + 1) * period_ns;
}

/* A probe that has not ended goes on. What was judged before is judged with what comes after, at the same window. */
static void pace_probe(struct tgt_pace *pace, uint64_t now_ns)
{
	pace_plan(pace, now_ns);
	if (pace->probes)
		return;
	pace->before = pace->window;
	pace->window = TGT_PACE_QUIET;
	pace->probes = TGT_PACE_PROBES;
	pace->probing_ns = 0;
	pace->changed_ns = now_ns;
}

static void pace_probed(struct tgt_pace *pace, uint64_t now_ns, unsigned int most)
{
	pace_plan(pace, now_ns);
	pace->window = pace->before < most ? pace->before : most;
	pace->changed_ns = now_ns;
	pace->wanted = false;
}

void tgt_pace_init(struct tgt_pace paces[2], uint64_t now_ns)
{
	for (unsigned int i = 0; i < 2; i++) {
		paces[i] = (struct tgt_pace){.window = TGT_PACE_QUIET, .steep = true};
		pace_probe(&paces[i], now_ns);
	}
}

static uint64_t *pace_quiet(struct tgt_pace *pace, enum tgt_pace_kind kind, uint64_t bytes)
{
	unsigned int size = 0;

	while (size < TGT_PACE_SIZES - 1 && bytes > 4096ull << size)
		size++;
	return &pace->quiet_ns[kind][size];
}

static void mean_add(uint64_t *mean, uint64_t value, unsigned int of)
{
	*mean = *mean ? *mean - *mean / of + value / of : value;
}

static void pace_judge(struct tgt_pace *pace, struct tgt_pace *fellow, uint64_t now_ns, unsigned int most)
{
	if (pace->late * 2 > pace->judged) {
		/* Not of its own doing: the store is full of the other kind, which may find nothing late by its own
		 * time. */
		if (pace->window == 1 && fellow->window > 1 && !fellow->probes) {
			fellow->steep = false;
			pace_change(fellow, fellow->window / 2, now_ns);
		}
		pace->steep = false;
		pace_change(pace, pace->window > 1 ? pace->window / 2 : 1, now_ns);
		return;
	}
	if (pace->wanted)
		pace->window = clamp(pace->steep ? pace->window * 2 : pace->window + pace->window / 8 + 1, 1, most);
	pace->judged = pace->late = 0;
	pace->wanted = false;
}

bool tgt_pace_ended(struct tgt_pace paces[2], enum tgt_pace_kind kind, uint64_t bytes, uint64_t begun_ns,
		    uint64_t now_ns, unsigned int in_flight, unsigned int most)
{
	const bool read = kind == TGT_PACE_READ;
	struct tgt_pace *pace = &paces[read];
	uint64_t took_ns = now_ns - begun_ns, *quiet_ns = pace_quiet(pace, kind, bytes);
	const bool news = now_ns >= paces[0].next_ns && now_ns >= paces[1].next_ns;

	if (news) {
		pace_probe(&paces[0], now_ns);
		pace_probe(&paces[1], now_ns);
	}
	/* Those of before the probe have made the store busy until now, for the other kind, too. */
	if (pace->probes && in_flight > pace->window)
		paces[!read].changed_ns = now_ns;
	if (begun_ns < pace->changed_ns)
		return news;
	/* The first one of a length that no probe has seen is taken as it comes; the next probe corrects it. */
	if (pace->probes || !*quiet_ns)
		mean_add(quiet_ns, took_ns, 4);
	mean_add(&pace->mean_ns, took_ns, 16);
	mean_add(&pace->mean_quiet_ns, *quiet_ns, 16);
	if (pace->probes) {
		pace->probing_ns += took_ns;
		if (--pace->probes)
			return news;
		pace_probed(pace, now_ns, most);
		return true;
	}
	pace->late += took_ns > 2 * *quiet_ns + TGT_PACE_SLACK_NS;
	if (++pace->judged < clamp(pace->window, JUDGED_MIN, JUDGED_MAX))
		return false;
	pace_judge(pace, &paces[!read], now_ns, most);
	return true;
}
