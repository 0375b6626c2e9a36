/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the specification's tables of fields, codes and limits match the headers, row by row, with
 * nothing missing and nothing added. Method: below, each struct's fields by offsetof() and
 * sizeof(), each enum's codes and each limit by name and value, as the compiler sees them. For
 * each, the table under its heading in proto/README.md is parsed and compared. The lists here are
 * checked too: fields must follow each other without a gap up to the struct's size, codes must end
 * with the enum's own last.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/unit.h"
#include "proto/wire/wire.h"
#include "proto/wire/wire_names.h"

#define HEADING_BYTES 128
#define CELL_BYTES 64
#define ROWS_MAX 96
#define COLUMNS 3 /* only the first ones are compared */

static char *specification;

struct table {
	unsigned int rows;
	char cells[ROWS_MAX][COLUMNS][CELL_BYTES];
};

static int load(void **state)
{
	FILE *file = fopen(RBLK_SPECIFICATION, "rb");
	long length;

	if (!file || fseek(file, 0, SEEK_END) || (length = ftell(file)) < 0)
		return -1;
	rewind(file);
	specification = calloc(1, (size_t)length + 1);
	if (!specification || fread(specification, 1, (size_t)length, file) != (size_t)length)
		return -1;
	return fclose(file);
}

static int unload(void **state)
{
	free(specification);
	return 0;
}

/* The text of the n-th cell of a line "| a | b | c |", without the blanks around it. */
static void cell_copy(const char *line, unsigned int n, char cell[CELL_BYTES])
{
	const char *end;

	while (n--) {
		line = strchr(line + 1, '|');
		assert_non_null(line);
	}
	line += 1 + strspn(line + 1, " ");
	end = line + strcspn(line, "|\n");
	while (end > line && end[-1] == ' ')
		end--;
	snprintf(cell, CELL_BYTES, "%.*s", (int)(end - line), line);
}

/* The table after the line that is `heading`; that line must exist once. */
static const struct table *table_find(const char *heading)
{
	static struct table table;
	char line[HEADING_BYTES + 16];
	const char *at;
	unsigned int column;

	snprintf(line, sizeof(line), "\n#### %s\n", heading);
	at = strstr(specification, line);
	if (!at) {
		fail_msg("the specification has no heading \"%s\"", heading);
		return NULL;
	}
	if (strstr(at + 1, line))
		fail_msg("the specification has \"%s\" twice", heading);
	at = strstr(at, "\n|"); /* the columns' names */
	assert_non_null(at);
	at = strstr(at + 1, "\n|"); /* the rule below them */
	assert_non_null(at);
	table.rows = 0;
	for (at = strchr(at + 1, '\n'); at && at[1] == '|'; at = strchr(at + 1, '\n')) {
		assert_true(table.rows < ROWS_MAX);
		for (column = 0; column < COLUMNS; column++)
			cell_copy(at + 1, column, table.cells[table.rows][column]);
		table.rows++;
	}
	return &table;
}

/* -- structs -------------------------------------------------------------------------------- */

struct field {
	const char *name;
	size_t offset, size;
};
#define F(type, field) { #field, offsetof(struct type, field), sizeof(((struct type *)0)->field) }

static const struct field login[] = {
	F(rblk_wire_login, magic), F(rblk_wire_login, version),
	F(rblk_wire_login, queue_index), F(rblk_wire_login, incarnation),
	F(rblk_wire_login, features), F(rblk_wire_login, session_id),
	F(rblk_wire_login, session_epoch), F(rblk_wire_login, queue_count),
	F(rblk_wire_login, credits), F(rblk_wire_login, reply_bytes),
	F(rblk_wire_login, fence_incarnation), F(rblk_wire_login, reserved),
};
static const struct field accept[] = {
	F(rblk_wire_accept, magic), F(rblk_wire_accept, version),
	F(rblk_wire_accept, credits), F(rblk_wire_accept, incarnation),
	F(rblk_wire_accept, features), F(rblk_wire_accept, target_instance),
	F(rblk_wire_accept, session_epoch), F(rblk_wire_accept, command_bytes),
	F(rblk_wire_accept, max_io_bytes), F(rblk_wire_accept, keepalive_ms),
	F(rblk_wire_accept, max_batch), F(rblk_wire_accept, reserved),
};
static const struct field reject[] = {
	F(rblk_wire_reject, magic), F(rblk_wire_reject, version), F(rblk_wire_reject, reason),
	F(rblk_wire_reject, detail), F(rblk_wire_reject, reserved),
};
static const struct field command[] = {
	F(rblk_wire_command, opcode), F(rblk_wire_command, flags),
	F(rblk_wire_command, tag), F(rblk_wire_command, index),
	F(rblk_wire_command, reserved0), F(rblk_wire_command, sequence),
	F(rblk_wire_command, volume), F(rblk_wire_command, lba),
	F(rblk_wire_command, blocks), F(rblk_wire_command, digest),
	F(rblk_wire_command, segment), F(rblk_wire_command, argument),
	F(rblk_wire_command, reserved1),
};
static const struct field segment[] = {
	F(rblk_wire_segment, address), F(rblk_wire_segment, rkey), F(rblk_wire_segment, length),
};
static const struct field completion[] = {
	F(rblk_wire_completion, tag), F(rblk_wire_completion, status),
	F(rblk_wire_completion, flags), F(rblk_wire_completion, reserved),
	F(rblk_wire_completion, result), F(rblk_wire_completion, queued_us),
	F(rblk_wire_completion, stored_us), F(rblk_wire_completion, digest),
	F(rblk_wire_completion, sequence),
};
static const struct field identify[] = {
	F(rblk_wire_identify, initiator), F(rblk_wire_identify, software),
	F(rblk_wire_identify, reserved),
};
static const struct field authenticate[] = {
	F(rblk_wire_authenticate, step), F(rblk_wire_authenticate, reserved0),
	F(rblk_wire_authenticate, nonce), F(rblk_wire_authenticate, proof),
	F(rblk_wire_authenticate, name), F(rblk_wire_authenticate, reserved1),
};
static const struct field proof[] = {
	F(rblk_wire_proof, label), F(rblk_wire_proof, role), F(rblk_wire_proof, channel),
	F(rblk_wire_proof, login), F(rblk_wire_proof, accept), F(rblk_wire_proof, initiator_nonce),
	F(rblk_wire_proof, target_nonce), F(rblk_wire_proof, name),
};
static const struct field open_payload[] = {
	F(rblk_wire_open, name), F(rblk_wire_open, flags), F(rblk_wire_open, reserved),
};
static const struct field volume[] = {
	F(rblk_wire_volume, name), F(rblk_wire_volume, uuid),
	F(rblk_wire_volume, cache_epoch), F(rblk_wire_volume, blocks),
	F(rblk_wire_volume, handle), F(rblk_wire_volume, block_bytes),
	F(rblk_wire_volume, physical_bytes), F(rblk_wire_volume, optimal_bytes),
	F(rblk_wire_volume, flags), F(rblk_wire_volume, max_io_bytes),
	F(rblk_wire_volume, max_capsule_bytes), F(rblk_wire_volume, discard_granularity_bytes),
	F(rblk_wire_volume, max_discard_blocks), F(rblk_wire_volume, max_compare_blocks),
	F(rblk_wire_volume, reserved0),
	F(rblk_wire_volume, fence_domain), F(rblk_wire_volume, untorn_min_bytes),
	F(rblk_wire_volume, untorn_max_bytes), F(rblk_wire_volume, reserved1),
};
static const struct field extent[] = {
	F(rblk_wire_extent, blocks), F(rblk_wire_extent, flags), F(rblk_wire_extent, reserved),
};
static const struct field reservation[] = {
	F(rblk_wire_reservation, key), F(rblk_wire_reservation, new_key),
	F(rblk_wire_reservation, other_key), F(rblk_wire_reservation, action),
	F(rblk_wire_reservation, type), F(rblk_wire_reservation, flags),
	F(rblk_wire_reservation, reserved),
};
static const struct field reservation_report[] = {
	F(rblk_wire_reservation_report, generation), F(rblk_wire_reservation_report, type),
	F(rblk_wire_reservation_report, persists), F(rblk_wire_reservation_report, reserved),
	F(rblk_wire_reservation_report, registrants), F(rblk_wire_reservation_report, total),
};
static const struct field registrant[] = {
	F(rblk_wire_registrant, key), F(rblk_wire_registrant, initiator),
	F(rblk_wire_registrant, holder), F(rblk_wire_registrant, reserved),
};

static const struct field discover[] = {
	F(rblk_wire_discover, magic), F(rblk_wire_discover, version), F(rblk_wire_discover, type),
	F(rblk_wire_discover, nonce), F(rblk_wire_discover, name), F(rblk_wire_discover, instance),
	F(rblk_wire_discover, protocol), F(rblk_wire_discover, portal_count),
	F(rblk_wire_discover, reserved), F(rblk_wire_discover, portals),
};
static const struct field portal[] = {
	F(rblk_wire_portal, address), F(rblk_wire_portal, port), F(rblk_wire_portal, kind),
	F(rblk_wire_portal, reserved),
};

static void check_struct(const char *name, size_t bytes, const struct field *fields, size_t count)
{
	char heading[HEADING_BYTES];
	const struct table *table;
	size_t i, next = 0;

	snprintf(heading, sizeof(heading), "`struct %s`, %zu bytes", name, bytes);
	table = table_find(heading);
	for (i = 0; i < count; i++) {
		assert_int_equal(fields[i].offset, next); /* no field is left out above */
		next += fields[i].size;
		if (i >= table->rows)
			fail_msg("struct %s: no row for %s", name, fields[i].name);
		assert_string_equal(table->cells[i][2], fields[i].name);
		assert_int_equal(strtoul(table->cells[i][0], NULL, 10), fields[i].offset);
		assert_int_equal(strtoul(table->cells[i][1], NULL, 10), fields[i].size);
	}
	assert_int_equal(next, bytes);
	assert_int_equal(table->rows, count);
}

#define STRUCT(type, list) check_struct(#type, sizeof(struct type), list, UNIT_LENGTH(list))

static void structs(void **state)
{
	STRUCT(rblk_wire_login, login);
	STRUCT(rblk_wire_accept, accept);
	STRUCT(rblk_wire_reject, reject);
	STRUCT(rblk_wire_command, command);
	STRUCT(rblk_wire_segment, segment);
	STRUCT(rblk_wire_completion, completion);
	STRUCT(rblk_wire_identify, identify);
	STRUCT(rblk_wire_authenticate, authenticate);
	STRUCT(rblk_wire_proof, proof);
	STRUCT(rblk_wire_open, open_payload);
	STRUCT(rblk_wire_volume, volume);
	STRUCT(rblk_wire_extent, extent);
	STRUCT(rblk_wire_reservation, reservation);
	STRUCT(rblk_wire_reservation_report, reservation_report);
	STRUCT(rblk_wire_registrant, registrant);
	STRUCT(rblk_wire_discover, discover);
	STRUCT(rblk_wire_portal, portal);
}

/* -- codes and limits ------------------------------------------------------------------------- */

struct code {
	const char *name;
	unsigned long value;
};
#define C(name) { #name, name }

static const struct code limits[] = {
	C(RBLK_PROTOCOL_VERSION), C(RBLK_DEFAULT_PORT), C(RBLK_PRIVATE_DATA_MAX),
	C(RBLK_QUEUES_MAX), C(RBLK_CREDITS_MIN), C(RBLK_CREDITS_MAX), C(RBLK_RESERVED_TAGS),
	C(RBLK_EVENT_RECEIVES), C(RBLK_REPLY_BYTES_MIN), C(RBLK_REPLY_BYTES_MAX),
	C(RBLK_BATCH_MAX), C(RBLK_REPLY_BATCH_MAX), C(RBLK_CAPSULE_ALIGN),
	C(RBLK_CAPSULE_DATA_MAX), C(RBLK_COMMAND_BYTES_MAX), C(RBLK_COMMAND_BYTES_MIN),
	C(RBLK_IO_BYTES_MAX), C(RBLK_OPERATIONS_MAX), C(RBLK_NAME_BYTES), C(RBLK_VOLUMES_MAX),
	C(RBLK_HANDLES_MAX), C(RBLK_LIST_MAX), C(RBLK_BLOCK_BYTES_MIN), C(RBLK_BLOCK_BYTES_MAX),
	C(RBLK_EXTENTS_MAX), C(RBLK_REGISTRANTS_MAX),
	C(RBLK_DISCOVER_VERSION), C(RBLK_DISCOVER_BYTES), C(RBLK_DISCOVER_PORTALS_MAX),
};
static const struct code discover_types[] = {
	C(RBLK_DISCOVER_QUERY), C(RBLK_DISCOVER_ANSWER),
};
static const struct code portal_kinds[] = {
	C(RBLK_PORTAL_RDMA), C(RBLK_PORTAL_TCP),
};
static const struct code features[] = {
	C(RBLK_FEATURE_IMMEDIATE), C(RBLK_FEATURE_INVALIDATE), C(RBLK_FEATURE_DIGEST),
	C(RBLK_FEATURE_EVENTS), C(RBLK_FEATURE_EXTENTS),
	C(RBLK_FEATURE_FENCE_DOMAIN),
	C(RBLK_FEATURE_VOLUME_FENCE), C(RBLK_FEATURE_PRIORITY),
	C(RBLK_FEATURE_UNTORN), C(RBLK_FEATURE_COMPARE_LIMIT),
};
static const struct code rejects[] = {
	C(RBLK_REJECT_NONE), C(RBLK_REJECT_MALFORMED), C(RBLK_REJECT_VERSION),
	C(RBLK_REJECT_FEATURES), C(RBLK_REJECT_QUEUE_COUNT), C(RBLK_REJECT_NO_SESSION),
	C(RBLK_REJECT_STALE_EPOCH), C(RBLK_REJECT_STALE_INCARNATION), C(RBLK_REJECT_NO_CREDITS),
	C(RBLK_REJECT_NO_RESOURCES), C(RBLK_REJECT_DRAINING), C(RBLK_REJECT_DENIED),
};
static const struct code denied[] = {
	C(RBLK_DENIED_UNSAID), C(RBLK_DENIED_LOCAL), C(RBLK_DENIED_ADDRESS), C(RBLK_DENIED_RULES),
	C(RBLK_DENIED_UNPROVEN), C(RBLK_DENIED_PROOF), C(RBLK_DENIED_NAME),
	C(RBLK_DENIED_TLS),
	C(RBLK_DENIED_UNNAMED),
};
static const struct code command_flags[] = {
	C(RBLK_CMD_FUA), C(RBLK_CMD_CAPSULE), C(RBLK_CMD_INVALIDATE), C(RBLK_CMD_DIGEST),
	C(RBLK_CMD_IMMEDIATE), C(RBLK_CMD_RETRY), C(RBLK_CMD_NO_UNMAP),
	C(RBLK_CMD_UNTORN), C(RBLK_CMD_PRIORITY),
};
static const struct code completion_flags[] = {
	C(RBLK_CPL_DIGEST), C(RBLK_CPL_INVALIDATED), C(RBLK_CPL_EVENT),
};
static const struct code events[] = {
	C(RBLK_EVENT_NONE), C(RBLK_EVENT_VOLUME_CHANGED), C(RBLK_EVENT_VOLUME_REMOVED),
	C(RBLK_EVENT_LIST_CHANGED), C(RBLK_EVENT_DRAINING),
};
static const struct code opcodes[] = {
	C(RBLK_OP_INVALID), C(RBLK_OP_READ), C(RBLK_OP_WRITE), C(RBLK_OP_FLUSH),
	C(RBLK_OP_DISCARD), C(RBLK_OP_WRITE_ZEROES), C(RBLK_OP_COMPARE_AND_WRITE),
	C(RBLK_OP_CHECKSUM), C(RBLK_OP_EXTENTS),
	C(RBLK_OP_IDENTIFY),
	C(RBLK_OP_AUTHENTICATE), C(RBLK_OP_LIST), C(RBLK_OP_OPEN), C(RBLK_OP_CLOSE),
	C(RBLK_OP_FENCE), C(RBLK_OP_ABORT), C(RBLK_OP_KEEPALIVE), C(RBLK_OP_PING),
	C(RBLK_OP_RESERVE), C(RBLK_OP_RESERVATIONS),
};
static const struct code extent_flags[] = {
	C(RBLK_EXTENT_HOLE), C(RBLK_EXTENT_ZERO),
};
static const struct code open_flags[] = {
	C(RBLK_OPEN_READ_ONLY), C(RBLK_OPEN_NEED_FLUSH), C(RBLK_OPEN_NEED_FUA),
};
static const struct code volume_flags[] = {
	C(RBLK_VOLUME_READ_ONLY), C(RBLK_VOLUME_FLUSH), C(RBLK_VOLUME_FUA),
	C(RBLK_VOLUME_VOLATILE_CACHE), C(RBLK_VOLUME_DISCARD), C(RBLK_VOLUME_WRITE_ZEROES),
	C(RBLK_VOLUME_COMPARE_AND_WRITE), C(RBLK_VOLUME_RESERVATIONS), C(RBLK_VOLUME_ROTATIONAL),
	C(RBLK_VOLUME_CHECKSUM), C(RBLK_VOLUME_RESERVATIONS_PERSIST),
};
static const struct code reservation_actions[] = {
	C(RBLK_RESERVE_REGISTER), C(RBLK_RESERVE_ACQUIRE), C(RBLK_RESERVE_RELEASE),
	C(RBLK_RESERVE_PREEMPT), C(RBLK_RESERVE_CLEAR),
};
static const struct code reservation_types[] = {
	C(RBLK_RESERVATION_NONE), C(RBLK_RESERVATION_WRITE_EXCLUSIVE),
	C(RBLK_RESERVATION_EXCLUSIVE_ACCESS), C(RBLK_RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS),
	C(RBLK_RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS), C(RBLK_RESERVATION_WRITE_EXCLUSIVE_ALL),
	C(RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL),
};
static const struct code reservation_flags[] = {
	C(RBLK_RESERVE_IGNORE_KEY), C(RBLK_RESERVE_ABORT), C(RBLK_RESERVE_PERSIST),
	C(RBLK_RESERVE_VOLATILE),
};
static const struct code statuses[] = {
	C(RBLK_OK), C(RBLK_E_BUSY), C(RBLK_E_UNSUPPORTED), C(RBLK_E_INVALID),
	C(RBLK_E_NO_VOLUME), C(RBLK_E_RANGE), C(RBLK_E_READ_ONLY), C(RBLK_E_IO),
	C(RBLK_E_NO_SPACE), C(RBLK_E_MEDIUM), C(RBLK_E_DIGEST), C(RBLK_E_COMPARE),
	C(RBLK_E_ABORTED), C(RBLK_E_FENCED), C(RBLK_E_RESERVED), C(RBLK_E_DENIED),
	C(RBLK_E_DRAINING), C(RBLK_E_GONE), C(RBLK_E_NO_RESOURCES),
};

static void check_codes(const char *heading, const struct code *codes, size_t count)
{
	const struct table *table = table_find(heading);
	size_t i;

	for (i = 0; i < count; i++) {
		if (i >= table->rows)
			fail_msg("%s: no row for %s", heading, codes[i].name);
		assert_string_equal(table->cells[i][1], codes[i].name);
		assert_int_equal(strtoul(table->cells[i][0], NULL, 0), codes[i].value);
	}
	assert_int_equal(table->rows, count);
}

#define CODES(heading, list) check_codes(heading, list, UNIT_LENGTH(list))

/* Codes from 0 without a gap, up to the enum's own end: none is missing in the lists above. */
static void check_whole(const struct code *codes, size_t count, unsigned long end)
{
	size_t i;

	for (i = 0; i < count; i++)
		assert_int_equal(codes[i].value, i);
	assert_int_equal(count, end);
}

/* Likewise for flags: together they are all flags. */
static void check_whole_flags(const struct code *codes, size_t count, unsigned long all)
{
	unsigned long sum = 0;
	size_t i;

	for (i = 0; i < count; i++)
		sum += codes[i].value;
	assert_int_equal(sum, all);
}

static void codes_and_limits(void **state)
{
	CODES("Limits", limits);
	CODES("`enum rblk_discover_type`", discover_types);
	CODES("`enum rblk_portal_kind`", portal_kinds);
	CODES("`enum rblk_feature`", features);
	CODES("`enum rblk_reject_reason`", rejects);
	CODES("`enum rblk_denied`", denied);
	CODES("`enum rblk_command_flag`", command_flags);
	CODES("`enum rblk_completion_flag`", completion_flags);
	CODES("`enum rblk_event`", events);
	CODES("`enum rblk_opcode`", opcodes);
	CODES("`enum rblk_extent_flag`", extent_flags);
	CODES("`enum rblk_open_flag`", open_flags);
	CODES("`enum rblk_volume_flag`", volume_flags);
	CODES("`enum rblk_reservation_action`", reservation_actions);
	CODES("`enum rblk_reservation_type`", reservation_types);
	CODES("`enum rblk_reservation_flag`", reservation_flags);
	CODES("`enum rblk_status`", statuses);
}

static void lists_are_whole(void **state)
{
	size_t known = 1; /* RBLK_OP_INVALID is in the table, and has no name */
	unsigned int opcode;

	check_whole(rejects, UNIT_LENGTH(rejects), RBLK_REJECT_MAX);
	check_whole(denied, UNIT_LENGTH(denied), RBLK_DENIED_MAX);
	check_whole(events, UNIT_LENGTH(events), RBLK_EVENT_MAX);
	check_whole(statuses, UNIT_LENGTH(statuses), RBLK_E_MAX);
	check_whole_flags(features, UNIT_LENGTH(features), RBLK_FEATURES_ALL);
	/* NO_UNMAP and UNTORN are one bit, each of another opcode. */
	check_whole_flags(command_flags, UNIT_LENGTH(command_flags), RBLK_CMD_FLAGS_ALL + RBLK_CMD_UNTORN);
	check_whole_flags(completion_flags, UNIT_LENGTH(completion_flags), RBLK_CPL_FLAGS_ALL);
	check_whole_flags(extent_flags, UNIT_LENGTH(extent_flags), RBLK_EXTENT_FLAGS_ALL);
	check_whole_flags(open_flags, UNIT_LENGTH(open_flags), RBLK_OPEN_FLAGS_ALL);
	check_whole_flags(volume_flags, UNIT_LENGTH(volume_flags), RBLK_VOLUME_FLAGS_ALL);
	for (opcode = 0; opcode <= 255; opcode++)
		known += !!strcmp(rblk_opcode_name((u8)opcode), "unknown opcode");
	assert_int_equal(UNIT_LENGTH(opcodes), known);
}

/* The status table also names the errno that an application is given. */
static void status_errnos(void **state)
{
	const struct table *table = table_find("`enum rblk_status`");
	size_t i;

	assert_int_equal(table->rows, RBLK_E_MAX);
	for (i = 0; i < table->rows; i++) {
		int error = -rblk_status_errno((u16)i);

		assert_string_equal(table->cells[i][2], error ? strerrorname_np(error) : "0");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(structs),
		cmocka_unit_test(codes_and_limits),
		cmocka_unit_test(lists_are_whole),
		cmocka_unit_test(status_errnos),
	};

	return cmocka_run_group_tests_name("wire specification", tests, load, unload);
}
