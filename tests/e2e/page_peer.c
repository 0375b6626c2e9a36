/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An initiator that says of its software whatever it likes: page_peer HOST:PORT NAME SOFTWARE. It
 * ends with 0 when the target has taken it.
 */
#include <stdio.h>
#include <string.h>
#include "tests/e2e/raw.h"

int main(int argc, char **argv)
{
	struct rblk_wire_identify who = {.initiator = ""};
	struct rblk_wire_command *command;
	static struct raw raw;
	uint16_t status;

	if (argc != 4 || strlen(argv[2]) >= sizeof(who.initiator) ||
	    strlen(argv[3]) >= sizeof(who.software))
		return 2;
	strcpy(who.initiator, argv[2]);
	strcpy(who.software, argv[3]);
	raw_init(&raw);
	if (!raw_connect(&raw, argv[1]))
		return 1;
	command = raw_command(&raw, RBLK_CAPSULE_ALIGN, 0);
	memset(raw.memory + RAW_SEND, 0, RBLK_CAPSULE_ALIGN);
	memcpy(raw.memory + RAW_SEND, &who, sizeof(who));
	raw_fill(&raw, command, 0, RBLK_OP_IDENTIFY, 0);
	command->flags = RBLK_CMD_CAPSULE;
	command->segment.length = rblk_to_le32(RBLK_CAPSULE_ALIGN);
	raw_send(&raw, RBLK_CAPSULE_ALIGN + 64);
	status = raw_wait(&raw, 0);
	raw_close(&raw);
	return status == RBLK_OK ? 0 : 1;
}
