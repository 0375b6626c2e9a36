/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A test whose cases name the rules of proto/README.md that they break can be asked which these
 * are: "--rules". hostile_rules.sh asks, and finds the rules that nobody breaks.
 */
#ifndef RBLK_TESTS_E2E_HOSTILE_RULES_H
#define RBLK_TESTS_E2E_HOSTILE_RULES_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Asked: prints each case's rules, one case a line, and returns true. rule(n) is the n-th case's,
 * NULL behind the last. */
static inline bool hostile_lists(int argc, char **argv, const char *(*rule)(unsigned int index))
{
	const char *name;

	if (argc < 2 || strcmp(argv[1], "--rules") != 0)
		return false;
	for (unsigned int i = 0; (name = rule(i)); i++)
		puts(name);
	return true;
}

#endif
