/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a client that came while rblkd had no descriptors is taken when there are some, also if the time to look again
 * passes while the thread is on its way to poll(). Method: an accept4() that fails once, and a clock that stands still
 * until the thread has decided not to accept yet, and then is past that time.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "target/base/error.h"
#include "target/watch/watch.h"
#include "tests/unit/unit.h"

#define WITHIN_S 60 /* no test waits so long, unless it fails */

static atomic_uint failures; /* of accept4() */
static atomic_uint asked;    /* how often the clock has been, since */
static uint64_t failed_ns;
static sem_t taken;

uint64_t __real_env_now_ns(void);
uint64_t __wrap_env_now_ns(void);
uint64_t __wrap_env_now_ns(void)
{
	if (!atomic_load(&failures))
		return __real_env_now_ns();
	/* For when to look again, and whether it is time; then that time has passed. */
	if (atomic_fetch_add(&asked, 1) < 2)
		return failed_ns;
	return failed_ns + 3600 * 1000000000ull;
}

int __real_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
	int client;

	if (!atomic_load(&failures)) {
		failed_ns = __real_env_now_ns();
		atomic_store(&failures, 1);
		errno = EMFILE;
		return -1;
	}
	client = __real_accept4(fd, address, bytes, flags);
	if (client >= 0)
		sem_post(&taken);
	return client;
}

static const char *no_address(const void *context, unsigned int n)
{
	(void)context;
	(void)n;
	return NULL;
}

static void a_client_that_waits_is_taken(void **state)
{
	char folder[] = "/tmp/rblk-watch-XXXXXX", error[TGT_ERROR_BYTES];
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct tgt_watch_options options = {.control_socket = address.sun_path, .journal = "none", .http = "",
					    .address = no_address};
	struct timespec end;
	struct tgt_watch *watch;
	int client;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", folder);
	assert_int_equal(sem_init(&taken, 0, 0), 0);
	assert_int_equal(tgt_watch_create(&options, &watch, error), 0);
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += WITHIN_S;
	assert_int_equal(sem_timedwait(&taken, &end), 0);
	assert_int_equal(atomic_load(&failures), 1);
	close(client);
	tgt_watch_stop(watch);
	tgt_watch_destroy(watch);
	sem_destroy(&taken);
	unlink(address.sun_path);
	snprintf(error, sizeof(error), "%s.lock", address.sun_path);
	unlink(error);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_that_waits_is_taken),
	};

	return cmocka_run_group_tests_name("target watch", tests, NULL, NULL);
}
