/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a datagram of discovery is valid only if every field obeys its rule; its bytes are these.
 * Method: begin with a valid one, break one field at a time, compare the validator's answer.
 */
#include <arpa/inet.h>
#include <string.h>
#include "tests/unit/unit.h"
#include "proto/wire/wire_check.h"

static struct rblk_wire_discover valid(u16 type)
{
	struct rblk_wire_discover discover = {
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(1),
		.type = rblk_to_le16(type),
		.nonce = { 7 },
		.name = "storage1",
	};

	if (type == RBLK_DISCOVER_ANSWER) {
		discover.instance[0] = 1;
		discover.protocol = rblk_to_le16(1);
		discover.portal_count = rblk_to_le16(RBLK_DISCOVER_PORTALS_MAX);
		for (unsigned int i = 0; i < RBLK_DISCOVER_PORTALS_MAX; i++)
			discover.portals[i] = (struct rblk_wire_portal){
				.address = { 0xfd, 9 }, .port = rblk_to_le16(4430), .kind = RBLK_PORTAL_RDMA };
	}
	return discover;
}

static enum rblk_wire_error check(const struct rblk_wire_discover *discover, u16 type)
{
	return rblk_check_discover(discover, sizeof(*discover), type);
}

#define QUERY RBLK_DISCOVER_QUERY
#define ANSWER RBLK_DISCOVER_ANSWER
/* Answer after one assignment to an otherwise valid datagram. */
#define BROKEN(type_, assignment)                                                                  \
	({                                                                                         \
		struct rblk_wire_discover d = valid(type_);                                        \
		d.assignment;                                                                      \
		check(&d, type_);                                                                  \
	})

static void common(void **state)
{
	static const u16 types[] = { QUERY, ANSWER };

	for (unsigned int i = 0; i < UNIT_LENGTH(types); i++) {
		struct rblk_wire_discover good = valid(types[i]);
		u8 longer[RBLK_DISCOVER_BYTES + 1] = { 0 };

		assert_int_equal(check(&good, types[i]), RBLK_WIRE_OK);
		assert_int_equal(check(&good, types[!i]), RBLK_WIRE_OPCODE);
		memcpy(longer, &good, sizeof(good));
		assert_int_equal(rblk_check_discover(&good, sizeof(good) - 1, types[i]), RBLK_WIRE_SHORT);
		assert_int_equal(rblk_check_discover(longer, sizeof(longer), types[i]), RBLK_WIRE_LONG);
		assert_int_equal(rblk_check_discover(&good, 0, types[i]), RBLK_WIRE_SHORT);
		assert_int_equal(BROKEN(types[i], magic = 0), RBLK_WIRE_MAGIC);
		assert_int_equal(BROKEN(types[i], version = rblk_to_le16(2)), RBLK_WIRE_VERSION);
		assert_int_equal(BROKEN(types[i], type = rblk_to_le16(3)), RBLK_WIRE_OPCODE);
		assert_int_equal(BROKEN(types[i], reserved[19] = 1), RBLK_WIRE_RESERVED);
		assert_int_equal(BROKEN(types[i], name[0] = '/'), RBLK_WIRE_NAME);
		assert_int_equal(BROKEN(types[i], name[63] = 'x'), RBLK_WIRE_NAME);
		assert_int_equal(BROKEN(types[i], name[2] = '\x1b'), RBLK_WIRE_NAME);
	}
}

static void query(void **state)
{
	struct rblk_wire_discover all = valid(QUERY);

	memset(all.name, 0, sizeof(all.name));
	assert_int_equal(check(&all, QUERY), RBLK_WIRE_OK);
	assert_int_equal(BROKEN(QUERY, instance[3] = 1), RBLK_WIRE_RESERVED);
	assert_int_equal(BROKEN(QUERY, protocol = rblk_to_le16(1)), RBLK_WIRE_RESERVED);
	assert_int_equal(BROKEN(QUERY, portal_count = rblk_to_le16(1)), RBLK_WIRE_RESERVED);
	assert_int_equal(BROKEN(QUERY, portals[15].reserved[4] = 1), RBLK_WIRE_RESERVED);
}

static enum rblk_wire_error with_address(const char *text)
{
	struct rblk_wire_discover answer = valid(ANSWER);
	u8 *address = answer.portals[3].address;

	if (inet_pton(AF_INET6, text, address) != 1) {
		memset(address, 0, 10);
		address[10] = address[11] = 0xff;
		assert_int_equal(inet_pton(AF_INET, text, address + 12), 1);
	}
	return check(&answer, ANSWER);
}

static void answer(void **state)
{
	struct rblk_wire_discover none = valid(ANSWER);

	memset(none.portals, 0, sizeof(none.portals));
	none.portal_count = 0;
	assert_int_equal(check(&none, ANSWER), RBLK_WIRE_OK);
	assert_int_equal(BROKEN(ANSWER, name[0] = 0), RBLK_WIRE_NAME);
	assert_int_equal(BROKEN(ANSWER, instance[0] = 0), RBLK_WIRE_SESSION_ID);
	assert_int_equal(BROKEN(ANSWER, protocol = 0), RBLK_WIRE_VERSION);
	assert_int_equal(BROKEN(ANSWER, protocol = rblk_to_le16(2)), RBLK_WIRE_OK);
	assert_int_equal(BROKEN(ANSWER, portal_count = rblk_to_le16(17)), RBLK_WIRE_PORTAL);
	assert_int_equal(BROKEN(ANSWER, portal_count = rblk_to_le16(0xffff)), RBLK_WIRE_PORTAL);
	assert_int_equal(BROKEN(ANSWER, portal_count = rblk_to_le16(15)), RBLK_WIRE_RESERVED);
	assert_int_equal(BROKEN(ANSWER, portals[15].port = 0), RBLK_WIRE_PORTAL);
	assert_int_equal(BROKEN(ANSWER, portals[15].kind = 0), RBLK_WIRE_PORTAL);
	assert_int_equal(BROKEN(ANSWER, portals[15].kind = 200), RBLK_WIRE_OK); /* one to come */
	assert_int_equal(BROKEN(ANSWER, portals[0].reserved[0] = 1), RBLK_WIRE_RESERVED);
	assert_int_equal(with_address("10.0.0.1"), RBLK_WIRE_OK);
	assert_int_equal(with_address("223.255.255.255"), RBLK_WIRE_OK);
	assert_int_equal(with_address("224.0.0.1"), RBLK_WIRE_PORTAL);
	assert_int_equal(with_address("255.255.255.255"), RBLK_WIRE_PORTAL);
	assert_int_equal(with_address("0.0.0.0"), RBLK_WIRE_PORTAL);
	assert_int_equal(with_address("::"), RBLK_WIRE_PORTAL);
	assert_int_equal(with_address("ff02::1"), RBLK_WIRE_PORTAL);
	assert_int_equal(with_address("fe80::1"), RBLK_WIRE_OK);
}

static void bytes(void **state)
{
	static const u8 head[] = {
		'r', 'b', 'l', 'k', 1, 0, 2, 0,			/* magic, version, type */
		7,   0,	  0,   0,   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* nonce */
		's', 't', 'o', 'r', 'a', 'g', 'e', '1',		/* name */
	};
	static const u8 first[] = { 0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x4e, 0x11, 1, 0, 0, 0, 0, 0 };
	struct rblk_wire_discover discover = valid(ANSWER);
	const u8 *at = (const u8 *)&discover;

	assert_memory_equal(at, head, sizeof(head));
	assert_int_equal(at[88], 1);   /* instance */
	assert_int_equal(at[104], 1);  /* protocol */
	assert_int_equal(at[106], 16); /* portal_count */
	assert_memory_equal(at + 128, first, sizeof(first));
	assert_memory_equal(at + 488, first, sizeof(first));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(common),
		cmocka_unit_test(query),
		cmocka_unit_test(answer),
		cmocka_unit_test(bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
