// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The exchange of AUTHENTICATE, the initiator's side; see authenticate.h. */
#include <linux/jiffies.h>
#include <linux/random.h>
#include <linux/string.h>

#include "kmod/authenticate.h"
#include "kmod/call.h"
#include "kmod/key.h"
#include "kmod/queue.h"
#include "kmod/session.h"
#include "proto/core/proof.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

static void rblk_auth_say(struct rblk_queue *queue, char *text, const char *words)
{
	scnprintf(text, RBLK_TEXT_BYTES, "%s: queue %u: authentication as \"%s\" failed: %s",
		  rblk_queue_peer(queue), queue->index, queue->session->options.initiator, words);
}

/* Without a proof it is as good as a target that denies the login. */
static int rblk_auth_refuse(struct rblk_queue *queue, u32 why, char *text, const char *words)
{
	queue->reject_reason = RBLK_REJECT_DENIED;
	queue->reject_detail = why;
	rblk_auth_say(queue, text, words);
	return -EACCES;
}

/* One step: sends ours and takes the target's, which is of the same exchange. */
static int rblk_auth_step(struct rblk_queue *queue, u32 step, const struct rblk_wire_proof *proof,
			  const u8 *own, struct rblk_wire_authenticate *report, char *text)
{
	struct rblk_wire_authenticate message;
	struct rblk_session_command sc = {
		.opcode = RBLK_OP_AUTHENTICATE,
		.payload = &message,
		.payload_bytes = sizeof(message),
		.report = report,
		.report_bytes = sizeof(*report),
	};
	unsigned long now = jiffies;
	unsigned int left_ms =
		time_before(now, queue->connect_by) ? jiffies_to_msecs(queue->connect_by - now) : 1;
	int error;

	core_proof_message(&message, step, proof->initiator_nonce, own, proof->name);
	error = rblk_call_run(queue, &sc, left_ms);
	if (sc.status == RBLK_E_DENIED)
		return rblk_auth_refuse(queue, sc.denied, text, rblk_denied_text(sc.denied));
	if (sc.status == RBLK_E_UNSUPPORTED || sc.status == RBLK_E_INVALID)
		return rblk_auth_refuse(queue, RBLK_DENIED_UNSAID, text,
					"the target cannot prove that it has the secret");
	if (sc.status)
		rblk_auth_say(queue, text, rblk_status_text(sc.status));
	else if (error)
		rblk_auth_say(queue, text,
			      error == -ETIMEDOUT ? "no answer" : "the connection was lost");
	if (error)
		return error;
	if (!rblk_check_authenticate(report, sizeof(*report)) &&
	    core_proof_continues(report, step, proof->target_nonce, proof->name))
		return 0;
	return rblk_auth_refuse(queue, RBLK_DENIED_UNSAID, text,
				"the target's answer is malformed");
}

int rblk_authenticate(struct rblk_queue *queue, char *text)
{
	const struct rblk_session_options *o = &queue->session->options;
	struct rblk_wire_authenticate report;
	struct rblk_wire_proof proof;
	u8 own[RBLK_PROOF_BYTES], right[RBLK_PROOF_BYTES];
	int error;

	core_proof_begin(&proof, &queue->login, &queue->accept, NULL);
	get_random_bytes(proof.initiator_nonce, sizeof(proof.initiator_nonce));
	memcpy(proof.name, o->initiator, sizeof(proof.name));
	error = rblk_auth_step(queue, 1, &proof, NULL, &report, text);
	if (error)
		return error;
	memcpy(proof.target_nonce, report.nonce, sizeof(proof.target_nonce));
	error = rblk_key_prove(queue->session->prover, &proof, own, right);
	if (error) {
		scnprintf(text, RBLK_TEXT_BYTES, "%s: queue %u: key %s: %s (error %d)",
			  rblk_queue_peer(queue), queue->index, o->key, rblk_key_error_text(error),
			  error);
		return error;
	}
	error = rblk_auth_step(queue, 2, &proof, own, &report, text);
	if (error)
		return error;
	if (!rblk_key_same_proof(report.proof, right))
		return rblk_auth_refuse(queue, RBLK_DENIED_PROOF, text,
					"the target did not prove that it has the secret");
	spin_lock_irq(&queue->lock);
	queue->proven = true;
	spin_unlock_irq(&queue->lock);
	return 0;
}
