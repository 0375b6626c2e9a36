/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The disks that are attached, as the module shows them in /sys/block/rblkN/ and rblk/ below it. A
 * device may be removed while it is read: then it is not attached.
 */
#include "initiator/cmd/attach.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of the device, without the end of its last line; "" where it cannot be read. */
static bool attached_file(const char *root, const char *device, const char *file, char *text,
			  size_t bytes)
{
	char path[PATH_MAX];
	size_t length;
	FILE *from;

	text[0] = '\0';
	snprintf(path, sizeof(path), "%s/sys/block/%s/%s", root, device, file);
	from = fopen(path, "re");
	if (!from)
		return false;
	length = fread(text, 1, bytes - 1, from);
	fclose(from);
	text[length] = '\0';
	if (length && text[length - 1] == '\n')
		text[length - 1] = '\0';
	return true;
}

static uint64_t attached_number(const char *root, const char *device, const char *file)
{
	char text[32];

	attached_file(root, device, file, text, sizeof(text));
	return strtoull(text, NULL, 10);
}

/* A file each, in the order of their names; entries beyond the table are ignored. */
static void attached_read_counters(const char *root, struct attached *a)
{
	char folder[PATH_MAX], file[64];
	struct dirent **list = NULL;
	int count;

	snprintf(folder, sizeof(folder), "%s/sys/block/%s/rblk_counters", root, a->device);
	count = scandir(folder, &list, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		const char *name = list[i]->d_name;

		if (a->counter_count < ATTACHED_COUNTERS_MAX && name[0] != '.' &&
		    strlen(name) < sizeof(a->counters[0].name)) {
			snprintf(file, sizeof(file), "rblk_counters/%.31s", name);
			strcpy(a->counters[a->counter_count].name, name);
			a->counters[a->counter_count++].value = attached_number(root, a->device, file);
		}
		free(list[i]);
	}
	free(list);
}

/* Portals are a line each; connections "queue state portal". */
static void attached_read_paths(const char *root, struct attached *a)
{
	char portals[1024], connections[2048], at[96], *line, *rest;
	struct cmd_paths *paths = &a->paths;

	attached_file(root, a->device, "rblk/portals", portals, sizeof(portals));
	for (line = strtok_r(portals, "\n", &rest); line && paths->count < RBLK_PATHS_MAX;
	     line = strtok_r(NULL, "\n", &rest))
		snprintf(paths->list[paths->count++].host, sizeof(paths->list[0].host), "%s", line);
	attached_file(root, a->device, "rblk/connections", connections, sizeof(connections));
	for (line = strtok_r(connections, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (sscanf(line, "%*u live %95s", at) != 1)
			continue;
		for (unsigned int i = 0; i < paths->count; i++) {
			struct rblk_path_info *path = &paths->list[i];

			if (strcmp(path->host, at))
				continue;
			path->connections++;
			snprintf(path->peer, sizeof(path->peer), "%s", at);
		}
	}
}

/* "rblk0"; not "rblk", "rblk-control", "rblk0p1". */
static bool attached_index(const char *device, unsigned int *index)
{
	const char *digits = device + 4;
	size_t length;

	if (strncmp(device, "rblk", 4))
		return false;
	length = strlen(digits);
	if (!length || length > 6 || strspn(digits, "0123456789") != length)
		return false;
	*index = (unsigned int)strtoul(digits, NULL, 10);
	return true;
}

int attached_read(const char *root, const char *device, struct attached *a)
{
	*a = (struct attached){ 0 };
	if (!attached_index(device, &a->index))
		return -ENODEV;
	snprintf(a->device, sizeof(a->device), "%s", device);
	if (!attached_file(root, device, "rblk/state", a->state, sizeof(a->state)))
		return -ENODEV;
	attached_file(root, device, "rblk/reason", a->reason, sizeof(a->reason));
	attached_file(root, device, "rblk/target", a->target, sizeof(a->target));
	attached_file(root, device, "rblk/volume", a->volume, sizeof(a->volume));
	attached_file(root, device, "rblk/attachment", a->attachment, sizeof(a->attachment));
	attached_file(root, device, "rblk/wwid", a->wwid, sizeof(a->wwid));
	attached_file(root, device, "rblk/serial", a->serial, sizeof(a->serial));
	attached_file(root, device, "rblk/key", a->key, sizeof(a->key));
	a->digest = attached_number(root, device, "rblk/digest") != 0;
	a->queues = attached_number(root, device, "rblk/queues");
	a->credits = attached_number(root, device, "rblk/credits");
	a->session = attached_number(root, device, "rblk/session_number");
	a->losses = attached_number(root, device, "rblk/losses");
	a->retries = attached_number(root, device, "rblk/retries");
	a->writes_lost = attached_number(root, device, "rblk/writes_lost") != 0;
	a->reconnect_ms = attached_number(root, device, "rblk/reconnect_ms");
	a->fail_fast_ms = attached_number(root, device, "rblk/fail_fast_ms");
	a->connect_ms = attached_number(root, device, "rblk/connect_ms");
	a->command_ms = attached_number(root, device, "rblk/command_ms");
	a->give_up_ms = attached_number(root, device, "rblk/give_up_ms");
	a->keepalive_ms = attached_number(root, device, "rblk/keepalive_ms");
	a->bytes = attached_number(root, device, "size") * 512; /* sysfs counts sectors of 512 */
	a->block_bytes = attached_number(root, device, "queue/logical_block_size");
	a->read_only = attached_number(root, device, "ro") != 0;
	attached_read_counters(root, a);
	attached_read_paths(root, a);
	if (a->attachment[0])
		attach_record_read(root, a);
	return 0;
}

static int attached_compare(const void *a, const void *b)
{
	const struct attached *left = a, *right = b;

	return left->index < right->index ? -1 : left->index > right->index;
}

int attached_list(const char *root, struct attached **list)
{
	struct attached *all = NULL, *more, one;
	struct dirent *entry;
	char path[PATH_MAX];
	int count = 0;
	DIR *dir;

	*list = NULL;
	snprintf(path, sizeof(path), "%s/sys/block", root);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		if (attached_read(root, entry->d_name, &one))
			continue;
		more = realloc(all, ((size_t)count + 1) * sizeof(*all));
		if (!more) {
			free(all);
			closedir(dir);
			return -ENOMEM;
		}
		all = more;
		all[count++] = one;
	}
	closedir(dir);
	if (count)
		qsort(all, (size_t)count, sizeof(*all), attached_compare);
	*list = all;
	return count;
}

int attached_acknowledge(const char *root, const struct attached *attached)
{
	char path[PATH_MAX], text[16];
	struct attached now;
	int fd, err = 0;

	/* Others may have detached it, and attached another volume as rblkN. */
	if (attached_read(root, attached->device, &now) ||
	    strcmp(now.attachment, attached->attachment))
		return -ENOENT;
	snprintf(path, sizeof(path), "%s/sys/block/%s/rblk/acknowledge", root, attached->device);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	attached_file(root, attached->device, "rblk/writes_lost", text, sizeof(text));
	if (write(fd, "1\n", 2) != 2)
		err = -errno;
	close(fd);
	return err ? err : text[0] == '1';
}

uint64_t attached_counter(const struct attached *attached, const char *name)
{
	for (unsigned int i = 0; i < attached->counter_count; i++)
		if (!strcmp(attached->counters[i].name, name))
			return attached->counters[i].value;
	return 0;
}
