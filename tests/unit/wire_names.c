/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: every code of the protocol has its own text, codes that do not exist have the text for
 * that, and every status has an errno. Method: ask for every value of each code's type; the known
 * ones must differ from the unknown and from each other.
 */
#include <errno.h>
#include <string.h>
#include "tests/unit/unit.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

#define KNOWN_MAX 64

/* Adapters to one signature. */
static const char *opcode_text(u32 code)
{
	return rblk_opcode_name((u8)code);
}

static const char *status_text(u32 code)
{
	return rblk_status_text((u16)code);
}

static const char *reject_text(u32 code)
{
	return rblk_reject_text((u16)code);
}

static const char *wire_error_text(u32 code)
{
	return rblk_wire_error_text((enum rblk_wire_error)code);
}

/* Asks for codes 0..limit-1; those for which known() is true must have distinct texts. */
static void check_words(const char *(*text)(u32 code), bool (*known)(u32 code), u32 limit,
			const char *unknown)
{
	const char *seen[KNOWN_MAX];
	u32 code, i, count = 0;

	for (code = 0; code < limit; code++) {
		const char *words = text(code);

		assert_non_null(words);
		if (!known(code)) {
			assert_string_equal(words, unknown);
			continue;
		}
		assert_true(strlen(words) > 0);
		assert_string_not_equal(words, unknown);
		for (i = 0; i < count; i++)
			assert_string_not_equal(words, seen[i]);
		assert_true(count < KNOWN_MAX);
		seen[count++] = words;
	}
}

static bool opcode_known(u32 code)
{
	return (code >= RBLK_OP_READ && code <= RBLK_OP_EXTENTS &&
		code != 8 && code != 9 /* not in use */) ||
	       (code >= RBLK_OP_IDENTIFY && code < RBLK_OP_MAX && code != 25 /* reserved */);
}

static bool status_known(u32 code)
{
	return code < RBLK_E_MAX;
}

static bool reject_known(u32 code)
{
	return code < RBLK_REJECT_MAX;
}

static const char *denied_text(u32 code)
{
	return rblk_denied_text(code);
}

/* 0 is what an unknown one is taken for. */
static bool denied_known(u32 code)
{
	return code && code < RBLK_DENIED_MAX;
}

static bool wire_error_known(u32 code)
{
	return code < RBLK_WIRE_ERROR_MAX;
}

static void codes(void **state)
{
	check_words(opcode_text, opcode_known, 256, "unknown opcode");
	check_words(status_text, status_known, 65536, "unknown status");
	check_words(reject_text, reject_known, 65536, "unknown reason");
	check_words(denied_text, denied_known, 65536, rblk_denied_text(RBLK_DENIED_UNSAID));
	assert_string_equal(rblk_denied_text(1ull << 32 | RBLK_DENIED_RULES),
			    rblk_denied_text(RBLK_DENIED_UNSAID));
	assert_string_equal(rblk_refusal_text(RBLK_E_DENIED, RBLK_DENIED_RULES),
			    rblk_denied_text(RBLK_DENIED_RULES));
	assert_string_equal(rblk_refusal_text(RBLK_E_RANGE, RBLK_DENIED_RULES),
			    rblk_status_text(RBLK_E_RANGE));
	check_words(wire_error_text, wire_error_known, 4096, "unknown wire error");
	assert_string_equal(rblk_wire_error_text((enum rblk_wire_error)~0u), "unknown wire error");
}

static const char *feature_text(u32 bit)
{
	return rblk_feature_name(1u << bit);
}

static bool feature_known(u32 bit)
{
	return RBLK_FEATURES_ALL >> bit & 1;
}

static void bits(void **state)
{
	check_words(feature_text, feature_known, 32, "unknown feature");
	assert_string_equal(rblk_feature_name(0), "unknown feature");
	assert_string_equal(rblk_feature_name(3), "unknown feature");
}

static void words_match_their_codes(void **state)
{
	assert_string_equal(rblk_opcode_name(RBLK_OP_READ), "READ");
	assert_string_equal(rblk_opcode_name(RBLK_OP_RESERVE), "RESERVE");
	assert_string_equal(rblk_status_text(RBLK_E_RANGE), "beyond the end of the volume");
	assert_string_equal(rblk_reject_text(RBLK_REJECT_STALE_EPOCH), "the session's epoch is over");
	assert_string_equal(rblk_feature_name(RBLK_FEATURE_EXTENTS), "extents");
	assert_string_equal(rblk_feature_name(RBLK_FEATURE_UNTORN), "untorn");
}

static void status_errnos(void **state)
{
	u32 status, other;

	assert_int_equal(rblk_status_errno(RBLK_OK), 0);
	for (status = 1; status < RBLK_E_MAX; status++) {
		assert_true(rblk_status_errno((u16)status) < 0);
		/* Distinct, so that an errno alone still tells the status. */
		for (other = 1; other < status; other++)
			assert_int_not_equal(rblk_status_errno((u16)status),
					     rblk_status_errno((u16)other));
	}
	assert_int_equal(rblk_status_errno(RBLK_E_BUSY), -EBUSY);
	assert_int_equal(rblk_status_errno(RBLK_E_IO), -EIO);
	assert_int_equal(rblk_status_errno(RBLK_E_FENCED), -ESTALE);
	assert_int_equal(rblk_status_errno(RBLK_E_NO_VOLUME), -ENOENT);
	for (status = RBLK_E_MAX; status <= 0xffff; status++)
		assert_int_equal(rblk_status_errno((u16)status), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes),
		cmocka_unit_test(bits),
		cmocka_unit_test(words_match_their_codes),
		cmocka_unit_test(status_errnos),
	};

	return cmocka_run_group_tests_name("wire names", tests, NULL, NULL);
}
