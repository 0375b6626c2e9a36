/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk attach: a volume becomes a disk of this machine; by its URI, by its name in rblktab, or all
 * of rblktab at once.
 */
#include "initiator/cmd/attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct attach_values {
	struct attach_options options;
	const char *tab, *discover;
	bool all, take_over, json;
} values = { .options = ATTACH_OPTIONS_DEFAULTS, .tab = ATTACH_TAB };

static const struct cmd_option options[] = {
	{ "all", 'a', CMD_OPTION_FLAG, offsetof(struct attach_values, all), 0, 0, NULL,
	  "every volume of rblktab, except those with noauto or initramfs" },
	{ "discover", 0, CMD_OPTION_TEXT, offsetof(struct attach_values, discover), 0, 0, "NAME",
	  "find the target of this name on the network; the operand is its volume" },
	{ "tab", 0, CMD_OPTION_TEXT, offsetof(struct attach_values, tab), 0, 0, "FILE",
	  "read this table instead of " ATTACH_TAB },
	{ "take-over", 0, CMD_OPTION_FLAG, offsetof(struct attach_values, take_over), 0, 0, NULL,
	  "replace the server of an attached ublk disk, or with --all of each, by this program's, under I/O" },
	ATTACH_OPTIONS(struct attach_values, options),
	CMD_OPTION_JSON(struct attach_values),
	CMD_OPTION_HELP,
	CMD_OPTIONS_END,
};

/* The disks that have been attached, in the order in which they were. */
struct attach_done {
	struct attached *list;
	int count;
	bool failed;
};

static void attach_one(struct attach_done *done, const char *name, const char *uri,
		       const struct attach_options *how, enum attach_way way)
{
	struct attached *more;

	more = realloc(done->list, ((size_t)done->count + 1) * sizeof(*more));
	if (!more) {
		cmd_error("out of memory");
		done->failed = true;
		return;
	}
	done->list = more;
	if (attach_run(way, name, uri, how, &more[done->count]))
		done->failed = true;
	else
		done->count++;
}

/* The way of a volume; or -1 after an error message: its URI is wrong, or is not for the module. */
static int attach_way_of(const char *name, const char *text, const struct attach_options *how)
{
	enum attach_way way = how->ublk ? ATTACH_BY_UBLK : ATTACH_BY_MODULE;
	char reason[ATTACH_REASON_BYTES], why[ATTACH_REASON_BYTES] = "";
	struct ini_uri uri;
	int err = attach_uri_read(text, &uri, reason);

	if (!err && !how->ublk && !how->module)
		way = attach_way_here(&uri, why);
	if (!err && way == ATTACH_BY_MODULE)
		err = attach_uri_parse(text, &uri, reason);
	if (err) {
		cmd_error("%s%s%s", name, name[0] ? ": " : "", reason);
		return -1;
	}
	if (why[0])
		cmd_note("%s: %s", name[0] ? name : text, why);
	return (int)way;
}

static void attach_entry_run(struct attach_done *done, const struct attach_entry *entry)
{
	int way;

	if (entry->error[0]) {
		cmd_error("%s:%u: %s", values.tab, entry->line, entry->error);
		done->failed = true;
		return;
	}
	way = attach_way_of(entry->name, entry->uri, &entry->options);
	if (way < 0)
		done->failed = true;
	else
		attach_one(done, entry->name, entry->uri, &entry->options, (enum attach_way)way);
}

/* From rblktab: the volume of this name, or with NULL all of them. */
static void attach_from_tab(struct attach_done *done, const char *name)
{
	const struct attach_entry *entry;
	struct attach_tab tab;
	char device[16];
	int err = attach_tab_read(values.tab, &tab);

	if (err) {
		cmd_error("%s%s%s: %s", name ? name : "", name ? ": " : "", values.tab,
			  strerror(-err));
		done->failed = true;
		return;
	}
	for (size_t i = 0; i < tab.count && !name; i++) {
		entry = &tab.entries[i];
		if (entry->error[0] || (!entry->noauto && !attached_named("", entry->name, device)))
			attach_entry_run(done, entry);
	}
	if (name) {
		entry = attach_tab_find(&tab, name);
		if (entry) {
			attach_entry_run(done, entry);
		} else {
			cmd_error("%s: neither a URI (rblk://HOST/VOLUME) nor a name in %s", name,
				  values.tab);
			done->failed = true;
		}
	}
	attach_tab_free(&tab);
}

/* Devices to standard output, one on a line. */
static int attach_tell(const struct attach_done *done)
{
	if (values.json)
		return attached_print_json(done->list, done->count);
	for (int i = 0; i < done->count; i++)
		printf("/dev/%s\n", done->list[i].device);
	return CMD_OK;
}

/* --discover NAME VOLUME is discover://NAME/VOLUME. enum cmd_exit */
static int attach_discover(char **operands, int count)
{
	static char uri[sizeof("discover:///") + 2 * RBLK_NAME_BYTES];

	if (values.all || count != 1 || strstr(operands[0], "://")) {
		cmd_error("usage: rblk attach [OPTION]... --discover NAME VOLUME");
		return CMD_USAGE;
	}
	if (snprintf(uri, sizeof(uri), "discover://%s/%s", values.discover, operands[0]) >= (int)sizeof(uri)) {
		cmd_error("attach: a name has at most %d characters", RBLK_NAME_BYTES - 1);
		return CMD_USAGE;
	}
	operands[0] = uri;
	return CMD_OK;
}

/* The operand is an attached disk; or, with --all, each that has a server. enum cmd_exit */
static int attach_take_over(char **operands, int count)
{
	struct attach_done done = { 0 };
	struct attached *list;
	int attached, status;

	if (values.all ? count : !count) {
		cmd_error("usage: rblk attach --take-over DEVICE|NAME|VOLUME, or rblk attach --take-over --all");
		return CMD_USAGE;
	}
	if (CMD_OPTIONS_ONLY("with --take-over: the disk keeps the options that it was attached with",
			     "take-over", "all", "json"))
		return CMD_USAGE;
	attached = attached_choose(count ? operands[0] : NULL, &list);
	if (attached < 0)
		return CMD_FAILED;
	for (int i = 0; i < attached; i++) {
		if (values.all && !list[i].server)
			continue;
		if (attach_ublk_take_over(&list[i]))
			done.failed = true;
		else
			list[done.count++] = list[i];
	}
	done.list = list;
	status = done.count || values.all ? attach_tell(&done) : CMD_OK;
	free(list);
	return done.failed ? CMD_FAILED : status;
}

static int attach_verb_run(char **operands, int count)
{
	struct attach_done done = { 0 };
	int status, way = ATTACH_BY_MODULE;

	if (values.take_over)
		return attach_take_over(operands, count);
	if (values.discover && attach_discover(operands, count) != CMD_OK)
		return CMD_USAGE;
	if (values.all ? count : !count) {
		cmd_error("usage: rblk attach [OPTION]... VOLUME|NAME, or rblk attach --all");
		return CMD_USAGE;
	}
	if ((values.all || !strstr(operands[0], "://")) &&
	    CMD_OPTIONS_ONLY("with --all or a name: rblktab(5) has its options", "all", "tab", "json"))
		return CMD_USAGE;
	if (count && strstr(operands[0], "://")) {
		if (cmd_options_not("with a target", "tab"))
			return CMD_USAGE;
		if (values.options.ublk && values.options.module) {
			cmd_error("attach: --ublk and --module: a disk is attached by one of them");
			return CMD_USAGE;
		}
		way = attach_way_of("", operands[0], &values.options);
		if (way < 0)
			return CMD_USAGE;
	}
	if (values.all)
		attach_from_tab(&done, NULL);
	else if (strstr(operands[0], "://"))
		attach_one(&done, "", operands[0], &values.options, (enum attach_way)way);
	else
		attach_from_tab(&done, operands[0]);
	/* Print nothing of one that failed; of several, print those that succeeded. */
	status = done.count || values.all ? attach_tell(&done) : CMD_OK;
	free(done.list);
	return done.failed ? CMD_FAILED : status;
}

const struct cmd_verb cmd_verb_attach = {
	.name = "attach",
	.operands = "VOLUME|NAME",
	.summary = "make a volume a disk of this machine (kernel module, or ublk)",
	.options = options,
	.values = &values,
	.operands_least = 0,
	.operands_most = 1,
	.run = attach_verb_run,
};
