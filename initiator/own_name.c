/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The choice of own_name.h. */
#include "initiator/own_name.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "proto/wire/wire_check.h"

#define ID_DIGITS 32u /* of the machine's id, as systemd writes it */
#define NAME_BYTES_OF_ID 12u

/* machine-id(5): the id itself is not to be shown to others, so the name has a hash of it. */
static bool name_of_machine(char name[RBLK_NAME_BYTES])
{
	static const char purpose[] = "rblk initiator";
	unsigned char hash[EVP_MAX_MD_SIZE];
	char id[ENV_MACHINE_ID_BYTES], text[sizeof(purpose) + ID_DIGITS];

	if (!env_machine_id("", id) || strlen(id) != ID_DIGITS ||
	    strspn(id, "0123456789abcdef") != ID_DIGITS)
		return false;
	memcpy(text, purpose, sizeof(purpose));
	memcpy(text + sizeof(purpose), id, ID_DIGITS);
	if (!EVP_Digest(text, sizeof(purpose) + ID_DIGITS, hash, NULL, EVP_sha256(), NULL))
		return false;
	strcpy(name, "host-");
	for (unsigned int i = 0; i < NAME_BYTES_OF_ID; i++)
		snprintf(name + strlen(name), 3, "%02x", hash[i]);
	return true;
}

bool ini_own_name(char name[RBLK_NAME_BYTES])
{
	char host[RBLK_NAME_BYTES] = "";

	memset(name, 0, RBLK_NAME_BYTES);
	/* One that is longer is an error: cut short it may be another host's, too. */
	if (!gethostname(host, sizeof(host)))
		memcpy(name, host, strnlen(host, sizeof(host) - 1));
	if (rblk_name_distinct(name))
		return true;
	memset(name, 0, RBLK_NAME_BYTES);
	if (!name_of_machine(name))
		strcpy(name, RBLK_NAME_UNNAMED);
	return false;
}
