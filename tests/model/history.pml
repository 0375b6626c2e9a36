/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A model in step with a history of the simulator: included by the models, whose every step that the
 * simulator can see says so with SAW(). With -DHISTORY a step that is not the history's next event ends
 * the path, and pan finds "accepted" if some path of the model consumes the whole history. Steps that
 * say nothing are free. Without -DHISTORY all of this is nothing, and CLAIM() is an assertion.
 *
 * The file is named by the environment: numbers, four for an event: its kind (of those that the model
 * defines, E_...), a queue, and two more. tests/model/histories makes it, with map.awk.
 */
#ifndef HISTORY

#define SAW(kind, queue, x, y)
#define CLAIM(x) assert(x)
#define IN_STEP

#else

#define EVENTS_MAX 4000
#define EVENT(field) history[4 * at + (field)]
#define SAW(kind, queue, x, y) \
	if \
	:: EVENT(0) == (kind) && EVENT(1) == (queue) && EVENT(2) == (x) && EVENT(3) == (y) -> at++ \
	:: else -> astray = true \
	fi; \
	c_code { history_progress(now.at); };
/* A claim of the model that does not hold: it has no such path. */
#define CLAIM(x) \
	if \
	:: x \
	:: else -> astray = true \
	fi
/* No process goes on once a path is astray. */
#define IN_STEP provided (!astray)

c_decl {
\#include <stdlib.h>
	static int history_furthest;
	static void history_report(void)
	{
		if (history_furthest >= 0)
			printf("furthest: %d\n", history_furthest);
		history_furthest = -1;
	}
	static void history_progress(int at)
	{
		if (at > history_furthest)
			history_furthest = at;
	}
	static int history_read(unsigned char *history, int bytes)
	{
		FILE *file = fopen(getenv("HISTORY") ? getenv("HISTORY") : "", "r");
		int count = 0, value;

		if (!file) {
			perror("HISTORY");
			exit(2);
		}
		while (count < bytes && fscanf(file, "%d", &value) == 1)
			history[count++] = (unsigned char)value;
		fclose(file);
		atexit(history_report);
		return count / 4;
	}
};

hidden byte history[4 * EVENTS_MAX];
short at, events = EVENTS_MAX;
bool astray, accepted;

proctype History() {
	c_code { now.events = history_read(history, sizeof(history)); };
	at == events && !astray;
	accepted = true;
	assert(!accepted)
}
#endif
