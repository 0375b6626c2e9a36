/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk acknowledge: tells the module, or the server of ublk, that the user knows that writes to an attached disk may be
 * lost (F7). Then its flushes no longer fail. They keep the state; this writes to sysfs, or sends a signal.
 */
#include "initiator/cmd/attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct acknowledge_values {
	bool all;
} values;

static const struct cmd_option options[] = {
	{"all", 'a', CMD_OPTION_FLAG, offsetof(struct acknowledge_values, all), 0, 0, NULL,
	 "acknowledge all disks"},
	CMD_OPTION_HELP,
	CMD_OPTIONS_END,
};

static int acknowledge_one(const struct attached *attached)
{
	int lost;

	if (attached->left)
		return cmd_error("/dev/%s: %s", attached->device, attached->reason);
	lost = attached_acknowledge("", attached);
	if (lost == -EACCES || lost == -EPERM)
		return cmd_error("/dev/%s: only root can acknowledge that writes may be lost",
				 attached->device);
	if (lost == -ENOENT)
		return cmd_error("/dev/%s: it is not attached any more, or its module is too old "
				 "for this", attached->device);
	if (lost < 0)
		return cmd_error("/dev/%s: %s", attached->device, strerror(-lost));
	printf("/dev/%s: %s\n", attached->device,
	       lost ? "acknowledged: writes from before may be lost, and flushes work again"
		    : "no writes are known to be lost");
	return CMD_OK;
}

static int acknowledge_run(char **operands, int count)
{
	struct attached *list;
	int attached, status = CMD_OK;

	if (values.all ? count : !count) {
		cmd_error("usage: rblk acknowledge [OPTION]... DEVICE|NAME|VOLUME, or "
			  "rblk acknowledge --all");
		return CMD_USAGE;
	}
	attached = attached_choose(count ? operands[0] : NULL, &list);
	if (attached < 0)
		return CMD_FAILED;
	for (int i = 0; i < attached; i++)
		if (acknowledge_one(&list[i]))
			status = CMD_FAILED;
	free(list);
	return status;
}

const struct cmd_verb cmd_verb_acknowledge = {
	.name = "acknowledge",
	.operands = "DEVICE|NAME|VOLUME",
	.summary = "let flushes work again after writes may have been lost",
	.options = options,
	.values = &values,
	.operands_least = 0,
	.operands_most = 1,
	.run = acknowledge_run,
};
