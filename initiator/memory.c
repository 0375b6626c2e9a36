/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The calls of rblk.h that register memory, and the messages of those that fail. Where the buffers
 * of a session are kept and found is buffer.c's.
 */
#include "initiator/rblk.h"

/* rblk.h promises that the program ends: in every build. */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include "initiator/buffer.h"
#include "initiator/session.h"

#define DATA_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define READ_ONLY_ACCESS IBV_ACCESS_REMOTE_READ /* what goes out in a capsule needs no right */

/* The usual reason for a failed registration has its own message. */
static void register_failed(struct rblk_session *session, size_t bytes, int err)
{
	struct rlimit limit;

	if (err == -ENOMEM && fab_kind_of(session->fabs.last) == FAB_VERBS &&
	    !getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY)
		ini_session_note(session,
				 "register %zu bytes: the limit of locked memory is %llu KiB (raise it "
				 "with ulimit -l or LimitMEMLOCK=)",
				 bytes, (unsigned long long)limit.rlim_cur / 1024);
	else
		ini_session_note(session, "register %zu bytes: %s", bytes,
				 ini_fabs_error(&session->fabs)[0] ? ini_fabs_error(&session->fabs)
								   : strerror(-err));
}

static const char *insert_reason(int err)
{
	switch (err) {
	case -EEXIST:
		return "they overlap a buffer of the session";
	case -ENOSPC:
		return "the session has as many buffers as it can have";
	default:
		return strerror(-err);
	}
}

static int register_memory(struct rblk_session *session, void *memory, size_t bytes,
			   size_t mapped_bytes, bool read_only)
{
	struct ini_mr mr;
	int err = ini_mr_register(&session->fabs, memory, bytes,
				  read_only ? READ_ONLY_ACCESS : DATA_ACCESS, &mr);

	if (err) {
		register_failed(session, bytes, err);
		return err;
	}
	err = ini_buffer_insert(&session->buffers, memory, bytes, mapped_bytes, read_only, &mr);
	if (err) {
		ini_session_note(session, "register %zu bytes: %s", bytes, insert_reason(err));
		ini_mr_deregister(&mr);
	}
	return err;
}

void *rblk_buffer_alloc(struct rblk_session *session, size_t bytes)
{
	size_t mapped_bytes;
	void *memory = ini_pages_alloc(bytes, &mapped_bytes);
	int err;

	if (!memory) {
		ini_session_note(session, "allocate %zu bytes: %s", bytes, strerror(ENOMEM));
		errno = ENOMEM;
		return NULL;
	}
	err = register_memory(session, memory, bytes, mapped_bytes, false);
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
	err = ini_buffer_remove(&session->buffers, buffer, true);
	assert(!err && "rblk_buffer_free(): not a buffer of the session, or commands use it");
	(void)err;
}

int rblk_buffer_register(struct rblk_session *session, const void *memory, size_t bytes, u32 flags)
{
	if (flags & ~RBLK_BUFFER_READ_ONLY) {
		ini_session_note(session, "register %zu bytes: unknown flags 0x%x", bytes,
				 flags & ~RBLK_BUFFER_READ_ONLY);
		return -EINVAL;
	}
	if (!memory || !bytes || bytes > SIZE_MAX - (uintptr_t)memory) {
		ini_session_note(session, "register %zu bytes at %p: no such memory", bytes, memory);
		return -EINVAL;
	}
	/* Its type says what the program may do with it; the library only gives it to devices. */
	return register_memory(session, (void *)(uintptr_t)memory, bytes, 0, flags & RBLK_BUFFER_READ_ONLY);
}

int rblk_buffer_unregister(struct rblk_session *session, const void *memory)
{
	int err = ini_buffer_remove(&session->buffers, memory, false);

	if (err)
		ini_session_note(session, "unregister %p: %s", memory,
				 err == -EBUSY ? "commands use it" : "it is not registered");
	return err;
}
