/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "proto/screen/top.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "proto/screen/table.h"

/* -- the terminal ------------------------------------------------------------------------------ */

static struct screen_top *on_screen; /* for the end by a signal */

static void screen_leave(void)
{
	if (!on_screen)
		return;
	tcsetattr(STDIN_FILENO, TCSANOW, &on_screen->before);
	/* The cursor, and the screen that was there. */
	if (write(STDOUT_FILENO, "\033[?25h\033[?1049l", 14) < 0)
		return;
	on_screen = NULL;
}

static void screen_signal(int number)
{
	screen_leave();
	_exit(128 + number);
}

static void screen_enter(struct screen_top *top)
{
	struct termios raw;

	if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) || top->plain ||
	    tcgetattr(STDIN_FILENO, &top->before))
		return;
	raw = top->before;
	raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	top->screen = true;
	on_screen = top;
	signal(SIGINT, screen_signal);
	signal(SIGTERM, screen_signal);
	signal(SIGHUP, screen_signal);
	printf("\033[?1049h\033[?25l");
}

static struct winsize screen_size(void)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		memset(&size, 0, sizeof(size));
	return size;
}

static void sort_next(struct screen_top *top)
{
	const char *next = strstr(top->sorts, top->sort);

	if (next)
		next += strlen(top->sort) + strspn(next + strlen(top->sort), " ");
	if (!next || !*next)
		next = top->sorts;
	snprintf(top->sort, sizeof(top->sort), "%.*s", (int)strcspn(next, " "), next);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* False: the user wants to end. True: the next table now. */
static bool top_wait(struct screen_top *top)
{
	uint64_t until_ms = now_ms() + top->interval_ms, left_ms;
	struct pollfd keys = {.fd = top->screen ? STDIN_FILENO : -1, .events = POLLIN};
	char key;

	while ((left_ms = until_ms - now_ms()) <= top->interval_ms && left_ms) {
		if (poll(&keys, 1, (int)left_ms) <= 0)
			continue;
		if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 4)
			return false;
		if (key != 's')
			return true;
		sort_next(top);
	}
	return true;
}

bool screen_top_run(struct screen_top *top)
{
	uint64_t tables = 0;
	bool good = top->step(top, true);

	if (good)
		screen_enter(top);
	while (good && top_wait(top)) {
		/* A failure from now on is told on the screen that stays. */
		good = top->step(top, false);
		fflush(stdout);
		if (ferror(stdout))
			good = false;
		if (good && top->count && ++tables >= top->count)
			break;
	}
	screen_leave();
	return good;
}

/* -- one table --------------------------------------------------------------------------------- */

/* Cut at the edge of the terminal; width 0: none. */
static void line_print(const char *line, unsigned int width)
{
	printf("%.*s\n", width ? (int)width : -1, line);
}

void screen_top_begin(const struct screen_top *top, const char *sum)
{
	struct winsize size = screen_size();
	char line[256];

	if (top->screen)
		printf("\033[H\033[J");
	if (top->alert)
		line_print(top->alert, size.ws_col);
	line_print(sum, size.ws_col);
	if (!top->screen)
		return;
	snprintf(line, sizeof(line), "sorted by %s (s: the next key, q: the end)%s%s", top->sort,
		 top->filter ? ", only with " : "", top->filter ? top->filter : "");
	line_print(line, size.ws_col);
}

size_t screen_top_room(const struct screen_top *top)
{
	struct winsize size = screen_size();

	/* The lines above, the heading, and the cursor's below. */
	unsigned int others = top->alert ? 5 : 4;

	return top->screen && size.ws_row > others ? size.ws_row - others : SIZE_MAX;
}

void screen_top_end(const struct screen_top *top, const struct screen_table *table,
		    const unsigned int *order)
{
	if (screen_table_is_empty(table))
		line_print(top->filter ? "no row has the filter's text" : top->empty, screen_size().ws_col);
	else
		screen_table_print(table, screen_size().ws_col, order);
	if (!top->screen)
		printf("\n");
}
