/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A path to a daemon that a test can cut. It forwards TCP connections from its own port of
 * 127.0.0.1, on its own thread.
 */
#ifndef RBLK_TESTS_E2E_PROXY_H
#define RBLK_TESTS_E2E_PROXY_H

#include <stdbool.h>
#include <stdint.h>

struct proxy;

/* Forwards to "127.0.0.1:port"; aborts the test if it cannot listen. */
struct proxy *proxy_start(const char *host);
/* "127.0.0.1:port" of the proxy itself; valid until proxy_stop(). */
const char *proxy_host(const struct proxy *proxy);
/* Ends all connections and accepts no new ones, until proxy_mend(). Both return when that is
 * done. */
void proxy_cut(struct proxy *proxy);
void proxy_mend(struct proxy *proxy);
/* While it is on: nothing is forwarded, and neither end learns of that. What comes is kept. Returns when it is so. */
void proxy_hold(struct proxy *proxy, bool on);
/* One bit of what is forwarded next, this way, is another one at the other end. */
void proxy_flip(struct proxy *proxy, bool to_target);
/* One bit of the next data, this way: of a piece that is longer than a command or a reply. */
void proxy_flip_data(struct proxy *proxy, bool to_target);
/* Is there one that has not been forwarded yet? */
bool proxy_flips(const struct proxy *proxy);
/* While it is on: one bit of each such piece, both ways. */
void proxy_flip_all(struct proxy *proxy, bool on);
/* Both ends' directions end, as if the other end had ended: nothing is lost, and nothing follows. */
void proxy_truncate(struct proxy *proxy);
/* Was a run of this byte, as long as a plain block would have, forwarded since the start? */
bool proxy_saw_run(const struct proxy *proxy, unsigned char byte);
/* Bytes that were forwarded, both ways. */
uint64_t proxy_bytes(const struct proxy *proxy);
void proxy_stop(struct proxy *proxy);

#endif
