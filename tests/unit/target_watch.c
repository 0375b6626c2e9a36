/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a client that came while rblkd had no descriptors is taken when there are some, also if the time to look again
 * passes while the thread is on its way to poll(); and that a reactor is at its limit is known at once, although nobody
 * has asked before, and there is no HTTP. Method: an accept4() that fails once, and a clock that stands still
 * until the thread has decided not to accept yet, and then is past that time; a reactor that works whenever it is looked at.
 */
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "target/base/error.h"
#include "target/serve/reactor.h"
#include "target/serve/snapshot.h"
#include "target/store/volume.h"
#include "target/watch/ask.h"
#include "target/watch/health.h"
#include "target/watch/watch.h"
#include "tests/unit/unit.h"

#define WITHIN_S 60 /* no test waits so long, unless it fails */

static atomic_uint failures; /* of accept4() */
static atomic_uint asked;    /* how often the clock has been, since */
static uint64_t failed_ns;
static sem_t taken;
static atomic_bool overslept;
static _Atomic uint64_t worked_ns; /* by the reactor, which is the clock, too; 0: it is not used */
static unsigned int looks;	   /* at the reactor */
static sem_t looked;		   /* often enough */

uint64_t __real_env_now_ns(void);
uint64_t __wrap_env_now_ns(void);
uint64_t __wrap_env_now_ns(void)
{
	if (atomic_load(&worked_ns))
		return atomic_load(&worked_ns);
	if (!atomic_load(&failures))
		return __real_env_now_ns();
	/* For when to look again, and whether it is time; then that time has passed. */
	if (atomic_fetch_add(&asked, 1) < 2)
		return failed_ns;
	return failed_ns + 200000000;
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

/* While the control socket is not among them, the thread may not sleep for long: nothing of a waiting client wakes it. */
int __real_poll(struct pollfd *polled, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *polled, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *polled, nfds_t count, int timeout_ms)
{
	if (count > 1 && polled[1].fd < 0 && (timeout_ms < 0 || timeout_ms > 100))
		atomic_store(&overslept, true);
	return __real_poll(polled, count, timeout_ms);
}

uint64_t __wrap_tgt_reactor_busy_ns(const struct tgt_reactor *reactor);
uint64_t __wrap_tgt_reactor_busy_ns(const struct tgt_reactor *reactor)
{
	(void)reactor;
	if (looks == 10)
		return worked_ns;
	if (++looks == 10)
		sem_post(&looked);
	return atomic_fetch_add(&worked_ns, TGT_BUSY_LOOK_NS);
}

int __wrap_tgt_snapshot_ask(struct tgt_reactor *const *reactors, unsigned int count, unsigned int timeout_ms,
			    struct tgt_snapshot *out[TGT_REACTORS_MAX]);
int __wrap_tgt_snapshot_ask(struct tgt_reactor *const *reactors, unsigned int count, unsigned int timeout_ms,
			    struct tgt_snapshot *out[TGT_REACTORS_MAX])
{
	(void)reactors;
	(void)timeout_ms;
	for (unsigned int i = 0; i < count; i++)
		out[i] = calloc(1, sizeof(*out[i]));
	return 0;
}

static const char *no_address(const void *context, unsigned int n)
{
	(void)context;
	(void)n;
	return NULL;
}

static char folder[64];
static struct sockaddr_un address;
static struct tgt_watch *watch;

static void watch_begin(struct tgt_watch_options options)
{
	char error[TGT_ERROR_BYTES];

	strcpy(folder, "/tmp/rblk-watch-XXXXXX");
	assert_non_null(mkdtemp(folder));
	address.sun_family = AF_UNIX;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", folder);
	options.control_socket = address.sun_path;
	options.journal = "none";
	options.http = "";
	options.address = no_address;
	assert_int_equal(tgt_watch_create(&options, &watch, error), 0);
}

static void watch_end(void)
{
	char lock[sizeof(address.sun_path) + 8];

	tgt_watch_stop(watch);
	tgt_watch_destroy(watch);
	unlink(address.sun_path);
	snprintf(lock, sizeof(lock), "%s.lock", address.sun_path);
	unlink(lock);
	assert_int_equal(rmdir(folder), 0);
}

static int connect_client(void)
{
	int client = socket(AF_UNIX, SOCK_STREAM, 0);

	assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	return client;
}

static void wait_for(sem_t *semaphore)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += WITHIN_S;
	assert_int_equal(sem_timedwait(semaphore, &end), 0);
}

static void a_client_that_waits_is_taken(void **state)
{
	int client;

	(void)state;
	assert_int_equal(sem_init(&taken, 0, 0), 0);
	watch_begin((struct tgt_watch_options){0});
	client = connect_client();
	wait_for(&taken);
	assert_int_equal(atomic_load(&failures), 1);
	assert_false(atomic_load(&overslept));
	close(client);
	watch_end();
	sem_destroy(&taken);
}

static void a_busy_reactor_is_known_before_anybody_asks(void **state)
{
	static const char question[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\"}\n";
	struct tgt_reactor *reactors[1] = {NULL};
	struct tgt_watch_options options = {.source = {.reactors = reactors, .reactor_count = 1}};
	char answer[8192] = "";
	ssize_t bytes = 0;
	int client;

	(void)state;
	assert_int_equal(sem_init(&looked, 0, 0), 0);
	assert_int_equal(tgt_registry_create(&options.source.registry), 0);
	atomic_store(&worked_ns, 3600000000000ull);
	watch_begin(options);
	wait_for(&looked);
	client = connect_client();
	assert_int_equal(write(client, question, sizeof(question) - 1), sizeof(question) - 1);
	while (!strchr(answer, '\n') && (size_t)bytes < sizeof(answer) - 1) {
		ssize_t more = read(client, answer + bytes, sizeof(answer) - 1 - (size_t)bytes);

		assert_true(more > 0);
		bytes += more;
	}
	print_message("%s", answer);
	assert_non_null(strstr(answer, "reactor 0: at its limit, busy for 100% of the last ten seconds"));
	close(client);
	watch_end();
	tgt_registry_destroy(options.source.registry);
	sem_destroy(&looked);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_that_waits_is_taken),
		cmocka_unit_test(a_busy_reactor_is_known_before_anybody_asks),
	};

	return cmocka_run_group_tests_name("target watch", tests, NULL, NULL);
}
