/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A test program whose cases name the rules of proto/README.md that they break lists these rules
 * with "--rules". hostile_rules.sh reads the lists and finds rules that no test breaks.
 */
#ifndef RBLK_TESTS_E2E_HOSTILE_RULES_H
#define RBLK_TESTS_E2E_HOSTILE_RULES_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* With "--rules" as argument: prints the rules of each case, one case per line, and returns
 * true. rule(n) returns the rules of case n, NULL after the last. */
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
