/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the session's registered memory, see buffer.h. Registration is slow and happens once;
 * finding a buffer happens with every I/O.
 */
#include "initiator/buffer.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include "initiator/rblk.h"
#include "initiator/session.h"

#define PAGE_BYTES 4096u
#define HUGE_PAGE_BYTES (2u << 20)
#define DATA_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

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
	/* Fewer entries in the device's translation cache; reserved pages only, so never required. */
	if (bytes >= HUGE_PAGE_BYTES) {
		*mapped_bytes = round_up(bytes, HUGE_PAGE_BYTES);
		memory = mmap(NULL, *mapped_bytes, protection, flags | MAP_HUGETLB, -1, 0);
		if (memory != MAP_FAILED)
			return memory;
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

struct ini_buffer *ini_buffer_find(struct rblk_session *session, const struct fab_device *device,
				   const void *memory, size_t bytes)
{
	struct ini_buffers *buffers = &session->buffers;
	struct ini_buffer *buffer = buffers->last;

	if (!buffer || !buffer_contains(buffer, memory, bytes)) {
		u32 upper = buffers_upper(buffers, memory);

		if (!upper || !buffer_contains(buffers->sorted[upper - 1], memory, bytes))
			return NULL;
		buffer = buffers->last = buffers->sorted[upper - 1];
	}
	if (buffer->device != device) {
		buffer->device = device;
		buffer->lkey = fab_mr_lkey(buffer->mr, device);
		buffer->rkey = fab_mr_rkey(buffer->mr, device);
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

/* The usual reason for a failed registration has its own message. */
static void buffer_register_failed(struct rblk_session *session, size_t bytes, int err)
{
	struct rlimit limit;

	if (err == -ENOMEM && fab_kind_of(session->fab) == FAB_VERBS &&
	    !getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY)
		ini_session_note(session,
				 "register %zu bytes: the limit of locked memory is %llu KiB (raise it "
				 "with ulimit -l or LimitMEMLOCK=)",
				 bytes, (unsigned long long)limit.rlim_cur / 1024);
	else
		ini_session_note(session, "register %zu bytes: %s", bytes,
				 fab_error(session->fab)[0] ? fab_error(session->fab) : strerror(-err));
}

static int buffer_insert(struct rblk_session *session, void *memory, size_t bytes,
			 size_t mapped_bytes)
{
	struct ini_buffers *buffers = &session->buffers;
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
	err = fab_mr_register(session->fab, memory, bytes, DATA_ACCESS, &buffer->mr);
	if (err) {
		buffer_register_failed(session, bytes, err);
		free(buffer);
		return err;
	}
	buffer->memory = memory;
	buffer->bytes = bytes;
	buffer->mapped_bytes = mapped_bytes;
	memmove(&buffers->sorted[at + 1], &buffers->sorted[at],
		(buffers->count - at) * sizeof(*buffers->sorted));
	buffers->sorted[at] = buffer;
	buffers->count++;
	return 0;
}

static void buffer_free(struct ini_buffer *buffer)
{
	fab_mr_deregister(buffer->mr);
	if (buffer->mapped_bytes)
		ini_pages_free(buffer->memory, buffer->mapped_bytes);
	free(buffer);
}

/* own: from rblk_buffer_alloc(). -ENOENT: no buffer begins there; -EBUSY: commands use it. */
static int buffer_remove(struct rblk_session *session, const void *memory, bool own)
{
	struct ini_buffers *buffers = &session->buffers;
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

void *rblk_buffer_alloc(struct rblk_session *session, size_t bytes)
{
	size_t mapped_bytes;
	void *memory = ini_pages_alloc(bytes, &mapped_bytes);
	int err;

	if (!memory) {
		errno = ENOMEM;
		return NULL;
	}
	err = buffer_insert(session, memory, bytes, mapped_bytes);
	if (err) {
		ini_pages_free(memory, mapped_bytes);
		errno = -err;
		return NULL;
	}
	return memory;
}

void rblk_buffer_free(struct rblk_session *session, void *buffer)
{
	int err;

	if (!buffer)
		return;
	err = buffer_remove(session, buffer, true);
	assert(!err && "rblk_buffer_free(): not a buffer of the session, or commands still use it");
	(void)err;
}

int rblk_buffer_register(struct rblk_session *session, void *memory, size_t bytes)
{
	if (!memory || !bytes || bytes > SIZE_MAX - (uintptr_t)memory)
		return -EINVAL;
	return buffer_insert(session, memory, bytes, 0);
}

int rblk_buffer_unregister(struct rblk_session *session, void *memory)
{
	return buffer_remove(session, memory, false);
}

void ini_buffers_fini(struct rblk_session *session)
{
	struct ini_buffers *buffers = &session->buffers;

	for (u32 i = 0; i < buffers->count; i++)
		buffer_free(buffers->sorted[i]);
	free(buffers->sorted);
	memset(buffers, 0, sizeof(*buffers));
}
