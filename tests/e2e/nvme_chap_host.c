/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tests/e2e/nvme_chap_host.h"

#include <openssl/evp.h>
#include <string.h>
#include "proto/core/env.h"
#include "tests/unit/unit.h"

#define ROOM 4096u /* as Linux has it */
#define REPLY_MAX (16 + 2 * NVME_HASH_MAX + NVME_DH_MAX)

static uint16_t run(struct nvme_host *host, uint8_t type, enum nvme_host_way way, void *data, uint32_t bytes)
{
	struct nvme_host_command command = {.way = way, .data = data, .bytes = bytes};

	command.command.opcode = NVME_FABRICS;
	command.command.namespace = rblk_to_le32(type);
	command.command.word[0] = rblk_to_le32(0xe9010100);
	command.command.word[1] = rblk_to_le32(bytes);
	return nvme_host_run(host, &command);
}

uint16_t nvme_chap_send(struct nvme_host *host, enum nvme_host_way way, const void *message, uint32_t bytes)
{
	return run(host, NVME_AUTH_SEND, way, (void *)message, bytes);
}

uint16_t nvme_chap_receive(struct nvme_host *host, void *message, uint32_t bytes)
{
	return run(host, NVME_AUTH_RECEIVE, NVME_HOST_IN, message, bytes);
}

uint32_t nvme_chap_negotiation(const struct nvme_chap_host *chap, uint8_t message[72])
{
	struct nvme_auth_negotiate *negotiate = (void *)message;
	struct nvme_auth_protocol *protocol = (void *)(negotiate + 1);

	memset(message, 0, 72);
	negotiate->head.transaction = rblk_to_le16(chap->transaction);
	negotiate->protocols = 1;
	protocol->id = NVME_AUTH_DHCHAP;
	protocol->hashes = chap->hashes;
	protocol->groups = chap->groups;
	memcpy(protocol->list, chap->hash, sizeof(chap->hash));
	memcpy(protocol->list + NVME_AUTH_LIST_GROUPS, chap->group, sizeof(chap->group));
	return 72;
}

bool nvme_chap_begin(struct nvme_host *host, struct nvme_chap_host *chap)
{
	uint8_t message[ROOM];
	uint32_t bytes;

	env_random(&chap->transaction, sizeof(chap->transaction));
	bytes = nvme_chap_negotiation(chap, message);
	assert_int_equal(nvme_chap_send(host, NVME_HOST_CAPSULE, message, bytes), NVME_OK);
	assert_int_equal(nvme_chap_receive(host, message, sizeof(message)), NVME_OK);
	memcpy(&chap->challenge, message, sizeof(chap->challenge));
	assert_int_equal(rblk_le16(chap->challenge.head.transaction), chap->transaction);
	if (chap->challenge.head.id == NVME_AUTH_FAILURE1)
		return false;
	assert_int_equal(chap->challenge.head.type, NVME_AUTH_DHCHAP);
	assert_int_equal(chap->challenge.head.id, NVME_AUTH_CHALLENGE);
	bytes = nvme_chap_hash_bytes(chap->challenge.hash);
	assert_int_equal(chap->challenge.hash_bytes, bytes);
	assert_int_equal(rblk_le16(chap->challenge.public_bytes), nvme_dh_bytes(chap->challenge.group));
	assert_true(rblk_le32(chap->challenge.sequence));
	memcpy(chap->challenge_bytes, message + sizeof(chap->challenge), bytes);
	memcpy(chap->target_public, message + sizeof(chap->challenge) + bytes, nvme_dh_bytes(chap->challenge.group));
	return true;
}

static void respond(const struct nvme_chap_host *chap, bool target, uint8_t *out)
{
	struct nvme_chap_terms terms = {
		.hash = chap->challenge.hash,
		.sequence = target ? 77 : rblk_le32(chap->challenge.sequence),
		.transaction = chap->transaction,
		.of_target = target,
		.own = target ? chap->subsystem : NVME_HOST_NQN,
		.peer = target ? NVME_HOST_NQN : chap->subsystem,
	};
	const uint8_t *challenge = target ? chap->own_challenge : chap->challenge_bytes;
	uint8_t key[NVME_CHAP_KEY_BYTES];

	memcpy(terms.challenge, challenge, sizeof(terms.challenge));
	if (chap->challenge.group)
		assert_true(nvme_chap_augment(terms.hash, chap->shared, nvme_dh_bytes(chap->challenge.group), challenge,
					      terms.challenge));
	memcpy(key, target ? chap->target_key : chap->key, sizeof(key));
	if (target || !chap->plain)
		assert_true(nvme_chap_transform(target ? chap->target_key : chap->key, terms.own, key));
	assert_true(nvme_chap_respond(&terms, key, out));
}

uint32_t nvme_chap_reply(struct nvme_chap_host *chap, uint8_t message[REPLY_MAX])
{
	uint32_t hash_bytes = nvme_chap_hash_bytes(chap->challenge.hash);
	uint32_t public_bytes = nvme_dh_bytes(chap->challenge.group);
	struct nvme_auth_reply *reply = (void *)message;
	EVP_PKEY *dh;

	memset(message, 0, REPLY_MAX);
	reply->head = chap->challenge.head;
	reply->head.id = NVME_AUTH_REPLY;
	reply->hash_bytes = (__u8)hash_bytes;
	reply->public_bytes = rblk_to_le16((uint16_t)public_bytes);
	if (public_bytes) {
		dh = nvme_dh_create(chap->challenge.group, message + 16 + 2 * hash_bytes);
		assert_non_null(dh);
		assert_true(nvme_dh_agree(dh, chap->target_public, chap->shared));
		EVP_PKEY_free(dh);
	}
	respond(chap, false, message + 16);
	if (chap->mutual) {
		env_random(chap->own_challenge, sizeof(chap->own_challenge));
		memcpy(message + 16 + hash_bytes, chap->own_challenge, hash_bytes);
		reply->challenges = 1;
		reply->sequence = rblk_to_le32(77);
	}
	return 16 + 2 * hash_bytes + public_bytes;
}

bool nvme_chap_end(struct nvme_host *host, struct nvme_chap_host *chap)
{
	uint8_t message[ROOM], right[NVME_HASH_MAX];
	struct nvme_auth_success1 *success = (void *)message;
	struct nvme_auth_success2 last = {.head = {.type = NVME_AUTH_DHCHAP, .id = NVME_AUTH_SUCCESS2}};

	assert_int_equal(nvme_chap_receive(host, message, sizeof(message)), NVME_OK);
	if (success->head.id == NVME_AUTH_FAILURE1)
		return false;
	assert_int_equal(success->head.type, NVME_AUTH_DHCHAP);
	assert_int_equal(success->head.id, NVME_AUTH_SUCCESS1);
	assert_int_equal(rblk_le16(success->head.transaction), chap->transaction);
	assert_int_equal(success->hash_bytes, chap->challenge.hash_bytes);
	assert_int_equal(success->responds, chap->mutual);
	if (!chap->mutual)
		return true;
	respond(chap, true, right);
	assert_memory_equal(success + 1, right, success->hash_bytes);
	last.head.transaction = rblk_to_le16(chap->transaction);
	assert_int_equal(nvme_chap_send(host, NVME_HOST_CAPSULE, &last, sizeof(last)), NVME_OK);
	return true;
}

bool nvme_chap_run(struct nvme_host *host, struct nvme_chap_host *chap)
{
	uint8_t message[REPLY_MAX];
	uint32_t bytes;

	if (!nvme_chap_begin(host, chap))
		return false;
	bytes = nvme_chap_reply(chap, message);
	assert_int_equal(nvme_chap_send(host, NVME_HOST_CAPSULE, message, bytes), NVME_OK);
	return nvme_chap_end(host, chap);
}

uint8_t nvme_chap_failure(struct nvme_host *host)
{
	struct nvme_auth_fail fail;

	assert_int_equal(nvme_chap_receive(host, &fail, sizeof(fail)), NVME_OK);
	assert_int_equal(fail.head.type, NVME_AUTH_COMMON);
	assert_int_equal(fail.head.id, NVME_AUTH_FAILURE1);
	assert_int_equal(fail.reason, 1);
	assert_int_equal(nvme_host_ended(host->fd), -1);
	return fail.explanation;
}
