/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * /run/rblk/rblkN.ATTACHMENT: under which name and by which URI a device was attached. The module
 * knows addresses, not names; detach, list and udev's rule want the names. An index is reused, an
 * attachment's number never: a stale record belongs to no other device, for udev's rule neither,
 * and removing one removes no other device's.
 */
#include "initiator/cmd/attach.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static void record_path(const char *root, const char *file, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/run/rblk/%s", root, file);
}

static void record_path_of(const char *root, const struct attached *attached, char path[PATH_MAX])
{
	char file[sizeof(attached->device) + sizeof(attached->attachment) + 1];

	snprintf(file, sizeof(file), "%s.%s", attached->device, attached->attachment);
	record_path(root, file, path);
}

/* The folder, locked against other writers until the descriptor is closed; or -errno. */
static int record_lock(const char *root)
{
	char path[PATH_MAX];
	int fd, err;

	record_path(root, "", path);
	if (mkdir(path, 0755) && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Held while a small file is written; nothing waits for the network under it. */
	if (flock(fd, LOCK_EX)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

/* KEY=VALUE, as udev imports it. */
static bool record_value(const char *line, const char *key, char *value, size_t bytes)
{
	size_t length = strlen(key);

	if (strncmp(line, key, length) || line[length] != '=')
		return false;
	snprintf(value, bytes, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
	return true;
}

void attach_record_read(const char *root, struct attached *attached)
{
	char path[PATH_MAX], line[1024];
	FILE *file;

	record_path_of(root, attached, path);
	file = fopen(path, "re");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file))
		(void)(record_value(line, "RBLK_NAME", attached->name, sizeof(attached->name)) ||
		       record_value(line, "RBLK_URI", attached->uri, sizeof(attached->uri)));
	fclose(file);
}

static bool record_name_taken(const char *root, const struct attached *attached)
{
	struct attached *list;
	bool taken = false;
	int count = attached_list(root, &list);

	for (int i = 0; i < count; i++)
		if (strcmp(list[i].device, attached->device) &&
		    !strcmp(list[i].name, attached->name))
			taken = true;
	free(list);
	return taken;
}

static int record_put(const char *root, const struct attached *attached)
{
	char path[PATH_MAX], fresh[PATH_MAX];
	FILE *file;
	int err = 0;

	record_path_of(root, attached, path);
	record_path(root, ".new", fresh);
	file = fopen(fresh, "we");
	if (!file)
		return -errno;
	if (fprintf(file, "RBLK_NAME=%s\nRBLK_URI=%s\n", attached->name, attached->uri) < 0)
		err = -EIO;
	if (fclose(file) && !err)
		err = -errno;
	if (!err && rename(fresh, path))
		err = -errno;
	if (err)
		unlink(fresh);
	return err;
}

int attach_record_write(const char *root, const struct attached *attached)
{
	int lock = record_lock(root);
	int err;

	if (lock < 0)
		return lock;
	if (attached->name[0] && record_name_taken(root, attached))
		err = -EEXIST;
	else
		err = record_put(root, attached);
	close(lock);
	return err;
}

void attach_record_remove(const char *root, const struct attached *attached)
{
	char path[PATH_MAX];

	record_path_of(root, attached, path);
	unlink(path);
}

/* Was the device removed whose attachment the file's name ends with? */
static bool record_stale(const char *root, const char *file)
{
	struct attached attached;
	char device[sizeof(attached.device)];

	snprintf(device, sizeof(device), "%.*s", (int)strcspn(file, "."), file);
	return attached_read(root, device, &attached) ||
	       file[strlen(device)] != '.' || strcmp(file + strlen(device) + 1, attached.attachment);
}

/*
 * Without the lock: a record is written when its device is in sysfs. If its attachment is not found
 * afterwards, its device was removed.
 */
void attach_record_clean(const char *root)
{
	struct dirent *entry;
	char path[PATH_MAX];
	DIR *dir;

	record_path(root, "", path);
	dir = opendir(path);
	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, "rblk", 4) && record_stale(root, entry->d_name))
			unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
}
