/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The users of a disk that do not end by themselves: a file system, swap, a device mapped over it;
 * of the disk or of its partitions. The module only counts opens; this says what to end first.
 */
#include "initiator/cmd/attach.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* "259:3" of the folder's device, which identifies it in mountinfo. */
static bool users_number(const char *folder, char *number, int bytes)
{
	char path[PATH_MAX];
	bool found;
	FILE *file;

	snprintf(path, sizeof(path), "%s/dev", folder);
	file = fopen(path, "re");
	if (!file)
		return false;
	found = fgets(number, bytes, file) != NULL;
	fclose(file);
	number[strcspn(number, "\n")] = '\0';
	return found;
}

static bool users_holder(const char *folder, char *text, size_t bytes)
{
	char path[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/holders", folder);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir))) {
		found = entry->d_name[0] != '.';
		if (found)
			snprintf(text, bytes, "used by %s", entry->d_name);
	}
	closedir(dir);
	return found;
}

/* mountinfo: "36 35 98:0 /root /mountpoint options ...", blanks in it are \040. */
static bool users_mount(const char *root, const char *number, char *text, size_t bytes)
{
	char path[PATH_MAX], line[2 * PATH_MAX], device[32], point[PATH_MAX];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/self/mountinfo", root);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		found = sscanf(line, "%*d %*d %31s %*s %4095s", device, point) == 2 &&
			!strcmp(device, number);
		if (found)
			snprintf(text, bytes, "mounted at %s", point);
	}
	fclose(file);
	return found;
}

static bool users_swap(const char *root, const char *name, char *text, size_t bytes)
{
	char path[PATH_MAX], line[PATH_MAX + 64], device[PATH_MAX], own[300];
	bool found = false;
	FILE *file;

	snprintf(own, sizeof(own), "/dev/%s", name);
	snprintf(path, sizeof(path), "%s/proc/swaps", root);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file))
		found = sscanf(line, "%4095s", device) == 1 && !strcmp(device, own);
	fclose(file);
	if (found)
		snprintf(text, bytes, "in use as swap");
	return found;
}

/* One disk or partition. */
static bool users_of(const char *root, const char *folder, const char *name, char *text,
		     size_t bytes)
{
	char number[32];

	return users_number(folder, number, sizeof(number)) &&
	       (users_mount(root, number, text, bytes) || users_holder(folder, text, bytes) ||
		users_swap(root, name, text, bytes));
}

bool attached_users(const char *root, const char *device, char *text, size_t bytes)
{
	char folder[PATH_MAX], part[PATH_MAX + NAME_MAX + 2], own[ATTACH_REASON_BYTES];
	struct dirent *entry;
	bool found;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%s/sys/block/%s", root, device);
	found = users_of(root, folder, device, text, bytes);
	dir = found ? NULL : opendir(folder);
	while (dir && !found && (entry = readdir(dir))) {
		/* The folders of partitions begin with the disk's name. */
		if (strncmp(entry->d_name, device, strlen(device)))
			continue;
		snprintf(part, sizeof(part), "%s/%s", folder, entry->d_name);
		found = users_of(root, part, entry->d_name, own, sizeof(own));
		if (found)
			snprintf(text, bytes, "its partition %s is %s", entry->d_name, own);
	}
	if (dir)
		closedir(dir);
	return found;
}
