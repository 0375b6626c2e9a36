/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The exchange: the host negotiates, is challenged and replies; success1 and success2 end it, a failure ends the
 * connection. prove.c has what secrets say of a reply, and the proof to rblk. All that comes here is a stranger's.
 */
#include "target/nvme/authentication.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"

static const uint8_t hashes[] = {NVME_HASH_SHA256, NVME_HASH_SHA384, NVME_HASH_SHA512};
static const uint8_t groups[] = {NVME_DH_3072, NVME_DH_2048, NVME_DH_4096, NVME_DH_6144, NVME_DH_8192, NVME_DH_NULL};

/* -- state --------------------------------------------------------------------------------------- */

/* But for its number, which a failure has. */
static void exchange_forget(struct nvme_authentication *auth)
{
	uint16_t transaction = auth->terms.transaction;

	nvme_dh_job_free(auth->job);
	rblk_secrets_put(auth->secrets);
	auth->job = NULL;
	auth->secrets = NULL;
	auth->computes = auth->proves = false;
	auth->secret = -1;
	OPENSSL_cleanse(&auth->terms, sizeof(auth->terms));
	auth->terms.transaction = transaction;
	OPENSSL_cleanse(auth->response, sizeof(auth->response));
}

/* NULL: no memory. */
static struct nvme_authentication *auth_get(struct nvme_queue *queue)
{
	if (!queue->report)
		queue->report = malloc(NVME_REPORT_BYTES);
	if (!queue->authentication)
		queue->authentication = calloc(1, sizeof(*queue->authentication));
	return queue->report ? queue->authentication : NULL;
}

bool nvme_auth_begin(struct nvme_queue *queue)
{
	struct rblk_secrets *secrets = nvme_auth_secrets(queue);
	bool asks = secrets || queue->controller->proven;

	rblk_secrets_put(secrets);
	if (!asks)
		return false;
	if (!auth_get(queue)) {
		queue->transport->fail(queue, -ENOMEM);
		return true;
	}
	queue->authentication->deadline_ns = env_now_ns() + NVME_AUTH_MS * 1000000ull;
	if (queue->hello.tls)
		nvme_auth_secured(queue);
	else
		nvme_respond_bars(queue);
	return true;
}

void nvme_auth_free(struct nvme_queue *queue)
{
	if (!queue->authentication)
		return;
	exchange_forget(queue->authentication);
	free(queue->authentication);
}

bool nvme_auth_bars(const struct nvme_queue *queue)
{
	const struct nvme_authentication *auth = queue->authentication;

	/* By TLS it has done so before Connect; but it may do so again, and fail. */
	return auth && !queue->answered && !(queue->hello.tls && auth->state == NVME_AUTH_IDLE);
}

bool nvme_auth_is_command(const struct nvme_command *command)
{
	uint8_t type = rblk_le32(command->namespace) & 0xff;

	return command->opcode == NVME_FABRICS && (type == NVME_AUTH_SEND || type == NVME_AUTH_RECEIVE);
}

static void auth_over(struct nvme_queue *queue)
{
	struct nvme_authentication *auth = queue->authentication;

	exchange_forget(auth);
	auth->state = NVME_AUTH_IDLE;
	queue->answered = true;
	nvme_event_next(queue);
}

/* -- what the host receives ---------------------------------------------------------------------- */

static void head_fill(const struct nvme_authentication *auth, struct nvme_auth_head *head, uint8_t id)
{
	head->type = id == NVME_AUTH_FAILURE1 ? NVME_AUTH_COMMON : NVME_AUTH_DHCHAP;
	head->id = id;
	head->transaction = rblk_to_le16(auth->terms.transaction);
}

static uint32_t challenge_fill(const struct nvme_authentication *auth, uint8_t *message)
{
	struct nvme_auth_challenge *challenge = (void *)message;
	uint32_t bytes = nvme_chap_hash_bytes(auth->terms.hash), public_bytes = nvme_dh_bytes(auth->group);

	head_fill(auth, &challenge->head, NVME_AUTH_CHALLENGE);
	challenge->hash_bytes = (__u8)bytes;
	challenge->hash = auth->terms.hash;
	challenge->group = auth->group;
	challenge->public_bytes = rblk_to_le16((uint16_t)public_bytes);
	challenge->sequence = rblk_to_le32(auth->terms.sequence);
	memcpy(challenge + 1, auth->terms.challenge, bytes);
	if (auth->job)
		memcpy(message + sizeof(*challenge) + bytes, nvme_dh_job_public(auth->job), public_bytes);
	return (uint32_t)sizeof(*challenge) + bytes + public_bytes;
}

static uint32_t success_fill(const struct nvme_authentication *auth, uint8_t *message)
{
	struct nvme_auth_success1 *success = (void *)message;
	uint32_t bytes = nvme_chap_hash_bytes(auth->terms.hash);

	head_fill(auth, &success->head, NVME_AUTH_SUCCESS1);
	success->hash_bytes = (__u8)bytes;
	success->responds = auth->challenged;
	if (!auth->challenged)
		return sizeof(*success);
	memcpy(success + 1, auth->response, bytes);
	return (uint32_t)sizeof(*success) + bytes;
}

static uint32_t failure_fill(const struct nvme_authentication *auth, uint8_t *message)
{
	struct nvme_auth_fail *fail = (void *)message;

	head_fill(auth, &fail->head, NVME_AUTH_FAILURE1);
	fail->reason = 1;
	fail->explanation = auth->failure;
	return sizeof(*fail);
}

/* False: the host has not enough room for it. */
static bool message_send(struct nvme_queue *queue, struct nvme_slot *slot, const uint8_t *message, uint32_t bytes)
{
	uint32_t room = nvme_data_length(queue, &slot->command);
	uint8_t *data = room < bytes ? NULL : calloc(1, room);

	if (!data) {
		nvme_respond(queue, slot, room < bytes ? NVME_BAD_FIELD | NVME_NO_RETRY : NVME_INTERNAL, 0);
		return false;
	}
	memcpy(data, message, bytes);
	nvme_respond_data(queue, slot, data, room);
	return true;
}

/* Its next message is ready, and the host asks for it. */
static void receive_answer(struct nvme_queue *queue)
{
	struct nvme_authentication *auth = queue->authentication;
	uint8_t message[sizeof(struct nvme_auth_challenge) + NVME_HASH_MAX + NVME_DH_MAX] = {0};
	struct nvme_slot *slot = auth->receive;

	auth->receive = NULL;
	switch (auth->state) {
	case NVME_AUTH_CHALLENGES:
		if (message_send(queue, slot, message, challenge_fill(auth, message)))
			auth->state = NVME_AUTH_AWAITS_REPLY;
		break;
	case NVME_AUTH_SUCCEEDS:
		if (!message_send(queue, slot, message, success_fill(auth, message)))
			break;
		auth->state = NVME_AUTH_AWAITS_SUCCESS2;
		if (!auth->challenged)
			auth_over(queue);
		break;
	default:
		if (auth->status)
			nvme_respond(queue, slot, auth->status, 0);
		else
			message_send(queue, slot, message, failure_fill(auth, message));
		queue->transport->finish(queue);
	}
	queue->transport->wake(queue);
}

static bool is_ready(const struct nvme_authentication *auth)
{
	if (auth->computes || auth->proves)
		return false;
	return auth->state == NVME_AUTH_CHALLENGES || auth->state == NVME_AUTH_SUCCEEDS ||
	       auth->state == NVME_AUTH_FAILS;
}

static void receive_check(struct nvme_queue *queue)
{
	if (queue->authentication->receive && is_ready(queue->authentication))
		receive_answer(queue);
}

static void receive(struct nvme_queue *queue, struct nvme_slot *slot)
{
	struct nvme_authentication *auth = queue->authentication;

	if (auth->receive || auth->state == NVME_AUTH_IDLE || auth->state == NVME_AUTH_AWAITS_REPLY ||
	    auth->state == NVME_AUTH_AWAITS_SUCCESS2) {
		nvme_respond(queue, slot, NVME_BAD_SEQUENCE | NVME_NO_RETRY, 0);
		return;
	}
	auth->receive = slot;
	receive_check(queue);
}

/* The host hears it when it asks, and may do nothing else, also if this was not its first time. */
static void fail(struct nvme_queue *queue, enum nvme_auth_failure why)
{
	struct nvme_authentication *auth = queue->authentication;

	if (queue->answered)
		auth->deadline_ns = env_now_ns() + NVME_AUTH_MS * 1000000ull;
	queue->answered = false;
	exchange_forget(auth);
	auth->state = NVME_AUTH_FAILS;
	auth->failure = (uint8_t)why;
	receive_check(queue);
}

/* -- what it sends ------------------------------------------------------------------------------- */

/* The first of `own` that is in the list; -1: none. */
static int choose(const uint8_t *own, size_t count, const uint8_t *list, uint8_t listed)
{
	for (size_t i = 0; i < count; i++)
		if (memchr(list, own[i], listed))
			return own[i];
	return -1;
}

static void compute(struct nvme_queue *queue)
{
	struct nvme_authentication *auth = queue->authentication;
	bool well;

	auth->computes = !nvme_dh_job_run(auth->job, &well);
	queue->transport->tick(queue, NVME_AUTH_POLL_MS);
}

static void negotiated(struct nvme_queue *queue, int hash, int group)
{
	struct nvme_authentication *auth = queue->authentication;

	auth->terms.hash = (uint8_t)hash;
	auth->group = (uint8_t)group;
	env_random(auth->terms.challenge, sizeof(auth->terms.challenge));
	env_random(&auth->terms.sequence, sizeof(auth->terms.sequence));
	auth->terms.sequence |= 1; /* 0 is none */
	auth->state = NVME_AUTH_CHALLENGES;
	if (group == NVME_DH_NULL)
		return;
	auth->job = nvme_dh_job_create(auth->group, queue->conn->network);
	if (auth->job)
		compute(queue);
	else
		fail(queue, NVME_AUTH_FAILED);
}

static void negotiate(struct nvme_queue *queue, const uint8_t *message, uint32_t bytes)
{
	const struct nvme_auth_negotiate *told = (const void *)message;
	const struct nvme_auth_protocol *protocol = (const void *)(told + 1);
	struct nvme_authentication *auth = queue->authentication;
	int hash, group;

	if (bytes < sizeof(*told) + sizeof(*protocol) || !told->protocols ||
	    bytes != sizeof(*told) + told->protocols * sizeof(*protocol)) {
		fail(queue, NVME_AUTH_BAD_PAYLOAD);
		return;
	}
	auth->secrets = nvme_auth_secrets(queue);
	for (unsigned int i = 1; i < told->protocols && protocol->id != NVME_AUTH_DHCHAP; i++)
		protocol++;
	if (told->secure_channel) {
		fail(queue, NVME_AUTH_NO_SECURE_CHANNEL);
	} else if (!auth->secrets || protocol->id != NVME_AUTH_DHCHAP) {
		fail(queue, NVME_AUTH_NO_PROTOCOL);
	} else if (protocol->hashes > NVME_AUTH_LIST_GROUPS || protocol->groups > NVME_AUTH_LIST_GROUPS) {
		fail(queue, NVME_AUTH_BAD_PAYLOAD);
	} else {
		hash = choose(hashes, sizeof(hashes), protocol->list, protocol->hashes);
		group = choose(groups, sizeof(groups), protocol->list + NVME_AUTH_LIST_GROUPS, protocol->groups);
		if (hash < 0 || group < 0)
			fail(queue, hash < 0 ? NVME_AUTH_NO_HASH : NVME_AUTH_NO_GROUP);
		else
			negotiated(queue, hash, group);
	}
}

/* The reply is here, and so is the shared secret of a group. */
static void judge(struct nvme_queue *queue)
{
	struct nvme_authentication *auth = queue->authentication;

	nvme_auth_judge(queue);
	auth->state = NVME_AUTH_SUCCEEDS;
	auth->proves = true;
	nvme_auth_next(queue);
}

static void reply(struct nvme_queue *queue, const uint8_t *message, uint32_t bytes)
{
	const struct nvme_auth_reply *told = (const void *)message;
	struct nvme_authentication *auth = queue->authentication;
	uint32_t hash_bytes = nvme_chap_hash_bytes(auth->terms.hash), public_bytes = nvme_dh_bytes(auth->group);
	const uint8_t *data = (const uint8_t *)(told + 1);

	if (bytes != sizeof(*told) + 2 * hash_bytes + public_bytes || told->hash_bytes != hash_bytes ||
	    rblk_le16(told->public_bytes) != public_bytes || told->challenges > 1) {
		fail(queue, NVME_AUTH_BAD_PAYLOAD);
		return;
	}
	memcpy(auth->response, data, hash_bytes);
	memcpy(auth->host_challenge, data + hash_bytes, hash_bytes);
	auth->host_sequence = rblk_le32(told->sequence);
	auth->challenged = told->challenges;
	/* Its own challenge back: it wants the target to answer for it. */
	if (auth->challenged &&
	    (!auth->host_sequence || !memcmp(auth->host_challenge, auth->terms.challenge, hash_bytes))) {
		fail(queue, NVME_AUTH_BAD_PAYLOAD);
		return;
	}
	auth->state = NVME_AUTH_SUCCEEDS;
	if (!auth->job) {
		judge(queue);
		return;
	}
	nvme_dh_job_peer(auth->job, data + 2 * hash_bytes);
	compute(queue);
}

static void message_take(struct nvme_queue *queue, const uint8_t *message, uint32_t bytes)
{
	const struct nvme_auth_head *head = (const void *)message;
	struct nvme_authentication *auth = queue->authentication;
	bool begins = head->type == NVME_AUTH_COMMON && head->id == NVME_AUTH_NEGOTIATE;

	if (head->type == NVME_AUTH_COMMON && head->id == NVME_AUTH_FAILURE2) {
		queue->transport->finish(queue);
		return;
	}
	if (auth->state == NVME_AUTH_IDLE)
		auth->terms.transaction = rblk_le16(head->transaction);
	if (auth->state == NVME_AUTH_IDLE && begins) {
		negotiate(queue, message, bytes);
		return;
	}
	if (begins || head->type != NVME_AUTH_DHCHAP ||
	    !((auth->state == NVME_AUTH_AWAITS_REPLY && head->id == NVME_AUTH_REPLY) ||
	      (auth->state == NVME_AUTH_AWAITS_SUCCESS2 && head->id == NVME_AUTH_SUCCESS2)))
		fail(queue, NVME_AUTH_BAD_MESSAGE);
	else if (rblk_le16(head->transaction) != auth->terms.transaction)
		fail(queue, NVME_AUTH_BAD_PAYLOAD);
	else if (head->id == NVME_AUTH_REPLY)
		reply(queue, message, bytes);
	else if (bytes != sizeof(struct nvme_auth_success2))
		fail(queue, NVME_AUTH_BAD_PAYLOAD);
	else
		auth_over(queue);
}

static void send_take(struct nvme_queue *queue, struct nvme_slot *slot)
{
	/* Answered first, so that it comes before what the message leads to. */
	uint32_t bytes = slot->bytes;
	uint8_t *message = slot->data;

	slot->data = NULL;
	nvme_respond(queue, slot, NVME_OK, 0);
	message_take(queue, message, bytes);
	OPENSSL_cleanse(message, bytes);
	free(message);
}

/* A status. */
static uint16_t command_check(const struct nvme_queue *queue, const struct nvme_slot *slot, bool sends)
{
	uint32_t bytes = nvme_data_length(queue, &slot->command), word10 = nvme_word(slot, 10);
	bool remote = nvme_is_remote(queue, &slot->command);

	if (slot->command.flags != NVME_FLAGS_SGL || nvme_word(slot, 11) != bytes ||
	    bytes > NVME_AUTH_BYTES_MAX || bytes < sizeof(struct nvme_auth_fail) ||
	    (word10 & ~0xffu) != NVME_AUTH_WORD10)
		return NVME_BAD_FIELD;
	if (!remote && (!sends || slot->command.sgl != NVME_SGL_CAPSULE))
		return NVME_BAD_SGL_TYPE;
	/* Data that is with the host has none here before it was fetched. */
	return slot->bytes != (remote && !slot->data ? 0 : bytes) ? NVME_BAD_SGL_LENGTH : NVME_OK;
}

void nvme_auth_command(struct nvme_queue *queue, struct nvme_slot *slot)
{
	bool sends = (rblk_le32(slot->command.namespace) & 0xff) == NVME_AUTH_SEND;
	uint16_t status = command_check(queue, slot, sends);

	if (!status && !auth_get(queue))
		status = NVME_INTERNAL;
	if (!status && sends && !slot->data) {
		slot->bytes = nvme_data_length(queue, &slot->command);
		slot->data = malloc(slot->bytes);
		if (slot->data) {
			nvme_fetch(queue, slot);
			return;
		}
		status = NVME_INTERNAL;
	}
	if (status)
		nvme_respond(queue, slot, status | NVME_NO_RETRY, 0);
	else if (sends)
		send_take(queue, slot);
	else
		receive(queue, slot);
}

/* -- what goes on meanwhile ---------------------------------------------------------------------- */

void nvme_auth_set_up(struct nvme_queue *queue, uint16_t status)
{
	struct nvme_authentication *auth = queue->authentication;

	auth->proves = false;
	auth->deadline_ns = env_now_ns() + NVME_AUTH_MS * 1000000ull;
	auth->status = status;
	if (status)
		fail(queue, NVME_AUTH_FAILED);
	else
		receive_check(queue);
}

void nvme_auth_wrong(struct nvme_queue *queue)
{
	fail(queue, NVME_AUTH_FAILED);
}

static void computed(struct nvme_queue *queue, bool well)
{
	struct nvme_authentication *auth = queue->authentication;

	auth->computes = false;
	if (!well)
		fail(queue, auth->state == NVME_AUTH_SUCCEEDS ? NVME_AUTH_BAD_PAYLOAD : NVME_AUTH_FAILED);
	else if (auth->state == NVME_AUTH_SUCCEEDS)
		judge(queue);
	else
		receive_check(queue);
}

uint32_t nvme_auth_timeout(struct nvme_queue *queue)
{
	struct nvme_authentication *auth = queue->authentication;
	bool well;

	if (!auth)
		return 0;
	/* Opening has times of its own. */
	if (nvme_auth_bars(queue) && !auth->proves && env_now_ns() > auth->deadline_ns) {
		queue->transport->fail(queue, -ETIMEDOUT);
		return 0;
	}
	/* An answer may be due. */
	if (auth->computes && (!queue->transport->has_room || queue->transport->has_room(queue)) &&
	    nvme_dh_job_run(auth->job, &well))
		computed(queue, well);
	return auth->computes ? NVME_AUTH_POLL_MS : 0;
}
