/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the table of block commands has a whole row for each that the protocol has, by its name there; and the scripts for
 * bpftrace know every opcode by that name, and every state of a request. Method: the table, and the scripts' text.
 */
#include "tests/unit/unit.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"
#include "target/io/command.h"
#include "target/io/io_queue.h"

static const char *lower(const char *name)
{
	static char text[64];
	size_t i;

	for (i = 0; name[i] && i < sizeof(text) - 1; i++)
		text[i] = (char)tolower(name[i]);
	text[i] = '\0';
	return text;
}

static bool is_known(unsigned int opcode)
{
	return strcmp(rblk_opcode_name((u8)opcode), rblk_opcode_name(RBLK_OP_MAX)) != 0;
}

static void each_command_has_its_row(void **state)
{
	(void)state;
	for (unsigned int opcode = 0; opcode < UNIT_LENGTH(tgt_commands); opcode++) {
		const struct tgt_command *command = &tgt_commands[opcode];

		assert_int_equal(command->name != NULL, is_known(opcode));
		assert_int_equal(command->begin != NULL, is_known(opcode));
		if (!command->name)
			continue;
		assert_string_equal(command->name, lower(rblk_opcode_name((u8)opcode)));
		assert_non_null(command->stored);
		assert_true(command->refused == TGT_REFUSED_READ || command->refused == TGT_REFUSED_WRITE);
		assert_true(!command->writes || command->refused == TGT_REFUSED_WRITE);
		/* Data to the target may have to be fetched into memory. */
		assert_int_equal(command->data_in != NULL,
				 rblk_opcode_direction((u8)opcode) == RBLK_DATA_TO_TARGET);
		assert_true(!command->data_in || (command->with_memory && command->data && command->writes));
	}
}

/* The whole of a script. */
static const char *script_text(const char *name)
{
	static char text[16384];
	size_t bytes;
	FILE *file = fopen(unit_path(RBLK_SOURCES, name), "r");

	assert_non_null(file);
	bytes = fread(text, 1, sizeof(text) - 1, file);
	assert_true(bytes > 0 && bytes < sizeof(text) - 1);
	text[bytes] = '\0';
	fclose(file);
	return text;
}

/* Each opcode that the script names has that name; all: it names each that there is. */
static void check_opcodes(const char *script, bool all)
{
	const char *text = script_text(script), *at = text;
	unsigned int opcode, named = 0, known = 0;
	char name[64];

	while ((at = strstr(at, "@opcode[")) && at++) {
		if (sscanf(at, "opcode[%u] = \"%63[^\"]\"", &opcode, name) != 2)
			continue;
		assert_true(opcode < RBLK_OP_MAX);
		assert_string_equal(name, rblk_opcode_name((u8)opcode));
		named++;
	}
	for (opcode = 0; opcode < RBLK_OP_MAX; opcode++)
		known += is_known(opcode);
	assert_true(named > 0 && named <= known);
	assert_true(!all || named == known);
}

static void check_states(const char *script, const char *map)
{
	const char *text = script_text(script);
	char begin[64];

	for (unsigned int i = TGT_REQUEST_RECEIVED; i < TGT_REQUEST_STATES; i++) {
		snprintf(begin, sizeof(begin), "@%s[%u] = \"", map, i);
		if (!strstr(text, begin))
			fail_msg("%s has no %s", script, begin);
	}
	snprintf(begin, sizeof(begin), "@%s[%u] = \"", map, TGT_REQUEST_STATES);
	assert_null(strstr(text, begin));
}

static void scripts_know_the_opcodes(void **state)
{
	(void)state;
	check_opcodes("target/install/bpftrace/rblkd-latency.bt.in", true);
	check_opcodes("initiator/install/bpftrace/rblk-latency.bt", false);
}

static void scripts_know_the_states(void **state)
{
	(void)state;
	check_states("target/install/bpftrace/rblkd-latency.bt.in", "state");
	check_states("target/install/bpftrace/rblkd-waits.bt.in", "wait");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_command_has_its_row),
		cmocka_unit_test(scripts_know_the_opcodes),
		cmocka_unit_test(scripts_know_the_states),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
