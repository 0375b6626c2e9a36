/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * "did you mean": the guess at a misspelled verb, option or key. Includes no other room. Pure; any thread.
 */
#ifndef RBLK_PROTO_WORDS_NEAREST_H
#define RBLK_PROTO_WORDS_NEAREST_H

#define WORDS_NEAREST_MAX 64

/* A search among words that come one by one. */
struct words_nearest {
	const char *word;    /* what was written; of more than WORDS_NEAREST_MAX letters nothing is guessed */
	const char *nearest; /* of those that were offered, the first of equals; NULL: none is similar */
	unsigned int below;  /* the next one needs fewer wrong letters than this */
};

/* `word` stays the caller's. */
struct words_nearest words_nearest_to(const char *word);
/* `candidate` stays the caller's, for as long as nearest is read. '-' and '_' are the same. */
void words_nearest_offer(struct words_nearest *search, const char *candidate);

#define WORDS_HINT_BYTES 128
/*
 * Fills `text` with: did you mean "--sort"?, `dashes` before the nearest word; or with `otherwise` if none is similar.
 * Returns `text`.
 */
const char *words_hint(const struct words_nearest *search, const char *dashes, const char *otherwise,
		       char text[WORDS_HINT_BYTES]);

#endif
