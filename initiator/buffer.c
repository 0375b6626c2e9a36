/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the session's registered memory, see buffer.h. Registration is slow and happens once;
 * finding a buffer happens with every I/O.
 */
#include "initiator/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096u
#define HUGE_PAGE_BYTES (2u << 20)

/* -- pages ------------------------------------------------------------------------------------- */

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

void *ini_pages_alloc(size_t bytes, size_t *mapped_bytes)
{
	const int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	void *memory;

	if (!bytes || bytes > SIZE_MAX / 2)
		return NULL;
	/*
	 * Fewer entries in the device's translation cache. They are made at once: a cgroup's limit (hugetlb)
	 * may refuse what mmap() has reserved, and that is a SIGBUS. A kernel before 5.14 cannot tell.
	 */
	if (bytes >= HUGE_PAGE_BYTES) {
		*mapped_bytes = round_up(bytes, HUGE_PAGE_BYTES);
		memory = mmap(NULL, *mapped_bytes, protection, flags | MAP_HUGETLB, -1, 0);
		if (memory != MAP_FAILED && madvise(memory, *mapped_bytes, MADV_POPULATE_WRITE) == 0)
			return memory;
		if (memory != MAP_FAILED)
			munmap(memory, *mapped_bytes);
	}
	*mapped_bytes = round_up(bytes, PAGE_BYTES);
	memory = mmap(NULL, *mapped_bytes, protection, flags, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

void ini_pages_free(void *memory, size_t mapped_bytes)
{
	if (memory)
		munmap(memory, mapped_bytes);
}

/* -- finding ----------------------------------------------------------------------------------- */

/* Index of the first buffer that begins behind `memory`. */
static u32 buffers_upper(const struct ini_buffers *buffers, const u8 *memory)
{
	u32 low = 0, high = buffers->count;

	while (low < high) {
		u32 middle = low + (high - low) / 2;

		if (buffers->sorted[middle]->memory > memory)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static bool buffer_contains(const struct ini_buffer *buffer, const u8 *memory, size_t bytes)
{
	size_t offset = (size_t)(memory - buffer->memory);

	return memory >= buffer->memory && offset < buffer->bytes &&
	       bytes <= buffer->bytes - offset;
}

struct ini_buffer *ini_buffer_at(struct ini_buffers *buffers, const void *memory, size_t bytes)
{
	struct ini_buffer *buffer = buffers->last;

	if (!buffer || !buffer_contains(buffer, memory, bytes)) {
		u32 upper = buffers_upper(buffers, memory);

		if (!upper || !buffer_contains(buffers->sorted[upper - 1], memory, bytes))
			return NULL;
		buffer = buffers->last = buffers->sorted[upper - 1];
	}
	return buffer;
}

struct ini_buffer *ini_buffer_find(struct ini_buffers *buffers, const struct fab_device *device,
				   const void *memory, size_t bytes)
{
	struct ini_buffer *buffer = ini_buffer_at(buffers, memory, bytes);

	if (buffer && buffer->device != device) {
		buffer->device = device;
		buffer->lkey = ini_mr_lkey(&buffer->mr, device);
		buffer->rkey = ini_mr_rkey(&buffer->mr, device);
	}
	return buffer;
}

/* -- registering ------------------------------------------------------------------------------- */

static int buffers_reserve(struct ini_buffers *buffers)
{
	u32 room = buffers->room ? buffers->room * 2 : 8;
	struct ini_buffer **sorted;

	if (buffers->count < buffers->room)
		return 0;
	if (buffers->count == INI_BUFFERS_MAX)
		return -ENOSPC;
	sorted = realloc(buffers->sorted, room * sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	buffers->sorted = sorted;
	buffers->room = room;
	return 0;
}

int ini_buffer_insert(struct ini_buffers *buffers, void *memory, size_t bytes, size_t mapped_bytes,
		      bool read_only, const struct ini_mr *mr)
{
	struct ini_buffer *buffer;
	u32 at = buffers_upper(buffers, memory);
	int err;

	if (at && buffer_contains(buffers->sorted[at - 1], memory, 1))
		return -EEXIST;
	if (at < buffers->count && (size_t)(buffers->sorted[at]->memory - (u8 *)memory) < bytes)
		return -EEXIST;
	err = buffers_reserve(buffers);
	if (err)
		return err;
	buffer = calloc(1, sizeof(*buffer));
	if (!buffer)
		return -ENOMEM;
	buffer->mr = *mr;
	buffer->memory = memory;
	buffer->bytes = bytes;
	buffer->mapped_bytes = mapped_bytes;
	buffer->read_only = read_only;
	memmove(&buffers->sorted[at + 1], &buffers->sorted[at],
		(buffers->count - at) * sizeof(*buffers->sorted));
	buffers->sorted[at] = buffer;
	buffers->count++;
	return 0;
}

static void buffer_free(struct ini_buffer *buffer)
{
	ini_mr_deregister(&buffer->mr);
	if (buffer->mapped_bytes)
		ini_pages_free(buffer->memory, buffer->mapped_bytes);
	free(buffer);
}

int ini_buffer_remove(struct ini_buffers *buffers, const void *memory, bool own)
{
	u32 at = buffers_upper(buffers, memory);
	struct ini_buffer *buffer = at ? buffers->sorted[at - 1] : NULL;

	if (!buffer || buffer->memory != memory || (buffer->mapped_bytes != 0) != own)
		return -ENOENT;
	if (buffer->users)
		return -EBUSY;
	if (buffers->last == buffer)
		buffers->last = NULL;
	buffers->count--;
	memmove(&buffers->sorted[at - 1], &buffers->sorted[at],
		(buffers->count - (at - 1)) * sizeof(*buffers->sorted));
	buffer_free(buffer);
	return 0;
}

void ini_buffers_forget(struct ini_buffers *buffers, const struct fab_device *device)
{
	for (u32 i = 0; i < buffers->count; i++)
		if (buffers->sorted[i]->device == device)
			buffers->sorted[i]->device = NULL;
}

void ini_buffers_fini(struct ini_buffers *buffers)
{
	for (u32 i = 0; i < buffers->count; i++)
		buffer_free(buffers->sorted[i]);
	free(buffers->sorted);
	memset(buffers, 0, sizeof(*buffers));
}
