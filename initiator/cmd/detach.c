/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk detach: by device, by the name or the URI that it was attached with, or everything. Names
 * the users of a busy disk; waits for one that has it open only for a short time, such as udev.
 * Before a detach by force, dirty data is written if the target can be reached.
 */
#include "initiator/cmd/attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DETACH_UNSAID UINT64_MAX
#define DETACH_WAIT_MS 3000 /* for short users: udev after the last close */
#define DETACH_POLL_MS 50
#define DETACH_FLUSH_MS 10000 /* at a shutdown the target may be down without notice */

static struct detach_values {
	uint64_t wait_ms;
	bool all, force;
} values = { .wait_ms = DETACH_UNSAID };

static const struct cmd_option options[] = {
	{ "all", 'a', CMD_OPTION_FLAG, offsetof(struct detach_values, all), 0, 0, NULL,
	  "detach all disks" },
	{ "force", 'f', CMD_OPTION_FLAG, offsetof(struct detach_values, force), 0, 0, NULL,
	  "detach even while the disk is in use: I/O in flight fails" },
	{ "wait", 'w', CMD_OPTION_TIME, offsetof(struct detach_values, wait_ms), 0, 86400000,
	  "TIME", "how long to wait until nobody uses it; then fail, or use force" },
	CMD_OPTION_HELP,
	CMD_OPTIONS_END,
};

static uint64_t detach_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/*
 * One line to the module, if the device is still the one that was meant: others may have detached
 * it and attached another volume as rblkN. -ENODEV: it is not attached any more. Else 0 or -errno,
 * with the answer.
 */
static int detach_send(int control, const struct attached *attached, const char *force,
		       char *answer)
{
	struct attached now;
	char line[64];

	if (attached_read("", attached->device, &now) || strcmp(now.attachment, attached->attachment))
		return -ENODEV;
	snprintf(line, sizeof(line), "detach device=%s%s", attached->device, force);
	return attach_control_send(control, line, answer);
}

/*
 * Without force; as detach_send(). -EBUSY is tried again until `end`; it is final at once if a user
 * of the disk does not end by itself, unless --wait asks to wait even then.
 */
static int detach_gently(int control, const struct attached *attached, uint64_t end, char *answer)
{
	const struct timespec pause = { .tv_nsec = DETACH_POLL_MS * 1000000L };
	const char *device = attached->device;
	char user[ATTACH_REASON_BYTES];
	bool used;
	int err;

	for (;;) {
		err = detach_send(control, attached, "", answer);
		if (err != -EBUSY)
			return err;
		used = attached_users("", device, user, sizeof(user));
		if (detach_now_ms() >= end || (used && values.wait_ms == DETACH_UNSAID))
			break;
		nanosleep(&pause, NULL);
	}
	if (used)
		snprintf(answer, ATTACH_ANSWER_BYTES, "%s: %.*s", device,
			 ATTACH_ANSWER_BYTES - 20, user);
	return err;
}

/* Data that its users have written may still be in memory; force would discard it. */
static int detach_by_force(int control, const struct attached *attached, char *answer)
{
	int err = attached_flush(attached, DETACH_FLUSH_MS);

	if (err && err != -ENODEV)
		cmd_error("%s: data written to it may be lost: %s", attached->device,
			  strerror(-err));
	return detach_send(control, attached, " force", answer);
}

static int detach_device(int control, const struct attached *attached)
{
	uint64_t wait_ms = values.wait_ms;
	char answer[ATTACH_ANSWER_BYTES];
	int err = -EBUSY;

	if (wait_ms == DETACH_UNSAID)
		wait_ms = values.force ? 0 : DETACH_WAIT_MS;
	/* Nothing can be written to a disk that fails everything; only force is left. */
	if (!values.force || (wait_ms && strcmp(attached->state, "failed")))
		err = detach_gently(control, attached, detach_now_ms() + wait_ms, answer);
	if (err && err != -ENODEV && values.force)
		err = detach_by_force(control, attached, answer);
	/* Another command has already done it. */
	if (err && err != -ENODEV) {
		cmd_error("%s", answer);
		return err;
	}
	attach_record_remove("", attached);
	return 0;
}

static int detach_run(char **operands, int count)
{
	const struct attached *one = NULL;
	struct attached *list;
	int control, attached, status = CMD_OK;

	if (values.all ? count : !count) {
		cmd_error("usage: rblk detach [OPTION]... DEVICE|NAME|VOLUME, or "
			  "rblk detach --all");
		return CMD_USAGE;
	}
	attached = attached_list("", &list);
	if (attached < 0)
		return cmd_error("/sys/block: %s", strerror(-attached));
	if (count) {
		one = attached_find(operands[0], list, attached);
		if (!one)
			status = CMD_FAILED;
	}
	/* Without a device there is nothing to load the module for. */
	control = one || (values.all && attached) ? attach_control_open() : -1;
	if (control < 0 && (one || (values.all && attached)))
		status = CMD_FAILED;
	for (int i = attached - 1; control >= 0 && i >= 0; i--)
		if ((!one || one == &list[i]) && detach_device(control, &list[i]))
			status = CMD_FAILED;
	if (control >= 0)
		close(control);
	free(list);
	return status;
}

const struct cmd_verb cmd_verb_detach = {
	.name = "detach",
	.operands = "DEVICE|NAME|VOLUME",
	.summary = "remove an attached disk",
	.options = options,
	.values = &values,
	.operands_least = 0,
	.operands_most = 1,
	.run = detach_run,
};
