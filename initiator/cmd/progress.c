/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "initiator/cmd/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "initiator/cmd/cmd.h"

#define PROGRESS_INTERVAL_NS 100000000u
#define PROGRESS_COLUMNS_MAX 200

uint64_t progress_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void progress_start(struct progress *progress, const char *what, uint64_t total, bool quiet)
{
	progress->shown = !quiet && isatty(STDERR_FILENO);
	progress->what = what;
	progress->total = total;
	progress->start_ns = progress_now_ns();
	progress->drawn_ns = 0;
}

static int progress_columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col < 20)
		return 80;
	return size.ws_col < PROGRESS_COLUMNS_MAX ? size.ws_col : PROGRESS_COLUMNS_MAX;
}

static void progress_draw(const struct progress *progress, uint64_t done, uint64_t now_ns)
{
	char bytes[CMD_TEXT_BYTES], rate[CMD_TEXT_BYTES], left[CMD_TEXT_BYTES];
	double seconds = (double)(now_ns - progress->start_ns) / 1e9;
	double per_second = seconds > 0 ? (double)done / seconds : 0;
	char bar[PROGRESS_COLUMNS_MAX + 1];
	char text[256];
	int length, room, filled;

	cmd_format_bytes(done, bytes);
	cmd_format_bytes((uint64_t)per_second, rate);
	if (progress->total == PROGRESS_UNKNOWN || !progress->total) {
		fprintf(stderr, "\r\033[K%s %s  %s/s", progress->what, bytes, rate);
		return;
	}
	if (per_second > 0)
		cmd_format_seconds((uint64_t)((double)(progress->total - done) / per_second + 0.5),
				   left);
	else
		strcpy(left, "-");
	length = snprintf(text, sizeof(text), "%s %3u%%  %s  %s/s  ETA %s ", progress->what,
			  (unsigned int)((double)done * 100 / (double)progress->total), bytes, rate,
			  left);
	room = progress_columns() - length - 3;
	if (room < 4) {
		fprintf(stderr, "\r\033[K%s", text);
		return;
	}
	filled = (int)((double)room * (double)done / (double)progress->total);
	memset(bar, '#', (size_t)filled);
	memset(bar + filled, '.', (size_t)(room - filled));
	bar[room] = '\0';
	fprintf(stderr, "\r\033[K%s[%s]", text, bar);
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
	progress_draw(progress, done, now_ns);
}

void progress_end(struct progress *progress)
{
	if (progress->shown && progress->drawn_ns)
		fputs("\r\033[K", stderr);
	progress->shown = false;
}
