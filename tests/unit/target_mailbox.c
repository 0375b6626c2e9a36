/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no message to a reactor is lost or overtaken by a later one of the same sender, and every
 * message wakes the owner. Method: senders that push as fast as they can to an owner that sleeps on
 * the fd whenever the mailbox is empty; after a lost wakeup the poll times out.
 */
#include "tests/unit/unit.h"
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include "target/serve/mailbox.h"

#define SENDERS 3u
#define LETTERS 20000u
#define PATIENCE_MS 60000

struct letter {
	struct tgt_mail head; /* first member */
	unsigned int sender, number;
};

struct sender {
	struct tgt_mailbox *mailbox;
	unsigned int index;
	struct letter *letters;
};

static void *send_all(void *argument)
{
	struct sender *sender = argument;

	for (unsigned int i = 0; i < LETTERS; i++) {
		sender->letters[i].sender = sender->index;
		sender->letters[i].number = i;
		tgt_mailbox_send(sender->mailbox, &sender->letters[i].head);
	}
	return NULL;
}

static void in_order(void **state)
{
	struct letter letters[3];
	struct tgt_mailbox mailbox;
	struct tgt_mail *mail;

	assert_int_equal(tgt_mailbox_init(&mailbox), 0);
	assert_null(tgt_mailbox_take(&mailbox, UINT_MAX));
	assert_true(tgt_mailbox_settle(&mailbox));
	for (unsigned int i = 0; i < 3; i++)
		tgt_mailbox_send(&mailbox, &letters[i].head);
	assert_false(tgt_mailbox_settle(&mailbox));
	mail = tgt_mailbox_take(&mailbox, UINT_MAX);
	for (unsigned int i = 0; i < 3; i++, mail = mail->next)
		assert_ptr_equal(mail, &letters[i].head);
	assert_null(mail);
	assert_true(tgt_mailbox_settle(&mailbox));
	tgt_mailbox_fini(&mailbox);
}

/* What is left for later keeps the owner awake, and comes before what arrives meanwhile. */
static void in_batches(void **state)
{
	struct letter letters[7];
	struct tgt_mailbox mailbox;
	struct tgt_mail *mail;
	unsigned int next = 0;

	assert_int_equal(tgt_mailbox_init(&mailbox), 0);
	for (unsigned int i = 0; i < 5; i++)
		tgt_mailbox_send(&mailbox, &letters[i].head);
	while (next < 7) {
		unsigned int count = 0;

		assert_false(tgt_mailbox_settle(&mailbox));
		for (mail = tgt_mailbox_take(&mailbox, 2); mail; mail = mail->next, count++)
			assert_ptr_equal(mail, &letters[next++].head);
		assert_in_range(count, 1, 2);
		if (next == 2)
			for (unsigned int i = 5; i < 7; i++)
				tgt_mailbox_send(&mailbox, &letters[i].head);
	}
	assert_true(tgt_mailbox_settle(&mailbox));
	assert_null(tgt_mailbox_take(&mailbox, 2));
	tgt_mailbox_fini(&mailbox);
}

/* The owner wakes for nothing at most once per wakeup: an empty mailbox is quiet. */
static void quiet_when_settled(void **state)
{
	struct tgt_mailbox mailbox;
	struct letter letter;
	struct pollfd fd;

	assert_int_equal(tgt_mailbox_init(&mailbox), 0);
	fd = (struct pollfd){ .fd = mailbox.fd, .events = POLLIN };
	assert_int_equal(poll(&fd, 1, 0), 0);
	tgt_mailbox_send(&mailbox, &letter.head);
	assert_int_equal(poll(&fd, 1, 0), 1);
	assert_ptr_equal(tgt_mailbox_take(&mailbox, UINT_MAX), &letter.head);
	assert_true(tgt_mailbox_settle(&mailbox));
	assert_int_equal(poll(&fd, 1, 0), 0);
	tgt_mailbox_fini(&mailbox);
}

static void nothing_is_lost_between_threads(void **state)
{
	unsigned int next[SENDERS] = { 0 }, total = 0;
	struct sender senders[SENDERS];
	struct tgt_mailbox mailbox;
	pthread_t threads[SENDERS];

	assert_int_equal(tgt_mailbox_init(&mailbox), 0);
	for (unsigned int i = 0; i < SENDERS; i++) {
		senders[i] = (struct sender){ &mailbox, i, calloc(LETTERS, sizeof(struct letter)) };
		assert_non_null(senders[i].letters);
		assert_int_equal(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
	}
	while (total < SENDERS * LETTERS) {
		struct tgt_mail *mail = tgt_mailbox_take(&mailbox, 1 + total % 7);
		struct pollfd fd = { .fd = mailbox.fd, .events = POLLIN };

		if (!mail && tgt_mailbox_settle(&mailbox))
			assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
		for (; mail; mail = mail->next, total++) {
			const struct letter *letter = (const struct letter *)mail;

			assert_int_equal(letter->number, next[letter->sender]);
			next[letter->sender]++;
		}
	}
	for (unsigned int i = 0; i < SENDERS; i++) {
		pthread_join(threads[i], NULL);
		free(senders[i].letters);
	}
	assert_null(tgt_mailbox_take(&mailbox, UINT_MAX));
	tgt_mailbox_fini(&mailbox);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order),
		cmocka_unit_test(in_batches),
		cmocka_unit_test(quiet_when_settled),
		cmocka_unit_test(nothing_is_lost_between_threads),
	};

	return cmocka_run_group_tests_name("target mailbox", tests, NULL, NULL);
}
