/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* See secret_file.h. */
#include "tests/e2e/secret_file.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <sys/stat.h>

void secret_file_write(const char *path, const char *mode)
{
	FILE *file = fopen(path, mode);

	assert_non_null(file);
	assert_int_equal(fchmod(fileno(file), 0600), 0);
	assert_int_equal(rblk_secret_write_new(file), 0);
	assert_int_equal(fclose(file), 0);
}

struct rblk_secrets *secret_file_make(const char *path, const char *mode)
{
	char error[RBLK_SECRET_ERROR_BYTES] = "";
	struct rblk_secrets *secrets;

	secret_file_write(path, mode);
	secrets = rblk_secrets_read(path, error);
	if (!secrets)
		fail_msg("%s", error);
	return secrets;
}
