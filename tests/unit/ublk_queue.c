/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a hardware queue's requests take the paths of its session in turn, wait where there are more than credits, and
 * are all answered before it leaves. Method: /dev/null in place of ublk's device, which completes each command at once,
 * as if there were a next request always; the session's functions are those of this file.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include "initiator/ublk/kept.h"
#include "initiator/ublk/kernel.h"
#include "initiator/ublk/queue.h"

#define DEPTH 8u
#define CREDITS 3u
#define REQUESTS 1000u

static struct ublksrv_io_desc descriptors[DEPTH];
static struct rblk_volume_info info = { .bytes = 1 << 20, .block_bytes = 512 };
static struct rblk_options options = { .give_up_ms = 60000 };
static struct ublk_kept kept;
static struct ublk_shared shared = { .options = &options, .kept = &kept, .depth = DEPTH, .io_bytes = 4096 };
static char buffers[DEPTH * 4096];

/* The queue's thread's, and this one's when that has left. */
static struct {
	rblk_callback done;
	void *arg;
} begun[CREDITS];
static unsigned int begun_count, started, answered, since_submit, most_since_submit;

/* -- librblk ----------------------------------------------------------------------------------- */

struct rblk_session *rblk_session_open(const char *uri, const struct rblk_options *wanted, char *error)
{
	return (struct rblk_session *)&begun;
}

void rblk_session_close(struct rblk_session *session)
{
}

void rblk_session_on_event(struct rblk_session *session, rblk_event_callback callback, void *arg)
{
}

struct rblk_volume *rblk_volume_open(struct rblk_session *session, const char *name, uint32_t flags)
{
	return (struct rblk_volume *)&begun;
}

int rblk_session_info(const struct rblk_session *session, struct rblk_session_info *to, size_t bytes)
{
	memset(to, 0, bytes);
	return 0;
}

const struct rblk_volume_info *rblk_volume_info(const struct rblk_volume *volume)
{
	return &info;
}

unsigned int rblk_session_credits(const struct rblk_session *session)
{
	return CREDITS;
}

int rblk_session_paths(const struct rblk_session *session, struct rblk_path_info *paths, size_t bytes, unsigned int max)
{
	return 0;
}

int rblk_session_stats(const struct rblk_session *session, struct rblk_stats *stats, size_t bytes)
{
	return 0;
}

void *rblk_buffer_alloc(struct rblk_session *session, size_t bytes)
{
	assert_int_equal(bytes, sizeof(buffers));
	return buffers;
}

int rblk_read(struct rblk_volume *volume, void *data, size_t bytes, uint64_t offset, uint32_t flags, rblk_callback done,
	      void *arg)
{
	if (begun_count == CREDITS)
		return -EAGAIN;
	begun[begun_count].done = done;
	begun[begun_count++].arg = arg;
	if (++since_submit > most_since_submit)
		most_since_submit = since_submit;
	if (++started == REQUESTS)
		eventfd_write(shared.leave_fd, 1);
	return 0;
}

int rblk_submit(struct rblk_session *session)
{
	since_submit = 0;
	return 0;
}

int rblk_poll(struct rblk_session *session, unsigned int max)
{
	const struct rblk_result result = { .error = 0 };
	int count = (int)begun_count;

	while (begun_count) {
		begun_count--;
		answered++;
		begun[begun_count].done(begun[begun_count].arg, &result);
	}
	return count;
}

int rblk_arm(struct rblk_session *session)
{
	return begun_count > 0;
}

int rblk_timeout_ms(const struct rblk_session *session)
{
	return -1;
}

/* It wakes the queue for nothing now and then. */
int rblk_fd(const struct rblk_session *session)
{
	return shared.wake_fd;
}

int rblk_wait(struct rblk_session *session, int timeout_ms)
{
	return rblk_poll(session, 0);
}

/* -- the kernel -------------------------------------------------------------------------------- */

void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	return fd == shared.device_fd ? descriptors : __real_mmap(address, bytes, protection, flags, fd, offset);
}

/* -- a queue ----------------------------------------------------------------------------------- */

/* It has come so far, or has ended. */
static enum ublk_queue_phase await(struct ublk_queue *queue, enum ublk_queue_phase phase)
{
	struct pollfd fd = { .fd = shared.wake_fd, .events = POLLIN };
	struct ublk_queue_view view;
	uint64_t count;

	for (;;) {
		ublk_queue_look(queue, &view);
		if (view.phase >= phase)
			return view.phase;
		assert_int_equal(poll(&fd, 1, -1), 1);
		assert_int_equal(eventfd_read(shared.wake_fd, &count), 0);
	}
}

static void requests_take_all_paths_and_are_answered(void **state)
{
	struct ublk_queue *queue;
	enum ublk_queue_phase phase;

	for (unsigned int i = 0; i < DEPTH; i++)
		descriptors[i] = (struct ublksrv_io_desc){ .op_flags = UBLK_IO_OP_READ, .nr_sectors = 8 };
	shared.wake_fd = eventfd(0, 0);
	shared.leave_fd = eventfd(0, 0);
	shared.device_fd = open("/dev/null", O_RDWR);
	options.queues = 2;
	queue = ublk_queue_create(&shared, 0);
	assert_non_null(queue);
	shared.go = UBLK_GO_PREPARE;
	await(queue, UBLK_QUEUE_PREPARED);
	shared.go = UBLK_GO_SERVE;
	phase = await(queue, UBLK_QUEUE_LEFT);
	if (phase == UBLK_QUEUE_ENDED)
		skip(); /* this kernel's /dev/null takes no such commands, or there is no io_uring */
	assert_true(started >= REQUESTS);
	assert_int_equal(answered, started);
	assert_in_range(most_since_submit, 1, 2 * CREDITS);
	/* Its thread keeps the tags until the process ends. */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_take_all_paths_and_are_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
