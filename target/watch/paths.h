/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The answer at each path of HTTP. No I/O. One thread. */
#ifndef RBLK_TARGET_WATCH_PATHS_H
#define RBLK_TARGET_WATCH_PATHS_H

#include "target/watch/methods.h"

struct tgt_http_answer {
	unsigned int status; /* of HTTP */
	const char *type;    /* MIME */
	const char *policy;  /* Content-Security-Policy */
	char *text;	     /* the caller's, freed with free(); NULL: no memory */
	size_t bytes;
};

/* The query behind the path, a peer's words; NULL: not in it. */
struct tgt_http_query {
	const char *after;		       /* the number of an event */
	const char *volume, *initiator, *proven; /* whose curves: enum tgt_history_kind */
};

/* Always an answer, if only 404. The path is a peer's. */
void tgt_paths_answer(struct tgt_methods *methods, const char *path, const struct tgt_http_query *query,
		      struct tgt_http_answer *answer);
/* A line of text. */
void tgt_answer_words(struct tgt_http_answer *answer, unsigned int status, const char *words);
/* "localhost" or the number of an address, with or without a port: names that nobody else can have.
 */
bool tgt_paths_host_is_local(const char *host);

#endif
