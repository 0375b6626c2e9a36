/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Attached disks: what they are, from the module's sysfs; what they have done from the block layer's counts, which have
 * sums of times, and do not say what has failed.
 */
#include "initiator/cmd/attach.h"
#include "initiator/cmd/top.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first line of the disk's file; "" where it cannot be read. */
static void disk_file(const char *root, const char *device, const char *file, char *text, int bytes)
{
	char path[PATH_MAX];
	FILE *from;

	text[0] = '\0';
	snprintf(path, sizeof(path), "%s/sys/block/%s/%s", root, device, file);
	from = fopen(path, "re");
	if (!from)
		return;
	if (!fgets(text, bytes, from))
		text[0] = '\0';
	fclose(from);
}

/*
 * Documentation/block/stat.rst: I/Os, merges, sectors of 512 bytes and milliseconds of reads, the same of writes; in
 * flight, busy ms, weighted ms; then likewise of discards (4.18), and number and ms of flushes (5.5).
 */
static bool disk_counts(const char *text, struct top_use *use)
{
	uint64_t v[17] = {0};
	unsigned int count = 0;
	char *end;

	for (; count < 17; count++, text = end) {
		v[count] = strtoull(text, &end, 10);
		if (end == text)
			break;
	}
	if (count < 11)
		return false;
	use->reads = v[0];
	use->read_bytes = v[2] * 512;
	use->writes = v[4];
	use->written_bytes = v[6] * 512;
	use->outstanding = v[8];
	use->others = v[11] + v[15];
	use->ns = (v[3] + v[7] + v[14] + v[16]) * 1000000;
	return true;
}

static void disk_add(const char *root, const struct attached *attached, struct top_look *look)
{
	struct top_use *use = top_look_add(look);
	char text[512]; /* 17 numbers */

	if (!use)
		return;
	snprintf(use->key, sizeof(use->key), "%s %s", attached->device, attached->attachment);
	snprintf(use->user, sizeof(use->user), "%s", attached->device);
	snprintf(use->device, sizeof(use->device), "/dev/%s", attached->device);
	snprintf(use->volume, sizeof(use->volume), "%s", attached->volume);
	snprintf(use->peer, sizeof(use->peer), "%s", attached->target);
	snprintf(use->uri, sizeof(use->uri), "%s", attached->uri);
	snprintf(use->state, sizeof(use->state), "%s", attached->state);
	use->attached = true;
	disk_file(root, attached->device, "stat", text, sizeof(text));
	use->counted = disk_counts(text, use);
	disk_file(root, attached->device, "queue/iostats", text, sizeof(text));
	if (text[0] == '0')
		use->counted = false;
}

int top_disks_look(const char *root, struct top_look *look)
{
	struct attached *list;
	int count = attached_list(root, &list);

	if (count < 0)
		return count;
	for (int i = 0; i < count; i++)
		disk_add(root, &list[i], look);
	free(list);
	return 0;
}
