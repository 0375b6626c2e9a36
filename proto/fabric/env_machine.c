/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The machine's id of env.h, on Linux. An archive member of its own, as env_posix.c is. */
#include "proto/core/env.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

bool env_machine_id(const char *root, char id[ENV_MACHINE_ID_BYTES])
{
	char path[PATH_MAX];
	FILE *file;

	id[0] = 0;
	snprintf(path, sizeof(path), "%s/etc/machine-id", root);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(id, ENV_MACHINE_ID_BYTES, file))
		id[0] = 0;
	fclose(file);
	id[strcspn(id, "\n")] = 0;
	/* Images of machines have this word there until their first start has ended. */
	if (!strcmp(id, "uninitialized"))
		id[0] = 0;
	return id[0];
}
