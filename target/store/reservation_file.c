/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The files of reservation_file.h.
 */
#include "target/store/reservation_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>
#include "target/base/denied.h"
#include "target/base/error.h"
#include "target/store/folder.h"
#include "target/store/reservation_image.h"

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

/* Returns how many bytes there are; more than the image has room for count as one more. */
static ssize_t file_read(int fd, struct tgt_reservation_image *image)
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
static ssize_t file_load(const char *path, struct tgt_reservation_image *image, char *error)
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
	struct tgt_reservation_image image = {.bytes = {0}};
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
	fault = bytes ? tgt_reservation_decode(&image, (size_t)bytes, uuid, reservation) : NULL;
	if (bytes && !fault && !reservation->count)
		fault = "its length is wrong";
	if (fault)
		return tgt_error(error, -EBADMSG,
				 "%s: %s: remove it to serve the volume without its reservations",
				 path, fault);
	/* The last save may have ended before its name was durable. */
	err = tgt_folder_sync(folder);
	if (!err)
		return 0;
	memset(reservation, 0, sizeof(*reservation));
	return tgt_error(error, err, "%s: %s", folder, strerror(-err));
}

/* -- saving ------------------------------------------------------------------------------------ */

/* The file is the new one, or there is none. An error: it is the old one. */
static int file_replace(const char *path, const uint8_t uuid[16], const struct tgt_reservation *reservation)
{
	struct tgt_reservation_image image;

	if (!reservation->persist || !reservation->count)
		return unlink(path) && errno != ENOENT ? -errno : 0;
	return tgt_folder_replace(path, &image, tgt_reservation_encode(reservation, uuid, &image));
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
