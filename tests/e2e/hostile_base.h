/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Well-formed commands of every opcode, as in section 6 of the specification. A hostile initiator
 * begins with one and then breaks something in it.
 */
#ifndef RBLK_TESTS_E2E_HOSTILE_BASE_H
#define RBLK_TESTS_E2E_HOSTILE_BASE_H

#include "tests/e2e/raw.h"

#define CAPSULE RBLK_CAPSULE_ALIGN
#define HANDLE 12345u /* the check of the form does not need it to be open */

enum where { NOWHERE, IN_MEMORY, IN_CAPSULE, IN_BOTH };

/* One well-formed command; the columns are those of section 6. */
struct base {
	const char *name;
	uint8_t opcode, flags;
	enum where where;
	bool volume, blocks, any_lba, any_argument;
	uint64_t argument;
	uint8_t flags_allowed; /* besides RETRY, without any feature agreed */
	uint32_t report_bytes; /* length of a segment in memory; 0: it holds blocks */
};

extern const struct base bases[];
extern const unsigned int base_count;

/* The first of this opcode. */
const struct base *base_of(uint8_t opcode);
/* Builds the command in raw's memory, alone in its message, with in-capsule data all zero.
 * Returns the length. */
uint32_t base_build(struct raw *raw, const struct base *base, uint16_t tag,
		    struct rblk_wire_command **out);

#endif
