/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns AUTHENTICATE: with a secret, each new connection proves the initiator's name, and the target has
 * to prove that it knows the secret, before the session counts it as accepted. So nothing else is sent
 * to a target that does not, and every reconnection is proven again.
 */
#include "initiator/session.h"

#include <stdio.h>
#include "proto/core/proof.h"
#include "proto/secret/secret.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

/* It has the acceptance's place in the session's state machine: a refusal for good. */
static void auth_refuse(struct ini_queue *queue, u32 why, const char *words)
{
	struct rblk_session *session = queue->session;

	ini_session_note(session, "%s: queue %u: authentication as \"%s\" failed: %s",
			 queue->conn ? fab_conn_peer(queue->conn) : ini_session_peer(session),
			 queue->index, session->identity.name, words);
	session->failure.last = -EACCES;
	ini_portal_failed(queue, -EACCES);
	core_session_rejected(&session->core, queue->index, RBLK_REJECT_DENIED, why, session->now_ns);
}

/* False: the connection is lost, which others handle, or the target has refused. */
static bool auth_answered(struct ini_queue *queue, const struct rblk_result *result)
{
	if (result->status == RBLK_E_DENIED)
		auth_refuse(queue, (u32)result->value, rblk_denied_text(result->value));
	else if (result->status == RBLK_E_UNSUPPORTED || result->status == RBLK_E_INVALID)
		auth_refuse(queue, RBLK_DENIED_UNSAID, "the target cannot prove that it has the secret");
	else if (result->status)
		ini_queue_lose(queue, result->error, "AUTHENTICATE: %s",
			       rblk_status_text(result->status));
	return !result->error;
}

/* The target's message. False: it is malformed, or not of this exchange. */
static bool auth_report(struct ini_queue *queue, u32 step, struct rblk_wire_authenticate *report)
{
	memcpy(report, queue->session->control.memory->authenticate[queue->index].report, sizeof(*report));
	if (!rblk_check_authenticate(report, sizeof(*report)) &&
	    core_proof_continues(report, step, queue->proof.target_nonce,
				 queue->session->identity.name))
		return true;
	auth_refuse(queue, RBLK_DENIED_UNSAID, "the target's answer is malformed");
	return false;
}

static void auth_send(struct ini_queue *queue, u32 step, const u8 *proof, rblk_callback done)
{
	const struct rblk_wire_command command = {.opcode = RBLK_OP_AUTHENTICATE};
	struct rblk_wire_authenticate message;
	int err;

	core_proof_message(&message, step, queue->proof.initiator_nonce, proof,
			   queue->session->identity.name);
	err = ini_control_authenticate(queue, &command, &message, done);
	if (err)
		ini_queue_lose(queue, err, "AUTHENTICATE cannot be sent: %s", strerror(-err));
}

static void second_done(void *arg, const struct rblk_result *result)
{
	struct ini_queue *queue = arg;
	struct rblk_wire_authenticate report;

	if (!auth_answered(queue, result) || !auth_report(queue, 2, &report))
		return;
	if (rblk_proof_find(queue->session->identity.secrets, &queue->proof, CORE_PROOF_TARGET, report.proof)) {
		auth_refuse(queue, RBLK_DENIED_PROOF, "the target did not prove that it has the secret");
		return;
	}
	queue->proven = true;
	ini_queue_accepted(queue);
}

static void first_done(void *arg, const struct rblk_result *result)
{
	struct ini_queue *queue = arg;
	struct rblk_wire_authenticate report;
	u8 proof[RBLK_PROOF_BYTES];

	if (!auth_answered(queue, result) || !auth_report(queue, 1, &report))
		return;
	memcpy(queue->proof.target_nonce, report.nonce, sizeof(queue->proof.target_nonce));
	rblk_prove(queue->session->identity.secrets, 0, &queue->proof, CORE_PROOF_INITIATOR, proof);
	auth_send(queue, 2, proof, second_done);
}

void ini_authenticate(struct ini_queue *queue)
{
	struct fab_channel room;
	const struct fab_channel *channel = fab_conn_channel(queue->conn, &room);

	if (!rblk_secrets_count(queue->session->identity.secrets)) {
		auth_refuse(queue, RBLK_DENIED_UNSAID, "a process that was forked does not have the secret");
		return;
	}
	core_proof_begin(&queue->proof, &queue->login, &queue->accept, channel ? channel->binding : NULL);
	env_random(queue->proof.initiator_nonce, sizeof(queue->proof.initiator_nonce));
	memcpy(queue->proof.name, queue->session->identity.name, sizeof(queue->proof.name));
	auth_send(queue, 1, NULL, first_done);
}
