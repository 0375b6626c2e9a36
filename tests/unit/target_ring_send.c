/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what a ring sends while it is submitted has gone, or is known not to have, when that returns: all, a part,
 * nothing, an error; it is no work and wakes nobody. Method: TCP over loopback, with buffers that fill up.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "target/store/ring.h"
#include "tests/unit/unit.h"

#define SMALL 1000
#define LARGE (64 << 20) /* more than both ends' buffers */

static struct tgt_ring *ring;
static int ends[2];
static unsigned char *data, *came;

static int setup(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	(void)state;
	assert_int_equal(tgt_ring_create(64, 4, &ring), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(ends[0], (struct sockaddr *)&at, bytes), 0);
	ends[1] = accept(listener, NULL, NULL);
	close(listener);
	data = malloc(LARGE);
	came = malloc(LARGE);
	for (unsigned int i = 0; i < LARGE; i++)
		data[i] = (unsigned char)(i * 2654435761u >> 24);
	return 0;
}

static int teardown(void **state)
{
	/* Nothing of it is work, or under way. */
	assert_int_equal(tgt_ring_submit(ring), 0);
	assert_int_equal(tgt_ring_reap(ring, 64), 0);
	assert_int_equal(tgt_ring_inflight(ring), 0);
	tgt_ring_destroy(ring);
	close(ends[0]);
	if (ends[1] >= 0)
		close(ends[1]);
	free(data);
	free(came);
	return 0;
}

/* In two pieces; the caller sleeps no longer than the send takes. */
static int send_now(int bytes)
{
	struct iovec iovs[2] = {{data, 10}, {data + 10, (size_t)bytes - 10}};
	const struct msghdr message = {.msg_iov = iovs, .msg_iovlen = 2};

	assert_true(tgt_ring_sendmsg(ring, ends[0], &message));
	assert_int_equal(tgt_ring_wait(ring, 0), 0);
	return tgt_ring_sent(ring, bytes);
}

/* So many bytes came, and no more. */
static void expect(int bytes)
{
	char more;

	assert_int_equal(recv(ends[1], came, (size_t)bytes, MSG_WAITALL), bytes);
	assert_memory_equal(came, data, (size_t)bytes);
	assert_int_equal(recv(ends[1], &more, 1, MSG_DONTWAIT), -1);
}

static void all_goes(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 100; i++) {
		assert_int_equal(send_now(SMALL), SMALL);
		expect(SMALL);
	}
}

static void a_part_goes(void **state)
{
	int bytes, again;

	(void)state;
	bytes = send_now(LARGE);
	assert_in_range(bytes, 1, LARGE - 1);
	do
		again = send_now(LARGE);
	while (again > 0); /* while the peer's window opens */
	assert_int_equal(again, -EAGAIN);
	assert_int_equal(recv(ends[1], came, (size_t)bytes, MSG_WAITALL), bytes);
	assert_memory_equal(came, data, (size_t)bytes);
}

static void an_error_is_told(void **state)
{
	char more;

	(void)state;
	close(ends[1]);
	ends[1] = -1;
	(void)!recv(ends[0], &more, 1, 0);
	assert_int_equal(send_now(SMALL), SMALL); /* TCP learns of it by that */
	(void)!recv(ends[0], &more, 1, 0);
	assert_in_range(-send_now(SMALL), 1, 200);
	assert_int_equal(send_now(SMALL), -EPIPE); /* and no signal */
}

/* The kernel has not taken it: it is not sent later. Nor is a send put behind other entries. */
static void what_was_not_taken_does_not_go(void **state)
{
	const struct msghdr message = {.msg_iov = &(struct iovec){data, SMALL}, .msg_iovlen = 1};

	(void)state;
	assert_true(tgt_ring_sendmsg(ring, ends[0], &message));
	assert_int_equal(tgt_ring_sent(ring, SMALL), -EAGAIN);
	assert_false(tgt_ring_sendmsg(ring, ends[0], &message));
	tgt_ring_submit(ring);
	assert_int_equal(send_now(SMALL), SMALL);
	expect(SMALL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(a_part_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(an_error_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_not_taken_does_not_go, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
