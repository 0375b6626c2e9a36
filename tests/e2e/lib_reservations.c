/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: librblk's reservations do what their comments say: refused I/O gets EBADE, a fencing agent
 * is served while a slow write is in flight, invalid requests are not sent, and a request is
 * neither lost nor repeated when the target is killed. Method: two named initiators, against a
 * daemon with slow writes.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define BYTES 4096u

static struct e2e_daemon server;
static struct e2e_file disk;
static char kept[64];

struct host {
	struct rblk_session *session;
	struct rblk_volume *volume;
	char *data;
};

static int start(void **state)
{
	e2e_file_create(&disk, "disk", 4 << 20);
	e2e_folder_create(kept);
	e2e_daemon_start(&server, "--cache", "buffered", "--reactors", "2", "--reservations-dir",
			 kept, "--fault", "delay=write:500ms", disk.volume, NULL);
	return 0;
}

static int stop(void **state)
{
	e2e_file_remove(&disk);
	e2e_folder_remove(kept);
	return e2e_daemon_stop(&server);
}

static struct host host_open(const char *name)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct host host;

	options.initiator_name = name;
	host.session = e2e_session_open(e2e_daemon_uri(&server, "disk"), &options);
	host.volume = e2e_volume_open(host.session, NULL, 0);
	host.data = rblk_buffer_alloc(host.session, BYTES);
	assert_non_null(host.data);
	return host;
}

#define RESERVE(host, ...)                                      \
	rblk_reserve((host)->volume, &(struct rblk_pr_request){ \
					     .size = sizeof(struct rblk_pr_request), __VA_ARGS__})

static void done(void *arg, const struct rblk_result *result)
{
	*(int *)arg = result->error;
}

static void told(void *arg, struct rblk_volume *volume, int error)
{
	assert_non_null(volume);
	*(int *)arg = error;
}

static void refused_io_is_ebade(void **state)
{
	struct rblk_pr_registrant list[RBLK_PR_REGISTRANTS_MAX];
	struct host a = host_open("a"), b = host_open("b");
	struct rblk_pr_state now;

	assert_int_equal(RESERVE(&a, .action = RBLK_PR_REGISTER, .new_key = 1ull << 40), 0);
	assert_int_equal(RESERVE(&a, .action = RBLK_PR_ACQUIRE, .key = 1, .type = 2), -EBADE);
	assert_int_equal(RESERVE(&a, .action = RBLK_PR_ACQUIRE, .key = 1ull << 40,
				 .type = RBLK_PR_EXCLUSIVE_ACCESS),
			 0);
	assert_int_equal(rblk_pread(b.volume, b.data, BYTES, 0), -EBADE);
	assert_int_equal(rblk_pwrite(b.volume, b.data, BYTES, 0, 0), -EBADE);
	assert_int_equal(rblk_fsync(b.volume), -EBADE);
	assert_int_equal(rblk_pwrite(a.volume, a.data, BYTES, 0, 0), 0);
	assert_int_equal(rblk_reservations(b.volume, &now, sizeof(now), list, 1), 0);
	assert_int_equal(now.size, sizeof(now));
	assert_int_equal(now.type, RBLK_PR_EXCLUSIVE_ACCESS);
	assert_int_equal(now.count, 1);
	assert_int_equal(now.total, 1);
	assert_false(now.persists);
	assert_string_equal(list[0].initiator, "a");
	assert_true(list[0].holder && list[0].key == 1ull << 40);
	assert_int_equal(rblk_reservations(b.volume, &now, sizeof(now), NULL, 0), 0);
	assert_int_equal(now.count, 0);
	assert_int_equal(now.total, 1);
	/* More actions than there are operation numbers at a time. */
	for (unsigned int i = 0; i < 150; i++)
		assert_int_equal(
			RESERVE(&b, .action = RBLK_PR_REGISTER, .key = i, .new_key = i + 1), 0);
	rblk_session_close(a.session);
	rblk_session_close(b.session);
}

/* Otherwise all hosts without a name would be one registrant. */
static void who_has_no_name_cannot_reserve(void **state)
{
	struct host none = host_open("unnamed"), a = host_open("a");
	struct rblk_pr_state now;

	assert_int_equal(RESERVE(&none, .action = RBLK_PR_REGISTER, .new_key = 1), -EACCES);
	assert_non_null(strstr(rblk_session_error(none.session), "has no name of its own"));
	assert_int_equal(rblk_pwrite(none.volume, none.data, BYTES, 0, 0), 0);
	assert_int_equal(RESERVE(&a, .action = RBLK_PR_REGISTER, .new_key = 1), 0);
	assert_int_equal(rblk_reservations(none.volume, &now, sizeof(now), NULL, 0), 0);
	assert_int_equal(now.total, 1);
	rblk_session_close(none.session);
	rblk_session_close(a.session);
}

static void what_makes_no_sense_is_not_sent(void **state)
{
	struct host a = host_open("a");
	struct rblk_pr_request longer[2] = {RBLK_PR_REQUEST_INIT};
	struct rblk_pr_state now;

	assert_int_equal(RESERVE(&a, .action = 0), -EINVAL);
	assert_int_equal(RESERVE(&a, .action = RBLK_PR_REGISTER | 256), -EINVAL);
	assert_int_equal(RESERVE(&a, .action = RBLK_PR_ACQUIRE, .key = 1), -EINVAL);
	assert_int_equal(RESERVE(&a, .action = RBLK_PR_CLEAR, .flags = RBLK_PR_ABORT), -EINVAL);
	assert_int_equal(RESERVE(&a, .action = RBLK_PR_CLEAR, .flags = 1u << 8), -EINVAL);
	longer[0].size = sizeof(longer);
	assert_int_equal(rblk_reserve(a.volume, longer), -E2BIG);
	longer[0].size = 8;
	assert_int_equal(rblk_reserve(a.volume, longer), -EINVAL);
	assert_int_equal(rblk_reservations(a.volume, &now, 1, NULL, 0), -EINVAL);
	assert_int_equal(rblk_reservations(a.volume, &now, sizeof(now), NULL, 1), -EINVAL);
	rblk_session_close(a.session);
}

/* The victim's write is slow; the agent's PREEMPT ends after it, and the victim is kept out. */
static void preempt_ends_after_the_write(void **state)
{
	struct host victim = host_open("victim"), agent = host_open("agent");
	int written = 1, preempted = 1;
	struct rblk_pr_request preempt = RBLK_PR_REQUEST_INIT;

	preempt.action = RBLK_PR_PREEMPT;
	preempt.key = 2;
	preempt.other_key = 1;
	preempt.type = RBLK_PR_WRITE_EXCLUSIVE;
	preempt.flags = RBLK_PR_ABORT;
	assert_int_equal(RESERVE(&victim, .action = RBLK_PR_REGISTER, .new_key = 1), 0);
	assert_int_equal(RESERVE(&victim, .action = RBLK_PR_ACQUIRE, .key = 1, .type = 1), 0);
	assert_int_equal(RESERVE(&agent, .action = RBLK_PR_REGISTER, .new_key = 2), 0);
	memset(victim.data, 'v', BYTES);
	assert_int_equal(rblk_write(victim.volume, victim.data, BYTES, 0, 0, done, &written), 0);
	rblk_submit(victim.session);
	/* An answer on the same queue shows that the write has arrived; it is small, so the
	 * store has it. */
	assert_int_equal(
		rblk_pread(victim.volume, rblk_buffer_alloc(victim.session, BYTES), BYTES, 65536),
		0);
	assert_int_equal(rblk_reserve_start(agent.volume, &preempt, told, &preempted), 0);
	assert_int_equal(rblk_volume_close(agent.volume), -EBUSY);
	while (preempted == 1)
		assert_true(rblk_wait(agent.session, 100) >= 0);
	assert_int_equal(preempted, 0);
	assert_int_equal(rblk_pread(agent.volume, agent.data, BYTES, 0), 0);
	assert_memory_equal(agent.data, victim.data, BYTES);
	while (written == 1)
		assert_true(rblk_wait(victim.session, 100) >= 0);
	assert_int_equal(rblk_pwrite(victim.volume, victim.data, BYTES, 0, 0), -EBADE);
	rblk_session_close(victim.session);
	rblk_session_close(agent.session);
}

/* The target is killed while requests are in flight: each is done once, and the session goes on. */
static void a_killed_target_loses_none(void **state)
{
	struct rblk_pr_registrant list[1];
	struct host a = host_open("a");
	struct rblk_pr_request request = RBLK_PR_REQUEST_INIT;
	struct rblk_pr_state now;
	int result = 1;

	assert_int_equal(
		RESERVE(&a, .action = RBLK_PR_REGISTER, .new_key = 1, .flags = RBLK_PR_PERSIST), 0);
	for (uint64_t key = 1; key < 6; key++, result = 1) {
		request.action = RBLK_PR_REGISTER;
		request.key = key;
		request.new_key = key + 1;
		assert_int_equal(rblk_reserve_start(a.volume, &request, told, &result), 0);
		rblk_submit(a.session);
		e2e_daemon_kill(&server);
		e2e_daemon_start_again(&server, "--cache", "buffered", "--reactors", "2",
				       "--reservations-dir", kept, disk.volume, NULL);
		while (result == 1)
			assert_true(rblk_wait(a.session, 100) >= 0);
		assert_int_equal(result, 0);
		assert_int_equal(rblk_reservations(a.volume, &now, sizeof(now), list, 1), 0);
		assert_int_equal(now.total, 1);
		assert_int_equal(list[0].key, key + 1);
		assert_true(now.persists);
	}
	rblk_session_close(a.session);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(refused_io_is_ebade, start, stop),
		cmocka_unit_test_setup_teardown(who_has_no_name_cannot_reserve, start, stop),
		cmocka_unit_test_setup_teardown(what_makes_no_sense_is_not_sent, start, stop),
		cmocka_unit_test_setup_teardown(preempt_ends_after_the_write, start, stop),
		cmocka_unit_test_setup_teardown(a_killed_target_loses_none, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
