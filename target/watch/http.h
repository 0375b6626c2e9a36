/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * HTTP, read only: the socket, its clients and their limits; paths.c has what there is. The thread
 * of watch.c polls the descriptor and calls step: libmicrohttpd has no thread of its own here. One
 * thread.
 */
#ifndef RBLK_TARGET_WATCH_HTTP_H
#define RBLK_TARGET_WATCH_HTTP_H

#include "target/watch/methods.h"

/*
 * Connections in all, and of one address or /64 of IPv6. For one more, the oldest ends whose request has no whole head; if there
 * is none, the new one does.
 */
#define TGT_HTTP_CLIENTS_MAX 32u
#define TGT_HTTP_CLIENTS_OF_ADDRESS 16u
/* A connection is for one request, whose head comes within this time, */
#define TGT_HTTP_HEAD_S 2u
/* and whose answer is taken within this time, or it ends, however much has come through. */
#define TGT_HTTP_ANSWER_S 10u
/* Answers that clients have not taken yet. */
#define TGT_HTTP_ANSWERS_BYTES (64u << 20)

struct tgt_http;

/* address: "[HOST:]PORT"; without a host 127.0.0.1. 0, or negative errno and error
 * (TGT_ERROR_BYTES). */
int tgt_http_create(const char *address, struct tgt_methods *methods, struct tgt_http **http,
		    char *error);
/* "http://127.0.0.1:4480/"; with the port that the kernel chose where the address says 0. */
const char *tgt_http_url(const struct tgt_http *http);
int tgt_http_fd(const struct tgt_http *http);	      /* NULL: -1 */
int tgt_http_timeout_ms(const struct tgt_http *http); /* -1: none; NULL: -1 */
void tgt_http_step(struct tgt_http *http);	      /* NULL: no effect */
void tgt_http_destroy(struct tgt_http *http);	      /* NULL: no effect */

#endif
