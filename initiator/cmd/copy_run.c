/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The pipeline: `depth` buffers go round. Each is filled from the source (a volume's read is
 * started and left alone, a file's is done at once), takes its turn in the order of the offsets
 * (so that a pipe can be written and checksums are kept in order), and is written to the
 * destination. Only copy_run() moves a slot on, but for the callbacks, which end READING and
 * WRITING and do nothing else.
 */
#include "initiator/cmd/copy.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <isa-l/mem_routines.h>
#include "proto/digest/combine.h"
#include "proto/digest/digest.h"

#define COPY_PAGE 4096u /* buffers begin on pages, whatever the chunk's length */

volatile sig_atomic_t copy_interrupted;

static uint32_t copy_round_up(uint32_t bytes, uint32_t block_bytes)
{
	return (bytes + block_bytes - 1) / block_bytes * block_bytes;
}

int copy_init(struct copy *copy)
{
	struct rblk_session *sessions[] = { copy->source.session, copy->destination.session };
	size_t stride = copy_round_up(copy->chunk_bytes, COPY_PAGE);
	uint32_t i;
	int result;

	copy->memory_bytes = stride * copy->depth;
	copy->memory = mmap(NULL, copy->memory_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy->memory == MAP_FAILED) {
		copy->memory = NULL;
		return cmd_error("%zu bytes of buffers: %s", copy->memory_bytes, strerror(errno));
	}
	for (i = 0; i < 2; i++) {
		if (!sessions[i])
			continue;
		result = rblk_buffer_register(sessions[i], copy->memory, copy->memory_bytes, 0);
		if (result)
			return cmd_error("%s", rblk_session_error(sessions[i]));
	}
	copy->slots = calloc(copy->depth, sizeof(*copy->slots));
	if (!copy->slots)
		return cmd_error("out of memory");
	for (i = 0; i < copy->depth; i++) {
		copy->slots[i].copy = copy;
		copy->slots[i].data = (uint8_t *)copy->memory + stride * i;
	}
	return 0;
}

void copy_fini(struct copy *copy)
{
	copy_holes_fini(&copy->source);
	copy_holes_fini(&copy->destination);
	free(copy->slots);
	free(copy->chunks);
	free(copy->differences);
	if (copy->memory)
		munmap(copy->memory, copy->memory_bytes);
}

void copy_fail(struct copy *copy, const struct copy_end *end, const char *what, uint64_t offset,
	       int error)
{
	if (copy->error)
		return;
	copy->error = error;
	if (end->session && rblk_session_state(end->session) == RBLK_SESSION_FAILED)
		cmd_error("%s", rblk_session_error(end->session));
	else if (end->session && error == -ENODEV && rblk_session_error(end->session)[0])
		/* Perhaps it may not be opened any more: the session says why. */
		cmd_error("%s: %s at offset %" PRIu64 ": %s; %s", end->name, what, offset,
			  cmd_reason(error), rblk_session_error(end->session));
	else
		cmd_error("%s: %s at offset %" PRIu64 ": %s", end->name, what, offset,
			  end->session ? cmd_reason(error) : strerror(-error));
}

/* Sleep until a session or the starved pipe has something, or a session's time has come; COPY_WAIT_MS at most. */
static int copy_sleep(struct copy *copy)
{
	struct rblk_session *sessions[] = { copy->source.session, copy->destination.session };
	struct pollfd fds[3];
	nfds_t count = 0;
	int i, due_ms, wait_ms = COPY_WAIT_MS;

	for (i = 0; i < 2; i++) {
		if (!sessions[i])
			continue;
		if (rblk_arm(sessions[i]) > 0)
			return 0;
		due_ms = rblk_timeout_ms(sessions[i]);
		if (due_ms >= 0 && due_ms < wait_ms)
			wait_ms = due_ms;
		fds[count++] = (struct pollfd){ .fd = rblk_fd(sessions[i]), .events = POLLIN };
	}
	if (copy->starved)
		fds[count++] = (struct pollfd){ .fd = copy->source.fd, .events = POLLIN };
	return poll(fds, count, wait_ms) < 0 && errno != EINTR ? -errno : 0;
}

int copy_wait(struct copy *copy)
{
	struct rblk_session *sessions[] = { copy->source.session, copy->destination.session };
	int completed = 0;
	int i, result;

	/* One session and nothing else to wait for: let the library decide when to spin. */
	if ((!sessions[0] || !sessions[1]) && !copy->starved) {
		result = rblk_wait(sessions[0] ? sessions[0] : sessions[1], COPY_WAIT_MS);
		return result < 0 && result != -EINTR ? result : 0;
	}
	for (i = 0; i < 2; i++) {
		if (!sessions[i])
			continue;
		result = rblk_submit(sessions[i]);
		if (result >= 0)
			result = rblk_poll(sessions[i], 0);
		if (result < 0)
			return result;
		completed += result;
	}
	return completed ? 0 : copy_sleep(copy);
}

/* -- reading ----------------------------------------------------------------------------------- */

static void copy_read_done(void *arg, const struct rblk_result *result)
{
	struct copy_slot *slot = arg;
	struct copy *copy = slot->copy;

	copy->outstanding--;
	slot->state = COPY_SLOT_READ;
	if (result->error)
		copy_fail(copy, &copy->source, "read", slot->offset, result->error);
}

/* How long the next chunk is; 0 at the end, or where the destination is full. */
static uint32_t copy_next_bytes(struct copy *copy, bool *zero)
{
	uint64_t most =
		copy->total < copy->destination.bytes ? copy->total : copy->destination.bytes;

	return copy_holes_next(copy, most, zero);
}

/* All expected data is read, or the destination is full: does the pipe have more? */
static int copy_read_end(struct copy *copy)
{
	char text[CMD_TEXT_BYTES];
	int64_t length = 0;
	char byte;

	if (copy->total == COPY_UNKNOWN) {
		length = copy_end_read_pipe(&copy->source, &byte, 1);
		copy->starved = length == -EAGAIN;
	}
	copy->ended = !copy->starved;
	if (length <= 0)
		return 0;
	cmd_error("%s: is longer than %s, %s", copy->source.name, copy->destination.name,
		  units_format_bytes(copy->destination.bytes, text));
	copy->error = -ENOSPC;
	return -ENOSPC;
}

/* Read one chunk as far as it is there; a pipe that gives pieces is asked again for the rest. */
static int64_t copy_read_piece(struct copy *copy, struct copy_slot *slot, uint32_t bytes)
{
	int64_t length;

	if (copy->source.seekable)
		return copy_end_read_file(&copy->source, slot->data, bytes, slot->offset);
	do {
		length = copy_end_read_pipe(&copy->source, slot->data + copy->filled,
					    bytes - copy->filled);
		if (length > 0)
			copy->filled += (uint32_t)length;
	} while (length > 0 && copy->filled < bytes);
	if (length < 0)
		return length;
	length = copy->filled;
	copy->filled = 0;
	return length;
}

static int copy_read_file(struct copy *copy, struct copy_slot *slot, uint32_t bytes)
{
	int64_t length = copy_read_piece(copy, slot, bytes);

	copy->starved = length == -EAGAIN;
	if (copy->starved)
		return 0;
	if (length < 0) {
		if (!copy_interrupted)
			copy_fail(copy, &copy->source, "read", slot->offset, (int)length);
		return (int)length;
	}
	if (length < bytes && copy->total != COPY_UNKNOWN) {
		cmd_error("%s: ends at %" PRIu64 ", but should have %" PRIu64 " bytes",
			  copy->source.name, slot->offset + (uint64_t)length, copy->total);
		copy->error = -EIO;
		return -EIO;
	}
	if (length < bytes)
		copy->ended = true;
	slot->bytes = (uint32_t)length;
	if (length)
		slot->state = COPY_SLOT_READ;
	return 0;
}

/* Fill one free slot. 1: begun; 0: not now, or nothing more; negative errno. */
static int copy_read(struct copy *copy)
{
	struct copy_slot *slot = &copy->slots[copy->read_index % copy->depth];
	uint32_t bytes;
	int result;

	if (slot->state != COPY_SLOT_FREE || copy->ended)
		return 0;
	bytes = copy_next_bytes(copy, &slot->zero);
	if (!bytes)
		return copy_read_end(copy);
	slot->offset = copy->next_offset;
	slot->bytes = bytes;
	if (slot->zero) {
		slot->state = COPY_SLOT_READ;
	} else if (copy->source.session) {
		result = rblk_read(copy->source.volume, slot->data,
				   copy_round_up(bytes, copy->source.block_bytes), slot->offset, 0,
				   copy_read_done, slot);
		if (result == -EAGAIN)
			return 0;
		if (result) {
			copy_fail(copy, &copy->source, "read", slot->offset, result);
			return result;
		}
		slot->state = COPY_SLOT_READING;
		copy->outstanding++;
	} else {
		result = copy_read_file(copy, slot, bytes);
		if (result)
			return result;
		if (slot->state == COPY_SLOT_FREE) /* nothing now, or nothing more */
			return 0;
	}
	copy->next_offset += slot->bytes;
	copy->read_index++;
	return 1;
}

/* -- writing ----------------------------------------------------------------------------------- */

static void copy_write_done(void *arg, const struct rblk_result *result)
{
	struct copy_slot *slot = arg;
	struct copy *copy = slot->copy;

	copy->outstanding--;
	slot->state = COPY_SLOT_FREE;
	if (result->error)
		copy_fail(copy, &copy->destination, "write", slot->offset, result->error);
	else
		copy->done_bytes += slot->bytes;
}

/*
 * The end of a file inside a block of the volume: what the volume has behind it stays, so read the
 * block and write it back with the file's end in it.
 */
static int copy_fill_tail(struct copy *copy, struct copy_slot *slot)
{
	struct copy_end *end = &copy->destination;
	uint32_t kept = slot->write_bytes - slot->bytes;
	uint64_t block = slot->offset + slot->write_bytes - end->block_bytes;
	uint8_t *memory;
	int result;

	if (!kept)
		return 0;
	memory = rblk_buffer_alloc(end->session, end->block_bytes);
	result = memory ? rblk_pread(end->volume, memory, end->block_bytes, block) : -ENOMEM;
	if (!result)
		memcpy(slot->data + slot->bytes, memory + end->block_bytes - kept, kept);
	else
		copy_fail(copy, end, "read of the last block", block, result);
	if (memory)
		rblk_buffer_free(end->session, memory);
	return result;
}

/* Remembers the chunk that CHECKSUM will be asked for, and the answer that it should give. */
static int copy_remember(struct copy *copy, const struct copy_slot *slot)
{
	struct copy_chunk *chunks = copy->chunks;
	uint32_t bytes = copy->destination.session
				 ? slot->write_bytes
				 : copy_round_up(slot->bytes, copy->source.block_bytes);

	if (copy->chunk_count == copy->chunk_room) {
		copy->chunk_room = copy->chunk_room ? 2 * copy->chunk_room : 256;
		chunks = realloc(chunks, copy->chunk_room * sizeof(*chunks));
		if (!chunks) {
			copy_fail(copy, &copy->destination, "checksum", slot->offset, -ENOMEM);
			return -ENOMEM;
		}
		copy->chunks = chunks;
	}
	chunks[copy->chunk_count++] = (struct copy_chunk){
		slot->zero ? rblk_digest_zeroes(bytes) : rblk_digest(0, slot->data, bytes), bytes, slot->zero
	};
	return 0;
}

static int copy_write_volume(struct copy *copy, struct copy_slot *slot)
{
	const struct copy_end *end = &copy->destination;
	bool zeroes = slot->zero || (copy->sparse && end->info->can_write_zeroes &&
				     slot->write_bytes <= end->info->max_discard_bytes &&
				     !isal_zero_detect(slot->data, slot->write_bytes));
	int result;

	if (zeroes)
		result = rblk_write_zeroes(end->volume, slot->write_bytes, slot->offset, 0,
					   copy_write_done, slot);
	else
		result = rblk_write(end->volume, slot->data, slot->write_bytes, slot->offset, 0,
				    copy_write_done, slot);
	if (result)
		return result;
	if (zeroes)
		copy->zeroed_bytes += slot->write_bytes;
	slot->state = COPY_SLOT_WRITING;
	copy->outstanding++;
	return 0;
}

static int copy_write_file(struct copy *copy, struct copy_slot *slot)
{
	struct copy_end *end = &copy->destination;
	int result = 0;

	/* If it is no file with holes, write zeroes from here; hole_bytes is a chunk then. */
	if (slot->zero && !end->regular)
		memset(slot->data, 0, slot->bytes);
	if (end->regular && (slot->zero || (copy->sparse &&
					    !isal_zero_detect(slot->data, slot->bytes))))
		copy->zeroed_bytes += slot->bytes; /* a hole, in a file that began empty */
	else
		result = copy_end_write_file(end, slot->data, slot->bytes, slot->offset);
	if (result)
		return result;
	copy->done_bytes += slot->bytes;
	slot->state = COPY_SLOT_FREE;
	return 0;
}

/* Write the slot whose turn it is. 1: begun; 0: not now; negative errno. */
static int copy_write(struct copy *copy)
{
	struct copy_slot *slot = &copy->slots[copy->write_index % copy->depth];
	struct copy_end *end = &copy->destination;
	int result;

	if (slot->state != COPY_SLOT_READ || copy->write_index == copy->read_index)
		return 0;
	/* Asked again after -EAGAIN, a chunk has been prepared already. */
	if (copy->chunk_count == copy->write_index) {
		slot->write_bytes = copy_round_up(slot->bytes, end->block_bytes);
		result = copy_fill_tail(copy, slot);
		if (!result)
			result = copy_remember(copy, slot);
		if (result)
			return result;
	}
	result = end->session ? copy_write_volume(copy, slot) : copy_write_file(copy, slot);
	if (result == -EAGAIN)
		return 0;
	if (result) {
		if (!copy_interrupted)
			copy_fail(copy, end, "write", slot->offset, result);
		return result;
	}
	copy->write_index++;
	return 1;
}

/* -- the loop ---------------------------------------------------------------------------------- */

/* Outstanding commands use the buffers: wait for all of them, also after an error. */
static void copy_drain(struct copy *copy)
{
	while (copy->outstanding)
		if (copy_wait(copy) < 0 && copy->outstanding) {
			/* One session is lost; the other's outstanding commands are called back
			   when it is closed. */
			copy_end_close(&copy->source);
			copy_end_close(&copy->destination);
			return;
		}
}

int copy_run(struct copy *copy)
{
	struct progress progress;
	int result = 0;
	int moved;

	progress_start(&progress, "copying", copy->total, copy->quiet);
	while (!copy->error && !copy_interrupted && result >= 0) {
		moved = 0;
		result = copy_read(copy);
		if (result > 0)
			moved++;
		if (result >= 0) {
			result = copy_write(copy);
			if (result > 0)
				moved++;
		}
		if (copy->ended && copy->write_index == copy->read_index && !copy->outstanding)
			break;
		if (result >= 0 && !moved) {
			result = copy_wait(copy);
			if (result < 0 && !copy->error)
				copy_fail(copy,
					  copy->destination.session ? &copy->destination
								    : &copy->source,
					  "transfer", copy->done_bytes, result);
		}
		progress_update(&progress, copy->done_bytes);
	}
	copy_drain(copy);
	progress_end(&progress);
	if (!copy->error && result < 0)
		copy->error = result;
	return copy->error;
}
