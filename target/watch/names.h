/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The words by which reports and metrics call things: words of lower case, which programs may rely on. */
#ifndef RBLK_TARGET_WATCH_NAMES_H
#define RBLK_TARGET_WATCH_NAMES_H

#include "target/io/counts.h"
#include "target/io/loop.h"

/* "compare_and_write"; of a block command. NULL: there is none of that number. */
const char *tgt_name_opcode(unsigned int opcode);
/* "no_space"; of an error. */
const char *tgt_name_error(unsigned int status);
const char *tgt_name_kind(enum tgt_count_kind kind);
const char *tgt_name_stage(enum tgt_count_stage stage);
const char *tgt_name_end(enum tgt_end end);
/* "write-exclusive"; of a type of reservations, as rblk reserve has it. */
const char *tgt_name_reservation(unsigned int type);
const char *tgt_name_login(enum tgt_login_result result);

#endif
