/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* kmod/key.h for the simulated kernel, whose keyring has one secret; OpenSSL in place of the kernel's cryptography. */
#include "kmod/key.h"

#include "proto/core/proof.h"
#include "proto/secret/secret.h"
#include "tests/sim/coverage.h"
#include "tests/sim/secret.h"

struct rblk_prover {
	struct rblk_secrets *secrets;
};

struct rblk_prover *rblk_prover_create(const char *name)
{
	struct rblk_prover *prover = calloc(1, sizeof(*prover));

	(void)name;
	if (!prover)
		return ERR_PTR(-ENOMEM);
	prover->secrets = sim_secrets();
	return prover;
}

void rblk_prover_destroy(struct rblk_prover *prover)
{
	free(prover);
}

int rblk_key_prove(struct rblk_prover *prover, struct rblk_wire_proof *proof, u8 initiator[RBLK_PROOF_BYTES],
		   u8 target[RBLK_PROOF_BYTES])
{
	sim_might_sleep(__func__);
	rblk_prove(prover->secrets, 0, proof, CORE_PROOF_INITIATOR, initiator);
	rblk_prove(prover->secrets, 0, proof, CORE_PROOF_TARGET, target);
	return 0;
}

const char *rblk_key_error_text(int error)
{
	(void)error;
	return "it cannot be used";
}

bool rblk_key_same_proof(const u8 a[RBLK_PROOF_BYTES], const u8 b[RBLK_PROOF_BYTES])
{
	bool same = !memcmp(a, b, RBLK_PROOF_BYTES);

	if (same)
		sim_reached("module", "a connection is proven", NULL);
	return same;
}
