/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One attach from beginning to end: the URI, the module's answer (attach_hosts.c), the device node, the record, and an event
 * for udev.
 */
#include "initiator/cmd/attach.h"
#include "initiator/cmd/discover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define RUN_NODE_MS 10000        /* devtmpfs makes nodes at once, udev soon */
#define RUN_POLL_MS 20

static const char *run_prefix(const char *name, char *text, size_t bytes)
{
	snprintf(text, bytes, "%s%s", name, name[0] ? ": " : "");
	return text;
}

/* The node in /dev that is this very device. */
static bool run_node_there(const char *device)
{
	char path[PATH_MAX], number[32] = "";
	unsigned int high, low;
	struct stat st;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/block/%s/dev", device);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(number, sizeof(number), file))
		number[0] = '\0';
	fclose(file);
	snprintf(path, sizeof(path), "/dev/%s", device);
	return sscanf(number, "%u:%u", &high, &low) == 2 && !stat(path, &st) &&
	       S_ISBLK(st.st_mode) && major(st.st_rdev) == high &&
	       minor(st.st_rdev) == low;
}

static bool run_node_wait(const char *device)
{
	const struct timespec pause = { .tv_nsec = RUN_POLL_MS * 1000000L };

	for (int tries = 0; tries < RUN_NODE_MS / RUN_POLL_MS; tries++) {
		if (run_node_there(device))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

/* Makes udev process the disk or partition again. */
static void run_trigger(const char *folder)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/uevent", folder);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "change", 6) < 0)
		cmd_error("%s: %s; its links by name may be missing", path, strerror(errno));
	close(fd);
}

/*
 * The record came after the disk's own uevent: have udev's rule read it, for the disk and then for
 * its partitions, and wait for the link (at most 10 s; not at all where no udev runs).
 */
static void run_tell_udev(const struct attached *attached)
{
	char folder[PATH_MAX], part[PATH_MAX + NAME_MAX + 2], link[128];
	const char *const settle[] = { "udevadm", "settle", "--timeout=10", link, NULL };
	struct dirent *entry;
	DIR *dir;

	snprintf(folder, sizeof(folder), "/sys/block/%s", attached->device);
	run_trigger(folder);
	dir = opendir(folder);
	while (dir && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, attached->device, strlen(attached->device)))
			continue;
		snprintf(part, sizeof(part), "%s/%s", folder, entry->d_name);
		run_trigger(part);
	}
	if (dir)
		closedir(dir);
	snprintf(link, sizeof(link), "--exit-if-exists=/dev/rblk/by-name/%s", attached->name);
	/* Its failure does not fail the attach: without rules there is no link to wait for. */
	if (!access("/run/udev/control", F_OK))
		attach_program_run(settle);
}

/* The device exists; record what the module does not know. Undone if the name is taken. */
static int run_finish(int control, const char *name, const char *uri, const char *device,
		      struct attached *attached)
{
	char prefix[ATTACH_NAME_BYTES + 4], line[ATTACH_LINE_BYTES], answer[ATTACH_ANSWER_BYTES];
	int err;

	run_prefix(name, prefix, sizeof(prefix));
	if (!run_node_wait(device) || attached_read("", device, attached)) {
		cmd_error("%s/dev/%s: attached, but the device does not appear", prefix, device);
		return -ENODEV;
	}
	snprintf(attached->name, sizeof(attached->name), "%s", name);
	snprintf(attached->uri, sizeof(attached->uri), "%s", uri);
	err = attach_record_write("", attached);
	if (err == -EEXIST) {
		cmd_error("%sis being attached by another command", prefix);
		snprintf(line, sizeof(line), "detach device=%s", device);
		if (attach_control_send(control, line, answer))
			cmd_error("%s%s", prefix, answer);
		return err;
	}
	if (err)
		cmd_error("%s/run/rblk: %s; detach it as /dev/%s", prefix, strerror(-err), device);
	else if (name[0])
		run_tell_udev(attached);
	return 0;
}

/* The name's device, where it has one already. */
static bool run_name_taken(const char *name)
{
	struct attached *list;
	int count = attached_list("", &list);
	bool taken = false;

	for (int i = 0; i < count && name[0] && !taken; i++) {
		taken = !strcmp(list[i].name, name);
		if (taken)
			cmd_error("%s: is attached already, as /dev/%s", name, list[i].device);
	}
	free(list);
	return taken;
}

int attach_run(const char *name, const char *uri, const struct attach_options *options,
	       struct attached *attached)
{
	char reason[ATTACH_REASON_BYTES], line[ATTACH_LINE_BYTES], found[RBLK_URI_BYTES], device[16];
	struct ini_uri parsed;
	int control, err;

	if (attach_uri_parse(uri, &parsed, reason) ||
	    attach_line_compose(&parsed, "::", options, line, reason)) {
		cmd_error("%s", reason);
		return -1;
	}
	if (run_name_taken(name))
		return -1;
	control = attach_control_open();
	if (control < 0)
		return -1;
	attach_record_clean("");
	/* Only now: asking takes a second. The record keeps the name. */
	if (discover_uri_is(uri) && (discover_uri_resolve(uri, DISCOVER_RDMA, found) ||
				     attach_uri_parse(found, &parsed, reason))) {
		close(control);
		return -1;
	}
	if (attach_key_prepare(control, options->key)) {
		close(control);
		return -1;
	}
	err = attach_hosts(name, &parsed, control, options, device, sizeof(device));
	if (!err)
		err = run_finish(control, name, uri, device, attached);
	close(control);
	return err ? -1 : 0;
}
