/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns a volume of a target, through librblk's public interface; see disk.h. */
#include "tests/promise/disk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/rblk.h"

#define IO_BYTES_MAX (256u << 10)

struct rblk_disk;

struct command {
	struct rblk_disk *rblk;
	struct command *next; /* while it is free */
	promise_done done;
	void *arg;
};

struct rblk_disk {
	struct promise_disk disk; /* first: what others hold */
	struct rblk_session *session;
	struct rblk_volume *volume;
	struct command *commands, *free;
	void *read_buffer; /* of io_bytes; NULL: nothing was read yet */
};

static struct rblk_disk *to_rblk(struct promise_disk *disk)
{
	return (struct rblk_disk *)disk;
}

static void *rblk_disk_buffer(struct promise_disk *disk, size_t bytes)
{
	return rblk_buffer_alloc(to_rblk(disk)->session, bytes);
}

static void command_done(void *arg, const struct rblk_result *result)
{
	struct command *command = arg;
	struct rblk_disk *rblk = command->rblk;

	command->next = rblk->free;
	rblk->free = command;
	/* Without an answer of the target nobody knows how far it got. */
	command->done(command->arg, result->error, !result->error || result->status);
}

static struct command *command_take(struct rblk_disk *rblk, promise_done done, void *arg)
{
	struct command *command = rblk->free;

	if (!command)
		return NULL;
	rblk->free = command->next;
	command->done = done;
	command->arg = arg;
	return command;
}

static int command_began(struct rblk_disk *rblk, struct command *command, int err)
{
	if (err) {
		command->next = rblk->free;
		rblk->free = command;
	}
	return err;
}

static int rblk_disk_write(struct promise_disk *disk, const void *data, uint32_t bytes,
			   uint64_t offset, bool fua, promise_done done, void *arg)
{
	struct rblk_disk *rblk = to_rblk(disk);
	struct command *command = command_take(rblk, done, arg);

	if (!command)
		return -EAGAIN;
	return command_began(rblk, command,
			     rblk_write(rblk->volume, data, bytes, offset, fua ? RBLK_IO_FUA : 0,
					command_done, command));
}

static int rblk_disk_flush(struct promise_disk *disk, promise_done done, void *arg)
{
	struct rblk_disk *rblk = to_rblk(disk);
	struct command *command = command_take(rblk, done, arg);

	if (!command)
		return -EAGAIN;
	return command_began(rblk, command, rblk_flush(rblk->volume, command_done, command));
}

static int rblk_disk_wait(struct promise_disk *disk)
{
	int count = rblk_wait(to_rblk(disk)->session, 1000);

	/* A signal tells the load to end in good order. */
	return count < 0 && count != -EINTR ? count : 0;
}

static int rblk_disk_read(struct promise_disk *disk, void *data, uint32_t bytes, uint64_t offset)
{
	struct rblk_disk *rblk = to_rblk(disk);
	int err;

	if (!rblk->read_buffer)
		rblk->read_buffer = rblk_buffer_alloc(rblk->session, disk->io_bytes);
	if (!rblk->read_buffer)
		return -errno;
	err = rblk_pread(rblk->volume, rblk->read_buffer, bytes, offset);
	if (!err)
		memcpy(data, rblk->read_buffer, bytes);
	return err;
}

static bool rblk_disk_acknowledge(struct promise_disk *disk)
{
	rblk_acknowledge(to_rblk(disk)->volume);
	return true;
}

static void rblk_disk_close(struct promise_disk *disk)
{
	struct rblk_disk *rblk = to_rblk(disk);

	rblk_session_close(rblk->session);
	free(rblk->commands);
	free(rblk);
}

static const struct promise_disk_ops ops = {
	.buffer = rblk_disk_buffer,
	.write = rblk_disk_write,
	.flush = rblk_disk_flush,
	.wait = rblk_disk_wait,
	.read = rblk_disk_read,
	.acknowledge = rblk_disk_acknowledge,
	.close = rblk_disk_close,
};

static void on_event(void *arg, struct rblk_session *session,
		     const struct rblk_session_event *event)
{
	static const char *const texts[] = {
		[RBLK_SESSION_EVENT_READY] = "ready",
		[RBLK_SESSION_EVENT_FAILED] = "failed",
		[RBLK_SESSION_EVENT_DRAINING] = "draining",
		[RBLK_SESSION_EVENT_RECOVERING] = "recovering",
		[RBLK_SESSION_EVENT_RECOVERED] = "recovered",
		[RBLK_SESSION_EVENT_WRITES_LOST] = "writes lost",
	};
	struct promise_disk *disk = arg;

	(void)session;
	if (disk->note && event->type < sizeof(texts) / sizeof(texts[0]) && texts[event->type])
		disk->note(disk->note_arg, texts[event->type]);
}

static struct rblk_session *session_open(const char *uri,
					 const struct promise_disk_options *options, char *error)
{
	struct rblk_options session = RBLK_OPTIONS_INIT;

	session.queues = options->queues;
	session.give_up_ms = options->give_up_ms;
	session.credits = options->depth + 4 <= 1024 ? options->depth + 4 : 1024;
	return rblk_session_open(uri, &session, error);
}

struct promise_disk *promise_disk_open_rblk(const char *uri,
					    const struct promise_disk_options *options, char *error)
{
	struct rblk_disk *rblk = calloc(1, sizeof(*rblk));
	uint32_t flags =
		options->read_only ? RBLK_VOLUME_OPEN_READ_ONLY : RBLK_VOLUME_OPEN_NEED_FLUSH;
	const struct rblk_volume_info *info;

	snprintf(error, PROMISE_ERROR_BYTES, "out of memory");
	if (!rblk)
		return NULL;
	rblk->disk.ops = &ops;
	rblk->commands = calloc(options->depth, sizeof(*rblk->commands));
	if (!rblk->commands)
		goto err_free;
	for (uint32_t i = 0; i < options->depth; i++) {
		rblk->commands[i] = (struct command){.rblk = rblk, .next = rblk->free};
		rblk->free = &rblk->commands[i];
	}
	rblk->session = session_open(uri, options, error);
	if (!rblk->session)
		goto err_free;
	rblk_session_on_event(rblk->session, on_event, &rblk->disk);
	rblk->volume = rblk_volume_open(rblk->session, NULL, flags);
	if (!rblk->volume) {
		snprintf(error, PROMISE_ERROR_BYTES, "%s", rblk_session_error(rblk->session));
		goto err_free;
	}
	info = rblk_volume_info(rblk->volume);
	rblk->disk.bytes = info->bytes;
	rblk->disk.block_bytes = info->block_bytes;
	rblk->disk.io_bytes = info->max_io_bytes < IO_BYTES_MAX ? info->max_io_bytes : IO_BYTES_MAX;
	rblk->disk.can_fua = info->can_fua;
	return &rblk->disk;

err_free:
	rblk_disk_close(&rblk->disk);
	return NULL;
}
