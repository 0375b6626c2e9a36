/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what targets of a store tell each other of its reservation is what was meant, is checked, and never goes
 * back: an older state is not put in force behind a newer one, from whichever side they come. Method: notes, damaged
 * ones, and a volume's reservations.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include "target/base/error.h"
#include "target/store/reservation_image.h"
#include "target/store/reservations.h"

static const struct tgt_reservation_by by = {.initiator = "a", .action = RBLK_RESERVE_PREEMPT, .aborts = true};

static struct tgt_reservation some(uint64_t serial, unsigned int count)
{
	return (struct tgt_reservation){
		.generation = (uint32_t)serial + 3,
		.type = count ? RBLK_RESERVATION_WRITE_EXCLUSIVE : RBLK_RESERVATION_NONE,
		.persist = true,
		.serial = serial,
		.count = count,
		.registrants = {{.initiator = "a", .host = {1, 2}, .key = 1ull << 63, .holder = count > 0},
				{.initiator = "b", .host = {3}, .key = 5}},
	};
}

static void a_note_is_what_was_meant(void **state)
{
	struct tgt_reservation before = some(7, 2), after;
	struct tgt_reservation_note note;
	struct tgt_reservation_by who;

	(void)state;
	tgt_reservation_note_encode(&before, &by, &note);
	assert_null(tgt_reservation_note_decode(&note, &after, &who));
	assert_int_equal(after.serial, 7);
	assert_int_equal(after.generation, 10);
	assert_int_equal(after.count, 2);
	assert_string_equal(after.registrants[1].initiator, "b");
	assert_true(after.registrants[0].holder && after.persist);
	assert_int_equal(who.action, RBLK_RESERVE_PREEMPT);
	assert_string_equal(who.initiator, "a");
	assert_true(who.aborts);
	/* Nobody is left, and the generation is. */
	before = some(8, 0);
	tgt_reservation_note_encode(&before, &by, &note);
	assert_null(tgt_reservation_note_decode(&note, &after, &who));
	assert_int_equal(after.count, 0);
	assert_int_equal(after.generation, 11);
	memset(&note, 0, sizeof(note));
	assert_null(tgt_reservation_note_decode(&note, &after, &who));
	assert_int_equal(after.serial, 0);
	assert_int_equal(after.count, 0);
	/* That is so only if there is nothing behind it. */
	note.image.bytes[sizeof(note.image.bytes) - 1] = 1;
	assert_non_null(tgt_reservation_note_decode(&note, &after, &who));
}

static void a_damaged_one_is_refused(void **state)
{
	struct tgt_reservation before = some(7, 2), after;
	struct tgt_reservation_note note;
	struct tgt_reservation_by who;
	uint8_t *bytes = note.image.bytes;

	(void)state;
	tgt_reservation_note_encode(&before, &by, &note);
	for (unsigned int i = 0; i < 48 + 2 * 104; i++) {
		bytes[i] ^= 0x41;
		assert_non_null(tgt_reservation_note_decode(&note, &after, &who));
		bytes[i] ^= 0x41;
	}
	assert_null(tgt_reservation_note_decode(&note, &after, &who));
	memset(note.by, 'x', sizeof(note.by));
	assert_null(tgt_reservation_note_decode(&note, &after, &who));
	assert_int_equal(strlen(who.initiator), sizeof(who.initiator) - 1);
}

static void it_never_goes_back(void **state)
{
	static const uint8_t uuid[16] = {1};
	struct tgt_reservation older = some(4, 1), newer = some(5, 2), next;
	struct tgt_reserve reserve = {.initiator = newer.registrants[1].initiator, .host = newer.registrants[1].host,
				      .key = 5, .action = RBLK_RESERVE_RELEASE};
	struct tgt_reservations reservations;
	struct tgt_reservation_note note;
	char error[TGT_ERROR_BYTES];
	uint64_t change = 0;
	bool changed;

	(void)state;
	tgt_reservation_note_encode(&newer, &by, &note);
	note.image.bytes[0] ^= 1;
	assert_int_equal(tgt_reservations_init(&reservations, NULL, uuid, &note, error), -EBADMSG);
	note.image.bytes[0] ^= 1;
	assert_int_equal(tgt_reservations_init(&reservations, NULL, uuid, &note, error), 0);
	assert_int_equal(tgt_reservations_commit(&reservations, &older, &by), 1);
	assert_int_equal(reservations.now.serial, 5);
	assert_int_equal(reservations.now.count, 2);
	/* One that finds nothing to do is one, too: others need not know yet. And it persists. */
	assert_int_equal(tgt_reservations_begin(&reservations, &reserve, &next, &changed), RBLK_OK);
	assert_true(changed);
	assert_int_equal(next.serial, 6);
	assert_true(next.persist);
	/* Meanwhile another target was quicker. */
	newer.serial = 9;
	tgt_reservation_note_encode(&newer, &by, &note);
	assert_null(tgt_reservations_commit_note(&reservations, &note, &change));
	assert_int_equal(tgt_reservations_commit(&reservations, &next, &by), change);
	assert_int_equal(reservations.now.serial, 9);
	tgt_reservations_end(&reservations);
	assert_true(tgt_reservations_hear(&reservations, NULL, "data"));
	assert_true(tgt_reservations_hear(&reservations, &note, "data"));
	note.image.bytes[0] ^= 1;
	assert_non_null(tgt_reservations_commit_note(&reservations, &note, &change));
	assert_false(tgt_reservations_hear(&reservations, &note, "data"));
	assert_int_equal(reservations.now.serial, 9);
	tgt_reservations_fini(&reservations);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_note_is_what_was_meant),
		cmocka_unit_test(a_damaged_one_is_refused),
		cmocka_unit_test(it_never_goes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
