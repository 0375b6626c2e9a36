/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The fence domain of domain.h, from what Linux says of machine and device. */
#include "target/store/domain.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/sysmacros.h>
#include <uuid/uuid.h>
#include "proto/core/env.h"
#include "target/base/log.h"
#include "target/base/settings.h"

#define WORD_BYTES 128

/* The first line of a file, without what ends it. False: there is none, or it is empty. */
static bool file_word(const char *path, char word[WORD_BYTES])
{
	FILE *file = fopen(path, "re");
	bool got;

	if (!file)
		return false;
	got = fgets(word, WORD_BYTES, file) != NULL;
	fclose(file);
	if (!got)
		return false;
	word[strcspn(word, "\n")] = 0;
	return word[0] != 0;
}

/* -- the machine ------------------------------------------------------------------------------- */

/* Numbers that makers of boards forget to replace; and too few different digits to be anyone's own. */
static bool is_own(const char *uuid)
{
	static const char *const placeholders[] = {
		"03000200-0400-0500-0006-000700080009",
		"00020003-0004-0005-0006-000700080009",
	};
	unsigned int seen = 0, digits = 0;

	for (unsigned int i = 0; i < sizeof(placeholders) / sizeof(*placeholders); i++)
		if (!strcasecmp(uuid, placeholders[i]))
			return false;
	for (; *uuid; uuid++)
		if (*uuid != '-' && *uuid != '0' && !(seen & 1u << (*uuid & 31))) {
			seen |= 1u << (*uuid & 31);
			digits++;
		}
	return digits >= 4;
}

/*
 * systemd reads the first for a service that is not root's: rblkd.service asks for it. Then what
 * root may read, and what a device tree has instead.
 */
static bool machine_uuid(const char *root, const char *credentials, char word[WORD_BYTES])
{
	static const char *const places[] = {
		"/sys/class/dmi/id/product_uuid",
		"/sys/firmware/devicetree/base/vm,uuid",
		"/sys/firmware/devicetree/base/serial-number",
	};
	char path[PATH_MAX];

	if (credentials) {
		snprintf(path, sizeof(path), "%s/product_uuid", credentials);
		if (file_word(path, word) && is_own(word))
			return true;
	}
	for (unsigned int i = 0; i < sizeof(places) / sizeof(*places); i++) {
		snprintf(path, sizeof(path), "%s%s", root, places[i]);
		if (file_word(path, word) && is_own(word))
			return true;
	}
	return false;
}

bool tgt_domain_machine(const char *root, const char *credentials, char words[TGT_MACHINE_BYTES])
{
	char uuid[WORD_BYTES], id[ENV_MACHINE_ID_BYTES], boot[WORD_BYTES], path[PATH_MAX];

	words[0] = 0;
	if (machine_uuid(root, credentials, uuid)) {
		env_machine_id(root, id); /* in a container there may be none */
		snprintf(words, TGT_MACHINE_BYTES, "machine %.100s %.100s", uuid, id);
		return true;
	}
	snprintf(path, sizeof(path), "%s/proc/sys/kernel/random/boot_id", root);
	if (file_word(path, boot)) /* else not even /proc is there */
		snprintf(words, TGT_MACHINE_BYTES, "boot - %.100s", boot);
	return false;
}

/* -- the store --------------------------------------------------------------------------------- */

void tgt_domain_device(const char *root, uint64_t device, char words[TGT_DEVICE_BYTES])
{
	if (!tgt_device_name(root, device, words))
		snprintf(words, TGT_DEVICE_BYTES, "device %u:%u", major(device), minor(device));
}

/* As for the cache epoch (path.c), a file's birth stands for its file system where that knows it. */
static void store_words(const struct tgt_store_info *info, const char *name, char words[TGT_DEVICE_BYTES])
{
	if (info->id.is_device)
		tgt_domain_device("", info->id.device, words);
	else if (info->id.device || info->id.inode)
		snprintf(words, TGT_DEVICE_BYTES, "file %" PRIx64 " %" PRIx64 " %" PRIx64 ".%" PRIu64,
			 info->born_s ? 0 : info->id.device, info->id.inode, info->born_s, info->born_ns);
	else
		snprintf(words, TGT_DEVICE_BYTES, "memory %s", name);
}

void tgt_domain_warn(const struct tgt_store_info *info, const struct tgt_volume_config *config)
{
	static bool said;

	if (said || !info->machine_is_nobody || !uuid_is_null(config->fence_domain) ||
	    (!info->id.device && !info->id.inode))
		return;
	said = true;
	tgt_log(TGT_LOG_WARNING,
		"volume %s: sessions will not go on with it after a reboot: rblkd finds no UUID of this machine (in "
		"/sys/class/dmi/id/product_uuid, which root alone may read unless the unit has LoadCredential= for it, "
		"as rblkd.service has, or in the device tree); set fence_domain if only this machine serves it",
		config->name);
}

void tgt_domain_local(struct tgt_store_info *info, const struct tgt_volume_config *config)
{
	static const uuid_t space = {0x8c, 0x05, 0x4b, 0xd1, 0x6e, 0x3a, 0x47, 0x90,
				     0xb2, 0x1f, 0x77, 0xd4, 0x0a, 0x9c, 0x5e, 0x63};
	char machine[TGT_MACHINE_BYTES], store[TGT_DEVICE_BYTES];
	char text[TGT_MACHINE_BYTES + TGT_DEVICE_BYTES];

	info->machine_is_nobody = !tgt_domain_machine("", getenv("CREDENTIALS_DIRECTORY"), machine);
	memset(info->fence_domain, 0, sizeof(info->fence_domain));
	if (!machine[0])
		return;
	store_words(info, config->name, store);
	snprintf(text, sizeof(text), "%s|%s", machine, store);
	uuid_generate_sha1(info->fence_domain, space, text, strlen(text));
}
