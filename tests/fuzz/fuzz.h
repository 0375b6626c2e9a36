/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the fuzz targets share: an assertion that always counts, and input in memory of its exact
 * length, aligned as receive buffers are, so that sanitizers find an access one byte too far.
 */
#ifndef RBLK_TESTS_FUZZ_H
#define RBLK_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_ASSERT(condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__,           \
				#condition);                                                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* malloc() aligns to 16 bytes. The caller frees. */
static inline void *fuzz_copy(const uint8_t *data, size_t size)
{
	void *copy = malloc(size ? size : 1);

	FUZZ_ASSERT(copy);
	if (size)
		memcpy(copy, data, size);
	return copy;
}

/* A number from the input's front; 0 once it is used up. */
static inline uint32_t fuzz_take(const uint8_t **data, size_t *size, size_t bytes)
{
	uint32_t value = 0;

	while (bytes-- && *size) {
		value = value << 8 | *(*data)++;
		(*size)--;
	}
	return value;
}

#endif
