/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: floods of wrong proofs, of TLS handshakes and of control requests take a bounded amount of
 * the target's memory, and whoever does nothing wrong sends and gets the same messages as without
 * them. Method: threads that flood one daemon without a pause, beside a session whose messages
 * librblk counts; memory after a long flood is compared with memory after a short one.
 */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "proto/core/proof.h"
#include "proto/secret/secret.h"
#include "proto/tls/tls.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"
#include "tests/e2e/secret_file.h"
#include "tests/e2e/session.h"

#define BLOCK 4096u
#define OPERATIONS 2000u /* of the one who does nothing wrong; at the least */
#define THREADS 4u
#define SHORT 500ul /* proofs, handshakes or requests */
#define LONG 3000ul
#define CLIENTS 40u
#define GROWTH_KIB 4096u
#define STATUS "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\"}\n"

static struct e2e_daemon server;
static char folder[] = "/tmp/rblk-floods-XXXXXX";
static struct rblk_secrets *right, *wrong;

/* In a flooding thread no test of the framework may end. */
static void must(bool is, const char *what)
{
	if (is)
		return;
	fprintf(stderr, "a flood: %s: %s\n", what, strerror(errno));
	abort();
}

/* -- floods --------------------------------------------------------------------------------------
 */

/* Fixed but for `done` while its threads run. */
struct flood {
	void (*round)(struct flood *flood, unsigned int n);
	unsigned long most; /* rounds, of all threads */
	atomic_ulong done, answered, refused;
	pthread_t threads[THREADS];
};

static void *flood_run(void *arg)
{
	struct flood *flood = arg;

	for (unsigned int n = 0; atomic_load(&flood->done) < flood->most; n++) {
		flood->round(flood, n);
		atomic_fetch_add(&flood->done, 1);
	}
	return NULL;
}

static void flood_start(struct flood *flood, unsigned long most)
{
	flood->most = most;
	atomic_store(&flood->done, 0);
	atomic_store(&flood->answered, 0);
	atomic_store(&flood->refused, 0);
	for (unsigned int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&flood->threads[i], NULL, flood_run, flood), 0);
}

static void flood_wait(struct flood *flood)
{
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(flood->threads[i], NULL);
}

static int tcp_connect(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_port = htons((uint16_t)atoi(strrchr(server.host, ':') + 1));
	must(fd >= 0 && !connect(fd, (const struct sockaddr *)&address, sizeof(address)),
	     "connect");
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/*
 * By turns: another secret than the target has, which the target has to refuse; the right one, and
 * then nothing more; and the right one, of which the second half of the handshake never comes.
 */
static void handshake(struct flood *flood, unsigned int n)
{
	struct rblk_tls_context *context =
		rblk_tls_client((const char[RBLK_NAME_BYTES]){"db1"}, n % 3 ? right : wrong);
	int fd = tcp_connect(), status;
	struct rblk_tls *tls = rblk_tls_create(context, fd);
	struct pollfd ready = {.fd = fd, .events = POLLIN};

	must(context && tls, "memory");
	for (status = rblk_tls_handshake(tls); !status && n % 3 != 2;
	     status = rblk_tls_handshake(tls))
		must(poll(&ready, 1, 300000) == 1, "no answer to a handshake");
	if (n % 3 == 0)
		must(status < 0, "a wrong key is accepted");
	if (n % 3 == 1)
		must(status == 1, "the right key is refused");
	if (status)
		atomic_fetch_add(status < 0 ? &flood->refused : &flood->answered, 1);
	rblk_tls_destroy(tls);
	rblk_tls_context_destroy(context);
	close(fd);
}

/* AUTHENTICATE; its status. */
static uint16_t authenticate(struct raw *raw, const struct rblk_wire_authenticate *message)
{
	struct rblk_wire_command *command = raw_command(raw, RBLK_CAPSULE_ALIGN, 0);

	memset(raw->memory + RAW_SEND, 0, RBLK_CAPSULE_ALIGN);
	memcpy(raw->memory + RAW_SEND, message, sizeof(*message));
	raw_fill(raw, command, 0, RBLK_OP_AUTHENTICATE, 1);
	command->flags = RBLK_CMD_CAPSULE;
	raw_segment(raw, command, sizeof(*message));
	raw_send(raw, RBLK_CAPSULE_ALIGN + 64);
	return raw_wait(raw, 1);
}

/* A connection with some wrong proofs. */
static void prove(struct flood *flood, unsigned int n)
{
	struct raw raw;

	raw_init(&raw);
	must(raw_connect(&raw, server.host), "a login is refused");
	for (unsigned int i = 0; i < 8; i++) {
		struct rblk_wire_authenticate message;
		struct rblk_wire_proof proof;
		u8 own[RBLK_PROOF_BYTES];

		core_proof_begin(&proof, &raw.login, &raw.accept, NULL);
		memset(proof.initiator_nonce, (int)(n + i), sizeof(proof.initiator_nonce));
		strcpy(proof.name, "db1");
		core_proof_message(&message, 1, proof.initiator_nonce, NULL, proof.name);
		must(authenticate(&raw, &message) == RBLK_OK, "step 1");
		memcpy(proof.target_nonce,
		       ((const struct rblk_wire_authenticate *)(raw.memory + RAW_DATA))->nonce,
		       sizeof(proof.target_nonce));
		rblk_prove(wrong, 0, &proof, CORE_PROOF_INITIATOR, own);
		core_proof_message(&message, 2, proof.initiator_nonce, own, proof.name);
		must(authenticate(&raw, &message) == RBLK_E_DENIED, "a wrong proof is accepted");
		atomic_fetch_add(&flood->refused, 1);
	}
	raw_close(&raw);
}

/* More connections than the daemon takes, each with some requests; in a fourth of the rounds nobody
 * takes the answers. */
static void control(struct flood *flood, unsigned int n)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char text[16 * sizeof(STATUS)] = "", answer[65536];
	struct timeval limit = {.tv_sec = 300};
	int fds[CLIENTS];

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", folder);
	for (unsigned int i = 0; i < 16; i++)
		strcat(text, STATUS);
	for (unsigned int i = 0; i < CLIENTS; i++) {
		fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		must(fds[i] >= 0 &&
			     !connect(fds[i], (const struct sockaddr *)&address, sizeof(address)),
		     "control");
		setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		if (send(fds[i], text, strlen(text), MSG_NOSIGNAL) < 0)
			must(errno == EPIPE || errno == ECONNRESET, "a request");
	}
	for (unsigned int i = 0; i < CLIENTS; i++) {
		ssize_t got = n % 4 == 3 ? 0 : recv(fds[i], answer, sizeof(answer) - 1, 0);

		must(got >= 0 || errno == ECONNRESET, "no answer");
		answer[got > 0 ? got : 0] = '\0';
		if (strstr(answer, "serving"))
			atomic_fetch_add(&flood->answered, 1);
		else if (n % 4 != 3)
			atomic_fetch_add(&flood->refused, 1);
		close(fds[i]);
	}
}

/* -- who does nothing wrong ----------------------------------------------------------------------
 */

struct client {
	struct rblk_session *session;
	struct rblk_volume *volume;
	uint8_t *data;
	unsigned int outstanding;
	int error;
};

static void client_done(void *arg, const struct rblk_result *result)
{
	struct client *client = arg;

	client->outstanding--;
	client->error = result->error;
}

/* A write and a read, one after the other. */
static void client_turn(struct client *client)
{
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(i ? rblk_read(client->volume, client->data, BLOCK, 0, 0,
					       client_done, client)
				   : rblk_write(client->volume, client->data, BLOCK, 0, 0,
						client_done, client),
				 0);
		client->outstanding++;
		while (client->outstanding)
			assert_true(rblk_wait(client->session, -1) >= 0);
		assert_int_equal(client->error, 0);
	}
}

/* What so many turns have cost, each as many as the other. */
static void assert_exact(struct client *client, const struct rblk_stats *before,
			 uint64_t operations)
{
	struct rblk_stats now;

	assert_int_equal(rblk_session_stats(client->session, &now, sizeof(now)), 0);
	assert_int_equal(now.commands - before->commands, operations);
	assert_int_equal(now.sends - before->sends, operations);
	assert_int_equal(now.replies + now.immediates - before->replies - before->immediates,
			 operations);
	assert_int_equal(now.busy_retries + now.retries + now.digest_retries, 0);
}

/* Turns until the flood is over, but so many at the least. */
static void client_beside(struct client *client, struct flood *flood)
{
	struct rblk_stats before;
	uint64_t operations = 0;

	assert_int_equal(rblk_session_stats(client->session, &before, sizeof(before)), 0);
	for (; operations < OPERATIONS || (flood && atomic_load(&flood->done) < flood->most);
	     operations += 2)
		client_turn(client);
	assert_exact(client, &before, operations);
}

static void flooded(void (*round)(struct flood *flood, unsigned int n), unsigned int divisor)
{
	struct rblk_options options = {.size = sizeof(options),
				       .initiator_name = "host",
				       .no_reconnect = true,
				       .polling = RBLK_POLL_NEVER};
	struct flood flood = {.round = round};
	struct client client = {0};
	unsigned int kib;

	client.session = e2e_session_open(e2e_daemon_uri(&server, "ram"), &options);
	client.volume = rblk_volume_open(client.session, NULL, 0);
	client.data = rblk_buffer_alloc(client.session, BLOCK);
	assert_true(client.volume && client.data);
	client_beside(&client, NULL);
	flood_start(&flood, SHORT / divisor);
	client_beside(&client, &flood);
	flood_wait(&flood);
	kib = e2e_daemon_resident_kib(&server);
	flood_start(&flood, LONG / divisor);
	client_beside(&client, &flood);
	flood_wait(&flood);
	print_message("%lu rounds, %lu answered, %lu refused; resident: %u KiB, then %u KiB\n",
		      atomic_load(&flood.done), atomic_load(&flood.answered),
		      atomic_load(&flood.refused), kib, e2e_daemon_resident_kib(&server));
	/* A sanitizer keeps what was freed. */
	if (!E2E_SANITIZED)
		assert_true(e2e_daemon_resident_kib(&server) < kib + GROWTH_KIB);
	assert_true(atomic_load(&flood.refused) > 0 &&
		    (round == prove || atomic_load(&flood.answered) > 0));
	rblk_session_close(client.session);
}

static void wrong_proofs(void **state)
{
	(void)state;
	flooded(prove, 8);
	e2e_daemon_log_wait(&server, "authentication as \"db1\" denied", 1);
}

static void handshakes(void **state)
{
	(void)state;
	flooded(handshake, 1);
}

static void control_requests(void **state)
{
	(void)state;
	flooded(control, CLIENTS);
}

/* -- the daemon ----------------------------------------------------------------------------------
 */

static int start(void **state)
{
	char path[128];

	(void)state;
	assert_non_null(mkdtemp(folder));
	right = secret_file_make(unit_path(folder, "right"), "w");
	wrong = secret_file_make(unit_path(folder, "wrong"), "w");
	unit_file_write(unit_path(folder, "conf"),
			"[volume ram]\nstore = memory\nsize = 1M\n[initiator db1]\nsecret = "
			"%s/right\nwrite = ram\n"
			"[initiator host]\naddress = local\nwrite = ram\n",
			folder);
	snprintf(path, sizeof(path), "%s/control", folder);
	e2e_daemon_start(&server, "--config", unit_path(folder, "conf"), "--control-socket", path, "--reactors", "1",
			 "--memory-lock=no", NULL);
	return 0;
}

static int stop(void **state)
{
	static const char *const files[] = {"right", "wrong", "conf", "control.lock"};

	(void)state;
	rblk_secrets_put(right);
	rblk_secrets_put(wrong);
	assert_int_equal(e2e_daemon_stop(&server), 0);
	for (unsigned int i = 0; i < UNIT_LENGTH(files); i++)
		unlink(unit_path(folder, files[i]));
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_proofs),
		cmocka_unit_test(handshakes),
		cmocka_unit_test(control_requests),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
