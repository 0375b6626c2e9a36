/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the target's digest is standard CRC-32C, and can be computed in pieces. Method: the known
 * values of RFC 3720 (appendix B.4) and of the check string.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include "proto/digest/digest.h"

static void known_values(void **state)
{
	unsigned char data[32];

	(void)state;
	assert_int_equal(rblk_digest(0, "123456789", 9), 0xe3069283u);
	assert_int_equal(rblk_digest(0, "", 0), 0);
	memset(data, 0, sizeof(data));
	assert_int_equal(rblk_digest(0, data, sizeof(data)), 0x8a9136aau);
	memset(data, 0xff, sizeof(data));
	assert_int_equal(rblk_digest(0, data, sizeof(data)), 0x62a8ab43u);
}

static void pieces_make_the_whole(void **state)
{
	static const char text[] = "the digest of two pieces is the digest of both";
	uint32_t whole = rblk_digest(0, text, sizeof(text));

	(void)state;
	for (size_t cut = 0; cut <= sizeof(text); cut++)
		assert_int_equal(
			rblk_digest(rblk_digest(0, text, cut), text + cut, sizeof(text) - cut),
			whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_values),
		cmocka_unit_test(pieces_make_the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
