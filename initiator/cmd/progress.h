/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A line on the terminal that shows how far a long operation is, how fast, and when it will end. */
#ifndef RBLK_CMD_PROGRESS_H
#define RBLK_CMD_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#define PROGRESS_UNKNOWN UINT64_MAX

/* In the caller's hands; one thread. */
struct progress {
	bool shown;
	const char *what;
	uint64_t total; /* bytes, or PROGRESS_UNKNOWN */
	uint64_t start_ns, drawn_ns;
};

/* quiet, or standard error is no terminal or a dumb one: nothing is shown. */
void progress_start(struct progress *progress, const char *what, uint64_t total, bool quiet);
/* Cheap: draws at most ten times a second. */
void progress_update(struct progress *progress, uint64_t done);
/* Take the line away. */
void progress_end(struct progress *progress);

#define PROGRESS_LINE_BYTES 201
/*
 * The line as it is drawn, pure. At least 1 column; what does not fit into all but the last is left
 * out, the bar first, then the time, the rate, the bytes.
 */
void progress_line(const struct progress *progress, uint64_t done, uint64_t now_ns,
		   unsigned int columns, char text[PROGRESS_LINE_BYTES]);

/* Monotonic. */
uint64_t progress_now_ns(void);

#endif
