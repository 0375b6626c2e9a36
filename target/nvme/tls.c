/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TLS of NVMe/TCP (NVMe/TCP Transport Specification 1.1, 3.6.1): how a host names itself and its subsystem in the
 * identity of its pre-shared key, "NVMe0R01 HOST SUBSYSTEM" or "NVMe1R01 HOST SUBSYSTEM DIGEST", and which keys a
 * secret may be with it. The digest only tells keys apart, which the client's binder does, too (proto/tls/dialect.c).
 */
#include "target/nvme/tcp.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include "proto/secret/secret.h"
#include "proto/tls/tls.h"
#include "target/nvme/fabric.h"

#define RETAINED_SHA256 "R01 " /* behind "NVMe" and the version */
#define HEAD_BYTES 9u
#define VERSION 4u

/* One name in front of a blank or of the end. False: it is no NQN's length. */
static bool field_next(const char **text, char nqn[NVME_NQN_BYTES])
{
	size_t length = strcspn(*text, " ");

	if (!length || length > NVME_NQN_MAX)
		return false;
	memset(nqn, 0, NVME_NQN_BYTES);
	memcpy(nqn, *text, length);
	*text += length + ((*text)[length] == ' ');
	return true;
}

static const char *parse(const char *identity, char name[RBLK_NAME_BYTES])
{
	char host[NVME_NQN_BYTES], subsystem[NVME_NQN_BYTES];
	const char *rest;

	if (strncmp(identity, "NVMe0", VERSION + 1) != 0 && strncmp(identity, "NVMe1", VERSION + 1) != 0)
		return "it does not name itself as NVMe hosts do";
	if (strncmp(identity + VERSION + 1, RETAINED_SHA256, strlen(RETAINED_SHA256)) != 0)
		return "its key is none of SHA-256, of 32 bytes";
	rest = identity + HEAD_BYTES;
	if (!field_next(&rest, host) || !field_next(&rest, subsystem) ||
	    (identity[VERSION] == '1') != (*rest != '\0') || strchr(rest, ' '))
		return "it does not name itself as NVMe hosts do";
	return nvme_name_of(host, name) ? NULL : "its name is no initiator's";
}

/* -- keys ---------------------------------------------------------------------------------------- */

typedef bool (*expand_fn)(const u8 secret[RBLK_TLS_KEY_BYTES], const char *label, const void *context, size_t bytes,
			  u8 out[RBLK_TLS_KEY_BYTES]);

/*
 * libnvme (1.13 does) has left out lengths, and has put one in the wrong order, in what the specification calls
 * HKDF-Expand-Label. Both ends of its users' connections had their keys of it, so this was found late.
 */
static bool expand_old(const u8 secret[RBLK_TLS_KEY_BYTES], const char *label, const void *context, size_t bytes,
		       u8 out[RBLK_TLS_KEY_BYTES])
{
	u8 info[RBLK_TLS_INFO_BYTES];
	int length = snprintf((char *)info, sizeof(info), "%c%ctls13 %s%.*s", RBLK_TLS_KEY_BYTES, 0, label, (int)bytes,
			      (const char *)context);

	return rblk_tls_expand(secret, info, (size_t)length, out);
}

static bool key_next(expand_fn expand, u8 key[RBLK_TLS_KEY_BYTES], const char *label, const char *context, size_t bytes)
{
	u8 extracted[RBLK_TLS_KEY_BYTES];
	bool well = rblk_tls_extract(key, extracted) && expand(extracted, label, context, bytes, key);

	OPENSSL_cleanse(extracted, sizeof(extracted));
	return well;
}

/* Whether the host was given its key to be transformed ("NVMeTLSkey-1:01:"), or as it is (00), nobody tells. */
#define FORM_OLD 1u
#define FORM_PLAIN 2u

static bool derive(const struct rblk_secrets *secrets, unsigned int n, unsigned int form, const char *identity,
		   u8 key[RBLK_TLS_KEY_BYTES])
{
	expand_fn expand = form & FORM_OLD ? expand_old : rblk_tls_expand_label;
	const char *host = identity + HEAD_BYTES;
	char context[RBLK_TLS_INFO_BYTES];

	memcpy(key, rblk_secrets_bytes(secrets, n), RBLK_TLS_KEY_BYTES);
	if (!(form & FORM_PLAIN) && !key_next(expand, key, "HostNQN", host, strcspn(host, " ")))
		return false;
	if (identity[VERSION] == '0')
		snprintf(context, sizeof(context), "%s", identity);
	else
		snprintf(context, sizeof(context), "01 %s", strrchr(identity, ' ') + 1);
	return key_next(expand, key, "nvme-tls-psk", context, strlen(context));
}

static const struct rblk_tls_dialect dialect = {.parse = parse, .derive = derive, .forms = 4};

const struct rblk_tls_dialect *tgt_nvme_tls(void)
{
	return &dialect;
}

/* -- what was proven ----------------------------------------------------------------------------- */

bool nvme_tls_is_of(const struct rblk_tls *tls, const struct nvme_identity *identity)
{
	const char *text = rblk_tls_identity_text(tls) + HEAD_BYTES;
	char told[2 * NVME_NQN_BYTES];
	size_t length = (size_t)snprintf(told, sizeof(told), "%s %s", identity->host, identity->subsystem);

	return strncmp(text, told, length) == 0 && (text[length] == '\0' || text[length] == ' ');
}
