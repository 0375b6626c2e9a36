/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* See nearest.h. */
#include "proto/words/nearest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define WRONG_MAX 4u

static unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

static bool same(char a, char b)
{
	return a == b || (a == '-' && b == '_') || (a == '_' && b == '-');
}

/* Letters to insert, drop, exchange or swap with their neighbour (Damerau), row by row. */
static unsigned int edit_distance(const char *a, const char *b)
{
	unsigned int rows[3][WORDS_NEAREST_MAX + 1];
	unsigned int *before = rows[0], *above = rows[1], *row = rows[2];
	size_t la = strlen(a), lb = strlen(b), i, j;

	if (la > WORDS_NEAREST_MAX || lb > WORDS_NEAREST_MAX)
		return WORDS_NEAREST_MAX;
	for (j = 0; j <= lb; j++)
		above[j] = (unsigned int)j;
	for (i = 1; i <= la; i++) {
		unsigned int *spare = before;

		row[0] = (unsigned int)i;
		for (j = 1; j <= lb; j++) {
			row[j] = least(above[j], row[j - 1]) + 1;
			row[j] = least(row[j], above[j - 1] + !same(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
				row[j] = least(row[j], before[j - 2] + 1);
		}
		before = above;
		above = row;
		row = spare;
	}
	return above[lb];
}

struct words_nearest words_nearest_to(const char *word)
{
	return (struct words_nearest){word, NULL, WRONG_MAX + 1};
}

void words_nearest_offer(struct words_nearest *search, const char *candidate)
{
	unsigned int wrong = edit_distance(search->word, candidate);
	size_t letters = strlen(search->word), others = strlen(candidate);

	/* Up to two fifths of the letters wrong are typing errors, more is another word. */
	if (wrong >= search->below || wrong * 5 > 2 * (letters > others ? letters : others))
		return;
	search->nearest = candidate;
	search->below = wrong;
}

const char *words_hint(const struct words_nearest *search, const char *dashes, const char *otherwise,
		       char text[WORDS_HINT_BYTES])
{
	if (search->nearest)
		snprintf(text, WORDS_HINT_BYTES, "did you mean \"%s%.80s\"?", dashes, search->nearest);
	else
		snprintf(text, WORDS_HINT_BYTES, "%s", otherwise);
	return text;
}
