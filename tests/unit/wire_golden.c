/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the bytes on the wire are these and no others, on a machine of any byte order. Method: fill
 * a login, a command and a completion with a different value in every byte that can have one, and
 * compare with bytes written down here by hand from the specification's tables.
 */
#include <string.h>
#include "tests/unit/unit.h"
#include "proto/wire/wire_check.h"

static void login_bytes(void **state)
{
	static const u8 golden[56] = {
		'r',  'b',  'l',  'k',                          /* magic */
		0x02, 0x00,                                     /* version */
		0x02, 0x00,                                     /* queue_index */
		0x14, 0x13, 0x12, 0x11,                         /* incarnation */
		0xef, 0x07, 0x00, 0x00,                         /* features */
		0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, /* session_id */
		0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf,
		0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, /* session_epoch */
		0x08, 0x00,                                     /* queue_count */
		0x80, 0x01,                                     /* credits: 384 */
		0x00, 0x08, 0x00, 0x00,                         /* reply_bytes: 2048 */
		0x13, 0x13, 0x12, 0x11,                         /* fence_incarnation */
		0x00, 0x00, 0x00, 0x00,                         /* reserved */
	};
	struct rblk_wire_login login = {
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(2),
		.queue_index = rblk_to_le16(2),
		.incarnation = rblk_to_le32(0x11121314),
		.features = rblk_to_le32(RBLK_FEATURES_ALL),
		.session_epoch = rblk_to_le64(0x2122232425262728),
		.queue_count = rblk_to_le16(8),
		.credits = rblk_to_le16(384),
		.reply_bytes = rblk_to_le32(2048),
		.fence_incarnation = rblk_to_le32(0x11121313),
	};
	u8 i;

	for (i = 0; i < sizeof(login.session_id); i++)
		login.session_id[i] = (u8)(0xa0 + i);
	assert_memory_equal(&login, golden, sizeof(golden));
	assert_int_equal(rblk_check_login(golden, sizeof(golden)), RBLK_WIRE_OK);
}

static void command_bytes(void **state)
{
	static const union {
		u64 align;
		u8 bytes[64];
	} golden = { .bytes = {
		0x02,                                           /* opcode: WRITE */
		0x69,                                           /* flags: FUA, DIGEST, RETRY, UNTORN */
		0x03, 0x02,                                     /* tag: 515 */
		0x00,                                           /* index */
		0x00, 0x00, 0x00,                               /* reserved0 */
		0x34, 0x33, 0x32, 0x31,                         /* sequence */
		0x44, 0x43, 0x42, 0x41,                         /* volume */
		0x58, 0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51, /* lba */
		0x08, 0x00, 0x00, 0x00,                         /* blocks */
		0x64, 0x63, 0x62, 0x61,                         /* digest */
		0x78, 0x77, 0x76, 0x75, 0x74, 0x73, 0x72, 0x71, /* segment.address */
		0x84, 0x83, 0x82, 0x81,                         /* segment.rkey */
		0x00, 0x10, 0x00, 0x00,                         /* segment.length */
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* argument */
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* reserved1 */
	} };
	const struct rblk_wire_command command = {
		.opcode = RBLK_OP_WRITE,
		.flags = RBLK_CMD_FUA | RBLK_CMD_DIGEST | RBLK_CMD_RETRY | RBLK_CMD_UNTORN,
		.tag = rblk_to_le16(515),
		.sequence = rblk_to_le32(0x31323334),
		.volume = rblk_to_le32(0x41424344),
		.lba = rblk_to_le64(0x5152535455565758),
		.blocks = rblk_to_le32(8),
		.digest = rblk_to_le32(0x61626364),
		.segment.address = rblk_to_le64(0x7172737475767778),
		.segment.rkey = rblk_to_le32(0x81828384),
		.segment.length = rblk_to_le32(4096),
	};
	const struct rblk_wire_command *commands;
	u32 capsule_bytes;
	u16 count;

	assert_memory_equal(&command, golden.bytes, sizeof(golden.bytes));
	assert_int_equal(rblk_check_message(golden.bytes, 64, RBLK_FEATURE_DIGEST | RBLK_FEATURE_UNTORN, 1, 64,
					    &commands,
					    &count, &capsule_bytes),
			 RBLK_WIRE_OK);
	assert_int_equal(rblk_le64(commands->segment.address), 0x7172737475767778);
}

static void completion_bytes(void **state)
{
	static const union {
		u64 align;
		u8 bytes[32];
	} golden = { .bytes = {
		0x03, 0x02,                                     /* tag: 515 */
		0x07, 0x00,                                     /* status: the store failed */
		0x01,                                           /* flags: DIGEST */
		0x00, 0x00, 0x00,                               /* reserved */
		0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* result */
		0x24, 0x23, 0x22, 0x21,                         /* queued_us */
		0x34, 0x33, 0x32, 0x31,                         /* stored_us */
		0x44, 0x43, 0x42, 0x41,                         /* digest */
		0x54, 0x53, 0x52, 0x51,                         /* sequence */
	} };
	const struct rblk_wire_completion completion = {
		.tag = rblk_to_le16(515),
		.status = rblk_to_le16(RBLK_E_IO),
		.flags = RBLK_CPL_DIGEST,
		.result = rblk_to_le64(0x1112131415161718),
		.queued_us = rblk_to_le32(0x21222324),
		.stored_us = rblk_to_le32(0x31323334),
		.digest = rblk_to_le32(0x41424344),
		.sequence = rblk_to_le32(0x51525354),
	};
	const struct rblk_wire_completion *completions;
	u16 count;

	assert_memory_equal(&completion, golden.bytes, sizeof(golden.bytes));
	assert_int_equal(rblk_check_reply(golden.bytes, sizeof(golden.bytes), RBLK_FEATURE_DIGEST,
					  516, &completions, &count),
			 RBLK_WIRE_OK);
	assert_int_equal(rblk_le16(completions->tag), 515);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(login_bytes),
		cmocka_unit_test(command_bytes),
		cmocka_unit_test(completion_bytes),
	};

	return cmocka_run_group_tests_name("wire golden bytes", tests, NULL, NULL);
}
