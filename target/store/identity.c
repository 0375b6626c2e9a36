/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The order of identity.h: what is configured, what is kept, what follows from machine, path and name. */
#include "target/store/identity.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>
#include "proto/core/env.h"
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/store/folder.h"
#include "target/store/identity_file.h"
#include "target/store/reservation_file.h"
#include "target/store/store.h"

/* Identifies this machine. False: it has no id, and this is its host name, which may change. */
static bool machine_name(char name[ENV_MACHINE_ID_BYTES])
{
	if (env_machine_id("", name))
		return true;
	if (gethostname(name, ENV_MACHINE_ID_BYTES - 1) == 0)
		name[ENV_MACHINE_ID_BYTES - 1] = 0;
	return false;
}

/* "DIRECTORY/": what makes the path absolute. */
static void path_directory(const struct tgt_volume_config *config, char directory[PATH_MAX + 1])
{
	directory[0] = 0;
	if (config->path[0] && config->path[0] != '/' && getcwd(directory, PATH_MAX))
		strcat(directory, "/");
}

bool tgt_identity_derive(const struct tgt_volume_config *config, uint8_t uuid[16])
{
	static const uuid_t space = {0x3f, 0x7a, 0x1c, 0x52, 0x0d, 0x94, 0x4e, 0x6b,
				     0x9a, 0x21, 0x6d, 0x88, 0xe0, 0x47, 0xb3, 0x15};
	char text[PATH_MAX + sizeof(config->path) + 256 + RBLK_NAME_BYTES];
	char machine[ENV_MACHINE_ID_BYTES], directory[PATH_MAX + 1];
	bool lasts = machine_name(machine);
	int length;

	path_directory(config, directory);
	length = snprintf(text, sizeof(text), "%s|%s%s|%s", machine, directory, config->path, config->name);
	uuid_generate_sha1(uuid, space, text, (size_t)length);
	return lasts;
}

/* A device that has no identity of its own is the one at that path, as long as the volume has that name. */
static void key_of_path(const struct tgt_volume_config *config, char key[TGT_STORE_KEY_BYTES])
{
	char directory[PATH_MAX + 1], text[PATH_MAX + sizeof(config->path) + RBLK_NAME_BYTES + 8];
	int length;
	uuid_t hash;

	path_directory(config, directory);
	length = snprintf(text, sizeof(text), "%s%s|%s", directory, config->path, config->name);
	uuid_generate_sha1(hash, (const uuid_t){0}, text, (size_t)length);
	strcpy(key, "path ");
	uuid_unparse_lower(hash, key + strlen(key));
}

/* The identity that was kept of it. The reservations of a UUID that it had are not to be forgotten. */
static int identity_former(const struct tgt_volume_config *config, const char *folder, const uint8_t former[16], char *error)
{
	char uuid[UUID_STR_LEN], path[PATH_MAX];

	if (!tgt_reservation_exists(folder, former, path))
		return 0;
	uuid_unparse_lower(former, uuid);
	return tgt_error(error, -EEXIST,
			 "volume %s: %s: initiators know it as %s, and reservations are kept for that: set uuid = %s, or "
			 "remove %s to serve it without them",
			 config->name, config->path, uuid, uuid, path);
}

int tgt_identity_find(const struct tgt_volume_config *config, const char *folder, struct tgt_identity *identity,
		      char *error)
{
	struct tgt_identity_record record = {.block_bytes = 0}, before = {.block_bytes = 0};
	char reason[TGT_ERROR_BYTES];
	int found = -ENOENT, mine = -ENOENT;
	uint8_t former[16];
	bool known, own;

	memset(identity, 0, sizeof(*identity));
	if (tgt_store_file(config) && tgt_store_key(config->path, identity->key) == 0 && !identity->key[0])
		key_of_path(config, identity->key);
	known = folder && identity->key[0] && tgt_identity_file_find(folder, identity->key, former);
	/* It may be another store's meanwhile, which has come to the same path. */
	if (known)
		found = tgt_identity_file_read(folder, former, &before, reason);
	own = found == 0 && !strcmp(before.key, identity->key);
	/* A file that is only read may be served as several volumes: it is known by its name, too. */
	if (config->read_only)
		known = own && !strcmp(before.name, config->name);
	if (!uuid_is_null(config->uuid))
		memcpy(identity->uuid, config->uuid, sizeof(identity->uuid));
	else if (known)
		memcpy(identity->uuid, former, sizeof(identity->uuid));
	else
		identity->passing = !tgt_identity_derive(config, identity->uuid);
	if (folder && identity->key[0])
		mine = tgt_identity_file_read(folder, identity->uuid, &record, reason);
	/* Without it initiators would meet another size of blocks, perhaps. */
	if (found == -EACCES || mine == -EACCES)
		return tgt_error(error, -EACCES, "volume %s: %.450s", config->name, reason);
	if (mine == 0) {
		identity->block_bytes = record.block_bytes;
		identity->kept = own && !memcmp(former, identity->uuid, sizeof(former)) && !strcmp(record.name, config->name);
	}
	if (own && !config->read_only && memcmp(former, identity->uuid, sizeof(former)))
		return identity_former(config, folder, former, error);
	return 0;
}

int tgt_identity_keep(const struct tgt_volume_config *config, const char *folder, const struct tgt_identity *identity,
		      uint32_t block_bytes, char *error)
{
	struct tgt_identity_record record = {.block_bytes = block_bytes};
	char reason[TGT_ERROR_BYTES] = "it is only read";
	int err = -EROFS;

	if (!identity->key[0] || (identity->kept && identity->block_bytes == block_bytes))
		return 0;
	snprintf(record.key, sizeof(record.key), "%s", identity->key);
	snprintf(record.name, sizeof(record.name), "%s", config->name);
	if (!folder)
		err = tgt_error(reason, -ENOENT, "there is no reservations_dir that can be used");
	else if (identity->passing && tgt_folder_is_anonymous(folder))
		err = tgt_error(reason, -ENOENT, "%s is a volume without a name, which goes with this container (give it one: -v NAME:%s)",
				folder, folder);
	else if (!config->read_only)
		err = tgt_identity_file_write(folder, identity->uuid, &record, reason);
	if (err && identity->passing)
		return tgt_error(error, err,
				 "volume %s: %s: this machine has no /etc/machine-id, so it would be another volume when the "
				 "host name changes, and that cannot be kept: %.300s: set uuid",
				 config->name, config->path, reason);
	if (!err && identity->passing)
		tgt_log(TGT_LOG_WARNING,
			"volume %s: %s: this machine has no /etc/machine-id: %s has to outlive it, or initiators take the volume "
			"for another one; or set uuid",
			config->name, config->path, folder);
	if (err && folder && !config->read_only)
		tgt_log(TGT_LOG_WARNING, "volume %s: %s: its identity cannot be kept: %s", config->name, config->path, reason);
	return 0;
}
