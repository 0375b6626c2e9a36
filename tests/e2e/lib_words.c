/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: after a call that returned an error, rblk_session_error() says what was wrong with which
 * volume; and once a session has failed, every later call says why. Method: each refusal of I/O in
 * turn, with words that distinguish it from the others.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define BYTES (1u << 20)

static struct e2e_daemon daemon_;

static int start(void **state)
{
	e2e_daemon_start(&daemon_, "--memory", "disk=1M", NULL);
	return 0;
}

static int stop(void **state)
{
	return e2e_daemon_stop(&daemon_);
}

static struct {
	struct rblk_session *session;
	struct rblk_volume *volume, *read_only;
	char *data;
} w;

static int open_world(void **state)
{
	w.session = e2e_session_open(e2e_daemon_uri(&daemon_, "disk"), NULL);
	w.volume = rblk_volume_open(w.session, NULL, 0);
	w.read_only = rblk_volume_open(w.session, NULL, RBLK_VOLUME_OPEN_READ_ONLY);
	w.data = rblk_buffer_alloc(w.session, 65536);
	assert_true(w.volume && w.read_only && w.data);
	return 0;
}

static int close_world(void **state)
{
	rblk_session_close(w.session);
	return 0;
}

static void no_done(void *arg, const struct rblk_result *result)
{
	fail_msg("called back");
}

/* The error has these words, names the volume, and is from this call. */
static void expect(int result, int error, const char *words)
{
	const char *said = rblk_session_error(w.session);

	assert_int_equal(result, error);
	if (!strstr(said, words) || !strstr(said, "volume \"disk\""))
		fail_msg("\"%s\" lacks \"%s\"", said, words);
}

static void arguments(void **state)
{
	char stranger[512];

	expect(rblk_read(w.volume, stranger, 512, 0, 0, no_done, NULL), -EFAULT,
	       "READ: 512 bytes at");
	expect(rblk_write(w.volume, w.data + 65536 - 512, 1024, 0, 0, no_done, NULL), -EFAULT,
	       "do not lie within one buffer");
	expect(rblk_read(w.volume, w.data, 512, 1, 0, no_done, NULL), -EINVAL,
	       "READ: 512 bytes at byte 1 are not whole blocks of 512");
	expect(rblk_write(w.volume, w.data, 513, 0, 0, no_done, NULL), -EINVAL,
	       "WRITE: 513 bytes at byte 0 are not whole");
	expect(rblk_read(w.volume, w.data, 0, 0, 0, no_done, NULL), -EINVAL, "0 bytes");
	expect(rblk_read(w.volume, w.data, 1u << 30, 0, 0, no_done, NULL), -EINVAL,
	       "1073741824 bytes are more than one command");
	expect(rblk_read(w.volume, w.data, 512, 0, 0, NULL, NULL), -EINVAL, "no callback");
	expect(rblk_read(w.volume, NULL, 512, 0, 0, no_done, NULL), -EINVAL, "no data");
	expect(rblk_read(w.volume, w.data, 512, 0, 1, no_done, NULL), -EINVAL, "flags 0x1");
	expect(rblk_write_zeroes(w.volume, 512, 0, 16, no_done, NULL), -EINVAL, "flags 0x10");
	expect(rblk_checksum(w.volume, 100, 0, no_done, NULL), -EINVAL, "CHECKSUM: 100 bytes");
	expect(rblk_extents(w.volume, 512, 0, NULL, 1, no_done, NULL), -EINVAL,
	       "EXTENTS: there is no room");
}

static void ranges(void **state)
{
	expect(rblk_read(w.volume, w.data, 1024, BYTES - 512, 0, no_done, NULL), -ERANGE,
	       "READ: 1024 bytes at byte 1048064 end beyond the volume's 1048576");
	expect(rblk_pwrite(w.volume, w.data, 512, BYTES, 0), -ERANGE, "WRITE: 512 bytes");
	expect(rblk_write_zeroes(w.volume, 1024, BYTES - 512, 0, no_done, NULL), -ERANGE,
	       "WRITE_ZEROES: 1024 bytes");
}

static void abilities(void **state)
{
	expect(rblk_write(w.read_only, w.data, 512, 0, 0, no_done, NULL), -EROFS,
	       "WRITE: the volume is read-only");
	expect(rblk_discard(w.read_only, 512, 0, no_done, NULL), -EROFS, "DISCARD: the volume is");
	expect(rblk_fsync(w.volume), -EOPNOTSUPP, "FLUSH: the volume cannot do that");
	expect(rblk_write(w.volume, w.data, 512, 0, RBLK_IO_FUA, no_done, NULL), -EOPNOTSUPP,
	       "WRITE: the volume cannot do FUA");
}

static void a_failure_keeps_its_words(void **state)
{
	rblk_session_stop(w.session);
	while (rblk_wait(w.session, -1) >= 0)
		;
	assert_non_null(strstr(rblk_session_error(w.session), "closed"));
	assert_int_equal(rblk_read(w.volume, w.data, 512, 1, 0, no_done, NULL), -EINVAL);
	assert_int_equal(rblk_read(w.volume, w.data, 512, 0, 0, no_done, NULL), -ENOTCONN);
	assert_null(rblk_volume_open(w.session, "a/b", 0));
	assert_non_null(strstr(rblk_session_error(w.session), "closed"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(arguments, open_world, close_world),
		cmocka_unit_test_setup_teardown(ranges, open_world, close_world),
		cmocka_unit_test_setup_teardown(abilities, open_world, close_world),
		cmocka_unit_test_setup_teardown(a_failure_keeps_its_words, open_world, close_world),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
