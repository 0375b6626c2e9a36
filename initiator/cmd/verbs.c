/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of verbs: for main.c, which runs one, and completion.c, which makes the shells' completions of it.
 */
#include "initiator/cmd/cmd.h"

const struct cmd_verb *const cmd_verbs[] = {
	&cmd_verb_discover, &cmd_verb_list, &cmd_verb_info, &cmd_verb_copy, &cmd_verb_ping,
	&cmd_verb_attach, &cmd_verb_detach, &cmd_verb_acknowledge, &cmd_verb_top,
	&cmd_verb_reserve, &cmd_verb_key,    &cmd_verb_doctor, &cmd_verb_fault, NULL,
};
