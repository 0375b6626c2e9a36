/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The bytes that both ends prove by AUTHENTICATE, put together; and whether an answer belongs to
 * the exchange. Pure; for librblk, rblkd and rblk.ko. Specification section 6.3.
 */
#ifndef RBLK_CORE_PROOF_H
#define RBLK_CORE_PROOF_H

#include "proto/wire/wire.h"

#define CORE_PROOF_INITIATOR 'I'
#define CORE_PROOF_TARGET 'T'

/*
 * Fills in the connection's part: both messages of its login, as they were sent, and what TLS has
 * as its own (32 bytes; NULL: there is no TLS). The rest is the exchange's.
 */
static inline void core_proof_begin(struct rblk_wire_proof *proof, const struct rblk_wire_login *login,
				    const struct rblk_wire_accept *accept, const u8 *channel)
{
	memset(proof, 0, sizeof(*proof));
	memcpy(proof->label, RBLK_PROOF_LABEL, sizeof(RBLK_PROOF_LABEL) - 1);
	if (channel)
		memcpy(proof->channel, channel, sizeof(proof->channel));
	memcpy(proof->login, login, sizeof(proof->login));
	memcpy(proof->accept, accept, sizeof(proof->accept));
}

/* A message of the exchange; proof NULL: step 1. */
static inline void core_proof_message(struct rblk_wire_authenticate *message, u32 step,
				      const u8 nonce[RBLK_NONCE_BYTES],
				      const u8 proof[RBLK_PROOF_BYTES], const char name[RBLK_NAME_BYTES])
{
	memset(message, 0, sizeof(*message));
	message->step = rblk_to_le32(step);
	memcpy(message->nonce, nonce, sizeof(message->nonce));
	if (proof)
		memcpy(message->proof, proof, sizeof(message->proof));
	memcpy(message->name, name, sizeof(message->name));
}

/* Is it of this step, of this name and, in step 2, of the nonce that its sender has given? */
static inline bool core_proof_continues(const struct rblk_wire_authenticate *message, u32 step,
					const u8 nonce[RBLK_NONCE_BYTES],
					const char name[RBLK_NAME_BYTES])
{
	return rblk_le32(message->step) == step && !memcmp(message->name, name, RBLK_NAME_BYTES) &&
	       (step == 1 || !memcmp(message->nonce, nonce, RBLK_NONCE_BYTES));
}

static_assert(sizeof(((struct rblk_wire_proof *)0)->login) == sizeof(struct rblk_wire_login),
	      "a proof has room for the login");
static_assert(sizeof(((struct rblk_wire_proof *)0)->accept) == sizeof(struct rblk_wire_accept),
	      "a proof has room for the acceptance");

#endif
