/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The names of device_name.h, as sysfs has them. Identities are kept under these texts: they stay as they are. */
#include "target/store/device_name.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

/* The longest is an NVMe namespace's that has neither UUID nor EUI: 140 characters, the namespace at the end. */
#define WORD_BYTES 192

/* The first line of a file of the device's folder, without blanks at its ends; false: it is not there, or empty. */
static bool device_word(const char *folder, const char *file_name, char word[WORD_BYTES])
{
	char path[PATH_MAX], *end;
	FILE *file;
	size_t skip;

	snprintf(path, sizeof(path), "%s/%s", folder, file_name);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(word, WORD_BYTES, file))
		word[0] = 0;
	fclose(file);
	skip = strspn(word, " \t\n");
	memmove(word, word + skip, strlen(word) - skip + 1);
	for (end = word + strlen(word); end > word && isspace((unsigned char)end[-1]);)
		*--end = 0;
	return word[0];
}

bool tgt_device_name(const char *root, uint64_t device, char name[TGT_DEVICE_NAME_BYTES])
{
	/* NVMe; SCSI and SATA; device mapper; md; virtio. */
	static const char *const files[] = {"wwid", "device/wwid", "dm/uuid", "md/uuid", "serial"};
	char folder[PATH_MAX - 16], word[WORD_BYTES], partition[WORD_BYTES] = "";

	name[0] = 0;
	snprintf(folder, sizeof(folder) - 4, "%s/sys/dev/block/%u:%u", root, major(device), minor(device));
	if (device_word(folder, "partition", partition))
		strcat(folder, "/.."); /* its disk */
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (!device_word(folder, files[i], word))
			continue;
		snprintf(name, TGT_DEVICE_NAME_BYTES, "device %s%s%.20s", word, partition[0] ? " partition " : "",
			 partition);
		return true;
	}
	return false;
}
