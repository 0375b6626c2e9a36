/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The mailbox of mailbox.h.
 */
#include "target/serve/mailbox.h"

#include <errno.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

int tgt_mailbox_init(struct tgt_mailbox *mailbox)
{
	atomic_init(&mailbox->top, NULL);
	mailbox->owed = 0;
	mailbox->taken = NULL;
	mailbox->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return mailbox->fd < 0 ? -errno : 0;
}

void tgt_mailbox_fini(struct tgt_mailbox *mailbox)
{
	close(mailbox->fd);
}

void tgt_mailbox_send(struct tgt_mailbox *mailbox, struct tgt_mail *mail)
{
	struct tgt_mail *top = atomic_load_explicit(&mailbox->top, memory_order_relaxed);

	do {
		mail->next = top;
	} while (!atomic_compare_exchange_weak_explicit(
		&mailbox->top, &top, mail, memory_order_release, memory_order_relaxed));
	/* The sender that finds the stack empty wakes the owner; a full counter: it is awake. */
	if (!top)
		eventfd_write(mailbox->fd, 1);
}

/* All of the stack, turned round. */
static struct tgt_mail *mailbox_empty(struct tgt_mailbox *mailbox)
{
	struct tgt_mail *mail, *oldest = NULL;

	mail = atomic_exchange_explicit(&mailbox->top, NULL, memory_order_acquire);
	/* Exactly one of these senders found the stack empty: it has written fd, or is about to. */
	mailbox->owed++;
	while (mail) {
		struct tgt_mail *next = mail->next;

		mail->next = oldest;
		oldest = mail;
		mail = next;
	}
	return oldest;
}

struct tgt_mail *tgt_mailbox_take(struct tgt_mailbox *mailbox, unsigned int most)
{
	struct tgt_mail *first = mailbox->taken, *last;

	/* The common case on the hot path: two loads. */
	if (!first && !atomic_load_explicit(&mailbox->top, memory_order_relaxed))
		return NULL;
	if (!first)
		first = mailbox_empty(mailbox);
	for (last = first; last->next && most > 1; most--)
		last = last->next;
	mailbox->taken = last->next;
	last->next = NULL;
	return first;
}

bool tgt_mailbox_settle(struct tgt_mailbox *mailbox)
{
	eventfd_t count;

	/* A sender between its push and its write wakes the sleeper once for nothing. */
	if (mailbox->owed && eventfd_read(mailbox->fd, &count) == 0)
		mailbox->owed -=
			(unsigned int)count < mailbox->owed ? (unsigned int)count : mailbox->owed;
	return !mailbox->taken && !atomic_load_explicit(&mailbox->top, memory_order_acquire);
}
