/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Prints what is attached: for people a table with the reasons of losses under it, for programs
 * JSON with everything that sysfs shows.
 */
#include "initiator/cmd/attach.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

int attached_print(const struct attached *list, int count)
{
	char size[CMD_TEXT_BYTES], queues[24], commands[24], before[24];
	struct cmd_table *table = cmd_table_create(8);
	int i;

	cmd_table_row(table, "DEVICE", "NAME", "TARGET", "VOLUME", ">SIZE", ">QUEUES", ">COMMANDS",
		      "STATE");
	for (i = 0; i < count; i++) {
		snprintf(queues, sizeof(queues), "%" PRIu64, list[i].queues);
		snprintf(commands, sizeof(commands), "%" PRIu64,
			 attached_counter(&list[i], "commands"));
		cmd_table_row(table, list[i].device, list[i].name[0] ? list[i].name : "-",
			      list[i].target, list[i].volume,
			      cmd_format_bytes(list[i].bytes, size), queues, commands,
			      list[i].state);
	}
	cmd_table_print(table);
	cmd_table_destroy(table);
	for (i = 0; i < count; i++) {
		snprintf(before, sizeof(before), "%s: ", list[i].device);
		cmd_paths_print(&list[i].paths, before, 4);
		if (list[i].reason[0])
			printf("%s: %s\n", list[i].device, list[i].reason);
		if (list[i].writes_lost)
			printf("%s: writes that were acknowledged and not flushed may be lost: fsync fails\n",
			       list[i].device);
	}
	return CMD_OK;
}

static json_t *print_counters(const struct attached *attached)
{
	json_t *counters = json_object();

	for (unsigned int i = 0; i < attached->counter_count; i++)
		json_object_set_new(counters, attached->counters[i].name,
				    json_integer((json_int_t)attached->counters[i].value));
	return counters;
}

static json_int_t print_ns(uint64_t ms)
{
	return (json_int_t)(ms * 1000000u);
}

static json_t *print_device(const struct attached *a)
{
	char device[32];

	snprintf(device, sizeof(device), "/dev/%s", a->device);
	return json_pack("{s:s s:o s:o s:s s:s s:s s:o s:s s:s s:I s:I s:b s:I s:I s:I s:I s:b s:I s:I s:I s:I "
			 "s:I s:I s:o s:o s:I s:o s:b}",
			 "device", device, "name", cmd_json_words(a->name), "uri",
			 cmd_json_words(a->uri), "peer", a->target, "volume", a->volume, "state",
			 a->state, "error", cmd_json_words(a->reason), "wwid", a->wwid, "serial",
			 a->serial, "bytes", (json_int_t)a->bytes, "block_bytes",
			 (json_int_t)a->block_bytes, "read_only", (int)a->read_only, "queues",
			 (json_int_t)a->queues, "credits", (json_int_t)a->credits, "losses",
			 (json_int_t)a->losses, "retries", (json_int_t)a->retries, "writes_lost",
			 (int)a->writes_lost, "connect_timeout_ns", print_ns(a->connect_ms),
			 "command_timeout_ns", print_ns(a->command_ms), "reconnect_ns",
			 print_ns(a->reconnect_ms), "fail_fast_ns", print_ns(a->fail_fast_ms), "give_up_ns",
			 print_ns(a->give_up_ms), "keepalive_ns", print_ns(a->keepalive_ms),
			 "counters", print_counters(a), "paths", cmd_paths_json(&a->paths), "session",
			 (json_int_t)a->session, "key", cmd_json_words(a->key), "digest", (int)a->digest);
}

int attached_print_json(const struct attached *list, int count)
{
	json_t *devices = json_array();

	for (int i = 0; i < count; i++)
		json_array_append_new(devices, print_device(&list[i]));
	return cmd_json_print(json_pack("{s:o}", "attached", devices));
}
