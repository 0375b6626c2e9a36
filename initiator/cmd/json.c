/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * JSON that several verbs print. Keys are the field names of the library's header, sizes are bytes,
 * so that a script needs no second manual.
 */
#include "initiator/cmd/cmd.h"

#include <jansson.h>
#include <stdio.h>

int cmd_json_print(json_t *root)
{
	int failed;

	if (!root)
		return cmd_error("out of memory");
	failed = json_dumpf(root, stdout, JSON_INDENT(2)) || putchar('\n') == EOF || fflush(stdout);
	json_decref(root);
	return failed ? cmd_error("standard output: cannot be written") : CMD_OK;
}

json_t *cmd_json_volume(const struct rblk_volume_info *info)
{
	char uuid[CMD_TEXT_BYTES], epoch[CMD_TEXT_BYTES];

	return json_pack(
		"{s:s s:s s:s s:I s:I s:I s:I s:I s:I s:I s:I s:b s:b s:b s:b s:b s:b s:b s:b}",
		"name", info->name, "uuid", cmd_format_uuid(info->uuid, uuid), "cache_epoch",
		cmd_format_uuid(info->cache_epoch, epoch), "bytes", (json_int_t)info->bytes,
		"block_bytes", (json_int_t)info->block_bytes, "physical_bytes",
		(json_int_t)info->physical_bytes, "optimal_bytes", (json_int_t)info->optimal_bytes,
		"max_io_bytes", (json_int_t)info->max_io_bytes, "max_capsule_bytes",
		(json_int_t)info->max_capsule_bytes, "discard_granularity_bytes",
		(json_int_t)info->discard_granularity_bytes, "max_discard_bytes",
		(json_int_t)info->max_discard_bytes, "read_only", info->read_only, "can_flush",
		info->can_flush, "can_fua", info->can_fua, "can_discard", info->can_discard,
		"can_write_zeroes", info->can_write_zeroes, "can_checksum", info->can_checksum,
		"volatile_cache", info->volatile_cache, "rotational", info->rotational);
}
