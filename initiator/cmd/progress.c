/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the line on the terminal that shows how far a long operation is, how fast, and when it will end. */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "initiator/cmd/cmd.h"

#define PROGRESS_INTERVAL_NS 100000000u
#define PROGRESS_STILL_NS 2000000000u
#define PROGRESS_BAR_MIN 4 /* a shorter bar shows nothing */

static bool drawn; /* a line is on the terminal */

uint64_t progress_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A dumb terminal cannot return to the beginning of a line or erase it. */
static bool progress_terminal(void)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) && term && term[0] && strcmp(term, "dumb");
}

void progress_start(struct progress *progress, const char *what, uint64_t total, bool quiet)
{
	progress->shown = !quiet && progress_terminal();
	progress->what = what;
	progress->total = total;
	progress->start_ns = progress_now_ns();
	progress->drawn_ns = progress->moved = progress->moved_ns = 0;
}

static unsigned int progress_columns(void)
{
	struct winsize size;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
}

/* Append a part if it fits, the columns that are taken already included. */
__attribute__((format(printf, 3, 4))) static bool progress_part(char *text, unsigned int columns,
								const char *format, ...)
{
	char part[CMD_TEXT_BYTES + 8];
	size_t used = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(part, sizeof(part), format, args);
	va_end(args);
	if (used + strlen(part) > columns)
		return false;
	strcpy(text + used, part);
	return true;
}

static void progress_bar(char *text, unsigned int columns, double share)
{
	size_t used = strlen(text);
	unsigned int room, filled;

	if (used + PROGRESS_BAR_MIN + 4 > columns)
		return;
	room = columns - (unsigned int)used - 4;
	filled = (unsigned int)((double)room * share);
	text += used;
	*text++ = ' ';
	*text++ = ' ';
	*text++ = '[';
	memset(text, '#', filled);
	memset(text + filled, '.', room - filled);
	strcpy(text + room, "]");
}

void progress_line(const struct progress *progress, uint64_t done, uint64_t now_ns,
		   unsigned int columns, char text[PROGRESS_LINE_BYTES])
{
	char bytes[CMD_TEXT_BYTES], rate[CMD_TEXT_BYTES], left[CMD_TEXT_BYTES] = "-";
	bool known = progress->total != PROGRESS_UNKNOWN && progress->total;
	double seconds = (double)(now_ns - progress->start_ns) / 1e9;
	double per_second = seconds > 0 ? (double)done / seconds : 0;
	double share, left_s;

	/* The last column stays free: some terminals begin a new line when it is written. */
	columns = columns > PROGRESS_LINE_BYTES ? PROGRESS_LINE_BYTES - 1 : columns - 1;
	if (known && done > progress->total)
		done = progress->total;
	share = known ? (double)done / (double)progress->total : 0;
	if (known && per_second > 0) {
		left_s = (double)(progress->total - done) / per_second + 0.5;
		units_format_span(left_s < 1e9 ? (uint64_t)(left_s * 1e9) : UINT64_MAX, left);
	}
	text[0] = '\0';
	if (!progress_part(text, columns, "%s", progress->what))
		return;
	if (known && !progress_part(text, columns, " %3u%%", (unsigned int)(share * 100)))
		return;
	if (!progress_part(text, columns, "  %s", units_format_bytes(done, bytes)))
		return;
	if (progress->moved_ns && now_ns - progress->moved_ns >= PROGRESS_STILL_NS) {
		progress_part(text, columns, "  nothing for %s",
			      units_format_span(now_ns - progress->moved_ns, left));
		return;
	}
	if (!progress_part(text, columns, "  %s/s", units_format_bytes((uint64_t)per_second, rate)))
		return;
	if (known && progress_part(text, columns, "  ETA %s", left))
		progress_bar(text, columns, share);
}

static void progress_draw(const struct progress *progress, uint64_t done, uint64_t now_ns)
{
	char text[PROGRESS_LINE_BYTES];

	progress_line(progress, done, now_ns, progress_columns(), text);
	fprintf(stderr, "\r\033[K%s", text);
	drawn = true;
}

void progress_update(struct progress *progress, uint64_t done)
{
	uint64_t now_ns;

	if (!progress->shown)
		return;
	now_ns = progress_now_ns();
	if (now_ns - progress->drawn_ns < PROGRESS_INTERVAL_NS)
		return;
	progress->drawn_ns = now_ns;
	if (done != progress->moved || !progress->moved_ns) {
		progress->moved = done;
		progress->moved_ns = now_ns;
	}
	progress_draw(progress, done, now_ns);
}

void progress_erase(void)
{
	if (drawn)
		fputs("\r\033[K", stderr);
	drawn = false;
}

void progress_end(struct progress *progress)
{
	progress_erase();
	progress->shown = false;
}
