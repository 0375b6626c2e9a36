/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a program that goes on with another's sessions, by the memory that these have kept, owes what the other had
 * written and not flushed (F7), also when that one was killed over it or had not acknowledged a loss; it ends the
 * other's sessions (F5); and it takes no other volume, nor a target that cannot fence (F10). Method: each program is a
 * process of its own, which is killed with its sessions open, or stands still. A loss: the volume's path is turned to
 * another file while rblkd is away.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "initiator/rblk.h"
#include "tests/e2e/daemon.h"

#define PIECE 4096u
#define SESSIONS 2

static struct kept {
	struct rblk_kept_session sessions[SESSIONS];
	struct rblk_kept_volume volume;
} *kept;

static struct e2e_turning file;
static struct e2e_daemon daemon_;

static int begin(void **state)
{
	(void)state;
	kept = mmap(NULL, sizeof(*kept), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(kept != MAP_FAILED);
	e2e_turning_create(&file);
	e2e_daemon_start(&daemon_, "--config", file.config, NULL);
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_int_equal(e2e_daemon_stop(&daemon_), 0);
	e2e_turning_remove(&file);
	return 0;
}

static int forget(void **state)
{
	(void)state;
	memset(kept, 0, sizeof(*kept));
	return 0;
}

static void lose(void)
{
	static unsigned int losses;

	e2e_daemon_kill(&daemon_);
	e2e_turning_turn(&file, losses++ % 2 ? &file.first : &file.second);
	e2e_daemon_start_again(&daemon_, "--config", file.config, NULL);
}

/* -- programs ---------------------------------------------------------------------------------- */

/* In a program: it ends with the line as its status, which a test's message shows. */
#define need(condition)                                              \
	do {                                                         \
		if (!(condition)) {                                  \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
			_exit(1);                                    \
		}                                                    \
	} while (0)

static struct rblk_session *sessions[SESSIONS];
static struct rblk_volume *volumes[SESSIONS];
static uint8_t *data;
static int error_of_open;

static bool use(int i)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;

	options.kept_session = &kept->sessions[i];
	options.kept_volume = &kept->volume;
	options.give_up_ms = 2000;
	sessions[i] = rblk_session_open(e2e_daemon_uri(&daemon_, "disk"), &options, NULL);
	need(sessions[i]);
	volumes[i] = rblk_volume_open(sessions[i], NULL, 0);
	error_of_open = volumes[i] ? 0 : errno;
	return volumes[i];
}

static void use_all(void)
{
	for (int i = 0; i < SESSIONS; i++)
		need(use(i));
	data = rblk_buffer_alloc(sessions[0], PIECE);
	need(data);
}

static void writes(void)
{
	use_all();
	need(!rblk_pwrite(volumes[0], data, PIECE, 0, 0));
}

static void writes_and_flushes(void)
{
	writes();
	need(!rblk_fsync(volumes[1]));
}

static void writes_more_than_it_flushes(void)
{
	writes_and_flushes();
	need(!rblk_pwrite(volumes[0], data, PIECE, PIECE, 0));
}

static void flush_succeeds(void)
{
	use_all();
	need(!rblk_fsync(volumes[0]) && !rblk_fsync(volumes[1]));
}

static void flush_fails(void)
{
	use_all();
	need(rblk_fsync(volumes[0]) == -EIO && rblk_fsync(volumes[1]) == -EIO);
}

static void acknowledges(void)
{
	flush_fails();
	need(rblk_acknowledge(volumes[0]) + rblk_acknowledge(volumes[1]) == 1);
	need(!rblk_fsync(volumes[0]) && !rblk_fsync(volumes[1]));
}

static void finds_another_volume(void)
{
	need(!use(0) && error_of_open == ENODEV);
}

static void finds_another_target(void)
{
	need(!use(0) && error_of_open == EXDEV);
}

/* In a process of its own, which stays until it is killed. */
static pid_t start(void (*program)(void))
{
	char done = 1;
	int ends[2];
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		program();
		need(write(ends[1], &done, 1) == 1);
		for (;;)
			pause();
	}
	close(ends[1]);
	if (read(ends[0], &done, 1) != 1)
		fail_msg("the program has ended: see its line above");
	close(ends[0]);
	return child;
}

static void stop(pid_t child)
{
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void run(void (*program)(void))
{
	stop(start(program));
}

/* -- tests ------------------------------------------------------------------------------------- */

static void nothing_is_lost_with_the_program_alone(void **state)
{
	(void)state;
	run(writes);
	run(flush_succeeds);
	run(flush_succeeds);
}

static void what_was_not_flushed_is_owed(void **state)
{
	(void)state;
	run(writes);
	lose();
	run(flush_fails);
	/* Killed before anybody has acknowledged it. */
	run(flush_fails);
	run(acknowledges);
	run(flush_succeeds);
}

static void what_was_flushed_is_not(void **state)
{
	(void)state;
	run(writes_and_flushes);
	lose();
	run(flush_succeeds);
	run(writes_more_than_it_flushes);
	lose();
	run(flush_fails);
}

/* One that has only heard of a loss, and one that owes what two before it have written. */
static void over_several_programs(void **state)
{
	(void)state;
	run(writes);
	run(use_all);
	run(use_all);
	lose();
	run(use_all);
	lose();
	run(acknowledges);
}

/* The program stands still, as one whose end nobody knows of yet; when it goes on, its sessions are over. */
static void reads_in_vain(void)
{
	writes();
	raise(SIGSTOP);
	need(rblk_pread(volumes[0], data, PIECE, 0) < 0);
	need(rblk_pread(volumes[1], data, PIECE, 0) < 0);
	_exit(0);
}

static void the_predecessor_is_ended(void **state)
{
	int status;
	pid_t child = fork(), successor;

	(void)state;
	assert_true(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		reads_in_vain();
	}
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
	successor = start(flush_succeeds);
	assert_int_equal(kill(child, SIGCONT), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	stop(successor);
	assert_int_equal(kept->sessions[0].lives, 2);
}

static void another_volume_is_refused(void **state)
{
	(void)state;
	run(writes);
	kept->volume.uuid[0] ^= 1;
	run(finds_another_volume);
}

static void a_target_that_cannot_fence_is_refused(void **state)
{
	(void)state;
	run(writes);
	assert_true(kept->sessions[0].opened);
	kept->sessions[0].instance[0] ^= 1;
	run(flush_succeeds); /* of one fence domain */
	kept->sessions[0].instance[0] ^= 1;
	kept->sessions[0].fence_domain[0] ^= 1;
	run(finds_another_target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_is_lost_with_the_program_alone, forget),
		cmocka_unit_test_setup(what_was_not_flushed_is_owed, forget),
		cmocka_unit_test_setup(what_was_flushed_is_not, forget),
		cmocka_unit_test_setup(over_several_programs, forget),
		cmocka_unit_test_setup(the_predecessor_is_ended, forget),
		cmocka_unit_test_setup(another_volume_is_refused, forget),
		cmocka_unit_test_setup(a_target_that_cannot_fence_is_refused, forget),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
