/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A thread that writes lines to stderr, and the ring in which they wait for it. A logging thread
 * holds the lock only for a copy; the writer thread alone waits for stderr (a pipe that is not
 * read, a file on a disk or server that hangs), and alone writes, so that lines stay whole. A full
 * ring drops new lines, and the next line that fits says how many.
 */
#include "target/base/log_writer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "target/base/text.h"

/* stop: longest wait for one more line to be taken. */
#define STOP_S 1
#define STOP_MOST_S 5 /* in all, however slowly they are read */

enum writer_state {
	WRITER_DIRECT, /* no thread: the caller writes */
	WRITER_RUNS,
	WRITER_STOPS, /* the thread ends when the ring is empty */
	WRITER_STUCK, /* stderr takes nothing: stop writing */
};

/* `lock` owns everything but `thread`, which is the main thread's. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t filled, taken;
	pthread_t thread;
	enum writer_state state;
	char ring[TGT_LOG_RING_BYTES]; /* [tail, head): two bytes of length, then the line */
	size_t head, tail;	       /* only grow */
	uint64_t written;	       /* lines */
	unsigned int dropped;	       /* since the last line that fitted */
} writer = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

static void line_write(const char *line, size_t bytes)
{
	while (bytes) {
		ssize_t written = write(STDERR_FILENO, line, bytes);
		struct pollfd waiting = {.fd = STDERR_FILENO, .events = POLLOUT};

		if (written >= 0) {
			line += written;
			bytes -= (size_t)written;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			poll(&waiting, 1, -1); /* another program has made it non-blocking */
		} else if (errno != EINTR) {
			return; /* it cannot be reported */
		}
	}
}

/* -- the ring; lock held ----------------------------------------------------------------------- */

static void ring_copy_in(const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		writer.ring[writer.head++ % TGT_LOG_RING_BYTES] = ((const char *)from)[i];
}

static void ring_copy_out(void *to, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((char *)to)[i] = writer.ring[writer.tail++ % TGT_LOG_RING_BYTES];
}

static bool ring_put(const char *line, size_t bytes)
{
	uint16_t length = (uint16_t)bytes;

	if (TGT_LOG_RING_BYTES - (writer.head - writer.tail) < sizeof(length) + bytes)
		return false;
	ring_copy_in(&length, sizeof(length));
	ring_copy_in(line, bytes);
	pthread_cond_signal(&writer.filled);
	return true;
}

static size_t ring_take(char line[TGT_LOG_LINE_BYTES])
{
	uint16_t length;

	ring_copy_out(&length, sizeof(length));
	ring_copy_out(line, length);
	return length;
}

static void ring_put_dropped(void)
{
	char line[96];
	int length;

	if (!writer.dropped)
		return;
	length = snprintf(line, sizeof(line), "rblkd: %u line%s dropped: stderr did not take them\n",
			  writer.dropped, TGT_S(writer.dropped));
	if (ring_put(line, (size_t)length))
		writer.dropped = 0;
}

/* -- all threads ------------------------------------------------------------------------------- */

void tgt_log_put(const char *line, size_t bytes)
{
	enum writer_state state;

	pthread_mutex_lock(&writer.lock);
	state = writer.state;
	if (state == WRITER_RUNS || state == WRITER_STOPS) {
		ring_put_dropped();
		if (writer.dropped || !ring_put(line, bytes))
			writer.dropped++;
	}
	pthread_mutex_unlock(&writer.lock);
	if (state == WRITER_DIRECT)
		line_write(line, bytes);
}

/* -- the thread -------------------------------------------------------------------------------- */

static void *writer_thread(void *argument)
{
	char line[TGT_LOG_LINE_BYTES];
	size_t bytes;

	(void)argument;
	pthread_mutex_lock(&writer.lock);
	for (;;) {
		while (writer.head == writer.tail && writer.state == WRITER_RUNS)
			pthread_cond_wait(&writer.filled, &writer.lock);
		if (writer.head == writer.tail)
			break;
		bytes = ring_take(line);
		pthread_mutex_unlock(&writer.lock);
		line_write(line, bytes);
		pthread_mutex_lock(&writer.lock);
		writer.written++;
		ring_put_dropped();
		pthread_cond_signal(&writer.taken);
	}
	writer.state = WRITER_DIRECT;
	pthread_cond_signal(&writer.taken);
	pthread_mutex_unlock(&writer.lock);
	return NULL;
}

int tgt_log_start(void)
{
	pthread_condattr_t monotonic;
	int err;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&writer.taken, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_lock(&writer.lock);
	err = pthread_create(&writer.thread, NULL, writer_thread, NULL);
	if (!err) {
		writer.state = WRITER_RUNS;
		pthread_setname_np(writer.thread, "log");
	}
	pthread_mutex_unlock(&writer.lock);
	return -err;
}

/* Lock held. True: the thread has ended. */
static bool writer_wait_end(void)
{
	struct timespec until, last;

	clock_gettime(CLOCK_MONOTONIC, &last);
	last.tv_sec += STOP_MOST_S;
	while (writer.state != WRITER_DIRECT) {
		uint64_t written = writer.written;

		clock_gettime(CLOCK_MONOTONIC, &until);
		if (until.tv_sec >= last.tv_sec)
			return false;
		until.tv_sec += STOP_S;
		if (pthread_cond_timedwait(&writer.taken, &writer.lock, &until) == ETIMEDOUT &&
		    writer.written == written)
			return false;
	}
	return true;
}

void tgt_log_stop(void)
{
	bool ended;

	pthread_mutex_lock(&writer.lock);
	if (writer.state != WRITER_RUNS) {
		pthread_mutex_unlock(&writer.lock);
		return;
	}
	writer.state = WRITER_STOPS;
	pthread_cond_signal(&writer.filled);
	ended = writer_wait_end();
	if (!ended)
		writer.state = WRITER_STUCK;
	pthread_mutex_unlock(&writer.lock);
	if (ended)
		pthread_join(writer.thread, NULL);
	else
		pthread_detach(writer.thread); /* it ends with the process */
}
