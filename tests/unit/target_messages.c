/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no message to a reactor is lost or overtaken by a later one of the same sender, and every
 * message wakes the owner. Method: senders that push as fast as they can to an owner that sleeps on
 * the fd whenever there is none; after a lost wakeup the poll times out. The wake-ups themselves go through this file.
 */
#include "tests/unit/unit.h"
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "target/store/messages.h"
#include "target/store/ring.h"

#define SENDERS 3u
#define LETTERS 20000u
#define PATIENCE_MS 60000

struct letter {
	struct tgt_message head; /* first member */
	unsigned int sender, number;
};

struct sender {
	struct tgt_messages *messages;
	unsigned int index;
	struct letter *letters;
};

static struct tgt_messages *watched; /* by the test that looks at its wake-ups */
static bool early;
static _Atomic bool held, ran; /* a sender waits before its wake-up until its message has run */
static bool late;	       /* its fd was closed */

/* In place of libc's. */
int eventfd_write(int fd, eventfd_t value)
{
	if (watched)
		early = !atomic_load(&watched->top);
	if (atomic_load(&held)) {
		while (!atomic_load(&ran))
			sched_yield();
		for (unsigned int i = 0; i < 1000; i++)
			sched_yield();
		late = fcntl(fd, F_GETFD) < 0;
	}
	return write(fd, &value, sizeof(value)) == sizeof(value) ? 0 : -1;
}

static void *send_all(void *argument)
{
	struct sender *sender = argument;

	for (unsigned int i = 0; i < LETTERS; i++) {
		sender->letters[i].sender = sender->index;
		sender->letters[i].number = i;
		tgt_messages_send(sender->messages, &sender->letters[i].head);
	}
	return NULL;
}

static void in_order(void **state)
{
	struct letter letters[3];
	struct tgt_messages messages;
	struct tgt_message *message;

	assert_int_equal(tgt_messages_init(&messages), 0);
	assert_null(tgt_messages_take(&messages, UINT_MAX));
	assert_true(tgt_messages_settle(&messages));
	for (unsigned int i = 0; i < 3; i++)
		tgt_messages_send(&messages, &letters[i].head);
	assert_false(tgt_messages_settle(&messages));
	message = tgt_messages_take(&messages, UINT_MAX);
	for (unsigned int i = 0; i < 3; i++, message = message->next)
		assert_ptr_equal(message, &letters[i].head);
	assert_null(message);
	assert_true(tgt_messages_settle(&messages));
	tgt_messages_fini(&messages);
}

/* What is left for later keeps the owner awake, and comes before what arrives meanwhile. */
static void in_batches(void **state)
{
	struct letter letters[7];
	struct tgt_messages messages;
	struct tgt_message *message;
	unsigned int next = 0;

	assert_int_equal(tgt_messages_init(&messages), 0);
	for (unsigned int i = 0; i < 5; i++)
		tgt_messages_send(&messages, &letters[i].head);
	while (next < 7) {
		unsigned int count = 0;

		assert_false(tgt_messages_settle(&messages));
		for (message = tgt_messages_take(&messages, 2); message; message = message->next, count++)
			assert_ptr_equal(message, &letters[next++].head);
		assert_in_range(count, 1, 2);
		if (next == 2)
			for (unsigned int i = 5; i < 7; i++)
				tgt_messages_send(&messages, &letters[i].head);
	}
	assert_true(tgt_messages_settle(&messages));
	assert_null(tgt_messages_take(&messages, 2));
	tgt_messages_fini(&messages);
}

/* The owner wakes for nothing at most once per wakeup: who has none is quiet. */
static void quiet_when_settled(void **state)
{
	struct tgt_messages messages;
	struct letter letter;
	struct pollfd fd;

	assert_int_equal(tgt_messages_init(&messages), 0);
	fd = (struct pollfd){ .fd = messages.fd, .events = POLLIN };
	assert_int_equal(poll(&fd, 1, 0), 0);
	tgt_messages_send(&messages, &letter.head);
	assert_int_equal(poll(&fd, 1, 0), 1);
	assert_ptr_equal(tgt_messages_take(&messages, UINT_MAX), &letter.head);
	assert_true(tgt_messages_settle(&messages));
	assert_int_equal(poll(&fd, 1, 0), 0);
	tgt_messages_fini(&messages);
}

/* The owner may take the processor of the sender that wakes it, and must not find nothing then. */
static void the_message_before_the_wake_up(void **state)
{
	struct tgt_messages messages;
	struct letter letter;

	assert_int_equal(tgt_messages_init(&messages), 0);
	watched = &messages;
	tgt_messages_send(&messages, &letter.head);
	watched = NULL;
	assert_false(early);
	assert_ptr_equal(tgt_messages_take(&messages, UINT_MAX), &letter.head);
	assert_true(tgt_messages_settle(&messages));
	tgt_messages_fini(&messages);
}

static void letter_run(struct tgt_reactor *reactor, struct tgt_message *message)
{
	(void)reactor;
	(void)message;
	atomic_store(&ran, true);
}

static void *send_one(void *ring)
{
	static struct letter letter = {.head.run = letter_run};

	tgt_ring_expect(ring);
	tgt_ring_post(ring, &letter.head);
	return NULL;
}

static void a_ring_outlasts_its_wake_ups(void **state)
{
	struct tgt_ring *ring;
	pthread_t sender;

	assert_int_equal(tgt_ring_create(8, 0, &ring), 0);
	atomic_store(&held, true);
	assert_int_equal(pthread_create(&sender, NULL, send_one, ring), 0);
	while (!atomic_load(&ran)) {
		tgt_ring_reap(ring, 1);
		sched_yield();
	}
	tgt_ring_destroy(ring);
	pthread_join(sender, NULL);
	atomic_store(&held, false);
	assert_false(late);
}

static void nothing_is_lost_between_threads(void **state)
{
	unsigned int next[SENDERS] = { 0 }, total = 0;
	struct sender senders[SENDERS];
	struct tgt_messages messages;
	pthread_t threads[SENDERS];

	assert_int_equal(tgt_messages_init(&messages), 0);
	for (unsigned int i = 0; i < SENDERS; i++) {
		senders[i] = (struct sender){ &messages, i, calloc(LETTERS, sizeof(struct letter)) };
		assert_non_null(senders[i].letters);
		assert_int_equal(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
	}
	while (total < SENDERS * LETTERS) {
		struct tgt_message *message = tgt_messages_take(&messages, 1 + total % 7);
		struct pollfd fd = { .fd = messages.fd, .events = POLLIN };

		if (!message && tgt_messages_settle(&messages))
			assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
		for (; message; message = message->next, total++) {
			const struct letter *letter = (const struct letter *)message;

			assert_int_equal(letter->number, next[letter->sender]);
			next[letter->sender]++;
		}
	}
	for (unsigned int i = 0; i < SENDERS; i++) {
		pthread_join(threads[i], NULL);
		free(senders[i].letters);
	}
	assert_null(tgt_messages_take(&messages, UINT_MAX));
	tgt_messages_fini(&messages);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order),
		cmocka_unit_test(in_batches),
		cmocka_unit_test(quiet_when_settled),
		cmocka_unit_test(the_message_before_the_wake_up),
		cmocka_unit_test(a_ring_outlasts_its_wake_ups),
		cmocka_unit_test(nothing_is_lost_between_threads),
	};

	return cmocka_run_group_tests_name("target messages", tests, NULL, NULL);
}
