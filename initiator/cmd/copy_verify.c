/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The target's own CHECKSUM of every chunk against the CRC of what went through this process.
 * Chunk by chunk, so that a difference has a place; the CRC of the whole is combined from them.
 */
#include "initiator/cmd/copy.h"

#include <errno.h>
#include <stdlib.h>
#include "initiator/cmd/crc32c.h"

/* One CHECKSUM that is out. */
struct verify_slot {
	struct copy *copy;
	size_t chunk;
	bool busy;
};

struct copy_end *copy_verify_end(struct copy *copy)
{
	return copy->destination.session ? &copy->destination : &copy->source;
}

static void verify_done(void *arg, const struct rblk_result *result)
{
	struct verify_slot *slot = arg;
	struct copy *copy = slot->copy;
	struct copy_chunk *chunk = &copy->chunks[slot->chunk];

	copy->outstanding--;
	slot->busy = false;
	if (result->error)
		copy_fail(copy, copy_verify_end(copy), "checksum",
			  (uint64_t)slot->chunk * copy->chunk_bytes, result->error);
	else
		chunk->differs = (uint32_t)result->value != chunk->crc;
}

static struct verify_slot *verify_slot_find(struct verify_slot *slots, uint32_t count)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (!slots[i].busy)
			return &slots[i];
	return NULL;
}

static int verify_start(struct copy *copy, struct verify_slot *slot, size_t chunk)
{
	int result;

	slot->copy = copy;
	slot->chunk = chunk;
	result = rblk_checksum(copy_verify_end(copy)->volume, copy->chunks[chunk].bytes,
			       (uint64_t)chunk * copy->chunk_bytes, verify_done, slot);
	if (!result) {
		slot->busy = true;
		copy->outstanding++;
	}
	return result;
}

static void verify_run(struct copy *copy, struct verify_slot *slots)
{
	struct progress progress;
	struct verify_slot *slot;
	size_t next = 0;
	int result;

	progress_start(&progress, "verifying", copy->done_bytes, copy->quiet);
	while ((next < copy->chunk_count && !copy->error && !copy_interrupted) ||
	       copy->outstanding) {
		slot = verify_slot_find(slots, copy->depth);
		result = -EAGAIN;
		if (slot && next < copy->chunk_count && !copy->error && !copy_interrupted)
			result = verify_start(copy, slot, next);
		if (!result) {
			next++;
			continue;
		}
		if (result == -EAGAIN)
			result = copy_wait(copy);
		if (result) {
			copy_fail(copy, copy_verify_end(copy), "checksum",
				  (uint64_t)next * copy->chunk_bytes, result);
			break;
		}
		progress_update(&progress,
				(uint64_t)(next - copy->outstanding) * copy->chunk_bytes);
	}
	progress_end(&progress);
	if (!copy->error && copy_interrupted)
		copy->error = -EINTR;
}

int64_t copy_verify(struct copy *copy)
{
	struct verify_slot *slots = calloc(copy->depth, sizeof(*slots));
	int64_t differ = 0;
	size_t i;

	if (!slots) {
		cmd_error("out of memory");
		return -ENOMEM;
	}
	verify_run(copy, slots);
	/* A lost session has called back all it had; a lost other one leaves commands: end them. */
	if (copy->outstanding)
		copy_end_close(copy_verify_end(copy));
	free(slots);
	if (copy->error)
		return copy->error;
	for (i = 0; i < copy->chunk_count; i++)
		differ += copy->chunks[i].differs;
	return differ;
}

uint32_t copy_verify_crc(const struct copy *copy, uint64_t *bytes)
{
	uint32_t crc = 0;
	size_t i;

	*bytes = 0;
	for (i = 0; i < copy->chunk_count; i++) {
		crc = crc32c_combine(crc, copy->chunks[i].crc, copy->chunks[i].bytes);
		*bytes += copy->chunks[i].bytes;
	}
	return crc;
}

bool copy_verify_range(const struct copy *copy, size_t *index, uint64_t *offset, uint64_t *bytes)
{
	size_t i = *index;

	while (i < copy->chunk_count && !copy->chunks[i].differs)
		i++;
	if (i == copy->chunk_count)
		return false;
	*offset = (uint64_t)i * copy->chunk_bytes;
	*bytes = 0;
	for (; i < copy->chunk_count && copy->chunks[i].differs; i++)
		*bytes += copy->chunks[i].bytes;
	*index = i;
	return true;
}
