/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The memory of service_devices.h, of one process that checks. */
#include "target/control/service_devices.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define ENTRIES_MAX 128u

/* "block-*" or "/dev/sdb", with "rw". */
static struct {
	char what[256], may[8];
} entries[ENTRIES_MAX];
static unsigned int count;
static bool limited; /* otherwise only entries limit it */

void tgt_service_devices_take(const char *key, const char *value)
{
	if (!strcmp(key, "DeviceAllow") && count < ENTRIES_MAX &&
	    sscanf(value, "%255s %7s", entries[count].what, entries[count].may) == 2)
		count++;
	else if (!strcmp(key, "DevicePolicy"))
		limited |= !strcmp(value, "closed") || !strcmp(value, "strict");
	else if (!strcmp(key, "PrivateDevices"))
		limited |= !strcmp(value, "yes");
}

/* Does /proc/devices have the device's number by a name like this? Block devices are behind characters. */
static bool is_of_group(const struct stat *st, const char *pattern)
{
	FILE *file = fopen("/proc/devices", "re");
	bool block = false, found = false;
	unsigned int number;
	char line[128], name[64];

	while (file && !found && fgets(line, sizeof(line), file)) {
		block |= !strncmp(line, "Block", 5);
		if (sscanf(line, "%u %63s", &number, name) == 2)
			found = block == S_ISBLK(st->st_mode) && number == major(st->st_rdev) &&
				!fnmatch(pattern, name, 0);
	}
	if (file)
		fclose(file);
	return found;
}

static bool is_of(const struct stat *st, const char *what)
{
	struct stat other;

	if (!strncmp(what, "block-", 6))
		return S_ISBLK(st->st_mode) && (!strcmp(what + 6, "*") || is_of_group(st, what + 6));
	if (!strncmp(what, "char-", 5))
		return S_ISCHR(st->st_mode) && (!strcmp(what + 5, "*") || is_of_group(st, what + 5));
	return !stat(what, &other) && (other.st_mode & S_IFMT) == (st->st_mode & S_IFMT) &&
	       other.st_rdev == st->st_rdev;
}

bool tgt_service_devices_allow(const char *path, bool write)
{
	struct stat st;

	if ((!limited && !count) || stat(path, &st) || !(S_ISBLK(st.st_mode) || S_ISCHR(st.st_mode)))
		return true;
	for (unsigned int i = 0; i < count; i++)
		if (strchr(entries[i].may, 'r') && (!write || strchr(entries[i].may, 'w')) &&
		    is_of(&st, entries[i].what))
			return true;
	return false;
}
