/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Files with new secrets (proto/secret/secret.h), for a target's configuration and for initiators that prove a name.
 * The test removes them.
 */
#ifndef RBLK_TESTS_E2E_SECRET_FILE_H
#define RBLK_TESTS_E2E_SECRET_FILE_H

#include "proto/secret/secret.h"

/* Writes a new secret to a file that only its owner may read. mode: fopen()'s, "w" or "a". */
void secret_file_write(const char *path, const char *mode);
/* Likewise, and returns all the file's secrets. The reference is the caller's. */
struct rblk_secrets *secret_file_make(const char *path, const char *mode);

#endif
