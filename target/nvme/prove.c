/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose secret a host's reply is of, and rblk's own AUTHENTICATE, by which the queue proves that name in the host's
 * place. A wrong reply becomes a wrong proof: so rblk denies, counts and logs it as it does its own initiators'.
 */
#include "target/nvme/authentication.h"

#include <openssl/crypto.h>
#include <string.h>
#include "proto/core/env.h"
#include "proto/core/proof.h"
#include "proto/tls/tls.h"

#define TRIES 1000u /* memory for its report may be short */

static struct rblk_secrets *(*find_secrets)(void *arg, const char *name);
static void *find_arg;

void nvme_auth_init(struct rblk_secrets *(*find)(void *arg, const char *name), void *arg)
{
	find_secrets = find;
	find_arg = arg;
}

struct rblk_secrets *nvme_auth_secrets(const struct nvme_queue *queue)
{
	return find_secrets ? find_secrets(find_arg, queue->hello.name) : NULL;
}

/* -- the reply ----------------------------------------------------------------------------------- */

/* The challenge that is responded to, if there is a group. */
static bool augment(const struct nvme_authentication *auth, uint8_t *challenge)
{
	uint8_t sent[NVME_HASH_MAX];

	if (!auth->job)
		return true;
	memcpy(sent, challenge, sizeof(sent));
	return nvme_chap_augment(auth->terms.hash, nvme_dh_job_shared(auth->job), nvme_dh_bytes(auth->group), sent,
				 challenge);
}

/* The key may have been given to the host to be transformed or as it is ("DHHC-1:01:" and 00). */
static bool is_of(const struct nvme_authentication *auth, const uint8_t *key)
{
	uint32_t bytes = nvme_chap_hash_bytes(auth->terms.hash);
	uint8_t forms[2][NVME_CHAP_KEY_BYTES], right[NVME_HASH_MAX];
	bool found = false;

	memcpy(forms[0], key, sizeof(forms[0]));
	if (nvme_chap_transform(key, auth->terms.own, forms[1]))
		for (int i = 0; i < 2; i++)
			found |= nvme_chap_respond(&auth->terms, forms[i], right) &&
				 !CRYPTO_memcmp(right, auth->response, bytes);
	OPENSSL_cleanse(forms, sizeof(forms));
	OPENSSL_cleanse(right, sizeof(right));
	return found;
}

static bool respond(const struct nvme_queue *queue, struct nvme_authentication *auth)
{
	struct nvme_chap_terms terms = {
		.hash = auth->terms.hash,
		.sequence = auth->host_sequence,
		.transaction = auth->terms.transaction,
		.of_target = true,
		.own = queue->hello.identity.subsystem,
		.peer = queue->hello.identity.host,
	};
	uint8_t key[NVME_CHAP_KEY_BYTES], transformed[NVME_CHAP_KEY_BYTES];
	bool well;

	memcpy(terms.challenge, auth->host_challenge, sizeof(terms.challenge));
	rblk_nvme_derive(auth->secrets, (unsigned int)auth->secret, key);
	well = augment(auth, terms.challenge) && nvme_chap_transform(key, terms.own, transformed) &&
	       nvme_chap_respond(&terms, transformed, auth->response);
	OPENSSL_cleanse(key, sizeof(key));
	OPENSSL_cleanse(transformed, sizeof(transformed));
	return well;
}

void nvme_auth_judge(struct nvme_queue *queue)
{
	struct nvme_authentication *auth = queue->authentication;

	auth->secret = -1;
	auth->terms.own = queue->hello.identity.host;
	auth->terms.peer = queue->hello.identity.subsystem;
	if (!augment(auth, auth->terms.challenge))
		return;
	/* All of them, so that the time says nothing about which one it is. */
	for (unsigned int i = 0; i < rblk_secrets_count(auth->secrets); i++)
		if (is_of(auth, rblk_secrets_bytes(auth->secrets, i)))
			auth->secret = (int)i;
	if (auth->secret >= 0 && auth->challenged && !respond(queue, auth))
		auth->secret = -1;
}

/* -- by TLS -------------------------------------------------------------------------------------- */

void nvme_auth_secured(struct nvme_queue *queue)
{
	struct nvme_authentication *auth = queue->authentication;
	uint8_t id[RBLK_SECRET_FINGERPRINT];

	auth->secrets = nvme_auth_secrets(queue);
	auth->secret = -1; /* it may be no secret of the name any more */
	for (unsigned int i = 0; i < rblk_secrets_count(auth->secrets); i++) {
		rblk_secrets_fingerprint(auth->secrets, i, id);
		if (memcmp(id, rblk_tls_secret_id(queue->hello.tls), sizeof(id)) == 0)
			auth->secret = (int)i;
	}
	auth->proves = true;
	nvme_auth_next(queue);
}

/* Nothing was asked of the host: it hears by Connect's answer. False: it is to be refused. */
static bool secured_end(struct nvme_queue *queue, enum rblk_status status)
{
	struct nvme_authentication *auth = queue->authentication;

	auth->proves = false;
	rblk_secrets_put(auth->secrets);
	auth->secrets = NULL;
	if (status)
		nvme_respond_connect(queue,
				     status == RBLK_E_DENIED ? NVME_CONNECT_HOST | NVME_NO_RETRY : NVME_CONNECT_BUSY);
	return !status;
}

/* -- the proof ----------------------------------------------------------------------------------- */

void nvme_auth_next(struct nvme_queue *queue)
{
	struct nvme_authentication *auth = queue->authentication;

	if (!auth || !auth->proves || queue->step)
		return;
	env_random(auth->nonce, sizeof(auth->nonce));
	queue->busy = 0;
	nvme_step_begin(queue, NVME_STEP_NONCE, NULL);
}

void nvme_auth_payload(const struct nvme_queue *queue, struct rblk_wire_authenticate *message)
{
	const struct nvme_authentication *auth = queue->authentication;
	const struct rblk_wire_authenticate *told = (const void *)queue->report;
	uint8_t own[RBLK_PROOF_BYTES] = {0};
	struct rblk_wire_proof proof;

	if (queue->step == NVME_STEP_NONCE) {
		core_proof_message(message, 1, auth->nonce, NULL, queue->hello.name);
		return;
	}
	core_proof_begin(&proof, &queue->hello.login, &queue->accept,
			 queue->hello.tls ? rblk_tls_channel(queue->hello.tls) : NULL);
	memcpy(proof.initiator_nonce, auth->nonce, sizeof(proof.initiator_nonce));
	memcpy(proof.target_nonce, told->nonce, sizeof(proof.target_nonce));
	memcpy(proof.name, queue->hello.name, sizeof(proof.name));
	if (auth->secret >= 0)
		rblk_prove(auth->secrets, (unsigned int)auth->secret, &proof, CORE_PROOF_INITIATOR, own);
	core_proof_message(message, 2, auth->nonce, own, queue->hello.name);
}

void nvme_auth_proven(struct nvme_queue *queue, enum rblk_status status)
{
	struct nvme_authentication *auth = queue->authentication;
	enum nvme_step step = queue->step;

	/* A message of the host may have ended it. */
	if (!auth->proves) {
		queue->step = NVME_STEP_NONE;
		return;
	}
	if (status == RBLK_E_BUSY && queue->busy++ < TRIES) {
		nvme_step_begin(queue, step, NULL);
		return;
	}
	if (!status && step == NVME_STEP_NONCE) {
		nvme_step_begin(queue, NVME_STEP_PROOF, NULL);
		return;
	}
	queue->step = NVME_STEP_NONE;
	queue->busy = 0;
	if (queue->hello.tls && !queue->answered && !secured_end(queue, status))
		return;
	if (status == RBLK_E_DENIED) {
		nvme_auth_wrong(queue);
		return;
	}
	if (status) {
		nvme_auth_set_up(queue, NVME_CONNECT_BUSY);
		return;
	}
	queue->controller->proven = true;
	if (queue->answered)
		nvme_auth_set_up(queue, NVME_OK);
	else
		nvme_step_begin(queue, nvme_is_admin(queue) ? NVME_STEP_IDENTIFY : NVME_STEP_READY, NULL);
}
