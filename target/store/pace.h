/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A window of `limit = auto`: how many READs, or WRITEs, one channel gives to its store at once, found from the
 * time that they take there. The store is *quiet* while it has one of each; how long it takes then is measured
 * again and again. The window grows while it is used up and most operations take no longer than twice that, and is
 * halved when most do, or the other kind's, if it is one already: so a store has what keeps it busy and no queue
 * beyond that, and those that wait do so where turns are taken (inflight.h). A control law without a clock:
 * submit.c tells it what has ended. The reactor's thread only.
 */
#ifndef RBLK_TARGET_PACE_H
#define RBLK_TARGET_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* A quiet store has so many at once; the window begins there. */
#define TGT_PACE_QUIET 1u
/* It is made quiet so often, at the same times in all reactors, and for so many operations. Where these take longer
 * than a fifth of the time, the period doubles, up to so many times. */
#define TGT_PACE_PERIOD_NS 5000000000ull
#define TGT_PACE_PROBES 8u
#define TGT_PACE_DOUBLINGS 6u
/* Beyond twice the quiet time: what turns of the reactor and of other threads add to a quick store's. */
#define TGT_PACE_SLACK_NS 200000ull

enum tgt_pace_kind { TGT_PACE_READ, TGT_PACE_WRITE, TGT_PACE_DURABLE_WRITE, TGT_PACE_KINDS };
/* Up to 4 KiB, 8 KiB, ..., 512 KiB, and all that are longer. */
#define TGT_PACE_SIZES 9u

struct tgt_pace {
	unsigned int window;
	bool wanted; /* one has had to wait since the last judgement */
	bool steep;  /* it has never been too large: it doubles */
	unsigned int judged, late; /* since then; of operations that began since changed_ns */
	unsigned int probes;	   /* that are still to be made; 0: it is not probing */
	unsigned int before;	   /* probing: the window to return to */
	uint64_t probing_ns;	   /* that the present probe's operations, or the last one's, have taken */
	uint64_t next_ns;	   /* when the next one may begin, if its fellow agrees */
	uint64_t changed_ns;
	uint64_t quiet_ns[TGT_PACE_KINDS][TGT_PACE_SIZES]; /* 0: none was seen */
	/* For people: moving means of the time that operations took, and of what they take when it is quiet. */
	uint64_t mean_ns, mean_quiet_ns;
};

/* Both are a channel's: of WRITE, READ. */
void tgt_pace_init(struct tgt_pace paces[2], uint64_t now_ns);
/*
 * One of so many bytes, which began at begun_ns, has ended. `in_flight`: those that its window counts, itself among
 * them. `most`: what the window may become. True: there is news.
 */
bool tgt_pace_ended(struct tgt_pace paces[2], enum tgt_pace_kind kind, uint64_t bytes, uint64_t begun_ns,
		    uint64_t now_ns, unsigned int in_flight, unsigned int most);

#endif
