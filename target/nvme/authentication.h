/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * In-band authentication of a host's queue. A host whose name has a secret is told so by the answer to Connect, and
 * may do nothing else before. The queue then proves the name to rblk in the host's place (AUTHENTICATE), by the same
 * secret: so sessions, rights, shares and what is counted and logged of wrong proofs are rblk's own. All else that
 * stands behind Connect follows, before the host hears of success. Later the host may authenticate again when it likes;
 * if that fails the connection ends, too.
 */
#ifndef RBLK_TARGET_NVME_AUTHENTICATION_H
#define RBLK_TARGET_NVME_AUTHENTICATION_H

#include "proto/secret/secret.h"
#include "target/nvme/chap.h"
#include "target/nvme/dh.h"
#include "target/nvme/queue.h"

/* SECP, SPSP1 and SPSP0. */
#define NVME_AUTH_WORD10 (NVME_AUTH_PROTOCOL << 24 | NVME_AUTH_SPECIFIC << 16 | NVME_AUTH_SPECIFIC << 8)

#define NVME_AUTH_BYTES_MAX 4096u /* of a message */
#define NVME_AUTH_MS 10000u	  /* from Connect until it is over */
#define NVME_AUTH_POLL_MS 2u	  /* while something is computed */

enum nvme_auth_state {
	NVME_AUTH_IDLE,	      /* the host may begin */
	NVME_AUTH_CHALLENGES, /* it gets the challenge, when that is ready */
	NVME_AUTH_AWAITS_REPLY,
	NVME_AUTH_SUCCEEDS, /* it gets success1, when its reply has been judged and all is set up */
	NVME_AUTH_AWAITS_SUCCESS2,
	NVME_AUTH_FAILS, /* it gets failure1, or `status`, and the connection ends */
};

struct nvme_authentication {
	enum nvme_auth_state state;
	uint64_t deadline_ns;
	uint8_t group, failure; /* enum nvme_auth_failure */
	uint16_t status;
	struct nvme_chap_terms terms; /* of what the host answers */
	struct nvme_slot *receive;    /* asks for a message that is not ready */
	struct nvme_dh_job *job;
	bool computes;	       /* something of it */
	bool proves;	       /* to rblk, or it sets up what follows */

	/* The reply: its response, and then the target's. */
	uint8_t response[NVME_HASH_MAX];
	uint8_t host_challenge[NVME_HASH_MAX];
	uint32_t host_sequence;
	bool challenged; /* the target has to prove itself, too */

	struct rblk_secrets *secrets; /* of the host's name */
	int secret;		      /* that it has; -1: none */
	uint8_t nonce[RBLK_NONCE_BYTES];
};

/* prove.c: with a reference; NULL: the host has none. */
struct rblk_secrets *nvme_auth_secrets(const struct nvme_queue *queue);
/* Which secret the reply is of; and the target's response, if it is challenged. */
void nvme_auth_judge(struct nvme_queue *queue);
/* authenticate.c: rblk takes the reply for wrong, too. */
void nvme_auth_wrong(struct nvme_queue *queue);

#endif
