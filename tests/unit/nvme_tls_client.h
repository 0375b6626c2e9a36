/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An NVMe host's end of TLS, of OpenSSL alone: the identity and key of a secret, by OpenSSL's own HKDF, and a client
 * that has them. Nothing of it is the product's.
 */
#ifndef RBLK_TESTS_UNIT_NVME_TLS_CLIENT_H
#define RBLK_TESTS_UNIT_NVME_TLS_CLIENT_H

#include <openssl/ssl.h>
#include <stdint.h>

#define NVME_TLS_OLD 1u	  /* form: as libnvme 1.13 */
#define NVME_TLS_PLAIN 2u /* "NVMeTLSkey-1:00:" */

struct nvme_tls_key {
	char identity[512];
	uint8_t psk[32];
};

void nvme_tls_key_make(struct nvme_tls_key *key, const uint8_t secret[32], const char *host, const char *subsystem,
		       unsigned int version, unsigned int form);
/* As OpenSSL takes a key. The caller frees it. */
SSL_SESSION *nvme_tls_session(const struct nvme_tls_key *key, SSL *ssl);
/* A client on the socket, which has this key for as long as it is there. version: TLS1_3_VERSION, or the test's. */
SSL *nvme_tls_client(const struct nvme_tls_key *key, int fd, int version);

#endif
