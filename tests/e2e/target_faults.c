/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: `rblk fault` does what its manual says to a daemon that accepts faults, and fails with a
 * message in all other cases. Method: the command against a daemon with a socket for it, and what a
 * session sees.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define BLOCK 4096u

static struct e2e_daemon server;
static struct e2e_file file;
static char folder[64], socket_path[96];
static char said[1024]; /* printed by the last command */

static struct program {
	struct rblk_session *session;
	struct rblk_volume *volume;
	uint8_t *data;
	unsigned int recovering, recovered, lost;
} program;

static int start(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/rblk-e2e-faults-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(socket_path, sizeof(socket_path), "%s/socket", folder);
	e2e_file_create(&file, "disk", 1 << 20);
	e2e_daemon_start(&server, "--fault-socket", socket_path, "--cache", "buffered", "--fault",
			 "delay=close:1us", "--reactors", "2", file.volume, "--memory", "other=1M",
			 NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	assert_int_equal(e2e_daemon_stop(&server), 0);
	assert_int_equal(access(socket_path, F_OK), -1); /* the daemon has removed it */
	rmdir(folder);
	e2e_file_remove(&file);
	return 0;
}

/* The exit status of "rblk fault SOCKET REQUEST". */
static int fault(const char *path, const char *request)
{
	char command[512];
	size_t bytes;
	FILE *from;

	snprintf(command, sizeof(command), "'%s' fault '%s' %s 2>&1", getenv("RBLK"), path,
		 request);
	from = popen(command, "r");
	assert_non_null(from);
	bytes = fread(said, 1, sizeof(said) - 1, from);
	said[bytes] = '\0';
	return WEXITSTATUS(pclose(from));
}

static void done(const char *request)
{
	if (fault(socket_path, request) || said[0])
		fail_msg("%s: %s", request, said);
}

static void refused(const char *path, const char *request, const char *words)
{
	if (fault(path, request) != 1 || !strstr(said, words))
		fail_msg("%s: \"%s\", not \"%s\"", request, said, words);
}

static void on_event(void *arg, struct rblk_session *session,
		     const struct rblk_session_event *event)
{
	struct program *p = arg;

	(void)session;
	p->recovering += event->type == RBLK_SESSION_EVENT_RECOVERING;
	p->recovered += event->type == RBLK_SESSION_EVENT_RECOVERED;
	p->lost += event->type == RBLK_SESSION_EVENT_WRITES_LOST;
}

static void program_open(struct program *p, const char *volume)
{
	memset(p, 0, sizeof(*p));
	p->session = e2e_session_open(e2e_daemon_uri(&server, volume), NULL);
	rblk_session_on_event(p->session, on_event, p);
	p->volume = e2e_volume_open(p->session, NULL, 0);
	p->data = rblk_buffer_alloc(p->session, BLOCK);
	assert_non_null(p->data);
}

static void connections_are_cut(void **state)
{
	struct program other;

	(void)state;
	program_open(&program, "disk");
	program_open(&other, "other");
	done("cut disk");
	while (!program.recovered)
		assert_true(rblk_wait(program.session, 100) >= 0);
	assert_int_equal(program.recovering, 1);
	assert_int_equal(rblk_pwrite(program.volume, program.data, BLOCK, 0, 0), 0);
	/* Sessions of other volumes are not affected, except by a cut of all. */
	assert_int_equal(rblk_pwrite(other.volume, other.data, BLOCK, 0, 0), 0);
	assert_int_equal(other.recovering, 0);
	done("cut");
	while (!other.recovered || program.recovered < 2) {
		assert_true(rblk_wait(program.session, 20) >= 0);
		assert_true(rblk_wait(other.session, 20) >= 0);
	}
	assert_int_equal(program.lost + other.lost, 0);
	rblk_session_close(other.session);
	rblk_session_close(program.session);
}

static void plans_change(void **state)
{
	(void)state;
	program_open(&program, "disk");
	assert_int_equal(rblk_pwrite(program.volume, program.data, BLOCK, 0, 0), 0);
	done("plan disk fail=write:1");
	assert_int_equal(rblk_pwrite(program.volume, program.data, BLOCK, 0, 0), -EIO);
	assert_int_equal(rblk_pread(program.volume, program.data, BLOCK, 0), 0);
	/* Counts begin with the plan. */
	done("plan disk fail=read:1,count=1,delay=read:5ms");
	assert_int_equal(rblk_pwrite(program.volume, program.data, BLOCK, 0, 0), 0);
	assert_int_equal(rblk_pread(program.volume, program.data, BLOCK, 0), -EIO);
	assert_int_equal(rblk_pread(program.volume, program.data, BLOCK, 0), 0);
	done("plan disk delay=close:1us");
	assert_int_equal(rblk_pread(program.volume, program.data, BLOCK, 0), 0);
	rblk_session_close(program.session);
}

static void caches_are_lost(void **state)
{
	(void)state;
	program_open(&program, "disk");
	/* Flushed data is not lost, and no error is reported. */
	assert_int_equal(rblk_pwrite(program.volume, program.data, BLOCK, 0, 0), 0);
	assert_int_equal(rblk_fsync(program.volume), 0);
	done("lose disk");
	while (!program.recovered)
		assert_true(rblk_wait(program.session, 100) >= 0);
	assert_int_equal(program.lost, 0);
	assert_int_equal(rblk_fsync(program.volume), 0);
	/* Unflushed data is lost. */
	assert_int_equal(rblk_pwrite(program.volume, program.data, BLOCK, 0, 0), 0);
	done("lose disk");
	while (!program.lost)
		assert_true(rblk_wait(program.session, 100) >= 0);
	assert_int_equal(rblk_fsync(program.volume), -EIO);
	assert_int_equal(rblk_fsync(program.volume), -EIO);
	assert_int_equal(rblk_acknowledge(program.volume), 1);
	assert_int_equal(rblk_fsync(program.volume), 0);
	rblk_session_close(program.session);
}

/* A request that no `rblk fault` sends: its first bytes alone would be another one. */
static void long_requests_are_refused(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	char request[600];

	(void)state;
	memset(request, ' ', sizeof(request));
	memcpy(request, "cut", 3);
	memcpy(request + sizeof(request) - 5, "disk!", 5);
	strcpy(address.sun_path, socket_path);
	assert_int_equal(sendto(fd, request, sizeof(request), 0, (struct sockaddr *)&address,
				sizeof(address)),
			 sizeof(request));
	close(fd);
	e2e_daemon_log_wait(&server, "refused: the request is longer than 512 bytes", 1);
}

static void others_are_refused(void **state)
{
	char long_path[160], none[128];
	struct stat st;

	(void)state;
	assert_int_equal(stat(socket_path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	refused(socket_path, "frobnicate",
		"a fault is cut [VOLUME], lose VOLUME or plan VOLUME PLAN");
	refused(socket_path, "cut none", "volume none: no such volume");
	refused(socket_path, "cut disk now", "cut [VOLUME]: too many words");
	refused(socket_path, "lose", "lose VOLUME: one volume is named");
	refused(socket_path, "plan disk", "plan VOLUME PLAN: both are needed");
	refused(socket_path, "plan disk frobnicate", "volume disk: ");
	refused(socket_path, "plan disk power=0.5", "\"power\" is for a volume's first plan alone");
	refused(socket_path, "plan disk lose=flush:1",
		"volume disk: \"lose\" needs a volume whose first plan has it, too");
	memset(long_path, 'a', sizeof(long_path));
	long_path[sizeof(long_path) - 1] = '\0';
	refused(long_path, "cut", "name too long");
	/* A daemon without fault_socket accepts no faults. */
	snprintf(none, sizeof(none), "%s/none", folder);
	refused(none, "cut",
		"no daemon accepts faults there: fault_socket must be set, see rblkd.conf(5)");
}

/* Operations of a volume without a plan do not pass through the fault store. */
static void plain_volumes_have_no_plan(void **state)
{
	struct e2e_daemon plain;
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/plain", folder);
	e2e_daemon_start(&plain, "--fault-socket", path, "--memory", "ram=1M", NULL);
	refused(path, "plan ram fail=write:1",
		"volume ram: it has no plan that could be changed; begin with fault = "
		"delay=close:1us");
	assert_int_equal(e2e_daemon_stop(&plain), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_are_cut),
		cmocka_unit_test(plans_change),
		cmocka_unit_test(caches_are_lost),
		cmocka_unit_test(long_requests_are_refused),
		cmocka_unit_test(others_are_refused),
		cmocka_unit_test(plain_volumes_have_no_plan),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
