/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose the files are that rblkd leaves behind: the owner's of their folder. A daemon that an administrator runs as root in
 * the service's folders gives its files away, so that they are not in the service's way afterwards. Any thread.
 */
#ifndef RBLK_TARGET_OWNER_H
#define RBLK_TARGET_OWNER_H

#include <stdbool.h>
#include <sys/stat.h>

/* As root: a file that was just made becomes the owner's of its folder. If that fails it stays root's. Keeps errno. */
void tgt_owner_give(int fd, const char *path);
/* Is the file this process's own, or, as root, its folder's owner's? */
bool tgt_owner_is_ours(const struct stat *st, const char *path);

#endif
