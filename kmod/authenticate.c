// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The exchange of AUTHENTICATE, the initiator's side; see queue.h. Called by connect.c. */
#include <linux/random.h>
#include <linux/string.h>

#include "kmod/queue.h"
#include "kmod/call.h"
#include "kmod/drive.h"
#include "kmod/key.h"
#include "kmod/session.h"
#include "proto/core/proof.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

#define RBLK_AUTH_FAILED "authentication as \"%s\" failed: %s"

/* Without a proof it is as good as a target that denies the login. */
static int rblk_auth_refuse(struct rblk_queue *queue, u32 why, const char *words)
{
	rblk_queue_rejected(queue, RBLK_REJECT_DENIED, why, RBLK_AUTH_FAILED,
			    queue->session->options.initiator, words);
	return -EACCES;
}

/* rblk_left_fn. Without an answer the connection is lost, or the attempt's time over. */
static void rblk_auth_answered(struct rblk_session *session, const struct rblk_call *call,
			       void *arg)
{
	const struct rblk_command *command = &call->command;
	struct rblk_proving *p = &command->queue->proving;

	if (command->error)
		return;
	p->status = command->status;
	p->denied = command->detail;
	if (!p->status)
		memcpy(&p->report, rblk_call_report(call), sizeof(p->report));
	rblk_queue_connect_next(command->queue, RBLK_CONNECT_ANSWER);
}

static int rblk_auth_send(struct rblk_queue *queue, u32 step, const u8 *own)
{
	struct rblk_proving *p = &queue->proving;
	struct rblk_wire_authenticate message;
	const struct rblk_session_command sc = {
		.opcode = RBLK_OP_AUTHENTICATE,
		.payload = &message,
		.payload_bytes = sizeof(message),
		.report_bytes = sizeof(p->report),
		.left = rblk_auth_answered,
	};

	core_proof_message(&message, step, p->proof.initiator_nonce, own, p->proof.name);
	return rblk_call_send(queue, &sc, 0);
}

/* The target's answer, which is of the same exchange. */
static int rblk_auth_judge(struct rblk_queue *queue, u32 step)
{
	const struct rblk_proving *p = &queue->proving;

	if (p->status == RBLK_E_DENIED)
		return rblk_auth_refuse(queue, p->denied, rblk_denied_text(p->denied));
	if (p->status == RBLK_E_UNSUPPORTED || p->status == RBLK_E_INVALID)
		return rblk_auth_refuse(queue, RBLK_DENIED_UNSAID,
					"the target cannot prove that it has the secret");
	if (p->status) {
		rblk_queue_lost(queue, RBLK_AUTH_FAILED, queue->session->options.initiator,
				rblk_status_text(p->status));
		return -EACCES;
	}
	if (!rblk_check_authenticate(&p->report, sizeof(p->report)) &&
	    core_proof_continues(&p->report, step, p->proof.target_nonce, p->proof.name))
		return 0;
	return rblk_auth_refuse(queue, RBLK_DENIED_UNSAID, "the target's answer is malformed");
}

int rblk_authenticate_begin(struct rblk_queue *queue)
{
	struct rblk_wire_proof *proof = &queue->proving.proof;

	core_proof_begin(proof, &queue->login, &queue->accept, NULL);
	get_random_bytes(proof->initiator_nonce, sizeof(proof->initiator_nonce));
	memcpy(proof->name, queue->session->options.initiator, sizeof(proof->name));
	return rblk_auth_send(queue, 1, NULL);
}

int rblk_authenticate_prove(struct rblk_queue *queue)
{
	struct rblk_session *session = queue->session;
	struct rblk_proving *p = &queue->proving;
	u8 own[RBLK_PROOF_BYTES];
	int error = rblk_auth_judge(queue, 1);

	if (error)
		return error;
	memcpy(p->proof.target_nonce, p->report.nonce, sizeof(p->proof.target_nonce));
	error = rblk_key_prove(session->prover, &p->proof, own, p->right);
	if (!error)
		return rblk_auth_send(queue, 2, own);
	rblk_queue_lost(queue, "key %s: %s (error %d)", session->options.key,
			rblk_key_error_text(error), error);
	return error;
}

int rblk_authenticate_end(struct rblk_queue *queue)
{
	int error = rblk_auth_judge(queue, 2);

	if (error)
		return error;
	if (!rblk_key_same_proof(queue->proving.report.proof, queue->proving.right))
		return rblk_auth_refuse(queue, RBLK_DENIED_PROOF,
					"the target did not prove that it has the secret");
	spin_lock_irq(&queue->lock);
	queue->proven = true;
	spin_unlock_irq(&queue->lock);
	return 0;
}
