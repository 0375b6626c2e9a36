/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: each address that a host's name has is tried, and a name is asked for again while its host cannot be reached: a
 * target that moves is found, and a host that was unknown becomes a path. None of that blocks the program. Method: rblkd
 * on addresses of 127.0.0.0/8, and a resolver of the test's own in place of getaddrinfo(), whose answers change, and
 * which hangs when the test wants it to.
 */
#include "tests/unit/unit.h"

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "initiator/rblk.h"
#include "tests/e2e/daemon.h"

#define NAME "target.test"
#define ADDRESSES 3u
#define BYTES 4096u

/* -- the resolver ------------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static const char *known[ADDRESSES]; /* addresses of NAME, to the first NULL */
static bool hangs;
static unsigned int asking, asked; /* calls that have not returned; calls on other threads than the test's */
static pthread_t test_thread;

int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **list);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **list);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **list)
{
	struct addrinfo **end = list;

	if (strcmp(node, NAME) || (hints && hints->ai_flags & AI_NUMERICHOST))
		return __real_getaddrinfo(node, service, hints, list);
	*list = NULL;
	pthread_mutex_lock(&lock);
	asked += !pthread_equal(pthread_self(), test_thread);
	asking++;
	pthread_cond_broadcast(&changed);
	while (hangs)
		pthread_cond_wait(&changed, &lock);
	for (unsigned int i = 0; i < ADDRESSES && known[i]; i++) {
		assert_int_equal(__real_getaddrinfo(known[i], service, hints, end), 0);
		end = &(*end)->ai_next;
	}
	asking--;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return *list ? 0 : EAI_NONAME;
}

static void name_has(const char *first, const char *second, const char *third)
{
	pthread_mutex_lock(&lock);
	known[0] = first;
	known[1] = second;
	known[2] = third;
	pthread_mutex_unlock(&lock);
}

static void resolver_hangs(bool on)
{
	pthread_mutex_lock(&lock);
	hangs = on;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static unsigned int read_count(const unsigned int *count)
{
	unsigned int value;

	pthread_mutex_lock(&lock);
	value = *count;
	pthread_mutex_unlock(&lock);
	return value;
}

/* -- sessions ---------------------------------------------------------------------------------- */

static struct e2e_daemon server;
static struct e2e_file file;

static const char *port(void)
{
	return strchr(server.host, ':') + 1;
}

static struct rblk_session *open_session(const char *hosts, uint32_t queues)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	char error[RBLK_ERROR_BYTES] = "", uri[256];
	struct rblk_session *session;

	options.queues = queues;
	snprintf(uri, sizeof(uri), "rblk+tcp://%s:%s/disk", hosts, port());
	session = rblk_session_open(uri, &options, error);
	if (!session)
		fail_msg("%s: %s", uri, error);
	return session;
}

static void check_io(struct rblk_session *session)
{
	struct rblk_volume *volume = rblk_volume_open(session, NULL, 0);
	uint8_t *data = rblk_buffer_alloc(session, BYTES);

	assert_non_null(volume);
	assert_non_null(data);
	assert_int_equal(rblk_pread(volume, data, BYTES, 0), 0);
	rblk_buffer_free(session, data);
	assert_int_equal(rblk_volume_close(volume), 0);
}

static int start(void **state)
{
	(void)state;
	test_thread = pthread_self();
	e2e_disk_start(&server, &file, NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	return e2e_disk_stop(&server, &file);
}

static void each_address_is_tried(void **state)
{
	struct rblk_session *session;

	(void)state;
	name_has("127.0.0.2", "127.0.0.1", NULL);
	session = open_session(NAME, 1);
	check_io(session);
	rblk_session_close(session);
	name_has("127.0.0.2", "127.0.0.3", "127.0.0.1");
	session = open_session(NAME, 1);
	check_io(session);
	rblk_session_close(session);
}

/* One queue's failures are not another's. */
static void by_each_queue(void **state)
{
	struct rblk_session *session;
	struct rblk_path_info path;

	(void)state;
	name_has("127.0.0.2", "127.0.0.1", NULL);
	session = open_session(NAME, 4);
	assert_int_equal(rblk_session_paths(session, &path, sizeof(path), 1), 1);
	assert_int_equal(path.connections, 4);
	rblk_session_close(session);
}

static void a_name_without_addresses_is_an_error(void **state)
{
	char error[RBLK_ERROR_BYTES] = "";

	(void)state;
	name_has(NULL, NULL, NULL);
	assert_null(rblk_session_open("rblk+tcp://" NAME "/disk", NULL, error));
	assert_string_equal(error, NAME ": Name or service not known");
}

static void a_host_is_known_later(void **state)
{
	struct rblk_session *session;
	struct rblk_path_info paths[2];
	char hosts[128];

	(void)state;
	name_has(NULL, NULL, NULL);
	snprintf(hosts, sizeof(hosts), "127.0.0.1:%s," NAME, port());
	session = open_session(hosts, 2);
	assert_int_equal(rblk_session_paths(session, paths, sizeof(paths[0]), 2), 2);
	assert_int_equal(paths[0].connections, 1);
	assert_int_equal(paths[1].connections, 0);
	assert_string_equal(paths[1].words, NAME ": Name or service not known");
	name_has("127.0.0.1", NULL, NULL);
	do {
		assert_true(rblk_wait(session, 10) >= 0);
		assert_int_equal(rblk_session_paths(session, paths, sizeof(paths[0]), 2), 2);
	} while (!paths[1].connections);
	rblk_session_close(session);
}

static void a_target_moves(void **state)
{
	struct rblk_session *session;
	struct rblk_volume *volume;
	char elsewhere[64];
	uint8_t *data;

	(void)state;
	name_has("127.0.0.1", NULL, NULL);
	session = open_session(NAME, 1);
	volume = rblk_volume_open(session, NULL, RBLK_VOLUME_OPEN_READ_ONLY);
	data = rblk_buffer_alloc(session, BYTES);
	assert_non_null(volume);
	snprintf(elsewhere, sizeof(elsewhere), "rblk+tcp://127.0.0.5:%s", port());
	e2e_daemon_kill(&server);
	name_has("127.0.0.5", NULL, NULL);
	e2e_daemon_start(&server, "--listen", elsewhere, "--cache", "buffered", file.volume, NULL);
	assert_int_equal(rblk_pread(volume, data, BYTES, 0), 0);
	assert_true(read_count(&asked) > 0);
	rblk_session_close(session);
}

/* The program goes on, and so does the end of the session. */
static void the_resolver_hangs(void **state)
{
	struct rblk_session *session;

	(void)state;
	name_has("127.0.0.1", NULL, NULL);
	session = open_session(NAME, 1);
	resolver_hangs(true);
	e2e_daemon_kill(&server);
	while (!read_count(&asking))
		assert_true(rblk_wait(session, 10) >= 0);
	e2e_daemon_start_again(&server, "--cache", "buffered", file.volume, NULL);
	/* The old address still serves, and is tried meanwhile. */
	while (rblk_session_state(session) != RBLK_SESSION_READY)
		assert_true(rblk_wait(session, 10) >= 0);
	assert_int_equal(read_count(&asking), 1);
	rblk_session_close(session);
	resolver_hangs(false);
	pthread_mutex_lock(&lock);
	while (asking)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: lookups of sessions that have ended may be under way still, and would be counted. */
		cmocka_unit_test(the_resolver_hangs),
		cmocka_unit_test(each_address_is_tried),
		cmocka_unit_test(by_each_queue),
		cmocka_unit_test(a_name_without_addresses_is_an_error),
		cmocka_unit_test(a_host_is_known_later),
		cmocka_unit_test(a_target_moves),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
