/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk list: what a target serves, one line per volume; or what this machine has attached.
 */
#include "initiator/cmd/attach.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct list_values {
	struct cmd_connect connect;
	bool attached, json;
} values = { .connect = CMD_CONNECT_DEFAULTS };

static const struct cmd_option options[] = {
	{ "attached", 'a', CMD_OPTION_FLAG, offsetof(struct list_values, attached), 0, 0, NULL,
	  "list the volumes attached to this machine; no TARGET" },
	CMD_OPTION_JSON(struct list_values),
	CMD_CONNECT_OPTIONS(struct list_values),
	CMD_OPTION_HELP,
	CMD_OPTIONS_END,
};

static const char *list_flags(const struct rblk_volume_info *info, char *text, size_t bytes)
{
	snprintf(text, bytes, "%s%s%s%s%s", info->read_only ? "ro " : "",
		 info->can_flush ? "flush " : "", info->can_fua ? "fua " : "",
		 info->can_discard ? "discard " : "", info->can_write_zeroes ? "zeroes " : "");
	if (text[0])
		text[strlen(text) - 1] = '\0';
	else
		snprintf(text, bytes, "-");
	return text;
}

static int list_print(const struct rblk_volume_info *list, int count)
{
	char size[CMD_TEXT_BYTES], uuid[CMD_TEXT_BYTES], block[16], flags[64];
	struct cmd_table *table = cmd_table_create(5);
	int i;

	cmd_table_row(table, "NAME", ">SIZE", ">BLOCK", "FLAGS", "UUID");
	for (i = 0; i < count; i++) {
		snprintf(block, sizeof(block), "%u", list[i].block_bytes);
		cmd_table_row(table, list[i].name, units_format_bytes(list[i].bytes, size), block,
			      list_flags(&list[i], flags, sizeof(flags)),
			      cmd_format_uuid(list[i].uuid, uuid));
	}
	cmd_table_print(table, "no volumes for this initiator");
	cmd_table_destroy(table);
	return CMD_OK;
}

static int list_print_json(const struct rblk_volume_info *list, int count)
{
	json_t *volumes = json_array();
	int i;

	for (i = 0; i < count; i++)
		json_array_append_new(volumes, cmd_json_volume(&list[i]));
	return cmd_json_print(json_pack("{s:o}", "volumes", volumes));
}

static int list_attached(void)
{
	struct attached *list;
	int count = attached_list("", &list);
	int status;

	if (count < 0)
		return cmd_error("/sys/block: %s", strerror(-count));
	status = values.json ? attached_print_json(list, count) : attached_print(list, count);
	free(list);
	return status;
}

static int list_run(char **operands, int count)
{
	struct rblk_options session_options = { .no_reconnect = true };
	struct rblk_volume_info *list = NULL;
	struct rblk_session *session;
	int volumes, status;

	if (values.attached ? count : !count) {
		cmd_error("usage: rblk list [OPTION]... TARGET, or rblk list --attached");
		return CMD_USAGE;
	}
	if (values.attached)
		return CMD_OPTIONS_ONLY("with --attached", "attached", "json") ? CMD_USAGE : list_attached();
	if (cmd_uri_check(operands[0], false))
		return CMD_USAGE;
	session = cmd_session_open(operands[0], &values.connect, &session_options);
	if (!session)
		return CMD_FAILED;
	volumes = rblk_list(session, &list, sizeof(*list));
	if (volumes < 0)
		status = cmd_error("%s", rblk_session_error(session));
	else
		status = values.json ? list_print_json(list, volumes) : list_print(list, volumes);
	free(list);
	rblk_session_close(session);
	return status;
}

const struct cmd_verb cmd_verb_list = {
	.name = "list",
	.operands = "TARGET",
	.summary = "list the volumes that a target serves, or the attached ones",
	.options = options,
	.values = &values,
	.connects = true,
	.operands_least = 0,
	.operands_most = 1,
	.run = list_run,
};
