/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How many datagrams a thread of discovery reads: so many in a window, then it sleeps until the window's end. What comes
 * meanwhile waits in buffers, which are small, and what does not fit there is lost. Pure: the caller has the
 * clock, and counts its reads. One thread.
 */
#ifndef RBLK_TARGET_WATCH_DISCOVERY_WINDOW_H
#define RBLK_TARGET_WATCH_DISCOVERY_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define TGT_DISCOVERY_WINDOW_NS 100000000ull
#define TGT_DISCOVERY_WINDOW_READS 64u

struct tgt_discovery_window {
	uint64_t began_ns;
	unsigned int reads;
};

/* May one more be read? Begins a new window when the last is over. */
static inline bool tgt_discovery_window_open(struct tgt_discovery_window *window, uint64_t now_ns)
{
	if (now_ns - window->began_ns >= TGT_DISCOVERY_WINDOW_NS) {
		window->began_ns = now_ns;
		window->reads = 0;
	}
	return window->reads < TGT_DISCOVERY_WINDOW_READS;
}

/* Milliseconds from now until more may be read, and until `end_ns` at most. */
static inline int tgt_discovery_window_wait_ms(const struct tgt_discovery_window *window, uint64_t end_ns,
					       uint64_t now_ns)
{
	if (window->reads >= TGT_DISCOVERY_WINDOW_READS && window->began_ns + TGT_DISCOVERY_WINDOW_NS < end_ns)
		end_ns = window->began_ns + TGT_DISCOVERY_WINDOW_NS;
	return end_ns > now_ns ? (int)((end_ns - now_ns) / 1000000u) + 1 : 0;
}

#endif
