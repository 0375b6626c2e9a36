/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: fixed buffers are all there or none is: a ring that counts some that the kernel did not take fails every
 * operation with them. A ring may have as many threads as its files may block. A loop that waits and reaps goes on when
 * the kernel takes nothing for want of room for completions. Method: a real ring, whose kernel takes as many buffers at
 * a time as the test says, as at the limit of locked memory, and no entries while completions wait.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>
#include "target/store/ring.h"

#define COUNT 3u
#define BYTES 4096u

static unsigned int takes = UINT32_MAX;

int __real_io_uring_register_buffers_update_tag(struct io_uring *ring, unsigned int first, const struct iovec *iov,
						const __u64 *tags, unsigned int count);
int __wrap_io_uring_register_buffers_update_tag(struct io_uring *ring, unsigned int first, const struct iovec *iov,
						const __u64 *tags, unsigned int count);
int __wrap_io_uring_register_buffers_update_tag(struct io_uring *ring, unsigned int first, const struct iovec *iov,
						const __u64 *tags, unsigned int count)
{
	return __real_io_uring_register_buffers_update_tag(ring, first, iov, tags, count < takes ? count : takes);
}

static bool full; /* io_uring_enter() fails while a completion has not been reaped */

int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring)
{
	return full && io_uring_cq_ready(ring) ? -EBUSY : __real_io_uring_submit(ring);
}

int __real_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned int count,
					    struct __kernel_timespec *limit, sigset_t *set);
int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned int count,
					    struct __kernel_timespec *limit, sigset_t *set);
int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned int count,
					    struct __kernel_timespec *limit, sigset_t *set)
{
	if (full && io_uring_cq_ready(ring))
		return -EBUSY;
	return __real_io_uring_submit_and_wait_timeout(ring, cqe, count, limit, set);
}

static char *memory;

static void buffers(struct iovec iov[COUNT])
{
	for (unsigned int i = 0; i < COUNT; i++)
		iov[i] = (struct iovec){.iov_base = memory + i * BYTES, .iov_len = BYTES};
}

static void some_count_as_none(void **state)
{
	struct tgt_ring *ring;
	struct iovec iov[COUNT];

	(void)state;
	buffers(iov);
	assert_int_equal(tgt_ring_create(8, 1, &ring), 0);
	takes = 1;
	assert_int_equal(tgt_ring_register_buffers(ring, iov, COUNT), -ENOMEM);
	takes = UINT32_MAX;
	/* Nothing of it is left: the places are free, and these are the first. */
	assert_int_equal(tgt_ring_register_buffers(ring, iov, COUNT), 0);
	assert_int_equal(tgt_ring_register_buffers(ring, iov, COUNT), COUNT);
	tgt_ring_destroy(ring);
}

static void the_wide_half_goes_without(void **state)
{
	struct tgt_ring *ring;
	struct iovec iov[COUNT];
	int err;

	(void)state;
	buffers(iov);
	assert_int_equal(tgt_ring_create(8, 1, &ring), 0);
	assert_int_equal(tgt_ring_register_buffers(ring, iov, COUNT), 0);
	takes = 1;
	err = tgt_ring_widen(ring);
	takes = UINT32_MAX;
	if (err == -EINVAL) {
		print_message("SKIP: this kernel has no wide entries\n");
		tgt_ring_destroy(ring);
		skip();
	}
	assert_int_equal(err, 0);
	for (int i = 0; i < (int)COUNT; i++)
		assert_false(tgt_ring_wide_has_buffer(ring, i));
	tgt_ring_destroy(ring);
}

/* Each file adds the threads that its operations may block. */
static void files_bring_their_threads(void **state)
{
	unsigned int before, sum = 0;
	struct tgt_ring *ring;
	int fds[8];

	(void)state;
	assert_int_equal(tgt_ring_create(64, 8, &ring), 0);
	before = tgt_ring_threads(ring);
	if (!before)
		fail_msg("the kernel does not say");
	for (unsigned int i = 0; i < 8; i++) {
		fds[i] = open("/tmp", O_TMPFILE | O_RDWR, 0600);
		assert_true(fds[i] >= 0);
		sum += 10 * (i + 1);
		assert_int_equal(tgt_ring_register_file(ring, fds[i], 10 * (i + 1)), (int)i);
		assert_int_equal(tgt_ring_threads(ring), before + sum);
	}
	for (unsigned int i = 0; i < 8; i++) {
		tgt_ring_unregister_file(ring, (int)i);
		close(fds[i]);
		sum -= 10 * (i + 1);
		assert_int_equal(tgt_ring_threads(ring), before + sum);
	}
	tgt_ring_destroy(ring);
}

static void nop_complete(struct tgt_ring_op *op, int result, uint32_t flags)
{
	(void)op;
	(void)flags;
	assert_int_equal(result, 0);
}

/* The first one has completed; the others fill the ring, so that no watch can be armed. */
static void no_room_for_completions_is_no_error(void **state)
{
	struct tgt_ring_op op = {.complete = nop_complete};
	struct io_uring_sqe *sqe;
	unsigned int count = 0, done = 0;
	struct tgt_ring *ring;

	(void)state;
	assert_int_equal(tgt_ring_create(8, 1, &ring), 0);
	io_uring_prep_nop(tgt_ring_get(ring, &op));
	assert_int_equal(tgt_ring_submit(ring), 0);
	full = true;
	while ((sqe = tgt_ring_get(ring, &op))) {
		io_uring_prep_nop(sqe);
		count++;
	}
	assert_int_equal(count, 8);
	for (unsigned int turn = 0; turn < 3 && done < 1 + count; turn++) {
		assert_int_equal(tgt_ring_wait(ring, -1), 0);
		done += tgt_ring_reap(ring, 64);
	}
	full = false;
	assert_int_equal(done, 1 + count);
	assert_int_equal(tgt_ring_inflight(ring), 0);
	tgt_ring_destroy(ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(some_count_as_none),
		cmocka_unit_test(the_wide_half_goes_without),
		cmocka_unit_test(files_bring_their_threads),
		cmocka_unit_test(no_room_for_completions_is_no_error),
	};

	memory = aligned_alloc(BYTES, COUNT * BYTES);
	return cmocka_run_group_tests_name("target ring", tests, NULL, NULL);
}
