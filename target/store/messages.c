/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The stack of messages.h. */
#include "target/store/messages.h"

#include <errno.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

int tgt_messages_init(struct tgt_messages *messages)
{
	messages->reactor = NULL;
	atomic_init(&messages->own_expected, 0);
	messages->expected = &messages->own_expected;
	atomic_init(&messages->top, NULL);
	messages->owed = 0;
	messages->taken = NULL;
	messages->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return messages->fd < 0 ? -errno : 0;
}

void tgt_messages_fini(struct tgt_messages *messages)
{
	close(messages->fd);
}

void tgt_messages_send(struct tgt_messages *messages, struct tgt_message *message)
{
	struct tgt_message *top = atomic_load_explicit(&messages->top, memory_order_relaxed);
	int fd = messages->fd;
	bool wakes;

	do {
		message->next = top;
		message->wakes = wakes = !top;
	} while (!atomic_compare_exchange_weak_explicit(&messages->top, &top, message, memory_order_release,
							memory_order_relaxed));
	/*
	 * The sender that has found the stack empty wakes the owner. Not before: the owner, which may take this
	 * thread's processor, would find nothing, and wake again and again until this one runs.
	 */
	if (wakes)
		eventfd_write(fd, 1);
}

/* All of the stack, turned round. */
static struct tgt_message *messages_empty(struct tgt_messages *messages)
{
	struct tgt_message *message, *oldest = NULL;

	message = atomic_exchange_explicit(&messages->top, NULL, memory_order_acquire);
	while (message) {
		struct tgt_message *next = message->next;

		messages->owed += message->wakes;
		message->next = oldest;
		oldest = message;
		message = next;
	}
	return oldest;
}

struct tgt_message *tgt_messages_take(struct tgt_messages *messages, unsigned int most)
{
	struct tgt_message *first = messages->taken, *last;

	/* The common case on the hot path: two loads. */
	if (!first && !atomic_load_explicit(&messages->top, memory_order_relaxed))
		return NULL;
	if (!first)
		first = messages_empty(messages);
	for (last = first; last->next && most > 1; most--)
		last = last->next;
	messages->taken = last->next;
	last->next = NULL;
	return first;
}

unsigned int tgt_messages_run(struct tgt_messages *messages, unsigned int most)
{
	struct tgt_message *message = tgt_messages_take(messages, most), *next;
	unsigned int done = 0;

	for (; message; message = next) {
		next = message->next;
		message->run(messages->reactor, message);
		/* Only now, because messages that it sent are counted by then. */
		atomic_fetch_sub(messages->expected, 1);
		done++;
	}
	return done;
}

bool tgt_messages_settle(struct tgt_messages *messages)
{
	eventfd_t count;

	if (messages->owed && eventfd_read(messages->fd, &count) == 0)
		messages->owed -= (int)count;
	/* Only now: what was read may have been for messages that came since. */
	return !messages->taken && !atomic_load_explicit(&messages->top, memory_order_acquire);
}
