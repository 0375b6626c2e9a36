/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Secrets of the module's keyring, and proofs by them (specification section 6.3). A secret is a
 * key of type "logon", "rblk:NAME", which `rblk key install` puts there and user space cannot read.
 * It is looked up for each proof, so that the next connection uses the one that has taken its
 * place.
 */
#ifndef RBLK_KMOD_KEY_H
#define RBLK_KMOD_KEY_H

#include "proto/wire/wire.h"

struct rblk_prover;

/* The keyring. */
int rblk_keyring_init(void);
void rblk_keyring_fini(void);
/* By which user space names it. */
int rblk_keyring_serial(void);

/*
 * Sleeps. What a session proves with: the key of this name, which need not be there yet. ERR_PTR()
 * on failure.
 */
struct rblk_prover *rblk_prover_create(const char *name);
void rblk_prover_destroy(struct rblk_prover *prover); /* NULL: no effect */
/*
 * Sleeps. Both ends' proofs by the secret as it is now. 0, or negative errno, of which
 * rblk_key_error_text() says what it means.
 */
int rblk_key_prove(struct rblk_prover *prover, struct rblk_wire_proof *proof,
		   u8 initiator[RBLK_PROOF_BYTES], u8 target[RBLK_PROOF_BYTES]);
const char *rblk_key_error_text(int error);
/* In constant time. */
bool rblk_key_same_proof(const u8 a[RBLK_PROOF_BYTES], const u8 b[RBLK_PROOF_BYTES]);

#endif
