/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The files of reservation_file.h: a head, then a record for each registrant, with a checksum over
 * all. Little-endian, and checked on loading like data from a peer.
 */
#include "target/store/reservation_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>
#include "proto/digest/digest.h"
#include "proto/wire/wire_check.h"
#include "target/base/denied.h"
#include "target/base/error.h"
#include "target/store/folder.h"

#define FILE_VERSION 1u

static const char magic[8] = "rblkPR\n";

struct file_head {
	char magic[8];
	__le32 version;
	__le32 crc; /* CRC32C of the file with 0 here */
	uint8_t uuid[16];
	__le32 generation;
	__le32 count;
	uint8_t type;
	uint8_t reserved[7];
};
RBLK_ASSERT_SIZE(struct file_head, 48);

struct file_registrant {
	char initiator[RBLK_NAME_BYTES];
	uint8_t host[TGT_REGISTRANT_HOST_BYTES];
	__le64 key;
	uint8_t holder;
	uint8_t reserved[7];
};
RBLK_ASSERT_SIZE(struct file_registrant, 104);

struct file_image {
	struct file_head head;
	struct file_registrant registrants[RBLK_REGISTRANTS_MAX];
};

static size_t image_bytes(uint32_t count)
{
	return sizeof(struct file_head) + count * sizeof(struct file_registrant);
}

static uint32_t image_crc(const struct file_image *image, uint32_t count)
{
	struct file_head head = image->head;

	head.crc = 0;
	return rblk_digest(rblk_digest(0, &head, sizeof(head)), image->registrants,
			   count * sizeof(struct file_registrant));
}

static int file_path(const char *folder, const uint8_t uuid[16], char path[PATH_MAX])
{
	char text[UUID_STR_LEN];
	int length;

	uuid_unparse_lower(uuid, text);
	length = snprintf(path, PATH_MAX, "%s/reservations-%s", folder, text);
	return length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

bool tgt_reservation_exists(const char *folder, const uint8_t uuid[16], char path[PATH_MAX])
{
	return file_path(folder, uuid, path) == 0 && access(path, F_OK) == 0;
}

/* -- loading ----------------------------------------------------------------------------------- */

/* NULL, or what is wrong with it. */
static const char *image_fault(const struct file_image *image, size_t bytes, const uint8_t uuid[16])
{
	const struct file_head *head = &image->head;
	uint32_t count, holders = 0;

	if (bytes < sizeof(*head))
		return "it is cut short";
	if (memcmp(head->magic, magic, sizeof(magic)))
		return "it is no file of reservations";
	if (rblk_le32(head->version) != FILE_VERSION)
		return "another version of rblkd wrote it";
	count = rblk_le32(head->count);
	if (!count || count > RBLK_REGISTRANTS_MAX || bytes != image_bytes(count))
		return "its length is wrong";
	if (image_crc(image, count) != rblk_le32(head->crc))
		return "its checksum is wrong";
	if (memcmp(head->uuid, uuid, sizeof(head->uuid)))
		return "it is another volume's";
	if (head->type > RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL)
		return "its type of reservation is unknown";
	for (uint32_t i = 0; i < count; i++) {
		const struct file_registrant *registrant = &image->registrants[i];

		holders += registrant->holder != 0;
		if (!rblk_name_valid(registrant->initiator) || !registrant->key)
			return "a registrant in it is malformed";
	}
	if (holders > 1 || (holders && !head->type))
		return "its holder is ambiguous";
	return NULL;
}

static void image_decode(const struct file_image *image, struct tgt_reservation *reservation)
{
	reservation->generation = rblk_le32(image->head.generation);
	reservation->type = image->head.type;
	reservation->persist = true;
	reservation->count = rblk_le32(image->head.count);
	for (unsigned int i = 0; i < reservation->count; i++) {
		const struct file_registrant *from = &image->registrants[i];
		struct tgt_registrant *to = &reservation->registrants[i];

		memcpy(to->initiator, from->initiator, sizeof(to->initiator));
		memcpy(to->host, from->host, sizeof(to->host));
		to->key = rblk_le64(from->key);
		to->holder = from->holder;
	}
}

/* Returns how many bytes there are; more than the image has room for count as one more. */
static ssize_t file_read(int fd, struct file_image *image)
{
	size_t done = 0;
	char more;

	while (done < sizeof(*image)) {
		ssize_t got = read(fd, (char *)image + done, sizeof(*image) - done);

		if (got < 0)
			return -errno;
		if (!got)
			return (ssize_t)done;
		done += (size_t)got;
	}
	return (ssize_t)done + (read(fd, &more, 1) == 1);
}

/* 0: there is no file. Returns how many bytes it has, or negative errno. */
static ssize_t file_load(const char *path, struct file_image *image, char *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char advice[TGT_DENIED_BYTES];
	ssize_t bytes;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return tgt_error(error, -errno, "%s: %s%s", path, strerror(errno), tgt_denied(path, errno, advice));
	bytes = file_read(fd, image);
	close(fd);
	if (bytes < 0)
		return tgt_error(error, (int)bytes, "%s: %s", path, strerror((int)-bytes));
	/* An empty one is damaged. */
	return bytes ? bytes : 1;
}

int tgt_reservation_load(const char *folder, const uint8_t uuid[16],
			 struct tgt_reservation *reservation, char *error)
{
	struct file_image image = {.head.count = 0};
	char path[PATH_MAX];
	const char *fault;
	ssize_t bytes;
	int err;

	memset(reservation, 0, sizeof(*reservation));
	if (file_path(folder, uuid, path))
		return tgt_error(error, -ENAMETOOLONG, "%s: the path is too long", folder);
	bytes = file_load(path, &image, error);
	if (bytes < 0)
		return (int)bytes;
	fault = bytes ? image_fault(&image, (size_t)bytes, uuid) : NULL;
	if (fault)
		return tgt_error(error, -EBADMSG,
				 "%s: %s: remove it to serve the volume without its reservations",
				 path, fault);
	/* The last save may have ended before its name was durable. */
	err = tgt_folder_sync(folder);
	if (err)
		return tgt_error(error, err, "%s: %s", folder, strerror(-err));
	if (bytes)
		image_decode(&image, reservation);
	return 0;
}

/* -- saving ------------------------------------------------------------------------------------ */

static void image_encode(const struct tgt_reservation *reservation, const uint8_t uuid[16],
			 struct file_image *image)
{
	memset(image, 0, sizeof(*image));
	memcpy(image->head.magic, magic, sizeof(magic));
	memcpy(image->head.uuid, uuid, sizeof(image->head.uuid));
	image->head.version = rblk_to_le32(FILE_VERSION);
	image->head.generation = rblk_to_le32(reservation->generation);
	image->head.count = rblk_to_le32(reservation->count);
	image->head.type = reservation->type;
	for (unsigned int i = 0; i < reservation->count; i++) {
		const struct tgt_registrant *from = &reservation->registrants[i];
		struct file_registrant *to = &image->registrants[i];

		memcpy(to->initiator, from->initiator, sizeof(to->initiator));
		memcpy(to->host, from->host, sizeof(to->host));
		to->key = rblk_to_le64(from->key);
		to->holder = from->holder;
	}
	image->head.crc = rblk_to_le32(image_crc(image, reservation->count));
}

/* The file is the new one, or there is none. An error: it is the old one. */
static int file_replace(const char *path, const uint8_t uuid[16], const struct tgt_reservation *reservation)
{
	struct file_image image;

	if (!reservation->persist || !reservation->count)
		return unlink(path) && errno != ENOENT ? -errno : 0;
	image_encode(reservation, uuid, &image);
	return tgt_folder_replace(path, &image, image_bytes(reservation->count));
}

int tgt_reservation_save(const char *folder, const uint8_t uuid[16],
			 const struct tgt_reservation *reservation, bool *replaced, char *error)
{
	char path[PATH_MAX];
	int err = file_path(folder, uuid, path);

	*replaced = false;
	if (err)
		return tgt_error(error, err, "%s: the path is too long", folder);
	err = file_replace(path, uuid, reservation);
	if (err)
		return tgt_error(error, err, "%s: %s", path, strerror(-err));
	*replaced = true;
	err = tgt_folder_sync(folder);
	return err ? tgt_error(error, err, "%s: %s", folder, strerror(-err)) : 0;
}
