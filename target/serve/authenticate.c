/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The exchange of AUTHENTICATE. A queue has one exchange at a time: step 1 begins it anew, step 2 ends
 * it. admin.c keeps a connection from all else until then.
 */
#include "target/serve/session_command.h"

#include <errno.h>
#include <string.h>
#include "proto/core/env.h"
#include "proto/core/proof.h"
#include "proto/secret/secret.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"
#include "target/base/log.h"
#include "target/serve/authorize.h"
#include "target/serve/event.h"
#include "target/serve/queue.h"
#include "target/serve/remote_queue.h"
#include "target/serve/rights.h"
#include "target/serve/sessions.h"

static struct tgt_queue *auth_queue(const struct tgt_request *request)
{
	return tgt_queue_of(request->io_queue);
}

/* -- the exchange ------------------------------------------------------------------------------ */

/* It counts as its name's now. False: no memory, or no room for it. */
static bool auth_count(struct tgt_session *session, const char name[RBLK_NAME_BYTES])
{
	struct tgt_reactor *reactor = session->reactor;
	int err = tgt_session_prove(session, name);

	if (err == -EBUSY)
		tgt_log_limited(&reactor->loop.log_limit, TGT_LOG_WARNING,
				"session %u [%s]: no room: %.63s has its share of the %u sessions of reactor %u (--sessions)",
				session->number, session->peer, name, reactor->session_quota.most, reactor->index);
	return !err;
}

/* Takes the proven name over for the session, at its home. Otherwise `why`, or 0: no memory. */
static bool auth_session(struct tgt_session *session, const char name[RBLK_NAME_BYTES],
			 const uint8_t secret_id[RBLK_SECRET_FINGERPRINT], uint32_t *why)
{
	bool named = session->named && !memcmp(session->initiator, name, RBLK_NAME_BYTES);

	*why = RBLK_DENIED_NAME;
	if (session->proven && !named)
		return false;
	*why = 0;
	if (!session->proven && !auth_count(session, name))
		return false;
	if (!named && !tgt_remotes_name(session, name))
		return false;
	if (!session->proven) {
		/* Connections from before prove themselves now, by a new login. */
		for (unsigned int i = 1; i < RBLK_QUEUES_MAX; i++)
			tgt_queue_slot_close(&session->slots[i], "its session has proven a name since");
		/* First: rights and limits of a name with a secret are for who has proven it. */
		session->proven = true;
		if (!named)
			tgt_rights_name(session, name);
	}
	memcpy(session->secret_id, secret_id, sizeof(session->secret_id));
	return true;
}

static void auth_proof(const struct tgt_queue *queue, struct rblk_wire_proof *proof)
{
	struct fab_channel room;
	const struct fab_channel *channel = fab_conn_channel(queue->io_queue.conn, &room);

	core_proof_begin(proof, &queue->login, &queue->accept, channel ? channel->binding : NULL);
	memcpy(proof->initiator_nonce, queue->exchange.initiator_nonce, RBLK_NONCE_BYTES);
	memcpy(proof->target_nonce, queue->exchange.target_nonce, RBLK_NONCE_BYTES);
	memcpy(proof->name, queue->exchange.name, RBLK_NAME_BYTES);
}

static enum rblk_status auth_first(struct tgt_request *request, const struct rblk_wire_authenticate *told)
{
	struct tgt_exchange *exchange = &auth_queue(request)->exchange;
	struct rblk_wire_authenticate *report = tgt_request_report_alloc(request, sizeof(*report));

	if (!report)
		return RBLK_E_BUSY;
	/* A new nonce each time: nothing that was said before is worth anything. */
	exchange->begun = true;
	memcpy(exchange->initiator_nonce, told->nonce, RBLK_NONCE_BYTES);
	memcpy(exchange->name, told->name, RBLK_NAME_BYTES);
	env_random(exchange->target_nonce, RBLK_NONCE_BYTES);
	core_proof_message(report, 1, exchange->target_nonce, NULL, exchange->name);
	return RBLK_OK;
}

/* The secret that the proof was made with; NULL: none. With a reference. */
static struct rblk_secrets *auth_find(const struct tgt_queue *queue, const uint8_t *told,
				      const struct rblk_wire_proof *proof, int *secret)
{
	struct tgt_rules *rules = tgt_reactor_rules(queue->session->reactor);
	struct rblk_secrets *secrets =
		rblk_secrets_ref(tgt_rules_secrets(rules, queue->exchange.name));

	tgt_rules_put(rules);
	*secret = rblk_proof_find(secrets, proof, CORE_PROOF_INITIATOR, told);
	if (*secret >= 0)
		return secrets;
	rblk_secrets_put(secrets);
	return NULL;
}

/* TLS has proven the same name; or the rules do without it where queue 0 comes from. Others were asked
 * when they logged in. */
static bool auth_secured(const struct tgt_queue *queue, uint32_t *why)
{
	struct tgt_session *session = queue->session;
	struct fab_channel room;
	const struct fab_channel *channel = fab_conn_channel(queue->io_queue.conn, &room);
	struct tgt_rules *rules;
	bool may;

	*why = RBLK_DENIED_NAME;
	if (channel)
		return strcmp(channel->initiator, queue->exchange.name) == 0;
	if (queue->io_queue.index)
		return true;
	rules = tgt_reactor_rules(session->reactor);
	may = tgt_rules_let_prove(rules, &session->slots[0].origin, why);
	tgt_rules_put(rules);
	return may;
}

/* A remote session has the name that its session had proven when the queue was placed. */
static bool auth_accept(struct tgt_queue *queue, const struct rblk_secrets *secrets, int secret,
			uint32_t *why)
{
	struct tgt_session *session = queue->session;
	const char *name = queue->exchange.name;
	uint8_t id[RBLK_SECRET_FINGERPRINT];

	if (!auth_secured(queue, why))
		return false;
	*why = RBLK_DENIED_NAME;
	if (queue->io_queue.index)
		return session->proven && !memcmp(session->initiator, name, RBLK_NAME_BYTES);
	rblk_secrets_fingerprint(secrets, (unsigned int)secret, id);
	return auth_session(session, name, id, why);
}

static enum rblk_status auth_second(struct tgt_request *request, const struct rblk_wire_authenticate *told)
{
	struct rblk_wire_authenticate *report = tgt_request_report_alloc(request, sizeof(*report));
	struct tgt_queue *queue = auth_queue(request);
	struct tgt_exchange *exchange = &queue->exchange;
	struct rblk_wire_proof proof;
	struct fab_channel channel;
	uint8_t own[RBLK_PROOF_BYTES];
	struct rblk_secrets *secrets;
	bool accepted;
	uint32_t why;
	int secret;

	if (!report)
		return RBLK_E_BUSY;
	exchange->begun = false;
	auth_proof(queue, &proof);
	secrets = auth_find(queue, told->proof, &proof, &secret);
	if (!secrets)
		return tgt_authorize_deny(request, "authentication as", NULL, exchange->name, RBLK_DENIED_PROOF);
	rblk_prove(secrets, (unsigned int)secret, &proof, CORE_PROOF_TARGET, own);
	accepted = auth_accept(queue, secrets, secret, &why);
	rblk_secrets_put(secrets);
	if (!accepted)
		return why ? tgt_authorize_deny(request, "authentication as", NULL, exchange->name, why)
			   : RBLK_E_NO_RESOURCES;
	core_proof_message(report, 2, exchange->target_nonce, own, exchange->name);
	queue->proven = true;
	if (queue->io_queue.index == 0)
		tgt_event_kick(queue->session);
	tgt_log_limited(&request->io_queue->loop->chat_limit, queue->io_queue.index ? TGT_LOG_DEBUG : TGT_LOG_INFO,
			"session %u queue %u [%s]: initiator %s has proven its name%s",
			queue->session->number, queue->io_queue.index, fab_conn_peer(queue->io_queue.conn),
			exchange->name, fab_conn_channel(queue->io_queue.conn, &channel) ? ", by TLS" : "");
	return RBLK_OK;
}

enum rblk_status tgt_authenticate_begin(struct tgt_request *request, const struct tgt_arguments *arguments)
{
	const struct rblk_wire_authenticate *told = (const void *)arguments->capsule;
	const struct tgt_exchange *exchange = &auth_queue(request)->exchange;

	if (rblk_check_authenticate(arguments->capsule, arguments->capsule_bytes))
		return RBLK_E_INVALID;
	if (rblk_le32(told->step) == 1)
		return auth_first(request, told);
	if (exchange->begun && core_proof_continues(told, 2, exchange->initiator_nonce, exchange->name))
		return auth_second(request, told);
	return RBLK_E_INVALID;
}
