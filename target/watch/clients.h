/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The clients of the control socket: their bytes in both directions, and their limits in number, size
 * and time. control_socket.c has the socket, watch.c the thread. One thread.
 */
#ifndef RBLK_TARGET_WATCH_CLIENTS_H
#define RBLK_TARGET_WATCH_CLIENTS_H

#include <poll.h>
#include "target/watch/methods.h"

#define TGT_CLIENTS_MAX 32u
/* A request has to be whole, and an answer taken, within this time; and who sends nothing for so long
 * after an answer is disconnected. */
#define TGT_CLIENT_NS 10000000000ull
#define TGT_CLIENT_IDLE_NS 300000000000ull

struct tgt_client;

struct tgt_clients {
	struct tgt_methods *methods;
	struct tgt_client *clients[TGT_CLIENTS_MAX]; /* NULL: free */
};

/* Takes over fd, which does not block. Says why and closes it if there is no room. */
void tgt_clients_add(struct tgt_clients *clients, int fd);
/* For poll(): one entry for each place, of -1 where it is free. */
/* How many of these there are up to the last client: poll() takes no more than descriptors are allowed. */
unsigned int tgt_clients_poll(const struct tgt_clients *clients,
			      struct pollfd polled[TGT_CLIENTS_MAX]);
/* After poll(). */
void tgt_clients_step(struct tgt_clients *clients, const struct pollfd polled[TGT_CLIENTS_MAX]);
/* Jobs may have ended: their clients' requests are answered. */
void tgt_clients_retry(struct tgt_clients *clients);
/* Until the first limit is over, in milliseconds; -1: there is none. */
int tgt_clients_timeout_ms(const struct tgt_clients *clients);
void tgt_clients_close(struct tgt_clients *clients);

#endif
