/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Secrets that initiator and target share, and the proofs by them (AUTHENTICATE; specification
 * section 6.3). OpenSSL does the cryptography. A secret lies in memory that is locked, if the limits allow it, is not
 * part of a core dump, and is zeroed in a process that is forked. It is never printed; its fingerprint tells two apart. Any thread.
 */
#ifndef RBLK_SECRET_SECRET_H
#define RBLK_SECRET_SECRET_H

#include <stdio.h>
#include "proto/wire/wire.h"

#define RBLK_SECRET_BYTES 32
#define RBLK_SECRETS_MAX 8	     /* valid at a time, of one name */
#define RBLK_SECRET_PREFIX "rblk1:" /* a secret as text begins with it */
#define RBLK_NVME_PREFIX "DHHC-1:"   /* or, as NVMe's programs write it, with one of these */
#define RBLK_NVME_TLS_PREFIX "NVMeTLSkey-1:"
#define RBLK_SECRET_TEXT_BYTES 80    /* RBLK_SECRET_PREFIX and 64 hexadecimal digits */
#define RBLK_SECRET_FINGERPRINT 16   /* bytes of SHA-256 of the secret */
#define RBLK_SECRET_ERROR_BYTES 256

/* Some secrets; the first is the one that an initiator uses. Shared by references. */
struct rblk_secrets;

/*
 * Reads the file: a secret a line, in the order of the lines; blank lines and those that begin with #
 * do not count. It must be a regular file of this user or root, without rights for others; root takes
 * files of user rblk, too. NULL: error (RBLK_SECRET_ERROR_BYTES) says why, without the file's name, and errno:
 * EKEYREJECTED for what is wrong with the file.
 */
struct rblk_secrets *rblk_secrets_read(const char *path, char *error);
/* Those of both. The references to them stay the caller's; `before` may be NULL. NULL: error. */
struct rblk_secrets *rblk_secrets_join(const struct rblk_secrets *before,
				       const struct rblk_secrets *after, char *error);
struct rblk_secrets *rblk_secrets_ref(struct rblk_secrets *secrets); /* of NULL: NULL */
void rblk_secrets_put(struct rblk_secrets *secrets);		     /* NULL: no effect */
unsigned int rblk_secrets_count(const struct rblk_secrets *secrets); /* of NULL: 0 */
const u8 *rblk_secrets_bytes(const struct rblk_secrets *secrets, unsigned int n);
void rblk_secrets_fingerprint(const struct rblk_secrets *secrets, unsigned int n,
			      u8 fingerprint[RBLK_SECRET_FINGERPRINT]);
/* Is one of this fingerprint there? */
bool rblk_secrets_has(const struct rblk_secrets *secrets,
		      const u8 fingerprint[RBLK_SECRET_FINGERPRINT]);

/* A key of its own, of the n-th secret, for what the label (shorter than 16 bytes) and the name say. */
void rblk_derive(const struct rblk_secrets *secrets, unsigned int n, const char *label,
		 const char name[RBLK_NAME_BYTES], u8 out[RBLK_SECRET_BYTES]);

/* Writes a new random secret as a line. 0 or negative errno. */
int rblk_secret_write_new(FILE *out);

/* -- for NVMe hosts: nvme_text.c ------------------------------------------------------------------ */

#define RBLK_NVME_TEXT_BYTES 68 /* "NVMeTLSkey-1:01:", base64, ":" and a zero */

enum rblk_nvme_use {
	RBLK_NVME_HOST,	  /* DH-HMAC-CHAP: the host's key */
	RBLK_NVME_TARGET, /* and that of its target, as rblk_nvme_derive() */
	RBLK_NVME_TLS,
};

/* That with which a target proves itself to an NVMe host that has the n-th secret: derived from it. */
void rblk_nvme_derive(const struct rblk_secrets *secrets, unsigned int n, u8 out[RBLK_SECRET_BYTES]);
/* The first secret as NVMe's programs have it, to be transformed with SHA-256. */
void rblk_nvme_text(const struct rblk_secrets *secrets, enum rblk_nvme_use use, char text[RBLK_NVME_TEXT_BYTES]);

/* -- proofs ------------------------------------------------------------------------------------ */

/* The n-th secret's proof, in this role ('I' or 'T'), of what `proof` describes. */
void rblk_prove(const struct rblk_secrets *secrets, unsigned int n, const struct rblk_wire_proof *proof,
		u8 role, u8 out[RBLK_PROOF_BYTES]);
/* Which secret made this proof: its number, or -1. Takes as long whichever it is. */
int rblk_proof_find(const struct rblk_secrets *secrets, const struct rblk_wire_proof *proof, u8 role,
		    const u8 told[RBLK_PROOF_BYTES]);

#endif
