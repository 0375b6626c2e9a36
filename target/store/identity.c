/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The UUID of identity.h, from the machine's id and the volume's path and name. */
#include "target/store/identity.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>

/* Identifies this machine: its id, or its host name if there is none. */
static void machine_name(char *name, size_t bytes)
{
	FILE *file = fopen("/etc/machine-id", "re");

	name[0] = 0;
	if (file) {
		if (!fgets(name, (int)bytes, file))
			name[0] = 0;
		fclose(file);
		name[strcspn(name, "\n")] = 0;
	}
	if (!name[0] && gethostname(name, bytes - 1) == 0)
		name[bytes - 1] = 0;
}

void tgt_volume_uuid(const struct tgt_volume_config *config, uint8_t uuid[16])
{
	static const uuid_t space = {0x3f, 0x7a, 0x1c, 0x52, 0x0d, 0x94, 0x4e, 0x6b,
				     0x9a, 0x21, 0x6d, 0x88, 0xe0, 0x47, 0xb3, 0x15};
	char text[PATH_MAX + sizeof(config->path) + 256 + RBLK_NAME_BYTES];
	char machine[256], directory[PATH_MAX] = "";
	int length;

	machine_name(machine, sizeof(machine));
	if (config->path[0] && config->path[0] != '/' && !getcwd(directory, sizeof(directory)))
		directory[0] = 0;
	length = snprintf(text, sizeof(text), "%s|%s%s%s|%s", machine, directory,
			  directory[0] ? "/" : "", config->path, config->name);
	uuid_generate_sha1(uuid, space, text, (size_t)length);
}
