/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what an initiator may take is counted for the name that it has proven, not for its address: one that has its
 * share of the sessions gets no more of them, from whichever of several addresses, and keeps none from another name, nor
 * from those without one, at the same address. A name that is only claimed does not count: its addresses do. Method:
 * sessions from addresses of this machine, of which one may have seven eighths, with two names and without; what ends
 * is given back.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "initiator/rblk.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/secret_file.h"
#include "tests/e2e/source_address.h"

#define SHARE 14u /* seven eighths of the sessions */

static struct e2e_daemon server;
static char folder[] = "/tmp/rblk-share-XXXXXX";

static int start(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(folder));
	secret_file_write(unit_path(folder, "db1"), "w");
	secret_file_write(unit_path(folder, "db2"), "w");
	unit_file_write(unit_path(folder, "conf"),
			"[volume one]\nstore = memory\nsize = 1M\n"
			"[initiator db1]\nsecret = %s/db1\nwrite = one\n"
			"[initiator db2]\nsecret = %s/db2\nwrite = one\n",
			folder, folder);
	e2e_daemon_start(&server, "--config", unit_path(folder, "conf"), "--reactors", "1", "--sessions", "16", NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	unlink(unit_path(folder, "db1"));
	unlink(unit_path(folder, "db2"));
	unlink(unit_path(folder, "conf"));
	rmdir(folder);
	return e2e_daemon_stop(&server);
}

/* With `key` it proves the name; NULL: it is refused. */
static struct rblk_session *open_as(const char *name, bool key)
{
	struct rblk_options options = {
		.size = sizeof(options),
		.no_reconnect = true,
		.initiator_name = name,
		.key_file = key ? unit_path(folder, name) : NULL,
	};
	char error[RBLK_ERROR_BYTES];

	return rblk_session_open(e2e_daemon_uri(&server, ""), &options, error);
}

static struct rblk_session *open_from(const char *address, const char *name, bool key)
{
	struct rblk_session *session;

	source_address = address;
	session = open_as(name, key);
	source_address = NULL;
	return session;
}

/* The target may not have noticed yet that others have ended. */
static struct rblk_session *must_open_from(const char *address, const char *name, bool key)
{
	const struct timespec pause = {.tv_nsec = 50000000};
	struct rblk_session *session = open_from(address, name, key);

	for (unsigned int i = 0; i < 1200 && !session; i++) {
		nanosleep(&pause, NULL);
		session = open_from(address, name, key);
	}
	assert_non_null(session);
	return session;
}

static struct rblk_session *must_open_as(const char *name, bool key)
{
	return must_open_from("127.0.0.1", name, key);
}

static void a_name_has_its_share_and_no_other(void **state)
{
	const char *refused = "no room: db1 has its share of the 16 sessions";
	struct rblk_session *db1[SHARE], *db2, *unnamed;

	(void)state;
	for (unsigned int i = 0; i < SHARE; i++) {
		db1[i] = open_as("db1", true);
		assert_non_null(db1[i]);
	}
	assert_int_equal(e2e_daemon_log_count(&server, refused), 0);
	assert_null(open_as("db1", true));
	e2e_daemon_log_wait(&server, refused, 1);
	/* The address is the same. */
	db2 = open_as("db2", true);
	assert_non_null(db2);
	unnamed = open_as("anyone", false);
	assert_non_null(unnamed);
	/* Given back, and had again. */
	rblk_session_close(unnamed);
	rblk_session_close(db2);
	for (unsigned int i = 0; i < SHARE; i++)
		rblk_session_close(db1[i]);
	for (unsigned int i = 0; i < SHARE; i++)
		db1[i] = must_open_as("db2", true);
	for (unsigned int i = 0; i < SHARE; i++)
		rblk_session_close(db1[i]);
}

/* From three addresses at once: what is refused to one is refused to all of them, and to no other. */
static void a_name_has_one_share_at_all_its_addresses(void **state)
{
	static const char *const addresses[] = {"127.0.0.1", "127.0.0.2", "127.0.0.3"};
	struct rblk_session *db1[SHARE], *db2;

	(void)state;
	for (unsigned int i = 0; i < SHARE; i++)
		db1[i] = must_open_from(addresses[i % UNIT_LENGTH(addresses)], "db1", true);
	for (unsigned int i = 0; i < UNIT_LENGTH(addresses); i++)
		assert_null(open_from(addresses[i], "db1", true));
	assert_null(open_from("127.0.0.4", "db1", true));
	db2 = open_from(addresses[1], "db2", true);
	assert_non_null(db2);
	rblk_session_close(db2);
	for (unsigned int i = 0; i < SHARE; i++)
		rblk_session_close(db1[i]);
}

static void a_name_without_proof_has_one_for_each_address(void **state)
{
	struct rblk_session *first[SHARE], *second;

	(void)state;
	for (unsigned int i = 0; i < SHARE; i++)
		first[i] = must_open_as("anyone", false);
	assert_null(open_from("127.0.0.1", "anyone", false));
	e2e_daemon_log_wait(&server, "are for other hosts", 1);
	second = open_from("127.0.0.2", "anyone", false);
	assert_non_null(second);
	rblk_session_close(second);
	for (unsigned int i = 0; i < SHARE; i++)
		rblk_session_close(first[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_has_its_share_and_no_other),
		cmocka_unit_test(a_name_has_one_share_at_all_its_addresses),
		cmocka_unit_test(a_name_without_proof_has_one_for_each_address),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
