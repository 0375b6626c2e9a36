/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an NVMe host that authenticates itself again while the target has no memory to judge it may do nothing else
 * any more, is told so, and its connection ends. Method: a queue on a transport of the test's, and a reactor that only
 * says BUSY.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "proto/secret/secret.h"
#include "target/nvme/authentication.h"

#define CREDITS 4u
#define SECRET "rblk1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"

static struct {
	unsigned int responses;
	uint16_t status; /* of the last one */
	bool finished;
} host;

static void respond(struct nvme_queue *queue, struct nvme_slot *slot, const struct nvme_completion *completion,
		    void *data, uint32_t bytes)
{
	host.responses++;
	host.status = rblk_le16(completion->status) >> 1;
	free(data);
}

static void finish(struct nvme_queue *queue)
{
	host.finished = true;
}

static void wake(struct nvme_queue *queue)
{
}

static void tick(struct nvme_queue *queue, uint32_t ms)
{
}

static const struct nvme_transport transport = {.respond = respond, .finish = finish, .wake = wake, .tick = tick};

static struct rblk_secrets *find(void *arg, const char *name)
{
	return rblk_secrets_ref(arg);
}

static struct rblk_secrets *secrets_make(void)
{
	char error[RBLK_SECRET_ERROR_BYTES], path[] = "unit-nvme-XXXXXX";
	struct rblk_secrets *secrets;
	int fd = mkstemp(path);

	assert_int_equal(write(fd, SECRET, strlen(SECRET)), strlen(SECRET));
	close(fd);
	secrets = rblk_secrets_read(path, error);
	unlink(path);
	assert_non_null(secrets);
	return secrets;
}

static struct nvme_queue *queue_make(void)
{
	static const struct fab_conn conn;
	const struct rblk_wire_accept accept = {.credits = rblk_to_le16(CREDITS)};
	struct nvme_hello hello = {.entries = CREDITS, .login.queue_count = rblk_to_le16(1)};
	struct nvme_queue *queue = nvme_queue_create(&hello, &accept, sizeof(accept), &transport, &conn);

	assert_non_null(queue);
	queue->answered = true;
	return queue;
}

/* Authentication Send of a message, or Receive. */
static void run(struct nvme_queue *queue, const void *message, uint32_t bytes)
{
	struct nvme_command command = {
		.opcode = NVME_FABRICS,
		.flags = NVME_FLAGS_SGL,
		.namespace = rblk_to_le32(message ? NVME_AUTH_SEND : NVME_AUTH_RECEIVE),
		.word = {rblk_to_le32(NVME_AUTH_WORD10), rblk_to_le32(bytes)},
		.length = rblk_to_le32(bytes),
		.sgl = message ? NVME_SGL_CAPSULE : NVME_SGL_TRANSPORT,
	};
	struct nvme_slot *slot = nvme_slot_get(queue, &command);

	assert_non_null(slot);
	if (message) {
		slot->data = malloc(bytes);
		assert_non_null(slot->data);
		memcpy(slot->data, message, bytes);
		slot->bytes = bytes;
	}
	nvme_auth_command(queue, slot);
}

static void busy_ends_it(void **state)
{
	struct {
		struct nvme_auth_negotiate negotiate;
		struct nvme_auth_protocol protocol;
	} begin = {.negotiate = {.head = {.type = NVME_AUTH_COMMON, .id = NVME_AUTH_NEGOTIATE}, .protocols = 1},
		   .protocol = {.id = NVME_AUTH_DHCHAP, .hashes = 1, .groups = 1, .list = {NVME_HASH_SHA256}}};
	struct {
		struct nvme_auth_reply reply;
		uint8_t hashes[2 * 32];
	} reply = {.reply = {.head = {.type = NVME_AUTH_DHCHAP, .id = NVME_AUTH_REPLY}, .hash_bytes = 32}};
	const struct rblk_wire_completion busy = {.tag = rblk_to_le16(CREDITS), .status = rblk_to_le16(RBLK_E_BUSY)};
	struct nvme_command flush = {.opcode = NVME_FLUSH, .flags = NVME_FLAGS_SGL};
	struct rblk_secrets *secrets = secrets_make();
	struct nvme_queue *queue = queue_make();
	uint16_t refused;

	(void)state;
	nvme_auth_init(find, secrets);
	run(queue, &begin, sizeof(begin));
	run(queue, NULL, 512);
	assert_int_equal(host.status, NVME_OK);
	run(queue, &reply, sizeof(reply));
	run(queue, NULL, 512);
	assert_int_equal(host.responses, 3);
	while (host.responses == 3) {
		assert_int_equal(queue->step, NVME_STEP_NONCE);
		nvme_completed(queue, &busy);
	}
	assert_int_equal(host.status, NVME_CONNECT_BUSY);
	assert_true(host.finished);
	nvme_slot_begin(queue, nvme_slot_get(queue, &flush), 0, &refused);
	assert_int_equal(refused, NVME_AUTH_REQUIRED);
	nvme_queue_free(queue);
	rblk_secrets_put(secrets);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(busy_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
