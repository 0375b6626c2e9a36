/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a name that has a secret is had by its proof alone, on each connection: wrong, missing, truncated,
 * replayed and reflected proofs, those of another name than TLS's, and steps out of order get nothing. Method: the
 * bare fabric against a target with secrets; what is refused is checked by its status and reason, and by
 * what the connection may do then.
 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "proto/core/proof.h"
#include "proto/secret/secret.h"
#include "proto/tls/tls.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"
#include "tests/e2e/secret_file.h"

static struct e2e_daemon server;
static char folder[] = "/tmp/rblk-auth-XXXXXX";
static struct rblk_secrets *db1, *db1_next, *db2;

static int start(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(folder));
	db1 = secret_file_make(unit_path(folder, "db1"), "w");
	db1_next = secret_file_make(unit_path(folder, "db1"), "a"); /* both */
	db2 = secret_file_make(unit_path(folder, "db2"), "w");
	unit_file_write(unit_path(folder, "conf"),
			"[volume one]\nstore = memory\nsize = 1M\n[volume two]\nstore = memory\nsize = 1M\n"
			"[volume slow]\nstore = memory\nsize = 1M\n"
			"[initiator db1]\nsecret = %s/db1\nwrite = one\nread = slow\nlimit_rate = 1G\n"
			"[initiator db2]\nsecret = %s/db2\nwrite = two\n"
			"[initiator *]\naddress = local\nread = slow\nlimit_rate = 1\n",
			folder, folder);
	e2e_daemon_start(&server, "--config", unit_path(folder, "conf"), "--reactors", "2", NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	rblk_secrets_put(db1);
	rblk_secrets_put(db1_next);
	rblk_secrets_put(db2);
	unlink(unit_path(folder, "db1"));
	unlink(unit_path(folder, "db2"));
	unlink(unit_path(folder, "conf"));
	rmdir(folder);
	return e2e_daemon_stop(&server);
}

/* -- the exchange ------------------------------------------------------------------------------ */

static uint16_t send_payload(struct raw *raw, uint8_t opcode, const void *payload, uint32_t bytes,
			     uint32_t report)
{
	struct rblk_wire_command *command = raw_command(raw, RBLK_CAPSULE_ALIGN, 0);

	memset(raw->memory + RAW_SEND, 0, RBLK_CAPSULE_ALIGN);
	memcpy(raw->memory + RAW_SEND, payload, bytes);
	raw_fill(raw, command, 0, opcode, 1);
	command->flags = RBLK_CMD_CAPSULE;
	command->segment.length = rblk_to_le32(RBLK_CAPSULE_ALIGN);
	if (report)
		raw_segment(raw, command, report);
	raw_send(raw, RBLK_CAPSULE_ALIGN + 64);
	return raw_wait(raw, 1);
}

static uint16_t identify(struct raw *raw, const char *name)
{
	struct rblk_wire_identify payload = {.software = "test"};

	strcpy(payload.initiator, name);
	return send_payload(raw, RBLK_OP_IDENTIFY, &payload, sizeof(payload), 0);
}

static uint16_t authenticate(struct raw *raw, const struct rblk_wire_authenticate *message)
{
	return send_payload(raw, RBLK_OP_AUTHENTICATE, message, sizeof(*message), sizeof(*message));
}

static const struct rblk_wire_authenticate *report_of(const struct raw *raw)
{
	return (const void *)(raw->memory + RAW_DATA);
}

/* Step 1 as `name`: what is to be proven then. */
static void first(struct raw *raw, const char *name, struct rblk_wire_proof *proof)
{
	struct rblk_wire_authenticate message;

	struct fab_channel room;
	const struct fab_channel *channel = fab_conn_channel(raw->conn, &room);

	core_proof_begin(proof, &raw->login, &raw->accept, channel ? channel->binding : NULL);
	env_random(proof->initiator_nonce, sizeof(proof->initiator_nonce));
	strcpy(proof->name, name);
	core_proof_message(&message, 1, proof->initiator_nonce, NULL, proof->name);
	assert_int_equal(authenticate(raw, &message), RBLK_OK);
	assert_int_equal(rblk_le32(report_of(raw)->step), 1);
	memcpy(proof->target_nonce, report_of(raw)->nonce, sizeof(proof->target_nonce));
}

static uint16_t second(struct raw *raw, const struct rblk_wire_proof *proof,
		       const u8 bytes[RBLK_PROOF_BYTES])
{
	struct rblk_wire_authenticate message;

	core_proof_message(&message, 2, proof->initiator_nonce, bytes, proof->name);
	return authenticate(raw, &message);
}

/* Both steps, with the last of the secrets; the target's own proof must be right if it takes ours. */
static uint16_t prove(struct raw *raw, const char *name, const struct rblk_secrets *secrets)
{
	struct rblk_wire_proof proof;
	u8 own[RBLK_PROOF_BYTES];
	uint16_t status;

	first(raw, name, &proof);
	rblk_prove(secrets, rblk_secrets_count(secrets) - 1, &proof, CORE_PROOF_INITIATOR, own);
	status = second(raw, &proof, own);
	if (status == RBLK_OK)
		assert_true(rblk_proof_find(secrets, &proof, CORE_PROOF_TARGET,
					    report_of(raw)->proof) >= 0);
	return status;
}

static void assert_denied(const struct raw *raw, uint16_t status, enum rblk_denied why)
{
	assert_int_equal(status, RBLK_E_DENIED);
	assert_int_equal(rblk_le64(raw->last[1].result), why);
}

/* -- over TLS; linked with --wrap=fab_connect ---------------------------------------------------- */

static struct rblk_tls_context *tls; /* NULL: without */

int __real_fab_connect(struct fab *fab, const struct sockaddr *addr, const struct fab_conn_options *options,
		       fab_prepare_fn prepare, struct fab_conn **conn);
int __wrap_fab_connect(struct fab *fab, const struct sockaddr *addr, const struct fab_conn_options *options,
		       fab_prepare_fn prepare, struct fab_conn **conn);
int __wrap_fab_connect(struct fab *fab, const struct sockaddr *addr, const struct fab_conn_options *options,
		       fab_prepare_fn prepare, struct fab_conn **conn)
{
	struct fab_conn_options own = *options;

	own.tls = tls;
	return __real_fab_connect(fab, addr, &own, prepare, conn);
}

static void connected(struct raw *raw)
{
	raw_init(raw);
	raw->login.queue_count = rblk_to_le16(2);
	assert_true(raw_connect(raw, server.host));
}

/* -- cases ------------------------------------------------------------------------------------- */

static void a_proof_gives_the_name_and_its_rights(void **state)
{
	const struct rblk_secrets *all[] = {db1, db1_next};
	struct raw raw;

	(void)state;
	/* db1's file has a second secret since `db1` was read: both are valid. */
	for (size_t i = 0; i < UNIT_LENGTH(all); i++) {
		connected(&raw);
		assert_int_equal(prove(&raw, "db1", all[i]), RBLK_OK);
		assert_int_equal(identify(&raw, "db1"), RBLK_OK);
		assert_true(raw_open(&raw, "one"));
		assert_false(raw_open(&raw, "two"));
		assert_denied(&raw, identify(&raw, "db2"), RBLK_DENIED_NAME);
		assert_denied(&raw, prove(&raw, "db2", db2), RBLK_DENIED_NAME);
		/* Again is allowed, and changes nothing. */
		assert_int_equal(prove(&raw, "db1", all[i]), RBLK_OK);
		assert_true(raw_open(&raw, "one"));
		raw_close(&raw);
	}
}

static void the_name_is_not_had_without(void **state)
{
	struct raw raw;

	(void)state;
	connected(&raw);
	assert_denied(&raw, identify(&raw, "db1"), RBLK_DENIED_UNPROVEN);
	assert_int_equal(identify(&raw, "other"), RBLK_OK);
	assert_false(raw_open(&raw, "one"));
	assert_int_equal(rblk_le64(raw.last[0].result), RBLK_DENIED_RULES);
	/* A proof may still follow, and is what counts. */
	assert_int_equal(prove(&raw, "db1", db1), RBLK_OK);
	assert_true(raw_open(&raw, "one"));
	raw_close(&raw);
}

static void wrong_proofs_get_nothing(void **state)
{
	u8 own[RBLK_PROOF_BYTES], none[RBLK_PROOF_BYTES] = {0};
	struct rblk_wire_proof proof;
	struct raw raw;

	(void)state;
	connected(&raw);
	assert_denied(&raw, prove(&raw, "db1", db2), RBLK_DENIED_PROOF);
	assert_denied(&raw, prove(&raw, "nobody", db1), RBLK_DENIED_PROOF);
	first(&raw, "db1", &proof);
	rblk_prove(db1, 0, &proof, CORE_PROOF_INITIATOR, own);
	own[31] ^= 1;
	assert_denied(&raw, second(&raw, &proof, own), RBLK_DENIED_PROOF);
	own[31] ^= 1;
	/* The right one is too late: the wrong one has ended the exchange. */
	assert_int_equal(second(&raw, &proof, own), RBLK_E_INVALID);
	/* Truncated, and none at all. */
	first(&raw, "db1", &proof);
	rblk_prove(db1, 0, &proof, CORE_PROOF_INITIATOR, own);
	memset(own + 16, 0, 16);
	assert_denied(&raw, second(&raw, &proof, own), RBLK_DENIED_PROOF);
	first(&raw, "db1", &proof);
	assert_denied(&raw, second(&raw, &proof, none), RBLK_DENIED_PROOF);
	/* In the target's role. */
	first(&raw, "db1", &proof);
	rblk_prove(db1, 0, &proof, CORE_PROOF_TARGET, own);
	assert_denied(&raw, second(&raw, &proof, own), RBLK_DENIED_PROOF);
	assert_denied(&raw, identify(&raw, "db1"), RBLK_DENIED_UNPROVEN);
	assert_false(raw_open(&raw, "one"));
	raw_close(&raw);
	e2e_daemon_log_wait(&server, "authentication as \"db1\" denied: the target has another secret", 1);
}

static void replayed_proofs_get_nothing(void **state)
{
	struct rblk_wire_proof proof, again;
	u8 own[RBLK_PROOF_BYTES];
	struct raw raw, other;

	(void)state;
	connected(&raw);
	first(&raw, "db1", &proof);
	rblk_prove(db1, 0, &proof, CORE_PROOF_INITIATOR, own);
	/* On another connection, whose target has another nonce; then with the same initiator's. */
	connected(&other);
	assert_int_equal(second(&other, &proof, own), RBLK_E_INVALID);
	first(&other, "db1", &again);
	assert_int_equal(second(&other, &proof, own), RBLK_E_INVALID); /* not its nonce */
	first(&other, "db1", &again);
	assert_denied(&other, second(&other, &again, own), RBLK_DENIED_PROOF);
	assert_int_equal(second(&raw, &proof, own), RBLK_OK);
	/* Once is all. */
	assert_int_equal(second(&raw, &proof, own), RBLK_E_INVALID);
	/* For another name than step 1 was for. */
	first(&other, "db2", &again);
	strcpy(again.name, "db1");
	rblk_prove(db1, 0, &again, CORE_PROOF_INITIATOR, own);
	assert_int_equal(second(&other, &again, own), RBLK_E_INVALID);
	raw_close(&other);
	raw_close(&raw);
}

/* With the session's id from the network, somebody connects queue 1, and queue 0 anew. */
static void each_connection_is_proven(void **state)
{
	struct raw raw, queue, thief;
	uint32_t handle;

	(void)state;
	connected(&raw);
	assert_int_equal(prove(&raw, "db1", db1), RBLK_OK);
	handle = raw_open(&raw, "one");
	assert_true(handle);

	raw_init(&thief);
	thief.login = raw.login;
	thief.login.queue_index = rblk_to_le16(1);
	assert_true(raw_connect(&thief, server.host));
	raw_io(&thief, RBLK_OP_READ, 1, handle, 0, 1, 512);
	assert_int_equal(raw_wait(&thief, 1), RBLK_E_DENIED);
	assert_int_equal(raw_simple_numbers(&thief, RBLK_OP_FENCE, 2, 0, 1), RBLK_E_DENIED);
	assert_int_equal(raw_simple(&thief, RBLK_OP_KEEPALIVE, 3), RBLK_OK);
	assert_denied(&thief, prove(&thief, "db1", db2), RBLK_DENIED_PROOF);
	assert_denied(&thief, prove(&thief, "db2", db2), RBLK_DENIED_NAME);
	raw_io(&thief, RBLK_OP_READ, 1, handle, 0, 1, 512);
	assert_int_equal(raw_wait(&thief, 1), RBLK_E_DENIED);
	raw_close(&thief);

	raw_init(&queue);
	queue.login = raw.login;
	queue.login.queue_index = rblk_to_le16(1);
	queue.login.incarnation = rblk_to_le32(2);
	assert_true(raw_connect(&queue, server.host));
	assert_int_equal(prove(&queue, "db1", db1), RBLK_OK);
	raw_io(&queue, RBLK_OP_READ, 1, handle, 0, 1, 512);
	assert_int_equal(raw_wait(&queue, 1), RBLK_OK);

	raw_init(&thief);
	thief.login = raw.login;
	thief.login.incarnation = rblk_to_le32(2);
	assert_true(raw_connect(&thief, server.host));
	assert_denied(&thief, identify(&thief, "db1"), RBLK_DENIED_UNPROVEN);
	assert_false(raw_open(&thief, "one"));
	raw_io(&thief, RBLK_OP_READ, 1, handle, 0, 1, 512);
	assert_int_equal(raw_wait(&thief, 1), RBLK_E_DENIED);
	assert_int_equal(prove(&thief, "db1", db1), RBLK_OK);
	raw_io(&thief, RBLK_OP_READ, 1, handle, 0, 1, 512);
	assert_int_equal(raw_wait(&thief, 1), RBLK_OK);
	raw_close(&thief);
	raw_close(&queue);
	raw_close(&raw);
}

/* A COMPARE_AND_WRITE of zeroes by zeroes. */
static uint16_t compare_and_write(struct raw *raw, uint32_t handle, uint64_t number, uint8_t flags)
{
	struct rblk_wire_command *command = raw_command(raw, 0, 0);

	memset(raw->memory + RAW_DATA, 0, 1024);
	raw_fill(raw, command, 0, RBLK_OP_COMPARE_AND_WRITE, 1);
	command->flags = flags;
	command->volume = rblk_to_le32(handle);
	command->blocks = rblk_to_le32(1);
	command->argument = rblk_to_le64(number);
	raw_segment(raw, command, 1024);
	raw_send(raw, 64);
	return raw_wait(raw, 1);
}

static uint16_t reserve(struct raw *raw, uint32_t handle, uint64_t number)
{
	struct rblk_wire_reservation payload = {.action = RBLK_RESERVE_REGISTER, .new_key = rblk_to_le64(1)};
	struct rblk_wire_command *command = raw_command(raw, RBLK_CAPSULE_ALIGN, 0);

	memset(raw->memory + RAW_SEND, 0, RBLK_CAPSULE_ALIGN);
	memcpy(raw->memory + RAW_SEND, &payload, sizeof(payload));
	raw_fill(raw, command, 0, RBLK_OP_RESERVE, 1);
	command->flags = RBLK_CMD_CAPSULE;
	command->volume = rblk_to_le32(handle);
	command->argument = rblk_to_le64(number);
	command->segment.length = rblk_to_le32(RBLK_CAPSULE_ALIGN);
	raw_send(raw, RBLK_CAPSULE_ALIGN + 64);
	return raw_wait(raw, 1);
}

/* F8: what the session has answered is neither read nor taken from it by a connection that has proven nothing. */
static void numbers_are_the_owners(void **state)
{
	struct raw raw, thief;
	uint32_t handle;

	(void)state;
	connected(&raw);
	assert_int_equal(prove(&raw, "db1", db1), RBLK_OK);
	handle = raw_open(&raw, "one");
	assert_int_equal(compare_and_write(&raw, handle, 1, 0), RBLK_OK);

	raw_init(&thief);
	thief.login = raw.login;
	thief.login.queue_index = rblk_to_le16(1);
	assert_true(raw_connect(&thief, server.host));
	assert_int_equal(compare_and_write(&thief, handle, 1, RBLK_CMD_RETRY), RBLK_E_DENIED);
	for (unsigned int i = 0; i < RBLK_OPERATIONS_MAX; i++) {
		assert_int_equal(compare_and_write(&thief, handle, (1ull << 40) + i, 0), RBLK_E_DENIED);
		assert_int_equal(reserve(&thief, handle, (1ull << 41) + i), RBLK_E_DENIED);
	}
	raw_close(&thief);

	/* Nor does it take a handle that is none. */
	for (unsigned int i = 0; i < RBLK_OPERATIONS_MAX; i++) {
		assert_int_equal(compare_and_write(&raw, handle + 1, (1ull << 40) + i, 0), RBLK_E_NO_VOLUME);
		assert_int_equal(reserve(&raw, handle + 1, (1ull << 41) + i), RBLK_E_NO_VOLUME);
	}
	assert_int_equal(compare_and_write(&raw, handle, 1, RBLK_CMD_RETRY), RBLK_OK);
	assert_int_equal(compare_and_write(&raw, handle, 2, 0), RBLK_OK);
	assert_int_equal(reserve(&raw, handle, 3), RBLK_OK);
	raw_close(&raw);
}

/* Queue 0 without a proof is told no event, so that it cannot confirm one in the owner's place. */
static void events_are_the_owners(void **state)
{
	unsigned int before = e2e_daemon_log_count(&server, "reload: ");
	struct raw raw, thief;

	(void)state;
	connected(&raw);
	assert_int_equal(prove(&raw, "db1", db1), RBLK_OK);
	assert_true(raw_open(&raw, "one"));
	raw_init(&thief);
	thief.login = raw.login;
	thief.login.incarnation = rblk_to_le32(2);
	thief.login.features = rblk_to_le32(RBLK_FEATURE_EVENTS);
	assert_true(raw_connect(&thief, server.host));
	kill(server.pid, SIGHUP);
	e2e_daemon_log_wait(&server, "reload: ", before + 1);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(raw_simple_numbers(&thief, RBLK_OP_KEEPALIVE, 1, 0, 1), RBLK_OK);
	assert_int_equal(rblk_le64(thief.event.result), 0);
	assert_int_equal(prove(&thief, "db1", db1), RBLK_OK);
	/* The answer of the proof may have left before the event. */
	assert_int_equal(raw_simple(&thief, RBLK_OP_KEEPALIVE, 1), RBLK_OK);
	assert_int_equal(rblk_le64(thief.event.result) >> 32, 1);
	assert_int_equal(rblk_le16(thief.event.status), RBLK_EVENT_LIST_CHANGED);
	raw_close(&thief);
	raw_close(&raw);
}

/* A connection that was there before the session had proven a name is ended. */
static void earlier_connections_end(void **state)
{
	struct raw raw, early;

	(void)state;
	connected(&raw);
	assert_int_equal(identify(&raw, "other"), RBLK_OK);
	raw_init(&early);
	early.login = raw.login;
	early.login.queue_index = rblk_to_le16(1);
	assert_true(raw_connect(&early, server.host));
	assert_int_equal(raw_simple(&early, RBLK_OP_KEEPALIVE, 1), RBLK_OK);
	assert_int_equal(prove(&raw, "db1", db1), RBLK_OK);
	raw_wait_gone(&early);
	raw_close(&early);
	raw_close(&raw);
}

/* What it has opened without a name is limited as the name is from the proof on: not to a byte a second. */
static void limits_follow_the_proof(void **state)
{
	struct raw raw;
	uint32_t handle;

	(void)state;
	connected(&raw);
	handle = raw_open(&raw, "slow");
	assert_true(handle);
	assert_int_equal(prove(&raw, "db1", db1), RBLK_OK);
	for (unsigned int i = 0; i < 4; i++) {
		raw_io(&raw, RBLK_OP_READ, 1, handle, 0, 1, 512);
		assert_int_equal(raw_wait(&raw, 1), RBLK_OK);
	}
	raw_close(&raw);
}

/* TLS and AUTHENTICATE are of one name, and the proof of one connection. */
static void tls_has_the_same_name(void **state)
{
	static const char name[RBLK_NAME_BYTES] = "db2";
	struct rblk_wire_proof proof;
	u8 own[RBLK_PROOF_BYTES];
	struct raw raw, thief;

	(void)state;
	connected(&raw);
	assert_int_equal(prove(&raw, "db1", db1), RBLK_OK);
	tls = rblk_tls_client(name, db2);
	assert_non_null(tls);
	/* Whoever came as db2 is nobody else, with the right secret, and in the session of another. */
	raw_init(&thief);
	thief.login = raw.login;
	thief.login.queue_index = rblk_to_le16(1);
	assert_true(raw_connect(&thief, server.host));
	assert_denied(&thief, prove(&thief, "db1", db1), RBLK_DENIED_NAME);
	raw_close(&thief);
	raw_close(&raw);
	connected(&raw);
	assert_denied(&raw, prove(&raw, "db1", db1), RBLK_DENIED_NAME);
	assert_denied(&raw, identify(&raw, "other"), RBLK_DENIED_NAME);
	assert_denied(&raw, identify(&raw, "db2"), RBLK_DENIED_UNPROVEN);
	assert_false(raw_open(&raw, "two"));
	/* A proof that was made without TLS, or within another. */
	first(&raw, "db2", &proof);
	memset(proof.channel, 0, sizeof(proof.channel));
	rblk_prove(db2, 0, &proof, CORE_PROOF_INITIATOR, own);
	assert_denied(&raw, second(&raw, &proof, own), RBLK_DENIED_PROOF);
	assert_int_equal(prove(&raw, "db2", db2), RBLK_OK);
	assert_true(raw_open(&raw, "two"));
	raw_close(&raw);
	rblk_tls_context_destroy(tls);
	tls = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_follow_the_proof),
		cmocka_unit_test(a_proof_gives_the_name_and_its_rights),
		cmocka_unit_test(the_name_is_not_had_without),
		cmocka_unit_test(wrong_proofs_get_nothing),
		cmocka_unit_test(replayed_proofs_get_nothing),
		cmocka_unit_test(each_connection_is_proven),
		cmocka_unit_test(numbers_are_the_owners),
		cmocka_unit_test(events_are_the_owners),
		cmocka_unit_test(earlier_connections_end),
		cmocka_unit_test(tls_has_the_same_name),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
