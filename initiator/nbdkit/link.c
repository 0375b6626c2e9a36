/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the link of link.h. One mutex guards the session. A caller starts its commands under it and
 * rings the doorbell itself; the link's thread does all polling, and wakes the caller when the last
 * of its commands is done. The thread releases the mutex while it sleeps, so a request costs two
 * wakes and no hand-over.
 */
#include "initiator/nbdkit/link.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* nbdkit's default number of threads for a connection. */
#define LINK_SLOTS 16u
#define LINK_SLOT_BYTES (256u * 1024)
#define LINK_CREDITS 64u
/* Slots of one request at a time: a long one streams, and leaves some for others. */
#define LINK_STRIDE 4u

enum link_operation {
	LINK_READ,
	LINK_WRITE,
	LINK_FLUSH,
	LINK_DISCARD,
	LINK_ZERO,
	LINK_EXTENTS,
};

struct link_command {
	enum link_operation operation;
	uint32_t flags; /* enum rblk_io_flag */
	char *data;     /* in a slot */
	uint64_t offset;
	uint64_t bytes;
	struct rblk_extent *extents; /* room for so many */
	unsigned int extents_max;
};

/* A caller that waits for its commands; on its stack. Guarded by the link's mutex. */
struct link_waiter {
	pthread_cond_t done;
	unsigned int outstanding;
	int error; /* the first */
	uint64_t value; /* the last result's */
};

/*
 * Created by nbd_link_open() and freed by nbd_link_close(), on nbdkit's threads. session, volume, info,
 * slot_bytes, memory, wake_fd, thread and polling are fixed in between; the rest, and every call
 * on the session, is the mutex's.
 */
struct nbd_link {
	struct rblk_session *session;
	struct rblk_volume *volume;
	struct rblk_volume_info info; /* as it was opened: the library's changes when it is opened again */
	size_t slot_bytes;
	char *memory; /* LINK_SLOTS slots, registered */
	int wake_fd;  /* eventfd: the thread is to look again */
	bool polling;
	pthread_t thread;

	pthread_mutex_t mutex;
	pthread_cond_t progress; /* a slot is free, or a command was completed */
	char *slots[LINK_SLOTS]; /* that are free */
	unsigned int slot_count;
	bool closing;
	bool lost; /* the session has FAILED and has called everything back */
	bool asleep;
	uint64_t asleep_until_ms; /* UINT64_MAX: for ever */
};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void link_wake(struct nbd_link *link)
{
	uint64_t one = 1;

	/* It can only fail when the counter is full, and then it is readable. */
	if (write(link->wake_fd, &one, sizeof(one)) < 0)
		return;
}

/* -- the thread -------------------------------------------------------------------------------- */

/* Mutex held; released while asleep. */
static void link_sleep(struct nbd_link *link)
{
	struct pollfd fds[2] = {
		{ .fd = rblk_fd(link->session), .events = POLLIN },
		{ .fd = link->wake_fd, .events = POLLIN },
	};
	int timeout_ms = rblk_timeout_ms(link->session);
	uint64_t count;

	link->asleep = true;
	link->asleep_until_ms = timeout_ms < 0 ? UINT64_MAX : now_ms() + (uint64_t)timeout_ms;
	pthread_mutex_unlock(&link->mutex);
	poll(fds, 2, timeout_ms);
	if (fds[1].revents && read(link->wake_fd, &count, sizeof(count)) < 0)
		count = 0; /* nothing to undo: level-triggered, it is polled again */
	pthread_mutex_lock(&link->mutex);
	link->asleep = false;
}

static void *link_serve(void *arg)
{
	struct nbd_link *link = arg;

	pthread_mutex_lock(&link->mutex);
	while (!link->closing && !link->lost) {
		int count = rblk_poll(link->session, 0);

		if (count < 0)
			link->lost = true;
		if (count)
			pthread_cond_broadcast(&link->progress);
		if (count)
			continue;
		if (link->polling) {
			/* Gives the mutex to a waiting caller. */
			pthread_mutex_unlock(&link->mutex);
			sched_yield();
			pthread_mutex_lock(&link->mutex);
		} else if (rblk_arm(link->session) == 0) {
			link_sleep(link);
		}
	}
	pthread_mutex_unlock(&link->mutex);
	return NULL;
}

/* Signals blocked: they are for nbdkit's own threads. */
static int link_start_thread(struct nbd_link *link)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&link->thread, NULL, link_serve, link);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

/* -- opening, closing -------------------------------------------------------------------------- */

static int link_alloc_slots(struct nbd_link *link)
{
	link->info = *rblk_volume_info(link->volume);
	link->slot_bytes = link->info.max_io_bytes < LINK_SLOT_BYTES ? link->info.max_io_bytes : LINK_SLOT_BYTES;
	link->memory = rblk_buffer_alloc(link->session, LINK_SLOTS * link->slot_bytes);
	if (!link->memory)
		return errno ? -errno : -ENOMEM;
	for (unsigned int i = 0; i < LINK_SLOTS; i++)
		link->slots[link->slot_count++] = link->memory + i * link->slot_bytes;
	return 0;
}

/* On failure the message is in error; what was opened is closed with the session. */
static int link_connect(struct nbd_link *link, const struct nbd_link_options *options, char *error)
{
	struct rblk_options session_options = {
		.size = sizeof(session_options),
		.credits = LINK_CREDITS,
		.initiator_name = options->name,
		.key_file = options->key_file,
		.device = options->device,
		.source = options->source,
		.tos = options->tos,
		.ack_timeout = options->ack_timeout,
		.tls = options->tls,
		.digest = options->digest,
		.queues = options->queues,
		.give_up_ms = options->give_up_ms,
	};
	int err;

	link->session = rblk_session_open(options->uri, &session_options, error);
	if (!link->session)
		return errno ? -errno : -EIO;
	link->volume = rblk_volume_open(link->session, options->volume,
					options->read_only ? RBLK_VOLUME_OPEN_READ_ONLY : 0);
	err = link->volume ? link_alloc_slots(link) : errno ? -errno : -EIO;
	if (err) {
		snprintf(error, RBLK_ERROR_BYTES, "%s", rblk_session_error(link->session));
		rblk_session_close(link->session);
	}
	return err;
}

struct nbd_link *nbd_link_open(const struct nbd_link_options *options, char *error)
{
	struct nbd_link *link = calloc(1, sizeof(*link));
	int err = -ENOMEM;

	snprintf(error, RBLK_ERROR_BYTES, "%s: %s", options->uri, strerror(ENOMEM));
	if (!link)
		goto err_report;
	link->polling = options->polling;
	link->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (link->wake_fd < 0) {
		err = -errno;
		snprintf(error, RBLK_ERROR_BYTES, "%s: eventfd: %s", options->uri, strerror(errno));
		goto err_free;
	}
	err = link_connect(link, options, error);
	if (err)
		goto err_close_wake;
	pthread_mutex_init(&link->mutex, NULL);
	pthread_cond_init(&link->progress, NULL);
	err = link_start_thread(link);
	if (err) {
		snprintf(error, RBLK_ERROR_BYTES, "%s: thread: %s", options->uri, strerror(-err));
		goto err_disconnect;
	}
	return link;

err_disconnect:
	pthread_cond_destroy(&link->progress);
	pthread_mutex_destroy(&link->mutex);
	rblk_session_close(link->session);
err_close_wake:
	close(link->wake_fd);
err_free:
	free(link);
err_report:
	errno = -err;
	return NULL;
}

void nbd_link_close(struct nbd_link *link)
{
	pthread_mutex_lock(&link->mutex);
	link->closing = true;
	pthread_mutex_unlock(&link->mutex);
	link_wake(link);
	pthread_join(link->thread, NULL);
	rblk_session_close(link->session);
	pthread_cond_destroy(&link->progress);
	pthread_mutex_destroy(&link->mutex);
	close(link->wake_fd);
	free(link);
}

const struct rblk_volume_info *nbd_link_info(const struct nbd_link *link)
{
	return &link->info;
}

void nbd_link_error(struct nbd_link *link, char *error)
{
	pthread_mutex_lock(&link->mutex);
	snprintf(error, RBLK_ERROR_BYTES, "%s",
		 link->lost ? rblk_session_error(link->session) : "");
	pthread_mutex_unlock(&link->mutex);
}

/* -- commands ---------------------------------------------------------------------------------- */

/* From rblk_poll(), so the mutex is held. */
static void link_done(void *arg, const struct rblk_result *result)
{
	struct link_waiter *waiter = arg;

	if (result->error && !waiter->error)
		waiter->error = result->error;
	waiter->value = result->value;
	if (--waiter->outstanding == 0)
		pthread_cond_signal(&waiter->done);
}

static int link_try(struct nbd_link *link, const struct link_command *command,
		    struct link_waiter *waiter)
{
	struct rblk_volume *volume = link->volume;

	switch (command->operation) {
	case LINK_READ:
		return rblk_read(volume, command->data, command->bytes, command->offset,
				 command->flags, link_done, waiter);
	case LINK_WRITE:
		return rblk_write(volume, command->data, command->bytes, command->offset,
				  command->flags, link_done, waiter);
	case LINK_FLUSH:
		return rblk_flush(volume, link_done, waiter);
	case LINK_DISCARD:
		return rblk_discard(volume, command->bytes, command->offset, link_done, waiter);
	case LINK_ZERO:
		return rblk_write_zeroes(volume, command->bytes, command->offset, command->flags,
					 link_done, waiter);
	case LINK_EXTENTS:
		return rblk_extents(volume, command->bytes, command->offset, command->extents,
				    command->extents_max, link_done, waiter);
	}
	return -EINVAL;
}

/* Mutex held. Waits for a credit if need be, which the thread's progress frees. */
static void link_start(struct nbd_link *link, const struct link_command *command,
		       struct link_waiter *waiter)
{
	int err;

	for (;;) {
		err = link->lost ? -EIO : link_try(link, command, waiter);
		if (err != -EAGAIN)
			break;
		rblk_submit(link->session);
		pthread_cond_wait(&link->progress, &link->mutex);
	}
	if (!err)
		waiter->outstanding++;
	else if (!waiter->error)
		waiter->error = err;
}

/* Mutex held. */
static void link_submit(struct nbd_link *link)
{
	int timeout_ms;

	rblk_submit(link->session);
	if (!link->asleep)
		return;
	/* The first command has a timer that the sleeping thread does not know yet. */
	timeout_ms = rblk_timeout_ms(link->session);
	if (timeout_ms >= 0 && now_ms() + (uint64_t)timeout_ms < link->asleep_until_ms) {
		link->asleep_until_ms = 0;
		link_wake(link);
	}
}

/* Start `count` commands together, and wait until all are done. *value: of the last's result. */
static int link_run_value(struct nbd_link *link, const struct link_command *commands,
			  unsigned int count, uint64_t *value)
{
	struct link_waiter waiter = { .done = PTHREAD_COND_INITIALIZER };

	pthread_mutex_lock(&link->mutex);
	for (unsigned int i = 0; i < count; i++)
		link_start(link, &commands[i], &waiter);
	link_submit(link);
	while (waiter.outstanding)
		pthread_cond_wait(&waiter.done, &link->mutex);
	pthread_mutex_unlock(&link->mutex);
	pthread_cond_destroy(&waiter.done);
	*value = waiter.value;
	return waiter.error;
}

static int link_run(struct nbd_link *link, const struct link_command *commands, unsigned int count)
{
	uint64_t value;

	return link_run_value(link, commands, count, &value);
}

/* -- reads and writes -------------------------------------------------------------------------- */

/* At least one; more only if they are free, so that no caller waits while it holds slots. */
static unsigned int link_take_slots(struct nbd_link *link, struct link_command *commands,
				    unsigned int wanted)
{
	unsigned int count = 0;

	pthread_mutex_lock(&link->mutex);
	while (!link->slot_count)
		pthread_cond_wait(&link->progress, &link->mutex);
	while (count < wanted && link->slot_count)
		commands[count++].data = link->slots[--link->slot_count];
	pthread_mutex_unlock(&link->mutex);
	return count;
}

static void link_put_slots(struct nbd_link *link, const struct link_command *commands,
			   unsigned int count)
{
	pthread_mutex_lock(&link->mutex);
	while (count)
		link->slots[link->slot_count++] = commands[--count].data;
	pthread_cond_broadcast(&link->progress);
	pthread_mutex_unlock(&link->mutex);
}

/* As much as the slots hold; how much is in *moved. */
static int link_move(struct nbd_link *link, const struct link_command *whole, uint64_t *moved)
{
	struct link_command commands[LINK_STRIDE];
	uint64_t pieces = (whole->bytes + link->slot_bytes - 1) / link->slot_bytes;
	unsigned int count = link_take_slots(
		link, commands, pieces < LINK_STRIDE ? (unsigned int)pieces : LINK_STRIDE);
	int err;

	*moved = 0;
	for (unsigned int i = 0; i < count; i++) {
		struct link_command *command = &commands[i];
		uint64_t left = whole->bytes - *moved;

		command->operation = whole->operation;
		command->flags = whole->flags;
		command->offset = whole->offset + *moved;
		command->bytes = left < link->slot_bytes ? left : link->slot_bytes;
		if (whole->operation == LINK_WRITE)
			memcpy(command->data, whole->data + *moved, command->bytes);
		*moved += command->bytes;
	}
	err = link_run(link, commands, count);
	for (unsigned int i = 0; i < count && !err && whole->operation == LINK_READ; i++)
		memcpy(whole->data + (commands[i].offset - whole->offset), commands[i].data,
		       commands[i].bytes);
	link_put_slots(link, commands, count);
	return err;
}

static int link_transfer(struct nbd_link *link, struct link_command whole)
{
	while (whole.bytes) {
		uint64_t moved;
		int err = link_move(link, &whole, &moved);

		if (err)
			return err;
		whole.data += moved;
		whole.offset += moved;
		whole.bytes -= moved;
	}
	return 0;
}

int nbd_link_read(struct nbd_link *link, void *data, uint32_t bytes, uint64_t offset)
{
	return link_transfer(link, (struct link_command){ .operation = LINK_READ,
							  .data = data,
							  .offset = offset,
							  .bytes = bytes });
}

int nbd_link_write(struct nbd_link *link, const void *data, uint32_t bytes, uint64_t offset,
		   uint32_t flags)
{
	/* A write's data is only read. */
	return link_transfer(link, (struct link_command){ .operation = LINK_WRITE,
							  .flags = flags,
							  .data = (char *)data,
							  .offset = offset,
							  .bytes = bytes });
}

/* -- without data ------------------------------------------------------------------------------ */

int nbd_link_flush(struct nbd_link *link)
{
	const struct link_command command = { .operation = LINK_FLUSH };

	return link_run(link, &command, 1);
}

/* As the target has it now. */
static uint64_t link_range_most(struct nbd_link *link)
{
	uint64_t most;

	pthread_mutex_lock(&link->mutex);
	most = rblk_volume_info(link->volume)->max_discard_bytes;
	pthread_mutex_unlock(&link->mutex);
	return most;
}

/* One command after the other: each covers as much as the target takes. */
static int link_range(struct nbd_link *link, struct link_command command, uint64_t bytes)
{
	uint64_t most = link_range_most(link);

	if (!most)
		return -EOPNOTSUPP;
	while (bytes) {
		int err;

		command.bytes = bytes < most ? bytes : most;
		err = link_run(link, &command, 1);
		if (err)
			return err;
		command.offset += command.bytes;
		bytes -= command.bytes;
	}
	return 0;
}

int nbd_link_discard(struct nbd_link *link, uint32_t bytes, uint64_t offset)
{
	uint64_t block = link->info.block_bytes;
	uint64_t begin = (offset + block - 1) / block * block, end = (offset + bytes) / block * block;

	if (begin >= end)
		return 0;
	return link_range(link, (struct link_command){ .operation = LINK_DISCARD, .offset = begin },
			  end - begin);
}

int nbd_link_zero(struct nbd_link *link, uint32_t bytes, uint64_t offset, uint32_t flags)
{
	return link_range(link,
			  (struct link_command){
				  .operation = LINK_ZERO, .flags = flags, .offset = offset },
			  bytes);
}

int nbd_link_extents(struct nbd_link *link, uint32_t bytes, uint64_t offset,
		     struct rblk_extent *extents, unsigned int max)
{
	const struct link_command command = { .operation = LINK_EXTENTS,
					      .offset = offset,
					      .bytes = bytes,
					      .extents = extents,
					      .extents_max = max };
	uint64_t count = 0;
	int err = link_run_value(link, &command, 1, &count);

	return err ? err : (int)count;
}
