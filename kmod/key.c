// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The module's keyring, and HMAC-SHA256 by its secrets; see key.h. No secret is copied out of it.
 */
#include <crypto/hash.h>
#include <keys/user-type.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/key.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/uidgid.h>

#include "kmod/key.h"
#include "kmod/attach_limits.h"
#include "kmod/compat.h"
#include "proto/core/proof.h"

struct rblk_prover {
	char description[sizeof(RBLK_KEY_PREFIX) + RBLK_KEY_NAME_BYTES];
	/* Made beforehand: a connection that comes back must not wait for a module to be loaded. */
	struct crypto_shash *hmac;
	struct mutex lock; /* hmac: a session's queues connect side by side */
};

static struct key *rblk_keyring;

/* -- the keyring ------------------------------------------------------------------------------- */

int rblk_keyring_init(void)
{
	/* Root links it to its own, and may then replace what is in it. */
	const key_perm_t perm = (KEY_POS_ALL & ~KEY_POS_SETATTR) | (KEY_USR_ALL & ~KEY_USR_SETATTR);
	struct key *keyring;

	keyring = keyring_alloc(".rblk", GLOBAL_ROOT_UID, GLOBAL_ROOT_GID, current_cred(), perm,
				KEY_ALLOC_NOT_IN_QUOTA, NULL, NULL);
	if (IS_ERR(keyring))
		return PTR_ERR(keyring);
	rblk_keyring = keyring;
	return 0;
}

void rblk_keyring_fini(void)
{
	key_revoke(rblk_keyring);
	key_put(rblk_keyring);
}

int rblk_keyring_serial(void)
{
	return key_serial(rblk_keyring);
}

/* -- proofs ------------------------------------------------------------------------------------ */

struct rblk_prover *rblk_prover_create(const char *name)
{
	struct rblk_prover *prover = kzalloc(sizeof(*prover), GFP_KERNEL);
	int error;

	if (!prover)
		return ERR_PTR(-ENOMEM);
	mutex_init(&prover->lock);
	scnprintf(prover->description, sizeof(prover->description), "%s%s", RBLK_KEY_PREFIX, name);
	prover->hmac = crypto_alloc_shash("hmac(sha256)", 0, 0);
	if (!IS_ERR(prover->hmac))
		return prover;
	error = PTR_ERR(prover->hmac);
	kfree(prover);
	return ERR_PTR(error);
}

void rblk_prover_destroy(struct rblk_prover *prover)
{
	if (!prover)
		return;
	crypto_free_shash(prover->hmac);
	kfree(prover);
}

static int rblk_key_set(struct rblk_prover *prover, struct key *secret)
{
	const struct user_key_payload *payload;
	int error;

	down_read(&secret->sem);
	payload = user_key_payload_locked(secret);
	if (!payload)
		error = -EKEYREVOKED;
	else if (payload->datalen != RBLK_KEY_BYTES)
		error = -EKEYREJECTED;
	else
		error = crypto_shash_setkey(prover->hmac, payload->data, payload->datalen);
	up_read(&secret->sem);
	return error;
}

static int rblk_key_digest(struct rblk_prover *prover, struct rblk_wire_proof *proof, u8 role,
			   u8 *out)
{
	proof->role = role;
	return crypto_shash_tfm_digest(prover->hmac, (const u8 *)proof, sizeof(*proof), out);
}

int rblk_key_prove(struct rblk_prover *prover, struct rblk_wire_proof *proof,
		   u8 initiator[RBLK_PROOF_BYTES], u8 target[RBLK_PROOF_BYTES])
{
	key_ref_t found = keyring_search(make_key_ref(rblk_keyring, true), &key_type_logon,
					 prover->description, false);
	int error;

	if (IS_ERR(found))
		return PTR_ERR(found);
	mutex_lock(&prover->lock);
	error = rblk_key_set(prover, key_ref_to_ptr(found)) ?:
		rblk_key_digest(prover, proof, CORE_PROOF_INITIATOR, initiator) ?:
		rblk_key_digest(prover, proof, CORE_PROOF_TARGET, target);
	mutex_unlock(&prover->lock);
	key_ref_put(found);
	return error;
}

const char *rblk_key_error_text(int error)
{
	switch (error) {
	case -ENOKEY:
	case -EAGAIN:
		return "the kernel does not have it; \"rblk key install\" gives it";
	case -EKEYEXPIRED:
		return "it has expired";
	case -EKEYREVOKED:
		return "it was revoked";
	case -EKEYREJECTED:
		return "it is not a secret of 32 bytes";
	default:
		return "the kernel cannot use it";
	}
}

bool rblk_key_same_proof(const u8 a[RBLK_PROOF_BYTES], const u8 b[RBLK_PROOF_BYTES])
{
	return !crypto_memneq(a, b, RBLK_PROOF_BYTES);
}
