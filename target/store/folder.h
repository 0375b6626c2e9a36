/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A folder of files that outlive a crash of the machine: each is the old one or the new one. Calls block; whoever writes a
 * file sees to it that nobody else does.
 */
#ifndef RBLK_TARGET_STORE_FOLDER_H
#define RBLK_TARGET_STORE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* 0: files can be kept there; the last part of its path is made if it is missing. Otherwise
 * negative errno; error: TGT_ERROR_BYTES. */
int tgt_folder_make(const char *folder, char *error);
/* It is on a volume without a name, which an engine of containers has made for this container and removes with it. */
bool tgt_folder_is_anonymous(const char *folder);
/* Makes the names in the folder durable. 0 or negative errno. */
int tgt_folder_sync(const char *folder);
/* By way of PATH.new. Durable with the next tgt_folder_sync(). After an error it is the old one. 0 or negative errno. */
int tgt_folder_replace(const char *path, const void *data, size_t bytes);

#endif
