/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The target's own CHECKSUM of every chunk against the CRC of what went through this process.
 * Chunk by chunk, so that a difference has a place; the CRC of the whole is combined from them. For a
 * hole, the target is asked first where it reads as zeroes; only the rest has to be read there, in
 * long pieces, which are asked for again chunk by chunk where one differs or the target refuses its length.
 */
#include "initiator/cmd/copy.h"

#include <errno.h>
#include <stdlib.h>
#include "proto/digest/combine.h"

#define VERIFY_PIECE_BYTES (64u << 20) /* of a hole; well within a command's time on any disk */

/* One outstanding CHECKSUM. */
struct verify_slot {
	struct verify *verify;
	uint64_t offset;
	uint32_t bytes, crc;
	bool busy;
};

/* How far the chunks have been asked for. */
struct verify {
	struct copy *copy;
	struct verify_slot *slots; /* depth of them */
	size_t chunk;
	uint32_t within; /* this chunk */
	uint64_t offset; /* in the volume */
	struct copy_range *again; /* of zeroes, chunk by chunk */
	size_t again_count;
	bool refused; /* the target takes no piece that is longer than a chunk */
};

struct copy_end *copy_verify_end(struct copy *copy)
{
	return copy->destination.session ? &copy->destination : &copy->source;
}

static void verify_append(struct copy *copy, const struct verify_slot *slot,
			  struct copy_range **ranges, size_t *count)
{
	struct copy_range *more = realloc(*ranges, (*count + 1) * sizeof(*more));

	if (!more) {
		copy_fail(copy, copy_verify_end(copy), "checksum", slot->offset, -ENOMEM);
		return;
	}
	*ranges = more;
	more[(*count)++] = (struct copy_range){ slot->offset, slot->bytes };
}

static void verify_done(void *arg, const struct rblk_result *result)
{
	struct verify_slot *slot = arg;
	struct verify *verify = slot->verify;
	struct copy *copy = verify->copy;
	bool is_long = slot->bytes > copy->chunk_bytes;

	copy->outstanding--;
	slot->busy = false;
	if (!result->error && (uint32_t)result->value == slot->crc)
		return;
	if (is_long && (!result->error || result->error == -EINVAL)) {
		verify->refused |= result->error != 0;
		verify_append(copy, slot, &verify->again, &verify->again_count);
	} else if (result->error) {
		copy_fail(copy, copy_verify_end(copy), "checksum", slot->offset, result->error);
	} else {
		verify_append(copy, slot, &copy->differences, &copy->difference_count);
	}
}

static struct verify_slot *verify_slot_find(struct verify_slot *slots, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (!slots[i].busy)
			return &slots[i];
	return NULL;
}

static uint32_t verify_least(uint64_t bytes, uint32_t most)
{
	return bytes < most ? (uint32_t)bytes : most;
}

/* So much of the current chunk has been asked for. */
static void verify_pass(struct verify *verify, uint32_t bytes)
{
	verify->offset += bytes;
	verify->within += bytes;
	if (verify->within < verify->copy->chunks[verify->chunk].bytes)
		return;
	verify->chunk++;
	verify->within = 0;
}

/* Skip what the target knows to be zeroes, where zeroes were copied. False: that is all of the hole. */
static bool verify_hole(struct verify *verify, struct verify_slot *next)
{
	struct copy *copy = verify->copy;
	uint64_t left = copy->chunks[verify->chunk].bytes - verify->within, to;
	uint32_t most = copy->chunk_bytes;
	bool zero;

	copy_holes_at(copy_verify_end(copy), verify->offset, verify->offset + left, &to, &zero);
	if (zero) {
		verify_pass(verify, (uint32_t)(to - verify->offset));
		return false;
	}
	if (!verify->refused && most < VERIFY_PIECE_BYTES)
		most = VERIFY_PIECE_BYTES;
	next->offset = verify->offset;
	next->bytes = verify_least(to - verify->offset, most);
	next->crc = rblk_digest_zeroes(next->bytes);
	return true;
}

/* The chunk to be asked for next; it stays so until verify_start(). False: there is nothing more now. */
static bool verify_next(struct verify *verify, struct verify_slot *next)
{
	struct copy *copy = verify->copy;
	const struct copy_range *again;
	const struct copy_chunk *chunk;

	if (verify->again_count) {
		again = &verify->again[verify->again_count - 1];
		next->offset = again->offset;
		next->bytes = verify_least(again->bytes, copy->chunk_bytes);
		next->crc = rblk_digest_zeroes(next->bytes);
		return true;
	}
	while (verify->chunk < copy->chunk_count) {
		chunk = &copy->chunks[verify->chunk];
		if (!chunk->zero) {
			*next = (struct verify_slot){ .offset = verify->offset,
						      .bytes = chunk->bytes,
						      .crc = chunk->crc };
			return true;
		}
		if (verify_hole(verify, next))
			return true;
	}
	return false;
}

static int verify_start(struct verify *verify, struct verify_slot *slot,
			const struct verify_slot *next)
{
	struct copy_range *again;
	int result;

	*slot = *next;
	slot->verify = verify;
	slot->busy = false;
	result = rblk_checksum(copy_verify_end(verify->copy)->volume, slot->bytes, slot->offset,
			       verify_done, slot);
	if (result)
		return result;
	slot->busy = true;
	verify->copy->outstanding++;
	if (!verify->again_count) {
		verify_pass(verify, slot->bytes);
		return 0;
	}
	again = &verify->again[verify->again_count - 1];
	again->offset += slot->bytes;
	again->bytes -= slot->bytes;
	if (!again->bytes)
		verify->again_count--;
	return 0;
}

static void verify_run(struct verify *verify)
{
	struct copy *copy = verify->copy;
	struct verify_slot *slot, next;
	struct progress progress;
	bool more = true;
	int result;

	progress_start(&progress, "verifying", copy->done_bytes, copy->quiet);
	while (more || copy->outstanding) {
		slot = verify_slot_find(verify->slots, copy->depth);
		result = -EAGAIN;
		/* Outstanding ranges may have to be asked for again. */
		more = !copy->error && !copy_interrupted && (!slot || verify_next(verify, &next));
		if (slot && more)
			result = verify_start(verify, slot, &next);
		if (!result)
			continue;
		if (result == -EAGAIN && !more && !copy->outstanding)
			break;
		if (result == -EAGAIN)
			result = copy_wait(copy);
		if (result) {
			copy_fail(copy, copy_verify_end(copy), "checksum", verify->offset, result);
			break;
		}
		progress_update(&progress, verify->offset);
	}
	progress_end(&progress);
	if (!copy->error && copy_interrupted)
		copy->error = -EINTR;
}

static int verify_compare(const void *a, const void *b)
{
	const struct copy_range *left = a, *right = b;

	return left->offset < right->offset ? -1 : left->offset > right->offset;
}

/* In order, and one range where they touch. */
static void verify_merge(struct copy *copy)
{
	struct copy_range *ranges = copy->differences;
	size_t i, kept = 0;

	if (!copy->difference_count)
		return;
	qsort(ranges, copy->difference_count, sizeof(*ranges), verify_compare);
	for (i = 1; i < copy->difference_count; i++)
		if (ranges[kept].offset + ranges[kept].bytes == ranges[i].offset)
			ranges[kept].bytes += ranges[i].bytes;
		else
			ranges[++kept] = ranges[i];
	copy->difference_count = kept + 1;
}

int64_t copy_verify(struct copy *copy)
{
	struct copy_end *end = copy_verify_end(copy);
	struct verify verify = { .copy = copy };

	/* The known holes of a source may have changed while it was copied. */
	copy_holes_forget(end);
	if (!end->holes && copy_holes_init(end))
		return -ENOMEM;
	verify.slots = calloc(copy->depth, sizeof(*verify.slots));
	if (!verify.slots) {
		cmd_error("out of memory");
		return -ENOMEM;
	}
	verify_run(&verify);
	/* A lost session has called back all its commands; if the other one is lost, end them. */
	if (copy->outstanding)
		copy_end_close(end);
	free(verify.slots);
	free(verify.again);
	if (copy->error)
		return copy->error;
	verify_merge(copy);
	return (int64_t)copy->difference_count;
}

uint32_t copy_verify_crc(const struct copy *copy, uint64_t *bytes)
{
	uint32_t crc = 0;
	size_t i;

	*bytes = 0;
	for (i = 0; i < copy->chunk_count; i++) {
		crc = rblk_digest_combine(crc, copy->chunks[i].crc, copy->chunks[i].bytes);
		*bytes += copy->chunks[i].bytes;
	}
	return crc;
}
