/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns I/O on several pieces of memory. A command has one segment, so a vector needs a command for
 * each run of contiguous memory in one buffer; a short write, whose data is in the capsule, is one
 * command. Further commands of a vector follow as the first ones complete, each with the credit of
 * a completed one, so one credit suffices for any vector.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/uio.h>
#include "initiator/io.h"
#include "initiator/session.h"
#include "proto/wire/wire_names.h"

/*
 * Created when none is free, and kept for reuse: there are never more than credits. Belongs to the
 * session's thread.
 */
struct ini_vector {
	struct ini_vector *next; /* among the free ones */
	struct rblk_volume *volume;
	u8 opcode;
	u8 flags; /* enum rblk_command_flag */
	struct iovec runs[RBLK_IOV_MAX];
	struct ini_buffer *buffers[RBLK_IOV_MAX]; /* that the runs lie in */
	u32 run_count, started; /* runs; and those that a command has been started for */
	u64 bytes, offset;	/* of all; and of the run that is next */
	u32 outstanding;
	bool begun;   /* a command was started: further ones wait for credits */
	bool stopped; /* by rblk_abort(): no further command is started */
	struct ini_gather gather;
	struct rblk_result result;
	rblk_callback done;
	void *arg;
};

static struct ini_vector *vector_take(struct rblk_session *session)
{
	struct ini_vector *vector = session->calls.vectors;

	if (!vector)
		return malloc(sizeof(*vector));
	session->calls.vectors = vector->next;
	return vector;
}

static void vector_put(struct rblk_session *session, struct ini_vector *vector)
{
	vector->next = session->calls.vectors;
	session->calls.vectors = vector;
}

void ini_vectors_fini(struct rblk_session *session)
{
	while (session->calls.vectors)
		free(vector_take(session));
}

/* -- the runs ---------------------------------------------------------------------------------- */

/* The last run continues into `memory`, and both are in one buffer. */
static bool run_extends(struct ini_vector *vector, const struct iovec *memory)
{
	struct iovec *last = vector->run_count ? &vector->runs[vector->run_count - 1] : NULL;
	const struct ini_buffer *buffer;
	size_t bytes;

	if (!last || (u8 *)last->iov_base + last->iov_len != memory->iov_base)
		return false;
	buffer = vector->buffers[vector->run_count - 1];
	bytes = last->iov_len + memory->iov_len;
	if (bytes > buffer->bytes - (size_t)((u8 *)last->iov_base - buffer->memory))
		return false;
	last->iov_len = bytes;
	return true;
}

static int vector_append(struct ini_vector *vector, const char *what, const struct iovec *memory)
{
	struct rblk_volume *volume = vector->volume;
	struct ini_buffer *buffer;

	if (!memory->iov_len)
		return 0;
	if (memory->iov_len & (volume->info.block_bytes - 1))
		return ini_io_refuse(volume, -EINVAL, what,
				     "a piece of %zu bytes is not of whole blocks of %u",
				     memory->iov_len, volume->info.block_bytes);
	if (memory->iov_len > volume->info.max_io_bytes - vector->bytes)
		return ini_io_refuse(volume, -EINVAL, what,
				     "the pieces are longer than one command can be (%u bytes)",
				     volume->info.max_io_bytes);
	buffer = ini_buffer_at(&volume->session->buffers, memory->iov_base, memory->iov_len);
	if (!buffer)
		return ini_io_refuse(volume, -EFAULT, what,
				     "%zu bytes at %p do not lie within one buffer of the session",
				     memory->iov_len, memory->iov_base);
	if (ini_io_check_buffer(volume, vector->opcode, buffer))
		return -EFAULT;
	vector->bytes += memory->iov_len;
	if (run_extends(vector, memory))
		return 0;
	vector->buffers[vector->run_count] = buffer;
	vector->runs[vector->run_count++] = *memory;
	return 0;
}

/* -- the commands ------------------------------------------------------------------------------ */

static void vector_ungather(struct ini_vector *vector)
{
	for (u16 i = 0; i < vector->gather.count; i++)
		vector->buffers[i]->users--;
	vector->gather.count = 0;
}

static void vector_finish(struct ini_vector *vector)
{
	struct rblk_session *session = vector->volume->session;
	struct rblk_result result = vector->result;
	rblk_callback done = vector->done;
	void *arg = vector->arg;

	vector_ungather(vector);
	vector_put(session, vector);
	session->events.told++;
	done(arg, &result);
}

static void piece_done(void *arg, const struct rblk_result *result);

/* As many as there are credits for. Returns ini_io_start()'s error for the next one. */
static int vector_start(struct ini_vector *vector)
{
	while (vector->started < vector->run_count) {
		const struct iovec *run = &vector->runs[vector->started];
		int err = ini_io_start(
			vector->volume,
			&(struct ini_io){.opcode = vector->opcode,
					 .flags = vector->flags,
					 .data = run->iov_base,
					 .bytes = run->iov_len,
					 .offset = vector->offset,
					 .piece = true,
					 .waits = !vector->outstanding && vector->begun,
					 .done = piece_done,
					 .arg = vector});

		if (err)
			return err;
		vector->begun = true;
		vector->started++;
		vector->outstanding++;
		vector->offset += run->iov_len;
	}
	return 0;
}

/*
 * It waited for a connection, and the one that takes it now does not take it in one message: its
 * pieces follow by themselves. An earlier attempt of it may have been done.
 */
static bool gather_refused(struct ini_vector *vector, const struct rblk_result *result)
{
	if (!vector->gather.count || result->error != -EMSGSIZE || result->status)
		return false;
	vector_ungather(vector);
	vector->flags |= RBLK_CMD_RETRY;
	vector->started = 0;
	return true;
}

/* The vector's result has the first error, and the times of the slowest. */
static void piece_done(void *arg, const struct rblk_result *result)
{
	struct ini_vector *vector = arg;
	int err = 0;

	vector->outstanding--;
	if (!gather_refused(vector, result) && !vector->result.error) {
		vector->result.error = result->error;
		vector->result.status = result->status;
	}
	if (result->queued_us > vector->result.queued_us)
		vector->result.queued_us = result->queued_us;
	if (result->stored_us > vector->result.stored_us)
		vector->result.stored_us = result->stored_us;
	if (vector->stopped && !vector->result.error && vector->started < vector->run_count)
		vector->result.error = -ECANCELED;
	if (!vector->result.error)
		err = vector_start(vector);
	/* There was a credit; so the session has failed meanwhile, or is about to. -EAGAIN: another piece will go on. */
	if (err && err != -EAGAIN)
		vector->result.error = err;
	assert((err != -EAGAIN || vector->outstanding) && "a vector waits for nothing");
	if (!vector->outstanding)
		vector_finish(vector);
}

bool ini_vector_stops(rblk_callback done, void *arg, const struct ini_origin *origin)
{
	struct ini_vector *vector = arg;

	if (done != piece_done || vector->done != origin->done || vector->arg != origin->arg)
		return false;
	vector->stopped = true;
	return true;
}

/* A write of several pieces whose data fits into the capsule, if the queue allows as much. */
static bool vector_gathers(const struct ini_vector *vector)
{
	return vector->opcode == RBLK_OP_WRITE && vector->run_count > 1 &&
	       vector->run_count < INI_SEGMENTS_MAX &&
	       vector->bytes <= vector->volume->info.max_capsule_bytes;
}

static int vector_start_gathered(struct ini_vector *vector)
{
	int err;

	for (u32 i = 0; i < vector->run_count; i++)
		vector->gather.sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)vector->runs[i].iov_base,
			.length = (u32)vector->runs[i].iov_len,
		};
	vector->gather.device = NULL; /* the keys are those of the queue that takes it */
	vector->gather.buffers = vector->buffers;
	vector->gather.count = (u16)vector->run_count;
	err = ini_io_start(vector->volume, &(struct ini_io){.opcode = vector->opcode,
							    .flags = vector->flags,
							    .gather = &vector->gather,
							    .bytes = vector->bytes,
							    .offset = vector->offset,
							    .piece = true,
							    .done = piece_done,
							    .arg = vector});
	if (err) {
		vector->gather.count = 0;
		return err;
	}
	for (u32 i = 0; i < vector->run_count; i++)
		vector->buffers[i]->users++;
	vector->begun = true;
	vector->started = vector->run_count;
	vector->outstanding = 1;
	return 0;
}

/* -- the calls --------------------------------------------------------------------------------- */

static int vector_begin(struct rblk_volume *volume, u8 opcode, const struct iovec *iov, int count,
			u64 offset, const struct ini_ask *ask, void *arg)
{
	struct rblk_session *session = volume->session;
	const char *what = rblk_opcode_name(opcode);
	int err = ini_io_check(volume, what, ask);
	struct ini_vector *vector;

	if (!err && (!iov || count < 1 || count > RBLK_IOV_MAX))
		err = ini_io_refuse(volume, -EINVAL, what, "a vector has 1 to %d pieces",
				    RBLK_IOV_MAX);
	if (!err && !ini_session_usable(session))
		err = -ENOTCONN;
	if (err)
		return err;
	vector = vector_take(session);
	if (!vector)
		return -ENOMEM;
	vector->volume = volume;
	vector->opcode = opcode;
	vector->flags = ini_io_flags(ask->flags);
	vector->run_count = vector->started = vector->outstanding = 0;
	vector->bytes = 0;
	vector->offset = offset;
	vector->gather.count = 0;
	vector->begun = vector->stopped = false;
	vector->result = (struct rblk_result){.error = 0};
	vector->done = ask->done;
	vector->arg = arg;
	for (int i = 0; i < count && !err; i++)
		err = vector_append(vector, what, &iov[i]);
	if (!err)
		err = ini_io_check_range(volume, what, vector->bytes, offset,
					 volume->info.max_io_bytes);
	if (!err && ask->flags)
		err = ini_io_check_untorn(volume, what, vector->bytes, offset, ask->flags);
	if (!err && vector->flags & RBLK_CMD_UNTORN && vector->run_count > 1)
		err = ini_io_refuse(volume, -EINVAL, what, "an untorn write is of one piece of memory");
	if (!err)
		err = vector_gathers(vector) ? vector_start_gathered(vector) : -EMSGSIZE;
	if (err == -EMSGSIZE)
		err = vector_start(vector);
	/* Some are outstanding: the others follow. */
	if (vector->outstanding)
		return 0;
	vector_put(session, vector);
	return err;
}

int rblk_readv(struct rblk_volume *volume, const struct iovec *iov, int count, uint64_t offset,
	       uint32_t flags, rblk_callback done, void *arg)
{
	const struct ini_ask ask = {.able = true, .flags = flags, .done = done};

	return vector_begin(volume, RBLK_OP_READ, iov, count, offset, &ask, arg);
}

int rblk_writev(struct rblk_volume *volume, const struct iovec *iov, int count, uint64_t offset,
		uint32_t flags, rblk_callback done, void *arg)
{
	const struct ini_ask ask = {.able = true,
				    .writes = true,
				    .flags = flags,
				    .flags_allowed = RBLK_IO_FUA | RBLK_IO_UNTORN,
				    .done = done};

	return vector_begin(volume, RBLK_OP_WRITE, iov, count, offset, &ask, arg);
}
