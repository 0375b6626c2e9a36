/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk discover: which targets there are on the networks of this machine, one line per portal.
 */
#include "initiator/cmd/discover.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "initiator/cmd/cmd.h"
#include "proto/wire/wire_check.h"

static struct discover_values {
	const char *interfaces, *over;
	uint64_t port, time_ms;
	bool json;
} values = { .port = RBLK_DEFAULT_PORT, .time_ms = DISCOVER_TIME_MS };

static const struct cmd_option options[] = {
	{ "interface", 'i', CMD_OPTION_TEXT, offsetof(struct discover_values, interfaces), 0, 0, "NAMES",
	  "ask on these network interfaces, as in eth0,eth1 (default: all that can multicast)" },
	{ "port", 0, CMD_OPTION_NUMBER, offsetof(struct discover_values, port), 1, 65535, "PORT",
	  "UDP port of the targets' discovery (default: " CMD_QUOTE(RBLK_DEFAULT_PORT) ")" },
	{ "over", 0, CMD_OPTION_TEXT, offsetof(struct discover_values, over), 0, 0, "WAY",
	  "ask over rdma or udp only (default: over both)" },
	{ "time", 0, CMD_OPTION_TIME, offsetof(struct discover_values, time_ms), 30, 60000, "TIME",
	  "how long to wait for answers (default: 1s)" },
	CMD_OPTION_JSON(struct discover_values),
	CMD_OPTION_HELP,
	CMD_OPTIONS_END,
};

static const struct {
	enum discover_over over;
	const char *name;
} ways[] = { { DISCOVER_OVER_RDMA, "rdma" }, { DISCOVER_OVER_UDP, "udp" } };
#define WAYS (sizeof(ways) / sizeof(ways[0]))
#define OVER_BYTES 16

/* "rdma,udp". Returns text. */
static const char *over_format(unsigned int over, char text[OVER_BYTES])
{
	size_t length = 0;

	text[0] = '\0';
	for (size_t i = 0; i < WAYS; i++)
		if (over & ways[i].over)
			length += (size_t)snprintf(text + length, OVER_BYTES - length, "%s%s", length ? "," : "",
						   ways[i].name);
	return text;
}

static json_t *over_json(unsigned int over)
{
	json_t *array = json_array();

	for (size_t i = 0; i < WAYS; i++)
		if (over & ways[i].over)
			json_array_append_new(array, json_string(ways[i].name));
	return array;
}

static int discover_print(const struct discover_list *list)
{
	char portal[DISCOVER_PORTAL_BYTES], protocol[16], over[OVER_BYTES];
	struct cmd_table *table = cmd_table_create(5);

	cmd_table_row(table, "NAME", "PORTAL", ">PROTOCOL", "INTERFACE", "OVER");
	for (unsigned int i = 0; i < list->count; i++) {
		const struct discovered *target = &list->targets[i];

		snprintf(protocol, sizeof(protocol), "%u", target->protocol);
		over_format(target->over, over);
		if (!target->portal_count)
			cmd_table_row(table, target->name, "-", protocol, target->interface, over);
		for (unsigned int j = 0; j < target->portal_count; j++)
			cmd_table_row(table, target->name,
				      discover_portal_format(&target->portals[j], portal), protocol,
				      target->interface, over);
	}
	cmd_table_print(table, "no target answered; a target does if its rblkd.conf has discovery");
	cmd_table_destroy(table);
	return CMD_OK;
}

static int discover_print_json(const struct discover_list *list)
{
	char portal[DISCOVER_PORTAL_BYTES], instance[CMD_TEXT_BYTES];
	json_t *targets = json_array();

	for (unsigned int i = 0; i < list->count; i++) {
		const struct discovered *target = &list->targets[i];
		json_t *portals = json_array();

		for (unsigned int j = 0; j < target->portal_count; j++)
			json_array_append_new(
				portals, cmd_json_text(discover_portal_format(&target->portals[j], portal)));
		json_array_append_new(
			targets, json_pack("{s:o, s:o, s:i, s:o, s:o, s:o}", "target_name",
					   cmd_json_text(target->name), "instance",
					   cmd_json_text(cmd_format_uuid(target->instance, instance)),
					   "protocol", (int)target->protocol, "interface",
					   cmd_json_text(target->interface), "over", over_json(target->over), "portals",
					   portals));
	}
	return cmd_json_print(json_pack("{s:o}", "targets", targets));
}

/* A mask of enum discover_over, 0: by all ways; -1 after an error message. */
static int over_parse(const char *text)
{
	if (!text)
		return 0;
	for (size_t i = 0; i < WAYS; i++)
		if (!strcmp(text, ways[i].name))
			return (int)ways[i].over;
	cmd_error("--over \"%.64s\": rdma or udp", text);
	return -1;
}

static int discover_run(char **operands, int count)
{
	struct discover_question question = {
		.name = count ? operands[0] : NULL,
		.interfaces = values.interfaces,
		.port = (uint16_t)values.port,
		.time_ms = values.time_ms,
	};
	char name[RBLK_NAME_BYTES] = "";
	int status, over = over_parse(values.over);
	struct discover_list list;

	if (over < 0)
		return CMD_USAGE;
	if (over == DISCOVER_OVER_RDMA && cmd_options_not("over RDMA alone", "port"))
		return CMD_USAGE;
	question.over = (unsigned int)over;
	if (count && strlen(operands[0]) < sizeof(name))
		strcpy(name, operands[0]);
	if (count && !rblk_name_valid(name)) {
		cmd_error("\"%.64s\" is not a target's name: 1 to %d letters, digits and . _ : + -",
			  operands[0], RBLK_NAME_BYTES - 1);
		return CMD_USAGE;
	}
	if (discover_ask(&question, &list))
		return CMD_FAILED;
	if (list.left_out)
		cmd_error("discover: more targets or portals answered than are listed");
	if (count && !list.count)
		status = cmd_error("%s: no target of this name answered", name);
	else
		status = values.json ? discover_print_json(&list) : discover_print(&list);
	discover_list_free(&list);
	return status;
}

const struct cmd_verb cmd_verb_discover = {
	.name = "discover",
	.operands = "[NAME]",
	.summary = "find targets on the networks of this machine",
	.options = options,
	.values = &values,
	.operands_least = 0,
	.operands_most = 1,
	.run = discover_run,
};
