/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: registrations and reservations behave as the specification's section 6.2 says, in any order
 * of actions. Method: each rule by itself, then long random histories against a model that stores
 * the same facts in another way (an array of keys by initiator, and the set of holders).
 */
#include "target/store/reservation.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES 6u

static char names[NAMES][RBLK_NAME_BYTES] = {"a", "b", "c", "d", "e", "f"};
static const uint8_t here[TGT_REGISTRANT_HOST_BYTES] = {1}, there[TGT_REGISTRANT_HOST_BYTES] = {2};

static struct tgt_reservation table;
static bool changed;

static enum rblk_status reserve(unsigned int who, struct tgt_reserve what)
{
	what.initiator = names[who];
	if (!what.host)
		what.host = who % 2 ? here : there;
	return tgt_reservation_change(&table, &what, &changed);
}

#define RESERVE(who, ...) reserve(who, (struct tgt_reserve){__VA_ARGS__})
#define REGISTER(who, key_now, key_then, ...)                                              \
	RESERVE(who, .action = RBLK_RESERVE_REGISTER, .key = key_now, .new_key = key_then, \
		__VA_ARGS__)
#define ACQUIRE(who, own, kind) \
	RESERVE(who, .action = RBLK_RESERVE_ACQUIRE, .key = own, .type = kind)
#define RELEASE(who, own, kind) \
	RESERVE(who, .action = RBLK_RESERVE_RELEASE, .key = own, .type = kind)
#define PREEMPT(who, own, other, kind, ...)                                                        \
	RESERVE(who, .action = RBLK_RESERVE_PREEMPT, .key = own, .other_key = other, .type = kind, \
		__VA_ARGS__)
#define CLEAR(who, own, ...) RESERVE(who, .action = RBLK_RESERVE_CLEAR, .key = own, __VA_ARGS__)

static uint8_t refused(unsigned int who)
{
	bool registered;

	return tgt_reservation_refused(&table, names[who], &registered);
}

/* a and b are registered with keys 1 and 2, c is not. */
static int setup(void **state)
{
	memset(&table, 0, sizeof(table));
	assert_int_equal(REGISTER(0, 0, 1), RBLK_OK);
	assert_int_equal(REGISTER(1, 0, 2), RBLK_OK);
	return 0;
}

/* -- one rule each ----------------------------------------------------------------------------- */

static void each_type_refuses_what_it_says(void **state)
{
	static const struct {
		uint8_t type, holder, registrant, other;
	} rows[] = {
		{RBLK_RESERVATION_WRITE_EXCLUSIVE, 0, 2, 2},
		{RBLK_RESERVATION_EXCLUSIVE_ACCESS, 0, 3, 3},
		{RBLK_RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS, 0, 0, 2},
		{RBLK_RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS, 0, 0, 3},
		{RBLK_RESERVATION_WRITE_EXCLUSIVE_ALL, 0, 0, 2},
		{RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL, 0, 0, 3},
	};
	bool registered;

	for (unsigned int i = 0; i < UNIT_LENGTH(rows); i++) {
		assert_int_equal(ACQUIRE(0, 1, rows[i].type), RBLK_OK);
		assert_int_equal(refused(0), rows[i].holder);
		assert_int_equal(refused(1), rows[i].registrant);
		assert_int_equal(refused(2), rows[i].other);
		assert_int_equal(tgt_reservation_refused(&table, NULL, &registered), rows[i].other);
		assert_false(registered);
		assert_int_equal(RELEASE(0, 1, rows[i].type), RBLK_OK);
		assert_int_equal(refused(2), 0);
	}
}

static void a_wrong_key_is_refused(void **state)
{
	const struct tgt_reservation before = table;

	assert_int_equal(REGISTER(0, 7, 9), RBLK_E_RESERVED);
	assert_int_equal(REGISTER(2, 7, 9), RBLK_E_RESERVED);
	assert_int_equal(REGISTER(2, 0, 0), RBLK_E_RESERVED);
	assert_int_equal(ACQUIRE(0, 2, 1), RBLK_E_RESERVED);
	assert_int_equal(ACQUIRE(2, 0, 1), RBLK_E_RESERVED);
	assert_int_equal(RELEASE(0, 2, 1), RBLK_E_RESERVED);
	assert_int_equal(PREEMPT(0, 2, 2, 1), RBLK_E_RESERVED);
	assert_int_equal(CLEAR(0, 2), RBLK_E_RESERVED);
	assert_int_equal(CLEAR(2, 0), RBLK_E_RESERVED);
	assert_memory_equal(&table, &before, sizeof(table));
	assert_int_equal(REGISTER(0, 7, 9, .flags = RBLK_RESERVE_IGNORE_KEY), RBLK_OK);
	assert_int_equal(table.registrants[0].key, 9);
}

static void another_holder_keeps_its_reservation(void **state)
{
	assert_int_equal(ACQUIRE(0, 1, 1), RBLK_OK);
	assert_int_equal(ACQUIRE(1, 2, 1), RBLK_E_RESERVED);
	assert_int_equal(ACQUIRE(0, 1, 2), RBLK_E_RESERVED);
	assert_int_equal(ACQUIRE(0, 1, 1), RBLK_OK);
	assert_false(changed);
	assert_int_equal(RELEASE(1, 2, 1), RBLK_OK);
	assert_false(changed);
	assert_int_equal(RELEASE(0, 1, 2), RBLK_E_INVALID);
	assert_int_equal(table.type, 1);
	assert_int_equal(RELEASE(0, 1, 0), RBLK_OK);
	assert_int_equal(table.type, 0);
}

static void it_ends_with_its_holder(void **state)
{
	assert_int_equal(ACQUIRE(0, 1, RBLK_RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS), RBLK_OK);
	assert_int_equal(REGISTER(1, 2, 0), RBLK_OK);
	assert_int_equal(table.type, 3);
	assert_int_equal(REGISTER(0, 1, 5), RBLK_OK);
	assert_int_equal(table.type, 3);
	assert_int_equal(REGISTER(0, 5, 0), RBLK_OK);
	assert_int_equal(table.type, 0);
}

static void of_all_ends_with_the_last(void **state)
{
	assert_int_equal(ACQUIRE(0, 1, RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL), RBLK_OK);
	assert_int_equal(ACQUIRE(1, 2, RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL), RBLK_OK);
	assert_int_equal(REGISTER(0, 1, 0), RBLK_OK);
	assert_int_equal(refused(0), 3);
	assert_int_equal(refused(1), 0);
	assert_int_equal(REGISTER(1, 2, 0), RBLK_OK);
	assert_int_equal(table.type, 0);
}

static void preempt_takes_only_the_holders(void **state)
{
	assert_int_equal(REGISTER(2, 0, 3), RBLK_OK);
	assert_int_equal(ACQUIRE(0, 1, 1), RBLK_OK);
	assert_int_equal(PREEMPT(1, 2, 3, 2), RBLK_OK); /* c is not a holder */
	assert_int_equal(table.type, 1);
	assert_int_equal(table.count, 2);
	assert_int_equal(refused(0), 0);
	assert_int_equal(PREEMPT(1, 2, 3, 2), RBLK_E_RESERVED);
	assert_int_equal(PREEMPT(1, 2, 3, 2, .retry = true), RBLK_OK);
	assert_false(changed);
	assert_int_equal(PREEMPT(1, 2, 0, 2), RBLK_E_INVALID);
	assert_int_equal(PREEMPT(1, 2, 1, 2), RBLK_OK);
	assert_int_equal(table.type, 2);
	assert_int_equal(table.count, 1);
	assert_int_equal(refused(0), 3);
	assert_int_equal(refused(1), 0);
	assert_int_equal(PREEMPT(1, 2, 2, 4), RBLK_OK); /* itself */
	assert_int_equal(table.type, 4);
	assert_int_equal(table.count, 1);
}

static void preempt_of_all_removes_all_others(void **state)
{
	assert_int_equal(ACQUIRE(0, 1, RBLK_RESERVATION_WRITE_EXCLUSIVE_ALL), RBLK_OK);
	assert_int_equal(PREEMPT(1, 2, 0, 1), RBLK_OK);
	assert_int_equal(table.count, 1);
	assert_int_equal(table.type, 1);
	assert_true(table.registrants[0].holder);
	assert_string_equal(table.registrants[0].initiator, "b");
}

static void retries_change_nothing(void **state)
{
	assert_int_equal(REGISTER(0, 0, 1), RBLK_E_RESERVED);
	assert_int_equal(REGISTER(0, 0, 1, .retry = true), RBLK_OK);
	assert_false(changed);
	assert_int_equal(REGISTER(2, 3, 0, .retry = true), RBLK_OK);
	assert_false(changed);
	assert_int_equal(CLEAR(2, 3, .retry = true), RBLK_OK);
	assert_false(changed);
	assert_int_equal(table.generation, 2);
}

static void persistence_is_told_by_register(void **state)
{
	assert_int_equal(REGISTER(0, 1, 1, .flags = RBLK_RESERVE_PERSIST), RBLK_OK);
	assert_true(table.persist && changed);
	assert_int_equal(REGISTER(1, 2, 4), RBLK_OK);
	assert_true(table.persist);
	assert_int_equal(REGISTER(0, 1, 1, .flags = RBLK_RESERVE_VOLATILE), RBLK_OK);
	assert_false(table.persist);
}

/* As after a restart: what has no registrant has no file that could say so. */
static void persistence_ends_with_the_last_registrant(void **state)
{
	assert_int_equal(REGISTER(0, 1, 1, .flags = RBLK_RESERVE_PERSIST), RBLK_OK);
	assert_int_equal(REGISTER(0, 1, 0), RBLK_OK);
	assert_true(table.persist);
	assert_int_equal(REGISTER(1, 2, 0, .flags = RBLK_RESERVE_PERSIST), RBLK_OK);
	assert_false(table.persist);
	assert_int_equal(REGISTER(0, 0, 1, .flags = RBLK_RESERVE_PERSIST), RBLK_OK);
	assert_int_equal(CLEAR(0, 1), RBLK_OK);
	assert_false(table.persist);
}

/* One host takes its share under many names; others still find room. */
static void one_host_leaves_room(void **state)
{
	char name[RBLK_NAME_BYTES] = "";
	struct tgt_reserve what = {
		.initiator = name, .host = here, .action = RBLK_RESERVE_REGISTER, .new_key = 1};

	memset(&table, 0, sizeof(table));
	for (unsigned int i = 0; i < TGT_REGISTRANTS_PER_HOST; i++) {
		snprintf(name, sizeof(name), "n%03u", i);
		assert_int_equal(tgt_reservation_change(&table, &what, &changed), RBLK_OK);
	}
	snprintf(name, sizeof(name), "more");
	assert_int_equal(tgt_reservation_change(&table, &what, &changed), RBLK_E_NO_RESOURCES);
	assert_int_equal(table.count, TGT_REGISTRANTS_PER_HOST);
	assert_false(changed);
	what.host = there;
	assert_int_equal(tgt_reservation_change(&table, &what, &changed), RBLK_OK);
}

static void a_volume_has_a_limit(void **state)
{
	char name[RBLK_NAME_BYTES] = "";
	uint8_t host[TGT_REGISTRANT_HOST_BYTES] = {0};
	struct tgt_reserve what = {
		.initiator = name, .host = host, .action = RBLK_RESERVE_REGISTER, .new_key = 1};

	memset(&table, 0, sizeof(table));
	for (unsigned int i = 0; i <= RBLK_REGISTRANTS_MAX; i++) {
		snprintf(name, sizeof(name), "n%03u", i);
		host[0] = (uint8_t)i;
		assert_int_equal(tgt_reservation_change(&table, &what, &changed),
				 i < RBLK_REGISTRANTS_MAX ? RBLK_OK : RBLK_E_NO_RESOURCES);
	}
	assert_int_equal(table.count, RBLK_REGISTRANTS_MAX);
}

/* -- histories against a model --------------------------------------------------------------- */

static struct {
	uint64_t key[NAMES]; /* 0: not registered */
	bool holds[NAMES];
	uint8_t type;
	uint32_t generation;
} oracle;

static bool oracle_all(void)
{
	return oracle.type >= RBLK_RESERVATION_WRITE_EXCLUSIVE_ALL;
}

static void oracle_drop(unsigned int who)
{
	bool last = true;

	oracle.key[who] = 0;
	for (unsigned int i = 0; i < NAMES; i++)
		last &= !oracle.holds[i] || i == who;
	if (oracle.holds[who] && last)
		oracle.type = 0;
	oracle.holds[who] = false;
}

static void oracle_hold(unsigned int who, uint8_t type)
{
	oracle.type = type;
	for (unsigned int i = 0; i < NAMES; i++)
		oracle.holds[i] = i == who || (oracle_all() && oracle.key[i]);
}

static enum rblk_status oracle_preempt(unsigned int who, uint64_t other, uint8_t type)
{
	bool everyone = oracle_all() && !other, held = everyone, found = everyone;

	if (!other && !everyone)
		return RBLK_E_INVALID;
	for (unsigned int i = 0; i < NAMES; i++) {
		bool hit = oracle.key[i] && (everyone || oracle.key[i] == other);

		if (!hit || (i == who && (oracle_all() || !oracle.holds[i])))
			continue;
		found = true;
		held |= oracle.holds[i] && !oracle_all();
		if (i != who)
			oracle_drop(i);
	}
	if (!found)
		return RBLK_E_RESERVED;
	oracle.generation++;
	if (held)
		oracle_hold(who, type);
	return RBLK_OK;
}

static enum rblk_status oracle_do(unsigned int who, const struct tgt_reserve *what)
{
	if (what->action == RBLK_RESERVE_REGISTER) {
		bool ignore = what->flags & RBLK_RESERVE_IGNORE_KEY;

		if (oracle.key[who] != what->key && !ignore)
			return RBLK_E_RESERVED;
		if (!oracle.key[who] && !what->new_key)
			return ignore ? RBLK_OK : RBLK_E_RESERVED;
		oracle.generation += oracle.key[who] != what->new_key;
		if (!what->new_key)
			oracle_drop(who);
		else if (!oracle.key[who])
			oracle.holds[who] = oracle_all();
		oracle.key[who] = what->new_key;
		return RBLK_OK;
	}
	if (!oracle.key[who] || oracle.key[who] != what->key)
		return RBLK_E_RESERVED;
	switch (what->action) {
	case RBLK_RESERVE_ACQUIRE:
		if (oracle.type && (!oracle.holds[who] || oracle.type != what->type))
			return RBLK_E_RESERVED;
		if (!oracle.type)
			oracle_hold(who, what->type);
		return RBLK_OK;
	case RBLK_RESERVE_RELEASE:
		if (!oracle.type || !oracle.holds[who])
			return RBLK_OK;
		if (what->type && what->type != oracle.type)
			return RBLK_E_INVALID;
		oracle.type = 0;
		memset(oracle.holds, 0, sizeof(oracle.holds));
		return RBLK_OK;
	case RBLK_RESERVE_PREEMPT:
		return oracle_preempt(who, what->other_key, what->type);
	default:
		oracle.generation++;
		oracle.type = 0;
		memset(oracle.key, 0, sizeof(oracle.key));
		memset(oracle.holds, 0, sizeof(oracle.holds));
		return RBLK_OK;
	}
}

static uint8_t oracle_refused(unsigned int who)
{
	bool may = oracle.holds[who] || (oracle.type >= 3 && oracle.key[who]);

	if (!oracle.type || may)
		return 0;
	return oracle.type % 2 ? TGT_REFUSED_WRITE : TGT_REFUSED_READ | TGT_REFUSED_WRITE;
}

static void agree(unsigned int step)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < NAMES; i++) {
		bool registered;

		assert_int_equal(tgt_reservation_refused(&table, names[i], &registered),
				 oracle_refused(i));
		assert_int_equal(registered, oracle.key[i] != 0);
		count += oracle.key[i] != 0;
	}
	assert_int_equal(table.count, count);
	assert_int_equal(table.type, oracle.type);
	assert_int_equal(table.generation, oracle.generation);
	for (unsigned int i = 0; i < table.count; i++) {
		unsigned int who = (unsigned int)(table.registrants[i].initiator[0] - 'a');

		assert_int_equal(table.registrants[i].key, oracle.key[who]);
		assert_int_equal(oracle.type &&
					 tgt_reservation_holds(&table, &table.registrants[i]),
				 oracle.holds[who]);
	}
}

static void histories(void **state)
{
	for (unsigned int seed = 1; seed <= 300; seed++) {
		unsigned int done = 0;

		srandom(seed);
		memset(&table, 0, sizeof(table));
		memset(&oracle, 0, sizeof(oracle));
		for (unsigned int step = 0; step < 400; step++) {
			unsigned int who = (unsigned int)random() % NAMES;
			struct tgt_reserve what = {
				.action = (uint8_t)(1 + random() % 5),
				.key = random() % 5 ? oracle.key[who] : (uint64_t)random() % 4,
				.type = (uint8_t)(1 + random() % 6),
				.host = who % 2 ? here : there,
			};
			enum rblk_status expected;

			if (what.action == RBLK_RESERVE_CLEAR && random() % 4)
				what.action = RBLK_RESERVE_REGISTER;
			if (what.action == RBLK_RESERVE_REGISTER)
				what.new_key = (uint64_t)random() % 4;
			if (what.action == RBLK_RESERVE_REGISTER && random() % 4 == 0)
				what.flags = RBLK_RESERVE_IGNORE_KEY;
			if (what.action == RBLK_RESERVE_PREEMPT)
				what.other_key = (uint64_t)random() % 4;
			expected = oracle_do(who, &what);
			assert_int_equal(reserve(who, what), expected);
			done += expected == RBLK_OK && changed;
			agree(step);
		}
		assert_true(done > 50);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_type_refuses_what_it_says, setup),
		cmocka_unit_test_setup(a_wrong_key_is_refused, setup),
		cmocka_unit_test_setup(another_holder_keeps_its_reservation, setup),
		cmocka_unit_test_setup(it_ends_with_its_holder, setup),
		cmocka_unit_test_setup(of_all_ends_with_the_last, setup),
		cmocka_unit_test_setup(preempt_takes_only_the_holders, setup),
		cmocka_unit_test_setup(preempt_of_all_removes_all_others, setup),
		cmocka_unit_test_setup(retries_change_nothing, setup),
		cmocka_unit_test_setup(persistence_is_told_by_register, setup),
		cmocka_unit_test_setup(persistence_ends_with_the_last_registrant, setup),
		cmocka_unit_test(one_host_leaves_room),
		cmocka_unit_test(a_volume_has_a_limit),
		cmocka_unit_test(histories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
