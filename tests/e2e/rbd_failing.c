/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Loaded before rblkd (LD_PRELOAD): calls of librados that fail, so often as the environment says: RBD_FAIL_UNLOCK,
 * RBD_FAIL_NOTIFY. While there is the file RBD_DIE_TELLING, it is killed when it is to tell others of a reservation.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rados/librados.h>

#define OWN __attribute__((visibility("default")))

/* librados is loaded behind this, and by a module: it is not in the scope that RTLD_NEXT knows. */
static void *real_of(const char *name)
{
	return dlsym(dlopen("librados.so.2", RTLD_LAZY | RTLD_NOLOAD), name);
}

static int fails(_Atomic int *calls, const char *variable)
{
	const char *count = getenv(variable);

	return count && atomic_fetch_add(calls, 1) < atoi(count);
}

OWN int rados_unlock(rados_ioctx_t io, const char *object, const char *name, const char *cookie)
{
	__typeof__(&rados_unlock) real = real_of("rados_unlock");
	static _Atomic int calls;

	return fails(&calls, "RBD_FAIL_UNLOCK") ? -EIO : real(io, object, name, cookie);
}

OWN int rados_notify2(rados_ioctx_t io, const char *object, const char *text, int bytes, uint64_t timeout_ms,
		      char **reply, size_t *reply_bytes)
{
	__typeof__(&rados_notify2) real = real_of("rados_notify2");
	const char *file = getenv("RBD_DIE_TELLING");
	static _Atomic int calls;

	if (file && !access(file, F_OK) && bytes > 8 && !memcmp(text, "rblkres1", 8))
		raise(SIGKILL);
	return fails(&calls, "RBD_FAIL_NOTIFY") ? -EIO : real(io, object, text, bytes, timeout_ms, reply, reply_bytes);
}
