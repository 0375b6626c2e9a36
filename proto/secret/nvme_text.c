/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Secrets as NVMe's programs have them, for DH-HMAC-CHAP ("DHHC-1:") and TLS ("NVMeTLSkey-1:"): behind that, with which
 * hash the key is transformed (00: it is not, 01: SHA-256), and in base64 the key and its CRC-32. Keys of other lengths
 * than 32 bytes are none of rblk's.
 */
#include "proto/secret/secret_impl.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#define KEY_TEXT_BYTES 48u /* of 36 bytes, without padding */
#define CRC_BYTES 4u

/* The CRC-32 of zip, Ethernet and so on; of a few bytes, for people's mistakes. */
static u32 crc32_of(const u8 *bytes, size_t length)
{
	u32 crc = 0xffffffff;

	for (size_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		for (unsigned int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

static void crc_put(u8 key[RBLK_SECRET_BYTES + CRC_BYTES])
{
	__le32 crc = rblk_to_le32(crc32_of(key, RBLK_SECRET_BYTES));

	memcpy(key + RBLK_SECRET_BYTES, &crc, sizeof(crc));
}

/* The length of what it begins with; 0: it is no secret of NVMe's. */
static size_t kind_length(const char *line, size_t length)
{
	static const char *const kinds[] = {RBLK_NVME_PREFIX, RBLK_NVME_TLS_PREFIX};

	for (unsigned int i = 0; i < 2; i++)
		if (length >= strlen(kinds[i]) && !memcmp(line, kinds[i], strlen(kinds[i])))
			return strlen(kinds[i]);
	return 0;
}

bool rblk_nvme_is_text(const char *line, size_t length)
{
	return kind_length(line, length);
}

const char *rblk_nvme_parse(const char *line, size_t length, u8 secret[RBLK_SECRET_BYTES])
{
	const size_t prefix = kind_length(line, length) + strlen("01:");
	u8 key[RBLK_SECRET_BYTES + CRC_BYTES], right[sizeof(key)];
	const char *wrong = NULL;

	if (length < prefix || line[prefix - 1] != ':' || line[length - 1] != ':')
		return "is not a whole secret: " RBLK_NVME_PREFIX "01: or " RBLK_NVME_TLS_PREFIX
		       "01:, its base64 and a colon";
	if (line[prefix - 3] != '0' || (line[prefix - 2] != '0' && line[prefix - 2] != '1'))
		return "is of another hash: 00: and 01: are known";
	if (length != prefix + KEY_TEXT_BYTES + 1)
		return "has not the length of a secret of 32 bytes";
	if (line[length - 2] == '=' ||
	    EVP_DecodeBlock(key, (const u8 *)line + prefix, KEY_TEXT_BYTES) != (int)sizeof(key))
		wrong = "is no base64 of a secret of 32 bytes";
	memcpy(right, key, RBLK_SECRET_BYTES);
	crc_put(right);
	if (!wrong && memcmp(right, key, sizeof(key)) != 0)
		wrong = "has another checksum: it was changed or cut";
	if (!wrong)
		memcpy(secret, key, RBLK_SECRET_BYTES);
	OPENSSL_cleanse(key, sizeof(key));
	OPENSSL_cleanse(right, sizeof(right));
	return wrong;
}

void rblk_nvme_derive(const struct rblk_secrets *secrets, unsigned int n, u8 out[RBLK_SECRET_BYTES])
{
	static const char nobody[RBLK_NAME_BYTES];

	rblk_derive(secrets, n, "rblk nvme 1", nobody, out);
}

void rblk_nvme_text(const struct rblk_secrets *secrets, enum rblk_nvme_use use, char text[RBLK_NVME_TEXT_BYTES])
{
	const char *kind = use == RBLK_NVME_TLS ? RBLK_NVME_TLS_PREFIX "01:" : RBLK_NVME_PREFIX "01:";
	u8 key[RBLK_SECRET_BYTES + CRC_BYTES];

	if (use == RBLK_NVME_TARGET)
		rblk_nvme_derive(secrets, 0, key);
	else
		memcpy(key, secrets->list[0], RBLK_SECRET_BYTES);
	crc_put(key);
	strcpy(text, kind);
	EVP_EncodeBlock((u8 *)text + strlen(kind), key, sizeof(key));
	strcat(text, ":");
	OPENSSL_cleanse(key, sizeof(key));
}
