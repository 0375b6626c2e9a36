/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The owners of owner.h, by stat(). */
#include "target/base/owner.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* False: this is not root, or root's own folder. */
static bool gives_away(const char *path, struct stat *folder)
{
	const char *slash = strrchr(path, '/');
	char name[PATH_MAX];

	if (geteuid())
		return false;
	if (!slash)
		snprintf(name, sizeof(name), ".");
	else if (snprintf(name, sizeof(name), "%.*s/", (int)(slash - path), path) >= (int)sizeof(name))
		return false;
	return stat(name, folder) == 0 && folder->st_uid;
}

void tgt_owner_give(int fd, const char *path)
{
	struct stat folder;
	int saved = errno;

	if (gives_away(path, &folder) && fchown(fd, folder.st_uid, folder.st_gid))
		(void)errno; /* not an owner of this user namespace */
	errno = saved;
}

bool tgt_owner_is_ours(const struct stat *st, const char *path)
{
	struct stat folder;

	return st->st_uid == geteuid() || (gives_away(path, &folder) && st->st_uid == folder.st_uid);
}
