/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes the inputs that the fuzz targets begin with: one valid example of each thing that they
 * decode, made from the structs, so that seeds always match the format. Run by ctest before the
 * targets: fuzz_seeds <directory>.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "proto/secret/secret.h"
#include "proto/tls/tls.h"
#include "proto/wire/wire_check.h"

static const char *root;

/* As fuzz_take() takes them. */
#define FEATURES RBLK_FEATURES_ALL >> 8, RBLK_FEATURES_ALL & 0xff

/* One seed: `head` is what the fuzz target reads before the input of the decoder. */
static void write_seed(const char *target, const char *name, const void *head, size_t head_bytes,
		       const void *data, size_t bytes)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, target);
	if (mkdir(path, 0777) && errno != EEXIST)
		goto err;
	snprintf(path, sizeof(path), "%s/%s/%s", root, target, name);
	file = fopen(path, "wb");
	if (!file)
		goto err;
	if (fwrite(head, 1, head_bytes, file) != head_bytes ||
	    fwrite(data, 1, bytes, file) != bytes) {
		fclose(file);
		goto err;
	}
	if (!fclose(file))
		return;
err:
	fprintf(stderr, "%s: %s\n", path, strerror(errno));
	exit(1);
}

/* A seed must pass its validator, or the search begins in the wrong place. */
static void must_pass(enum rblk_wire_error error, const char *name)
{
	if (!error)
		return;
	fprintf(stderr, "seed %s is not valid: %s\n", name, rblk_wire_error_text(error));
	exit(1);
}

static void write_logins(void)
{
	const struct rblk_wire_login login = {
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_PROTOCOL_VERSION),
		.incarnation = rblk_to_le32(2),
		.features = rblk_to_le32(RBLK_FEATURES_ALL),
		.session_id = { 1 },
		.session_epoch = rblk_to_le64(1),
		.queue_count = rblk_to_le16(4),
		.credits = rblk_to_le16(64),
		.reply_bytes = rblk_to_le32(2048),
		.fence_incarnation = rblk_to_le32(1),
	};
	const struct rblk_wire_accept accept = {
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_PROTOCOL_VERSION),
		.credits = rblk_to_le16(64),
		.incarnation = rblk_to_le32(2),
		.target_instance = { 1 },
		.session_epoch = rblk_to_le64(1),
		.command_bytes = rblk_to_le32(RBLK_COMMAND_BYTES_MAX),
		.max_io_bytes = rblk_to_le32(1 << 20),
		.keepalive_ms = rblk_to_le32(5000),
		.max_batch = rblk_to_le16(RBLK_BATCH_MAX),
	};
	const struct rblk_wire_reject reject = {
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_PROTOCOL_VERSION),
		.reason = rblk_to_le16(RBLK_REJECT_DENIED),
	};

	must_pass(rblk_check_login(&login, sizeof(login)), "login");
	must_pass(rblk_check_accept(&accept, sizeof(accept)), "accept");
	must_pass(rblk_check_reject(&reject, sizeof(reject)), "reject");
	write_seed("fuzz_login", "login", "\0", 1, &login, sizeof(login));
	write_seed("fuzz_login", "accept", "\1", 1, &accept, sizeof(accept));
	write_seed("fuzz_login", "reject", "\2", 1, &reject, sizeof(reject));
}

/* The fields that an opcode needs beside its own. */
static struct rblk_wire_command command_of(u8 opcode, u8 index)
{
	struct rblk_wire_command command = {
		.opcode = opcode,
		.index = index,
		.tag = rblk_to_le16(index),
		.sequence = rblk_to_le32(index),
	};

	if (opcode <= RBLK_OP_EXTENTS || opcode == RBLK_OP_OPEN || opcode == RBLK_OP_CLOSE ||
	    opcode == RBLK_OP_RESERVE || opcode == RBLK_OP_RESERVATIONS)
		command.volume = rblk_to_le32(1);
	if ((opcode <= RBLK_OP_CHECKSUM && opcode != RBLK_OP_FLUSH) || opcode == RBLK_OP_EXTENTS)
		command.blocks = rblk_to_le32(1);
	if (opcode == RBLK_OP_COMPARE_AND_WRITE || opcode == RBLK_OP_RESERVE ||
	    opcode == RBLK_OP_FENCE)
		command.argument = rblk_to_le64(1);
	return command;
}

/* Each opcode alone, payloads in the capsule, all other data in memory. */
static void write_messages(void)
{
	static const u8 contract[] = { FEATURES, RBLK_BATCH_MAX, 0x01, 0x10, 0x00 };
	struct {
		u8 capsule[RBLK_CAPSULE_ALIGN];
		struct rblk_wire_command command;
	} message = { .capsule = { 0 } };
	const struct rblk_wire_command *commands;
	u32 capsule_bytes;
	u16 count;
	u8 opcode;

	for (opcode = 1; opcode < RBLK_OP_MAX; opcode++) {
		bool both = opcode == RBLK_OP_OPEN || opcode == RBLK_OP_AUTHENTICATE;
		bool told = rblk_opcode_direction(opcode) == RBLK_DATA_TO_TARGET || both;
		size_t skip = told ? 0 : sizeof(message.capsule);
		const u8 *start = message.capsule + skip;
		char name[16];

		message.command = command_of(opcode, 0);
		if (rblk_check_command(&message.command, RBLK_FEATURES_ALL) == RBLK_WIRE_OPCODE)
			continue;
		if (told)
			message.command.flags = RBLK_CMD_CAPSULE;
		if (rblk_opcode_direction(opcode) != RBLK_DATA_NONE)
			message.command.segment.length = rblk_to_le32(RBLK_CAPSULE_ALIGN);
		snprintf(name, sizeof(name), "opcode-%u", opcode);
		must_pass(rblk_check_message(start, sizeof(message) - skip, RBLK_FEATURES_ALL, 1,
					     sizeof(message), &commands, &count, &capsule_bytes),
			  name);
		write_seed("fuzz_message", name, contract, sizeof(contract), start,
			   sizeof(message) - skip);
	}
}

/* Two writes in the capsule around a read. */
static void write_batch(void)
{
	static const u8 contract[] = { FEATURES, 8, 0x01, 0x10, 0x00 };
	struct {
		u8 capsule[2 * RBLK_CAPSULE_ALIGN];
		struct rblk_wire_command commands[3];
	} message = { .capsule = { 0 } };
	const struct rblk_wire_command *commands;
	u32 capsule_bytes, i;
	u16 count;

	for (i = 0; i < 3; i++) {
		message.commands[i] = command_of(i == 1 ? RBLK_OP_READ : RBLK_OP_WRITE, (u8)i);
		message.commands[i].segment.length = rblk_to_le32(RBLK_CAPSULE_ALIGN);
		message.commands[i].flags = i == 1 ? RBLK_CMD_IMMEDIATE : RBLK_CMD_CAPSULE;
		if (i == 2)
			message.commands[i].flags |= RBLK_CMD_UNTORN;
	}
	message.commands[2].segment.address = rblk_to_le64(RBLK_CAPSULE_ALIGN);
	must_pass(rblk_check_message(&message, sizeof(message), RBLK_FEATURES_ALL, 8,
				     sizeof(message), &commands, &count, &capsule_bytes),
		  "batch");
	write_seed("fuzz_message", "batch", contract, sizeof(contract), &message, sizeof(message));
}

static void write_replies(void)
{
	static const u8 contract[] = { FEATURES, 0x00, 0x44 }; /* 68 tags */
	const struct rblk_wire_completion replies[] = {
		{ .flags = RBLK_CPL_INVALIDATED, .stored_us = rblk_to_le32(90) },
		{ .tag = rblk_to_le16(1), .status = rblk_to_le16(RBLK_E_BUSY) },
		{ .tag = rblk_to_le16(2), .flags = RBLK_CPL_DIGEST, .digest = rblk_to_le32(7) },
		{ .tag = rblk_to_le16(RBLK_TAG_EVENT), .flags = RBLK_CPL_EVENT,
		  .status = rblk_to_le16(RBLK_EVENT_DRAINING), .result = rblk_to_le64(1ull << 32) },
	};
	const struct rblk_wire_completion *completions;
	u16 count;

	must_pass(rblk_check_reply(replies, sizeof(replies), RBLK_FEATURES_ALL, 68, &completions,
				   &count),
		  "reply");
	write_seed("fuzz_reply", "one", contract, sizeof(contract), replies, sizeof(replies[0]));
	write_seed("fuzz_reply", "four", contract, sizeof(contract), replies, sizeof(replies));
}

static void write_payloads(void)
{
	const struct rblk_wire_identify identify = { .initiator = "host", .software = "rblk 1" };
	const struct rblk_wire_authenticate authenticate = {
		.step = rblk_to_le32(1), .nonce = { 1 }, .name = "key",
	};
	const struct rblk_wire_open open = { .name = "disk" };
	const struct rblk_wire_volume volume = {
		.name = "disk",
		.blocks = rblk_to_le64(1 << 20),
		.block_bytes = rblk_to_le32(512),
		.physical_bytes = rblk_to_le32(4096),
		.max_io_bytes = rblk_to_le32(1 << 20),
		.max_capsule_bytes = rblk_to_le32(4096),
		.untorn_min_bytes = rblk_to_le32(512),
		.untorn_max_bytes = rblk_to_le32(16384),
	};
	const struct rblk_wire_reservation reservation = { .action = RBLK_RESERVE_REGISTER };
	const struct {
		struct rblk_wire_reservation_report head;
		struct rblk_wire_registrant registrants[1];
	} report = {
		.head = { .type = 1, .registrants = rblk_to_le32(1), .total = rblk_to_le32(1) },
		.registrants = { { .key = rblk_to_le64(1), .initiator = "a", .holder = 1 } },
	};
	const struct rblk_wire_extent extents[] = {
		{ .blocks = rblk_to_le64(8) },
		{ .blocks = rblk_to_le64(4), .flags = rblk_to_le32(RBLK_EXTENT_FLAGS_ALL) },
	};

	must_pass(rblk_check_identify(&identify, sizeof(identify)), "identify");
	must_pass(rblk_check_authenticate(&authenticate, sizeof(authenticate)), "authenticate");
	must_pass(rblk_check_open(&open, sizeof(open)), "open");
	must_pass(rblk_check_volume(&volume, sizeof(volume), RBLK_FEATURES_ALL), "volume");
	must_pass(rblk_check_reservation(&reservation, sizeof(reservation)), "reservation");
	must_pass(rblk_check_reservation_report(&report, sizeof(report)), "reservation report");
	write_seed("fuzz_payload", "identify", "\0", 1, &identify, sizeof(identify));
	write_seed("fuzz_payload", "authenticate", "\1", 1, &authenticate, sizeof(authenticate));
	write_seed("fuzz_payload", "open", "\2", 1, &open, sizeof(open));
	write_seed("fuzz_payload", "volume", "\3", 1, &volume, sizeof(volume));
	write_seed("fuzz_payload", "reservation", "\4", 1, &reservation, sizeof(reservation));
	write_seed("fuzz_payload", "reservation_report", "\6", 1, &report, sizeof(report));
	must_pass(rblk_check_extents(extents, sizeof(extents), 2, 12), "extents");
	write_seed("fuzz_payload", "extents", "\5\0\0\0\2\0\0\0\0\0\0\0\14", 13, extents,
		   sizeof(extents));
}

static void write_discovery(void)
{
	const struct rblk_wire_discover query = {
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_DISCOVER_VERSION),
		.type = rblk_to_le16(RBLK_DISCOVER_QUERY),
		.nonce = { 1 },
		.name = "storage1",
	};
	struct rblk_wire_discover answers[2] = { query, query };

	for (unsigned int i = 0; i < 2; i++) {
		answers[i].type = rblk_to_le16(RBLK_DISCOVER_ANSWER);
		answers[i].instance[0] = (u8)(1 + i);
		answers[i].protocol = rblk_to_le16(RBLK_PROTOCOL_VERSION);
		answers[i].portal_count = rblk_to_le16(1);
		answers[i].portals[0] = (struct rblk_wire_portal){
			.address = { 0xfd, 9 }, .port = rblk_to_le16(4430), .kind = RBLK_PORTAL_TCP };
		must_pass(rblk_check_discover(&answers[i], sizeof(answers[i]), RBLK_DISCOVER_ANSWER),
			  "discovery's answer");
	}
	must_pass(rblk_check_discover(&query, sizeof(query), RBLK_DISCOVER_QUERY), "discovery's query");
	write_seed("fuzz_discover", "query", "\0", 1, &query, sizeof(query));
	write_seed("fuzz_discover", "answers", "\1", 1, answers, sizeof(answers));
}

static void write_uris(void)
{
	static const char one[] = "rblk://10.0.0.2/disk",
			  mixed[] = "rblk://a,[::1]:99,rblk+tcp://b:4431,c/v",
			  other[] = "rblk+tcp://a,http://b/v";

	write_seed("fuzz_uri", "one", "", 0, one, strlen(one));
	write_seed("fuzz_uri", "mixed", "", 0, mixed, strlen(mixed));
	write_seed("fuzz_uri", "other", "", 0, other, strlen(other));
}

static void write_secrets(void)
{
	static const char secret[] = "rblk1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
	char text[2048];
	int length = snprintf(text, sizeof(text), "# old\n%s \r\n\n# new\n%s", secret, secret);

	write_seed("fuzz_secret", "two", "", 0, text, (size_t)length);
	length = 0;
	for (unsigned int i = 0; i < 9; i++)
		length += snprintf(text + length, sizeof(text) - (size_t)length, "%s\n", secret);
	write_seed("fuzz_secret", "many", "", 0, text, (size_t)length);
	write_seed("fuzz_secret", "short", "", 0, secret, 40);
}

static struct rblk_secrets *find(void *arg, const char *name)
{
	(void)name;
	return rblk_secrets_ref(arg);
}

/* What an initiator says first, the identity in it, and what the target answers. */
static void write_tls(void)
{
	static const char name[RBLK_NAME_BYTES] = "db1";
	char error[RBLK_SECRET_ERROR_BYTES], path[] = "/tmp/fuzz-seeds-XXXXXX", hello[1024];
	int fd = mkstemp(path), pair[2];
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	struct rblk_tls_context *context, *target;
	struct rblk_secrets *secrets;
	struct rblk_tls *tls, *answering;
	ssize_t bytes;

	if (!file || rblk_secret_write_new(file) || fclose(file) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		exit(1);
	secrets = rblk_secrets_read(path, error);
	unlink(path);
	context = rblk_tls_client(name, secrets);
	tls = rblk_tls_create(context, pair[0]);
	if (rblk_tls_handshake(tls))
		exit(1);
	bytes = recv(pair[1], hello, sizeof(hello), MSG_PEEK);
	write_seed("fuzz_tls", "hello", "\2", 1, hello, bytes < 0 ? 0 : (size_t)bytes);
	write_seed("fuzz_tls", "identity", "\1", 1, "rblk1/db1/0123456789abcdef", 26);
	target = rblk_tls_server(find, secrets);
	answering = rblk_tls_create(target, pair[1]);
	if (rblk_tls_handshake(answering))
		exit(1);
	bytes = recv(pair[0], hello, sizeof(hello), 0);
	write_seed("fuzz_tls", "answer", "\4", 1, hello, bytes < 0 ? 0 : (size_t)bytes);
	rblk_tls_destroy(answering);
	rblk_tls_context_destroy(target);
	rblk_tls_destroy(tls);
	rblk_tls_context_destroy(context);
	rblk_secrets_put(secrets);
	close(pair[0]);
	close(pair[1]);
}

static void write_requests(void)
{
	static const char one[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":{\"word\":\"a\"}}\n",
			  batch[] = "[{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"fail\"},"
				    "{\"jsonrpc\":\"2.0\",\"method\":\"echo\"}]",
			  change[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"change\",\"params\":{\"edits\":["
				     "{\"edit\":\"set\",\"section\":\"initiator i\",\"keys\":"
				     "{\"address\":[\"x\",\"y\"],\"read\":null,\"weight\":\"3\"}},"
				     "{\"edit\":\"remove\",\"section\":\"volume a\"},"
				     "{\"edit\":\"add\",\"section\":\"volume b\",\"keys\":{\"path\":\"/b\"}}]}}";

	write_seed("fuzz_rpc", "one", "", 0, one, strlen(one));
	write_seed("fuzz_rpc", "batch", "", 0, batch, strlen(batch));
	write_seed("fuzz_change", "change", "", 0, change, strlen(change));
}

/* The first byte: names, a Host, a request. */
static void write_http(void)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", host[] = "127.0.0.1:4480",
			  name[] = "disk\"\\\n", page[] = "GET / HTTP/1.1\r\n\r\n",
			  events[] = "GET /events.json?after=17 HTTP/1.1\r\n\r\n",
			  status[] = "GET /status.json HTTP/1.1\r\n\r\n";

	write_seed("fuzz_http", "name", "\0", 1, name, strlen(name));
	write_seed("fuzz_http", "host", "\1", 1, host, strlen(host));
	write_seed("fuzz_http", "request", "\2", 1, request, strlen(request));
	write_seed("fuzz_http", "page", "\2", 1, page, strlen(page));
	write_seed("fuzz_http", "events", "\2", 1, events, strlen(events));
	write_seed("fuzz_http", "status", "\2", 1, status, strlen(status));
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: fuzz_seeds <directory>\n");
		return 2;
	}
	root = argv[1];
	if (mkdir(root, 0777) && errno != EEXIST) {
		fprintf(stderr, "%s: %s\n", root, strerror(errno));
		return 1;
	}
	write_logins();
	write_tls();
	write_messages();
	write_batch();
	write_replies();
	write_payloads();
	write_discovery();
	write_uris();
	write_requests();
	write_http();
	write_secrets();
	return 0;
}
