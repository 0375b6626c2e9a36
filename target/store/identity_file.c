/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The text of "volume-UUID", which an administrator may read:
 *   # Kept by rblkd: how initiators know this volume.
 *   name data
 *   block_size 512
 *   store file 6f0a... 12 1764000000.000000001
 * "store-HASH" is a symbolic link, and HASH follows from the text behind `store`.
 */
#include "target/store/identity_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>
#include "target/base/denied.h"
#include "target/base/error.h"
#include "target/store/folder.h"

#define TEXT_BYTES 1024u

static const char link_prefix[] = "volume-";

static int volume_path(const char *folder, const uint8_t uuid[16], char path[PATH_MAX])
{
	char text[UUID_STR_LEN];

	uuid_unparse_lower(uuid, text);
	return snprintf(path, PATH_MAX, "%s/%s%s", folder, link_prefix, text) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int store_path(const char *folder, const char *key, char path[PATH_MAX])
{
	char text[UUID_STR_LEN];
	uuid_t hash;

	uuid_generate_sha1(hash, (const uuid_t){0}, key, strlen(key));
	uuid_unparse_lower(hash, text);
	return snprintf(path, PATH_MAX, "%s/store-%s", folder, text) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

bool tgt_identity_file_find(const char *folder, const char *key, uint8_t uuid[16])
{
	char path[PATH_MAX], target[sizeof(link_prefix) + UUID_STR_LEN];
	ssize_t length;

	if (store_path(folder, key, path))
		return false;
	length = readlink(path, target, sizeof(target) - 1);
	if (length < 0)
		return false;
	target[length] = 0;
	return !strncmp(target, link_prefix, strlen(link_prefix)) && !uuid_parse(target + strlen(link_prefix), uuid) &&
	       !uuid_is_null(uuid);
}

/* The rest of the line that begins with this word and a blank; false: there is none, or it does not fit. */
static bool line_get(const char *text, const char *word, char *rest, size_t bytes)
{
	size_t length = strlen(word), size;

	for (;; text++) {
		if (!strncmp(text, word, length) && text[length] == ' ')
			break;
		text = strchr(text, '\n');
		if (!text)
			return false;
	}
	text += length + 1;
	size = strcspn(text, "\n");
	if (size >= bytes)
		return false;
	memcpy(rest, text, size);
	rest[size] = 0;
	return true;
}

static bool record_parse(const char *text, struct tgt_identity_record *record)
{
	char block[16];

	if (!line_get(text, "name", record->name, sizeof(record->name)) ||
	    !line_get(text, "store", record->key, sizeof(record->key)) ||
	    !line_get(text, "block_size", block, sizeof(block)))
		return false;
	record->block_bytes = (uint32_t)strtoul(block, NULL, 10);
	return record->block_bytes >= RBLK_BLOCK_BYTES_MIN && record->block_bytes <= RBLK_BLOCK_BYTES_MAX &&
	       !(record->block_bytes & (record->block_bytes - 1));
}

int tgt_identity_file_read(const char *folder, const uint8_t uuid[16], struct tgt_identity_record *record, char *error)
{
	char path[PATH_MAX], text[TEXT_BYTES], advice[TGT_DENIED_BYTES];
	ssize_t length;
	int fd;

	if (volume_path(folder, uuid, path))
		return -ENOENT;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && errno == EACCES)
		return tgt_error(error, -EACCES, "%s: %s%s", path, strerror(EACCES), tgt_denied(path, EACCES, advice));
	if (fd < 0)
		return -ENOENT;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length < 0)
		return -ENOENT;
	text[length] = 0;
	return record_parse(text, record) ? 0 : -ENOENT;
}

/* If the process is killed here, the next one overwrites what it has left. */
static int link_replace(const char *folder, const uint8_t uuid[16], const char *key)
{
	char path[PATH_MAX], fresh[PATH_MAX + 8], target[PATH_MAX], text[UUID_STR_LEN];
	int err = store_path(folder, key, path);

	if (err)
		return err;
	uuid_unparse_lower(uuid, text);
	snprintf(target, sizeof(target), "%s%s", link_prefix, text);
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	if (unlink(fresh) && errno != ENOENT)
		return -errno;
	if (symlink(target, fresh) || rename(fresh, path))
		return -errno;
	return 0;
}

int tgt_identity_file_write(const char *folder, const uint8_t uuid[16], const struct tgt_identity_record *record,
			    char *error)
{
	char path[PATH_MAX], text[TEXT_BYTES];
	int length, err = volume_path(folder, uuid, path);

	length = snprintf(text, sizeof(text),
			  "# Kept by rblkd: how initiators know this volume.\nname %s\nblock_size %u\nstore %s\n", record->name,
			  record->block_bytes, record->key);
	if (!err)
		err = tgt_folder_replace(path, text, (size_t)length);
	if (!err)
		err = link_replace(folder, uuid, record->key);
	if (!err)
		err = tgt_folder_sync(folder);
	return err ? tgt_error(error, err, "%s: %s", path, strerror(-err)) : 0;
}
