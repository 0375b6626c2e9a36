/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal (F10): a session whose hosts are two rblkd that serve a volume of one uuid stays with the one
 * that it has. It sends nothing to the other, which cannot know what the first may still write, goes
 * on when the first is back, and says why the other is not used. It moves if both have one fence
 * domain: because the configuration says so, or because the second serves the same file of the same
 * machine when the first has ended. Method: two files stand for one disk that two machines reach; a
 * block that the other target must never have is looked for in its file.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/fake_target.h"
#include "tests/e2e/session.h"

#define PIECE 4096u
#define BYTES (1u << 20)
#define DOMAIN "fence_domain = 6d1f0c1e-7d4a-4a53-9a0e-2f1d5b7c9e11\n"
#define REASON "no common fence domain"

/* A target, the file that it serves, and its configuration. */
struct side {
	struct e2e_file file;
	struct e2e_daemon daemon;
	char config[64];
};

static struct side first, second;
static struct rblk_session *session;
static struct rblk_volume *disk;
static uint8_t *data;

/* Each test has a volume of its own: the process remembers of which one the last test has left writes unflushed (F7). */
static void side_create(struct side *side, const char *path, const char *domain)
{
	static unsigned int volumes;

	volumes += side == &first;
	memset(side, 0, sizeof(*side));
	e2e_file_create(&side->file, "disk", BYTES);
	snprintf(side->config, sizeof(side->config), "%s.conf", side->file.path);
	unit_file_write(side->config,
			"[target]\nkeepalive = 300ms\n[volume disk]\npath = %s\ncache = buffered\n"
			"uuid = 0f4b1c52-6a77-4f0e-8f25-aa41c0de%04x\nlock_wait = 5ms\n%s",
			path ? path : side->file.path, volumes, domain);
}

static void side_start(struct side *side)
{
	if (side->daemon.host[0])
		e2e_daemon_start_again(&side->daemon, "--config", side->config, NULL);
	else
		e2e_daemon_start(&side->daemon, "--config", side->config, NULL);
}

static void side_remove(struct side *side)
{
	if (side->daemon.pid)
		e2e_daemon_kill(&side->daemon);
	unlink(side->config);
	e2e_file_remove(&side->file);
}

/* What their configurations say besides. */
static void both_start(const char *of_first, const char *of_second)
{
	side_create(&first, NULL, of_first);
	side_create(&second, NULL, of_second);
	side_start(&first);
	side_start(&second);
}

static void both_remove(void)
{
	side_remove(&first);
	side_remove(&second);
}

static void copy_file(const struct e2e_file *from, const struct e2e_file *to)
{
	int source = open(from->path, O_RDONLY), sink = open(to->path, O_WRONLY);

	assert_true(source >= 0 && sink >= 0);
	assert_int_equal(sendfile(sink, source, NULL, BYTES), BYTES);
	close(source);
	close(sink);
}

static void expect_untouched(const struct side *side)
{
	static uint8_t block[PIECE], zero[PIECE];
	int fd = open(side->file.path, O_RDONLY);

	assert_true(fd >= 0);
	for (off_t at = 0; at < BYTES; at += PIECE) {
		assert_int_equal(pread(fd, block, PIECE, at), PIECE);
		assert_memory_equal(block, zero, PIECE);
	}
	close(fd);
}

/* The hosts of both, the first one's first; the second may have to start. */
static void session_start(const struct rblk_options *given, const char *second_host)
{
	struct rblk_options options = *given;
	char uri[256];

	snprintf(uri, sizeof(uri), "rblk+tcp://%s,%s/disk", first.daemon.host, second_host);
	options.size = sizeof(options);
	session = e2e_session_open(uri, &options);
	disk = e2e_volume_open(session, NULL, 0);
	data = rblk_buffer_alloc(session, PIECE);
	assert_non_null(data);
}

static void session_end(void)
{
	rblk_session_close(session);
	session = NULL;
}

static void write_piece(uint8_t value, uint64_t at)
{
	memset(data, value, PIECE);
	assert_int_equal(rblk_pwrite(disk, data, PIECE, at, 0), 0);
}

static void expect_piece(uint8_t value, uint64_t at)
{
	memset(data, (uint8_t)~value, PIECE);
	assert_int_equal(rblk_pread(disk, data, PIECE, at), 0);
	for (unsigned int i = 0; i < PIECE; i++)
		assert_int_equal(data[i], value);
}

struct outcome {
	bool done;
	int error;
};

static void outcome_done(void *arg, const struct rblk_result *result)
{
	*(struct outcome *)arg = (struct outcome){.done = true, .error = result->error};
}

/* Polls until the target has refused the volume so many times, as its path's words say. */
static void await_refusal(unsigned int host)
{
	struct rblk_path_info paths[2];
	time_t until = time(NULL) + 120;

	for (;;) {
		assert_true(time(NULL) < until);
		assert_true(rblk_wait(session, 20) >= 0);
		assert_int_equal(rblk_session_paths(session, paths, sizeof(paths[0]), 2), 2);
		if (strstr(paths[host].words, REASON))
			return;
	}
}

static void await(const struct outcome *outcome)
{
	time_t until = time(NULL) + 120;

	while (!outcome->done) {
		assert_true(time(NULL) < until);
		assert_true(rblk_wait(session, 20) >= 0);
	}
}

/*
 * The first target is gone, the second serves "the same disk": nothing is sent to it, and nothing fails. The first comes
 * back, as after a restart, and has everything.
 */
static void the_other_is_not_used(void **state)
{
	struct outcome outcome = {0};

	(void)state;
	both_start("", "");
	session_start(&(struct rblk_options){.queues = 2}, second.daemon.host);
	write_piece(0xa1, 0);
	assert_int_equal(rblk_fsync(disk), 0);
	e2e_daemon_kill(&first.daemon);
	memset(data, 0xb2, PIECE);
	assert_int_equal(rblk_write(disk, data, PIECE, PIECE, 0, outcome_done, &outcome), 0);
	await_refusal(1);
	assert_false(outcome.done);
	expect_untouched(&second);
	side_start(&first);
	await(&outcome);
	assert_int_equal(outcome.error, 0);
	expect_piece(0xa1, 0);
	expect_piece(0xb2, PIECE);
	expect_untouched(&second);
	session_end();
	both_remove();
}

/* A target that only stands still has not ended: what it has is not sent elsewhere, and is done once. */
static void a_stopped_target_is_waited_for(void **state)
{
	struct outcome outcome = {0};
	int status;

	(void)state;
	both_start("", "");
	session_start(&(struct rblk_options){.queues = 2, .connect_timeout_ms = 1000},
		      second.daemon.host);
	write_piece(0xa1, 0);
	assert_int_equal(kill(first.daemon.pid, SIGSTOP), 0);
	/* Its threads stop when they see that. */
	assert_int_equal(waitpid(first.daemon.pid, &status, WUNTRACED), first.daemon.pid);
	assert_true(WIFSTOPPED(status));
	memset(data, 0xb2, PIECE);
	assert_int_equal(rblk_write(disk, data, PIECE, 0, 0, outcome_done, &outcome), 0);
	await_refusal(1);
	assert_false(outcome.done);
	expect_untouched(&second);
	assert_int_equal(kill(first.daemon.pid, SIGCONT), 0);
	await(&outcome);
	assert_int_equal(outcome.error, 0);
	expect_piece(0xb2, 0);
	expect_untouched(&second);
	session_end();
	both_remove();
}

/* It does not come back: the session gives up, and its words say why the other was no help. */
static void it_gives_up_with_the_reason(void **state)
{
	struct outcome outcome = {0};

	(void)state;
	both_start("", "");
	session_start(&(struct rblk_options){.queues = 1, .give_up_ms = 1500}, second.daemon.host);
	write_piece(0xa1, 0);
	e2e_daemon_kill(&first.daemon);
	assert_int_equal(rblk_write(disk, data, PIECE, 0, 0, outcome_done, &outcome), 0);
	while (!outcome.done)
		rblk_wait(session, 20);
	assert_int_equal(outcome.error, -ETIMEDOUT);
	expect_untouched(&second);
	assert_int_equal(e2e_daemon_log_count(&second.daemon, "violat"), 0);
	session_end();
	both_remove();
}

/* Both have one domain, and the first has ended, as the administrator promises: the session moves, with all that was written. */
static void one_configured_domain(void **state)
{
	struct outcome outcome = {0};

	(void)state;
	both_start(DOMAIN, DOMAIN);
	session_start(&(struct rblk_options){.queues = 2}, second.daemon.host);
	write_piece(0xa1, 0);
	assert_int_equal(rblk_fsync(disk), 0);
	e2e_daemon_kill(&first.daemon);
	copy_file(&first.file, &second.file);
	memset(data, 0xb2, PIECE);
	assert_int_equal(rblk_write(disk, data, PIECE, PIECE, 0, outcome_done, &outcome), 0);
	await(&outcome);
	assert_int_equal(outcome.error, 0);
	expect_piece(0xa1, 0);
	expect_piece(0xb2, PIECE);
	session_end();
	both_remove();
}

/* The same file of the same machine: another rblkd at another address is only a restart, as F6 holds. */
static void the_same_file(void **state)
{
	(void)state;
	side_create(&first, NULL, "");
	side_start(&first);
	side_create(&second, first.file.path, "");
	e2e_daemon_start(&second.daemon, "--memory", "other=1M", NULL);
	session_start(&(struct rblk_options){.queues = 2}, second.daemon.host);
	write_piece(0xa1, 0);
	e2e_daemon_kill(&first.daemon);
	e2e_daemon_kill(&second.daemon);
	side_start(&second);
	expect_piece(0xa1, 0);
	write_piece(0xb2, PIECE);
	assert_int_equal(rblk_fsync(disk), 0);
	session_end();
	both_remove();
}

/* A reload gives the volume a domain: the session learns it when it reads the size again, and moves then. */
static void a_reload_changes_the_domain(void **state)
{
	FILE *file;

	(void)state;
	both_start("", DOMAIN);
	session_start(&(struct rblk_options){.queues = 2}, second.daemon.host);
	write_piece(0xa1, 0);
	file = fopen(first.config, "a");
	assert_non_null(file);
	fputs(DOMAIN, file);
	fclose(file);
	assert_int_equal(kill(first.daemon.pid, SIGHUP), 0);
	e2e_daemon_log_wait(&first.daemon, "volume disk: its fence domain has changed", 1);
	assert_int_equal(rblk_volume_refresh(disk), 0);
	e2e_daemon_kill(&first.daemon);
	copy_file(&first.file, &second.file);
	expect_piece(0xa1, 0);
	session_end();
	both_remove();
}

/* -- what a target says ------------------------------------------------------------------------- */

/* A target that forgets the session at its first FLUSH; from then on it is, perhaps, another instance. */
static const struct saying {
	const char *what;
	bool another, feature;
	u8 domain[2]; /* before and after */
	int error;    /* of the FLUSH, which goes on */
} sayings[] = {
	{"the same instance, without domains", false, false, {0, 0}, 0},
	{"another instance, without the feature", true, false, {0, 0}, -ETIMEDOUT},
	{"another instance, that has no domain", true, true, {0, 0}, -ETIMEDOUT},
	{"another instance, of the same domain", true, true, {7, 7}, 0},
	{"another instance, of another domain", true, true, {7, 8}, -ETIMEDOUT},
	{"another instance, that has none any more", true, true, {7, 0}, -ETIMEDOUT},
	{"the same instance, of another domain", false, true, {7, 8}, 0},
};
static const struct saying *saying;
static _Atomic bool forgot;

static enum fake_answer forget_once(struct fake_target *fake, const struct rblk_wire_command *command,
				    struct rblk_wire_completion *completion)
{
	(void)completion;
	if (command->opcode != RBLK_OP_FLUSH || forgot)
		return FAKE_REPLY;
	forgot = true;
	fake_target_forget(fake);
	return FAKE_CLOSE;
}

static void say_instance(struct rblk_wire_accept *accept)
{
	accept->target_instance[1] = forgot && saying->another;
	if (!saying->feature)
		accept->features &= ~rblk_to_le32(RBLK_FEATURE_FENCE_DOMAIN);
}

static void say_domain(struct rblk_wire_volume *volume)
{
	volume->fence_domain[3] = saying->domain[forgot];
}

static void every_saying(void **state)
{
	for (unsigned int i = 0; i < UNIT_LENGTH(sayings); i++) {
		struct rblk_options options = fake_target_options();
		struct fake_script script = {.command = forget_once, .accept = say_instance, .volume = say_domain};
		struct fake_target *fake;
		int err;

		saying = &sayings[i];
		forgot = false;
		print_message("%s\n", saying->what);
		fake = fake_target_start(&script);
		options.no_reconnect = false;
		options.give_up_ms = saying->error ? 1000 : 60000;
		session = e2e_session_open(fake_target_uri(fake), &options);
		disk = e2e_volume_open(session, "disk", 0);
		err = rblk_fsync(disk);
		assert_int_equal(err, saying->error);
		if (err)
			assert_non_null(strstr(rblk_session_error(session), REASON));
		assert_int_equal(fake_target_seen(fake, RBLK_OP_FLUSH), err ? 1 : 2);
		session_end();
		fake_target_stop(fake);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_other_is_not_used),
		cmocka_unit_test(a_stopped_target_is_waited_for),
		cmocka_unit_test(it_gives_up_with_the_reason),
		cmocka_unit_test(one_configured_domain),
		cmocka_unit_test(the_same_file),
		cmocka_unit_test(a_reload_changes_the_domain),
		cmocka_unit_test(every_saying),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
