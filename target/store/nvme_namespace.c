/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finding of nvme_namespace.h. In sysfs both devices of a namespace lie in one folder, that of their controller, or of
 * their subsystem if that has several; their names have the same numbers: ng0n1 and nvme0n1.
 */
#include "target/store/nvme_namespace.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "target/base/denied.h"
#include "target/base/error.h"

#define GENERIC "ng%un%u"
#define BLOCK "nvme%un%u"

/* "MAJOR:MINOR" in the file. */
static int read_device(const char *path, dev_t *device)
{
	unsigned int major_number, minor_number;
	FILE *file = fopen(path, "re");
	int got;

	if (!file)
		return -errno;
	got = fscanf(file, "%u:%u", &major_number, &minor_number);
	fclose(file);
	if (got != 2)
		return -EINVAL;
	*device = makedev(major_number, minor_number);
	return 0;
}

/* The device's folder in sysfs; its last part is its name, which is cut off. NULL: it has none. */
static const char *device_folder(const struct stat *st, char folder[PATH_MAX])
{
	char link[64];
	char *name;

	snprintf(link, sizeof(link), "/sys/dev/%s/%u:%u", S_ISCHR(st->st_mode) ? "char" : "block", major(st->st_rdev),
		 minor(st->st_rdev));
	if (!realpath(link, folder))
		return NULL;
	name = strrchr(folder, '/');
	*name = 0;
	return name + 1;
}

/* "ng0n1", or "nvme0n1", and nothing else. */
static bool name_is(const char *name, bool generic, unsigned int *instance, unsigned int *id)
{
	char whole[48];
	int got = generic ? sscanf(name, GENERIC, instance, id) : sscanf(name, BLOCK, instance, id);

	if (got != 2)
		return false;
	if (generic)
		snprintf(whole, sizeof(whole), GENERIC, *instance, *id);
	else
		snprintf(whole, sizeof(whole), BLOCK, *instance, *id);
	return strcmp(name, whole) == 0;
}

bool tgt_namespace_is_generic(const char *path)
{
	char folder[PATH_MAX];
	unsigned int instance, id;
	const char *name;
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISCHR(st.st_mode))
		return false;
	name = device_folder(&st, folder);
	return name && name_is(name, true, &instance, &id);
}

int tgt_namespace_find(const char *path, struct tgt_namespace *namespace, char *error)
{
	char folder[PATH_MAX], file[PATH_MAX + 64];
	unsigned int instance, id;
	char advice[TGT_DENIED_BYTES];
	const char *name, *last;
	struct stat st;
	bool generic;
	int err;

	memset(namespace, 0, sizeof(*namespace));
	if (stat(path, &st) < 0)
		return tgt_error(error, -errno, "%s: %s%s", path, strerror(errno), tgt_denied(path, errno, advice));
	generic = S_ISCHR(st.st_mode);
	name = generic || S_ISBLK(st.st_mode) ? device_folder(&st, folder) : NULL;
	if (!name || !name_is(name, generic, &instance, &id))
		return tgt_error(error, -EINVAL,
				 "%s: not a whole NVMe namespace (/dev/ngXnY or /dev/nvmeXnY)", path);
	snprintf(namespace->generic, sizeof(namespace->generic), "/dev/" GENERIC, instance, id);
	snprintf(namespace->block, sizeof(namespace->block), "/dev/" BLOCK, instance, id);
	snprintf(file, sizeof(file), "%s/" BLOCK "/dev", folder, instance, id);
	err = read_device(file, &namespace->block_device);
	if (err)
		return tgt_error(error, -ENODEV,
				 "%s: the kernel has no block device for this namespace (%s: %s)", path, file,
				 strerror(-err));
	snprintf(file, sizeof(file), "%s/" GENERIC "/dev", folder, instance, id);
	namespace->has_generic = read_device(file, &namespace->generic_device) == 0;
	last = strrchr(folder, '/');
	namespace->shared = last && strncmp(last + 1, "nvme-subsys", strlen("nvme-subsys")) == 0;
	return 0;
}
