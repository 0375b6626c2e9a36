/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: neither end of a ping between two commands trusts the other: `rblk ping --serve` refuses or ends each peer that breaks
 * the protocol, keeps the others, and serves no more than eight; `rblk ping --peer` fails with a reason. Method: the other
 * end on the bare fabric. After each offence the command itself still measures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "initiator/cmd/ping_fabric.h"
#include "proto/core/env.h"

#define WAIT_NS 120000000000ull /* a guard against hangs: machines may crawl */
#define PEERS 8		       /* that are served at a time */

/* One end on the bare fabric: a connection, or a listener and what it accepts. */
struct end {
	struct fab *fab;
	struct fab_conn *conn;
	struct fab_listener *listener;
	struct fab_mr *mr;
	struct ping_welcome welcome; /* received, or to be sent */
	struct ping_refusal refusal;
	bool established, rejected, gone, drained;
	unsigned int received, sent, failed;
	char memory[2 * PING_BYTES_MAX]; /* registered; messages are sent from its first half */
};

static struct sockaddr_in address = { .sin_family = AF_INET }; /* of the command that serves */
static char uri[64];
static pid_t serving;

/* -- the command --------------------------------------------------------------------------------- */

/* Starts `rblk ping` with these arguments; what it prints comes from *out. */
static pid_t command_start(const char *const *arguments, int *out)
{
	int pipes[2];
	pid_t pid;

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		const char *argv[12] = { getenv("RBLK"), "ping" };

		for (int i = 0; arguments[i]; i++)
			argv[i + 2] = arguments[i];
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(pipes[1], 1);
		dup2(pipes[1], 2);
		execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(pipes[1]);
	*out = pipes[0];
	return pid;
}

/* Until it ends. Returns its exit status, and all that it printed. */
static int command_end(pid_t pid, int out, char text[4096])
{
	size_t length = 0;
	ssize_t bytes;
	int status;

	while ((bytes = read(out, text + length, 4095 - length)) > 0)
		length += (size_t)bytes;
	text[length] = 0;
	close(out);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* It still measures. */
static void still_serves(void)
{
	const char *const arguments[] = { "--peer", "--count", "3", uri, NULL };
	char text[4096];
	int out;
	pid_t pid = command_start(arguments, &out);

	if (command_end(pid, out, text))
		fail_msg("%s", text);
}

/* On a port that was free just now. */
static void serve(const char *timeout)
{
	const char *const arguments[] = { "--timeout", timeout, "--serve", uri, NULL };
	char text[64] = "";

	for (int tries = 0; tries < 50 && strncmp(text, "serving", 7); tries++) {
		socklen_t length = sizeof(address);
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), out;

		if (serving)
			waitpid(serving, NULL, 0);
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		address.sin_port = 0;
		assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
		assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
		close(fd);
		snprintf(uri, sizeof(uri), "rblk+tcp://127.0.0.1:%u", ntohs(address.sin_port));
		serving = command_start(arguments, &out);
		assert_true(read(out, text, sizeof(text) - 1) >= 0);
		/* What it says later is for nobody, but must not end it. */
		fcntl(out, F_SETPIPE_SZ, 1 << 20);
	}
	assert_memory_equal(text, "serving", 7);
}

static int serve_end(void **state)
{
	(void)state;
	if (serving) {
		kill(serving, SIGKILL);
		waitpid(serving, NULL, 0);
	}
	serving = 0;
	return 0;
}

/* -- one end ------------------------------------------------------------------------------------- */

static void take_event(struct end *end, const struct fab_event *event)
{
	const struct fab_conn_options options = { .send_depth = 16, .recv_depth = 16, .send_sge = 1, .read_in = 1, .user = end };

	switch (event->type) {
	case FAB_EVENT_REQUEST:
		assert_int_equal(fab_accept(end->fab, event->request, &options, &end->conn), 0);
		assert_int_equal(fab_conn_establish(end->conn, &end->welcome, sizeof(end->welcome)), 0);
		break;
	case FAB_EVENT_ESTABLISHED:
		end->established = true;
		if (!end->listener && event->private_bytes >= sizeof(end->welcome))
			memcpy(&end->welcome, event->private_data, sizeof(end->welcome));
		break;
	case FAB_EVENT_REJECTED:
		end->rejected = true;
		if (event->private_bytes >= sizeof(end->refusal))
			memcpy(&end->refusal, event->private_data, sizeof(end->refusal));
		break;
	case FAB_EVENT_FAILED:
	case FAB_EVENT_DISCONNECTED:
		end->gone = true;
		break;
	case FAB_EVENT_DRAINED:
		end->drained = true;
		break;
	default:
		break;
	}
}

static void step(struct end *end)
{
	struct pollfd pollfd = { .fd = fab_fd(end->fab), .events = POLLIN };
	struct fab_event event;
	struct ibv_wc wc[16];
	int count = fab_poll(end->fab, wc, 16), events = 0;

	for (int i = 0; i < count; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			end->failed++;
		else if (wc[i].opcode & IBV_WC_RECV)
			end->received++;
		else
			end->sent++;
	}
	while (fab_poll_event(end->fab, &event) == 1) {
		take_event(end, &event);
		events++;
	}
	if (count <= 0 && !events && fab_arm(end->fab) == 0)
		poll(&pollfd, 1, 10);
}

#define WAIT_FOR(end, condition)                                      \
	do {                                                          \
		uint64_t until_ns = env_now_ns() + WAIT_NS;           \
		while (!(condition)) {                                \
			assert_true(env_now_ns() < until_ns);         \
			step(end);                                    \
		}                                                     \
	} while (0)

static void end_open(struct end *end)
{
	const struct fab_options options = { .cq_depth = 256, .recv_sge = 1 };
	char error[FAB_ERROR_BYTES];

	memset(end, 0, sizeof(*end));
	end->fab = fab_open(FAB_TCP, &options, error);
	assert_non_null(end->fab);
	assert_int_equal(fab_mr_register(end->fab, end->memory, sizeof(end->memory), IBV_ACCESS_LOCAL_WRITE, &end->mr), 0);
}

/* True: accepted. */
static bool end_connect(struct end *end, const void *data, uint8_t bytes)
{
	const struct fab_conn_options options = {
		.send_depth = 128,
		.recv_depth = 16,
		.send_sge = 1,
		.read_out = 1,
		.private_data = data,
		.private_bytes = bytes,
		.timeout_ms = 60000,
		.user = end,
	};

	end_open(end);
	assert_int_equal(fab_connect(end->fab, (struct sockaddr *)&address, &options, NULL, &end->conn), 0);
	WAIT_FOR(end, end->established || end->rejected || end->gone);
	return end->established;
}

static struct ping_hello hello(enum ping_kind kind)
{
	return (struct ping_hello){
		.magic = rblk_to_le32(PING_MAGIC),
		.version = rblk_to_le16(PING_VERSION),
		.kind = (__u8)kind,
	};
}

static void end_meet(struct end *end, enum ping_kind kind)
{
	struct ping_hello right = hello(kind);

	assert_true(end_connect(end, &right, sizeof(right)));
}

static void end_close(struct end *end)
{
	if (end->conn) {
		fab_conn_close(end->conn);
		WAIT_FOR(end, end->drained);
		fab_conn_destroy(end->conn);
	}
	fab_listener_destroy(end->listener);
	fab_mr_deregister(end->mr);
	fab_close(end->fab);
}

static void post(struct end *end, enum ibv_wr_opcode opcode, uint32_t bytes, uint64_t to, uint32_t rkey)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)end->memory,
		.length = bytes,
		.lkey = fab_mr_lkey(end->mr, fab_conn_device(end->conn)),
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = to, .rkey = rkey },
	}, *bad;

	assert_int_equal(fab_post_send(end->conn, &wr, &bad), 0);
}

/* -- peers of the end that serves ---------------------------------------------------------------- */

static void refused(const void *data, uint8_t bytes)
{
	struct end end;

	assert_false(end_connect(&end, data, bytes));
	assert_true(end.rejected);
	assert_int_equal(rblk_le32(end.refusal.magic), PING_MAGIC);
	assert_int_equal(rblk_le16(end.refusal.reason), PING_REFUSED_MALFORMED);
	end_close(&end);
}

static void requests_of_others_are_refused(void **state)
{
	struct ping_hello wrong;

	(void)state;
	refused(NULL, 0);
	wrong = hello(PING_SEND_EVENTS);
	refused(&wrong, sizeof(wrong) - 1);
	wrong.magic ^= 1;
	refused(&wrong, sizeof(wrong));
	wrong = hello(PING_SEND_EVENTS);
	wrong.version = rblk_to_le16(PING_VERSION + 1);
	refused(&wrong, sizeof(wrong));
	wrong = hello(PING_KINDS);
	refused(&wrong, sizeof(wrong));
	wrong = hello(PING_SEND_EVENTS);
	wrong.reserved = 1;
	refused(&wrong, sizeof(wrong));
	still_serves();
}

static void messages_of_another_size_end_the_connection(void **state)
{
	const uint32_t sizes[] = { 0, sizeof(struct ping_message) - 1, sizeof(struct ping_message) + 1 };
	struct end end;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		end_meet(&end, PING_SEND_EVENTS);
		post(&end, IBV_WR_SEND, sizes[i], 0, 0);
		WAIT_FOR(&end, end.gone);
		end_close(&end);
	}
	still_serves();
}

static void nothing_but_the_page_can_be_reached(void **state)
{
	const struct {
		enum ibv_wr_opcode opcode;
		uint64_t offset;
		uint32_t bytes, rkey;
	} cases[] = {
		{ IBV_WR_RDMA_WRITE, 0, PING_BYTES_MAX + 1, 0 },
		{ IBV_WR_RDMA_WRITE, 1, PING_BYTES_MAX, 0 },
		{ IBV_WR_RDMA_READ, PING_BYTES_MAX - 1, 2, 0 },
		{ IBV_WR_RDMA_READ, (uint64_t)-1, 2, 0 },
		{ IBV_WR_RDMA_READ, 0, 64, 1 },
		{ IBV_WR_RDMA_WRITE, 0, 64, 1 },
		/* It takes a receive, which is for messages. */
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 0, 64, 0 },
	};
	struct end end;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		end_meet(&end, PING_RDMA_SIGNALLED);
		post(&end, cases[i].opcode, cases[i].bytes, rblk_le64(end.welcome.address) + cases[i].offset,
		     rblk_le32(end.welcome.rkey) ^ cases[i].rkey);
		WAIT_FOR(&end, end.gone);
		end_close(&end);
	}
	still_serves();
}

/* The key of a connection ends with it. */
static void keys_do_not_outlive_their_connection(void **state)
{
	struct ping_welcome former;
	struct end end;

	(void)state;
	end_meet(&end, PING_RDMA_SIGNALLED);
	former = end.welcome;
	end_close(&end);
	end_meet(&end, PING_RDMA_SIGNALLED);
	post(&end, IBV_WR_RDMA_READ, 64, rblk_le64(former.address), rblk_le32(former.rkey));
	WAIT_FOR(&end, end.gone);
	end_close(&end);
}

static void who_takes_no_answers_holds_nobody_up(void **state)
{
	struct end end;

	(void)state;
	end_meet(&end, PING_SEND_POLLED);
	for (int i = 0; i < 100; i++)
		post(&end, IBV_WR_SEND, sizeof(struct ping_message), 0, 0);
	step(&end);
	still_serves();
	assert_false(end.gone);
	end_close(&end);
	still_serves();
}

static void no_more_than_eight_are_served(void **state)
{
	struct ping_hello right = hello(PING_SEND_EVENTS);
	struct end ends[PEERS], another;

	(void)state;
	for (int i = 0; i < PEERS; i++)
		end_meet(&ends[i], PING_SEND_EVENTS);
	assert_false(end_connect(&another, &right, sizeof(right)));
	assert_int_equal(rblk_le16(another.refusal.reason), PING_REFUSED_BUSY);
	end_close(&another);
	for (int i = 0; i < PEERS; i++)
		end_close(&ends[i]);
	/* Their places are free when their ends have been seen. */
	while (!end_connect(&another, &right, sizeof(right)))
		end_close(&another);
	end_close(&another);
}

static void who_is_silent_is_ended(void **state)
{
	struct end end;

	(void)state;
	serve_end(NULL);
	serve("300ms");
	end_meet(&end, PING_SEND_POLLED);
	WAIT_FOR(&end, end.gone);
	end_close(&end);
	still_serves();
}

/* -- ends that serve the command ----------------------------------------------------------------- */

/* `rblk ping --peer` fails with this reason at an end that welcomes it so. */
static void fails_at(const struct ping_welcome *welcome, bool leave, const char *reason)
{
	const char *const arguments[] = { "--peer", "--count", "3", "--kind", "send-events", uri, NULL };
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_storage bound;
	struct end end;
	char text[4096];
	pid_t pid;
	int out;

	end_open(&end);
	end.welcome = *welcome;
	assert_int_equal(fab_listen(end.fab, (struct sockaddr *)&any, 4, &end.listener), 0);
	fab_listener_address(end.listener, &bound);
	snprintf(uri, sizeof(uri), "rblk+tcp://127.0.0.1:%u", ntohs(((struct sockaddr_in *)&bound)->sin_port));
	pid = command_start(arguments, &out);
	WAIT_FOR(&end, end.established);
	if (leave)
		fab_conn_close(end.conn);
	WAIT_FOR(&end, leave ? end.drained : end.gone);
	assert_int_equal(command_end(pid, out, text), 1);
	if (!strstr(text, reason))
		fail_msg("\"%s\" lacks \"%s\"", text, reason);
	end_close(&end);
}

static void welcomes_are_checked(void **state)
{
	const struct ping_welcome right = {
		.magic = rblk_to_le32(PING_MAGIC),
		.version = rblk_to_le16(PING_VERSION),
		.length = rblk_to_le32(PING_BYTES_MAX),
	};
	struct ping_welcome wrong = right;

	(void)state;
	wrong.magic ^= 1;
	fails_at(&wrong, false, "it is no rblk ping --serve of this version");
	wrong = right;
	wrong.version = 0;
	fails_at(&wrong, false, "it is no rblk ping --serve of this version");
	wrong = right;
	wrong.length = rblk_to_le32(PING_BYTES_MAX - 1);
	fails_at(&wrong, false, "cannot be");
	wrong = right;
	wrong.address = rblk_to_le64(UINT64_MAX);
	fails_at(&wrong, false, "cannot be");
	fails_at(&right, true, "the connection is lost");
}

static int serve_start(void **state)
{
	(void)state;
	serve("1h");
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(requests_of_others_are_refused, serve_start, serve_end),
		cmocka_unit_test_setup_teardown(messages_of_another_size_end_the_connection, serve_start, serve_end),
		cmocka_unit_test_setup_teardown(nothing_but_the_page_can_be_reached, serve_start, serve_end),
		cmocka_unit_test_setup_teardown(keys_do_not_outlive_their_connection, serve_start, serve_end),
		cmocka_unit_test_setup_teardown(who_takes_no_answers_holds_nobody_up, serve_start, serve_end),
		cmocka_unit_test_setup_teardown(no_more_than_eight_are_served, serve_start, serve_end),
		cmocka_unit_test_teardown(who_is_silent_is_ended, serve_end),
		cmocka_unit_test(welcomes_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
