/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: access rules give what they say and no more: by name, address and volume; a volume without
 * rules is for this machine, or for everyone when the target is open. Method: rules are read from
 * texts as the configuration file has them; each question has one expected answer and reason.
 */
#include "tests/unit/unit.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "proto/secret/secret.h"
#include "proto/wire/wire_names.h"
#include "target/base/error.h"
#include "target/base/network.h"
#include "target/control/config.h"
#include "target/control/initiators.h"
#include "target/serve/rules.h"

static struct tgt_config config;

static void rule(const char *name, const char *addresses, const char *see, const char *read,
		 const char *write)
{
	char error[TGT_ERROR_BYTES];
	struct tgt_initiator_config *initiator;

	assert_int_equal(tgt_initiator_add(&config, name, "test:1", error), 0);
	initiator = &config.initiators[config.initiator_count - 1];
	assert_int_equal(tgt_initiator_set_addresses(initiator, addresses, error), 0);
	assert_int_equal(tgt_initiator_set_grants(initiator, TGT_RIGHT_SEE, see, error), 0);
	assert_int_equal(tgt_initiator_set_grants(initiator, TGT_RIGHT_READ, read, error), 0);
	assert_int_equal(tgt_initiator_set_grants(initiator, TGT_RIGHT_WRITE, write, error), 0);
	assert_int_equal(tgt_initiator_complete(initiator, error), 0);
}

static int begin(void **state)
{
	(void)state;
	tgt_config_init(&config);
	return 0;
}

static int end(void **state)
{
	(void)state;
	tgt_config_fini(&config);
	return 0;
}

static struct tgt_origin from(const char *text)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct tgt_origin origin;

	if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
		tgt_origin_of((struct sockaddr *)&in, &origin);
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
		tgt_origin_of((struct sockaddr *)&in6, &origin);
	}
	return origin;
}

static uint32_t why;

static enum tgt_right rules_right(const struct tgt_rules *rules, const struct tgt_origin *origin, const struct tgt_who *who,
				  const char *volume, uint32_t *denied)
{
	struct tgt_ruling ruling;

	tgt_rules_judge(rules, origin, who, &ruling);
	return tgt_ruling_right(&ruling, volume, denied);
}

static enum tgt_right right(const char *address, const char *name, const char *volume)
{
	struct tgt_rules *rules = tgt_rules_create(&config);
	const struct tgt_who who = {.name = name};
	struct tgt_origin origin = from(address);
	enum tgt_right found;

	assert_non_null(rules);
	why = RBLK_DENIED_UNSAID;
	found = rules_right(rules, &origin, &who, volume, &why);
	tgt_rules_put(rules);
	return found;
}

static bool let_in(const char *address)
{
	struct tgt_rules *rules = tgt_rules_create(&config);
	struct tgt_origin origin = from(address);
	bool may;

	assert_non_null(rules);
	why = RBLK_DENIED_UNSAID;
	may = tgt_rules_let_in(rules, &origin, &why);
	tgt_rules_put(rules);
	return may;
}

static void without_rules_this_machine_alone(void **state)
{
	(void)state;
	assert_int_equal(right("127.0.0.1", "a", "v"), TGT_RIGHT_WRITE);
	assert_int_equal(right("127.8.9.1", NULL, "v"), TGT_RIGHT_WRITE);
	assert_int_equal(right("::1", "a", "v"), TGT_RIGHT_WRITE);
	assert_true(let_in("::1"));
	assert_int_equal(right("192.0.2.7", "a", "v"), TGT_RIGHT_NONE);
	assert_int_equal(why, RBLK_DENIED_LOCAL);
	assert_false(let_in("192.0.2.7"));
	assert_int_equal(why, RBLK_DENIED_LOCAL);
	assert_false(let_in("2001:db8::7"));
	/* 127.x in another form, and what only looks like loopback. */
	assert_int_equal(right("::ffff:127.0.0.1", "a", "v"), TGT_RIGHT_WRITE);
	assert_int_equal(right("::127.0.0.1", "a", "v"), TGT_RIGHT_NONE);
	config.open = true;
	assert_int_equal(right("192.0.2.7", NULL, "v"), TGT_RIGHT_WRITE);
	assert_true(let_in("192.0.2.7"));
}

/* May it come, and prove a name, over TCP without TLS? Bits 1 and 2; with TLS, or over RDMA, it may both. */
static unsigned int plainly(const char *address, enum tgt_tls tls)
{
	struct tgt_origin origin = from(address);
	struct tgt_rules *rules;
	unsigned int may;

	config.tls = tls;
	rules = tgt_rules_create(&config);
	assert_non_null(rules);
	assert_true(tgt_rules_let_in(rules, &origin, &why));
	assert_true(tgt_rules_let_prove(rules, &origin, &why));
	origin.plain = true;
	why = RBLK_DENIED_TLS;
	may = (unsigned int)tgt_rules_let_in(rules, &origin, &why);
	may |= (unsigned int)tgt_rules_let_prove(rules, &origin, &why) << 1;
	assert_int_equal(why, RBLK_DENIED_TLS);
	/* An NVMe host has none. */
	origin.nvme = true;
	assert_int_equal(tgt_rules_let_in(rules, &origin, &why), may & 1);
	assert_int_equal(tgt_rules_let_prove(rules, &origin, &why), tls == TGT_TLS_AUTO || may & 2);
	tgt_rules_put(rules);
	return may;
}

static void names_are_proven_by_tls_from_elsewhere(void **state)
{
	(void)state;
	config.open = true;
	assert_int_equal(plainly("192.0.2.7", TGT_TLS_AUTO), 1);
	assert_int_equal(plainly("2001:db8::7", TGT_TLS_AUTO), 1);
	assert_int_equal(plainly("127.0.0.1", TGT_TLS_AUTO), 3);
	assert_int_equal(plainly("::1", TGT_TLS_AUTO), 3);
	assert_int_equal(plainly("192.0.2.7", TGT_TLS_NEVER), 3);
	assert_int_equal(plainly("192.0.2.7", TGT_TLS_ALWAYS), 0);
	assert_int_equal(plainly("127.0.0.1", TGT_TLS_ALWAYS) & 1, 0);
	assert_true(tgt_rules_let_prove(NULL, &(struct tgt_origin){.plain = true}, &why));
}

/* Every address of the interfaces is this machine's. */
static void own_addresses_are_local(void **state)
{
	struct tgt_origin origin;
	struct ifaddrs *list;
	unsigned int count = 0;

	(void)state;
	assert_int_equal(getifaddrs(&list), 0);
	for (const struct ifaddrs *one = list; one; one = one->ifa_next) {
		if (!one->ifa_addr || (one->ifa_addr->sa_family != AF_INET &&
				       one->ifa_addr->sa_family != AF_INET6))
			continue;
		tgt_origin_of(one->ifa_addr, &origin);
		assert_true(origin.local);
		count++;
	}
	freeifaddrs(list);
	assert_true(count > 0);
	origin = from("192.0.2.7");
	assert_false(origin.local);
}

static void name_address_and_volume_count(void **state)
{
	(void)state;
	rule("db1", "192.0.2.0/28", "", "log", "data data2");
	rule("web-*", "198.51.100.0/24, 2001:db8::/32", "log", "www-*", "");
	rule("*", "203.0.113.0/24", "", "iso", "");
	/* db1 from where it may come. */
	assert_int_equal(right("192.0.2.15", "db1", "data"), TGT_RIGHT_WRITE);
	assert_int_equal(right("192.0.2.15", "db1", "data2"), TGT_RIGHT_WRITE);
	assert_int_equal(right("192.0.2.15", "db1", "log"), TGT_RIGHT_READ);
	assert_int_equal(right("192.0.2.15", "db1", "www-1"), TGT_RIGHT_NONE);
	assert_int_equal(why, RBLK_DENIED_RULES);
	/* From elsewhere, by another name, without one, by a longer or shorter one. */
	assert_int_equal(right("192.0.2.16", "db1", "data"), TGT_RIGHT_NONE);
	assert_int_equal(right("192.0.2.15", "db2", "data"), TGT_RIGHT_NONE);
	assert_int_equal(right("192.0.2.15", NULL, "data"), TGT_RIGHT_NONE);
	assert_int_equal(right("192.0.2.15", "db", "data"), TGT_RIGHT_NONE);
	assert_int_equal(right("192.0.2.15", "db11", "data"), TGT_RIGHT_NONE);
	/* Patterns, and IPv6. */
	assert_int_equal(right("198.51.100.9", "web-1", "www-1"), TGT_RIGHT_READ);
	assert_int_equal(right("2001:db8:9::1", "web-1", "www-1"), TGT_RIGHT_READ);
	assert_int_equal(right("2001:db9::1", "web-1", "www-1"), TGT_RIGHT_NONE);
	assert_int_equal(right("198.51.100.9", "web-1", "log"), TGT_RIGHT_SEE);
	assert_int_equal(right("198.51.100.9", "web1", "www-1"), TGT_RIGHT_NONE);
	/* Any name, and none. */
	assert_int_equal(right("203.0.113.5", "who", "iso"), TGT_RIGHT_READ);
	assert_int_equal(right("203.0.113.5", NULL, "iso"), TGT_RIGHT_READ);
	/* This machine has no more right than others to what has rules, and all to the rest. */
	assert_int_equal(right("127.0.0.1", "db1", "data"), TGT_RIGHT_NONE);
	assert_int_equal(right("127.0.0.1", "db1", "free"), TGT_RIGHT_WRITE);
	assert_int_equal(right("192.0.2.15", "db1", "free"), TGT_RIGHT_NONE);
	assert_int_equal(why, RBLK_DENIED_LOCAL);
	/* Who may come in at all. */
	assert_true(let_in("198.51.100.200"));
	assert_false(let_in("198.51.101.1"));
	assert_int_equal(why, RBLK_DENIED_ADDRESS);
	/* Open is for volumes without rules. */
	config.open = true;
	assert_int_equal(right("192.0.2.16", "db1", "data"), TGT_RIGHT_NONE);
	assert_int_equal(right("192.0.2.16", "db1", "free"), TGT_RIGHT_WRITE);
}

static void the_most_counts(void **state)
{
	(void)state;
	rule("a", "local", "*", "v", "v w*");
	rule("b", "0.0.0.0/0", "", "*", "");
	rule("c", "::/0", "", "*", "");
	assert_int_equal(right("127.0.0.1", "a", "v"), TGT_RIGHT_WRITE);
	assert_int_equal(right("127.0.0.1", "a", "w1"), TGT_RIGHT_WRITE);
	assert_int_equal(right("127.0.0.1", "a", "x"), TGT_RIGHT_SEE);
	assert_int_equal(right("192.0.2.1", "a", "v"), TGT_RIGHT_NONE);
	/* Of IPv4 alone; and of both, since IPv6 has a form for IPv4. */
	assert_int_equal(right("192.0.2.1", "b", "v"), TGT_RIGHT_READ);
	assert_int_equal(right("2001:db8::1", "b", "v"), TGT_RIGHT_NONE);
	assert_int_equal(right("2001:db8::1", "c", "v"), TGT_RIGHT_READ);
}

/* A reload replaces all at once; who has the old rules keeps them while he decides. */
static void the_book_is_replaced_whole(void **state)
{
	const struct tgt_who a = {.name = "a"};
	struct tgt_origin origin = from("192.0.2.1");
	struct tgt_rulebook *book;
	struct tgt_rules *old, *now;

	(void)state;
	rule("a", "192.0.2.1", "", "", "v");
	book = tgt_rulebook_create(tgt_rules_create(&config));
	assert_non_null(book);
	old = tgt_rulebook_get(book);
	tgt_config_fini(&config);
	rule("a", "192.0.2.1", "", "v", "");
	tgt_rulebook_replace(book, tgt_rules_create(&config));
	now = tgt_rulebook_get(book);
	assert_int_equal(rules_right(old, &origin, &a, "v", &why), TGT_RIGHT_WRITE);
	assert_int_equal(rules_right(now, &origin, &a, "v", &why), TGT_RIGHT_READ);
	tgt_rules_put(old);
	tgt_rulebook_destroy(book);
	assert_int_equal(rules_right(now, &origin, &a, "v", &why), TGT_RIGHT_READ);
	tgt_rules_put(now);
	assert_int_equal(rules_right(NULL, &origin, &(struct tgt_who){0}, "v", &why), TGT_RIGHT_WRITE);
}

/* What a reload leaves as it was goes on: it gets no new burst, and what it owes is not forgiven. */
static void limits_that_do_not_change_go_on(void **state)
{
	const struct tgt_who a = {.name = "a"}, b = {.name = "b"};
	struct tgt_volume_config volumes[] = {{.name = "v", .limit = {.iops = 7}}, {.name = "w", .limit = {.iops = 7}}};
	struct tgt_rulebook *book;
	struct tgt_rules *old, *now;

	(void)state;
	rule("a", "192.0.2.1", "", "", "v");
	rule("b", "192.0.2.1", "", "", "v");
	config.initiators[0].limit = (struct tgt_limit_config){.rate_bytes = 5, .burst_ms = 100};
	config.initiators[1].limit = (struct tgt_limit_config){.rate_bytes = 5, .burst_ms = 100};
	config.volumes = volumes;
	config.volume_count = UNIT_LENGTH(volumes);
	book = tgt_rulebook_create(tgt_rules_create(&config));
	assert_non_null(book);
	old = tgt_rulebook_get(book);
	config.initiators[1].limit.burst_ms = 200;
	volumes[1].limit.iops = 8;
	tgt_rulebook_replace(book, tgt_rules_create(&config));
	now = tgt_rulebook_get(book);
	assert_non_null(tgt_rules_initiator_limit(now, &a));
	assert_ptr_equal(tgt_rules_initiator_limit(now, &a), tgt_rules_initiator_limit(old, &a));
	assert_ptr_not_equal(tgt_rules_initiator_limit(now, &b), tgt_rules_initiator_limit(old, &b));
	assert_ptr_not_equal(tgt_rules_initiator_limit(now, &a), tgt_rules_initiator_limit(now, &b));
	assert_non_null(tgt_rules_volume_limit(now, "v"));
	assert_ptr_equal(tgt_rules_volume_limit(now, "v"), tgt_rules_volume_limit(old, "v"));
	assert_ptr_not_equal(tgt_rules_volume_limit(now, "w"), tgt_rules_volume_limit(old, "w"));
	tgt_rules_put(old);
	tgt_rules_put(now);
	tgt_rulebook_destroy(book);
	config.volumes = NULL; /* they are not its own */
	config.volume_count = 0;
}

/* Of a volume, or of any section that is for the initiator. */
static void who_has_priority(void **state)
{
	struct tgt_volume_config volumes[2] = {{.name = "v", .priority = true}, {.name = "w"}};
	const struct tgt_who a1 = {"a1", true}, b = {"b", true}, nobody = {"", false};
	struct tgt_rules *rules;

	(void)state;
	config.volumes = volumes;
	config.volume_count = UNIT_LENGTH(volumes);
	rule("*", "local", "", "", "*");
	rule("a*", "local", "", "", "*");
	config.initiators[1].priority = true;
	rules = tgt_rules_create(&config);
	assert_non_null(rules);
	assert_true(tgt_rules_volume_priority(rules, "v"));
	assert_false(tgt_rules_volume_priority(rules, "w"));
	assert_false(tgt_rules_volume_priority(rules, "x"));
	assert_true(tgt_rules_initiator_priority(rules, &a1));
	assert_false(tgt_rules_initiator_priority(rules, &b));
	assert_false(tgt_rules_initiator_priority(rules, &nobody));
	tgt_rules_put(rules);
	config.volumes = NULL; /* they are not its own */
	config.volume_count = 0;
}

/* A section with a secret is for those that have proven its name, from wherever or from its addresses. */
static void a_secret_is_needed_where_there_is_one(void **state)
{
	const struct tgt_origin here = from("192.0.2.1"), there = from("198.51.100.1");
	const struct tgt_who claims = {.name = "a"}, proves = {.name = "a", .proven = true};
	const struct tgt_who other = {.name = "b", .proven = true};
	char error[TGT_ERROR_BYTES], path[] = "unit-rules-XXXXXX";
	struct tgt_initiator_config *a;
	struct tgt_rules *rules;
	FILE *file = fdopen(mkstemp(path), "w");

	(void)state;
	assert_non_null(file);
	assert_int_equal(rblk_secret_write_new(file), 0);
	fclose(file);
	assert_int_equal(tgt_initiator_add(&config, "a", "test:1", error), 0);
	a = &config.initiators[0];
	assert_int_equal(tgt_initiator_set_grants(a, TGT_RIGHT_WRITE, "v", error), 0);
	assert_int_equal(tgt_initiator_add_secrets(a, path, error), 0);
	assert_int_equal(tgt_initiator_complete(a, error), 0);
	rules = tgt_rules_create(&config);
	assert_true(tgt_rules_let_in(rules, &there, &why));
	assert_int_equal(rules_right(rules, &there, &proves, "v", &why), TGT_RIGHT_WRITE);
	assert_int_equal(rules_right(rules, &there, &claims, "v", &why), TGT_RIGHT_NONE);
	assert_int_equal(rules_right(rules, &there, &other, "v", &why), TGT_RIGHT_NONE);
	assert_non_null(tgt_rules_secrets(rules, "a"));
	assert_null(tgt_rules_secrets(rules, "b"));
	tgt_rules_put(rules);
	/* With addresses, both are needed. */
	assert_int_equal(tgt_initiator_set_addresses(a, "192.0.2.0/24", error), 0);
	rules = tgt_rules_create(&config);
	assert_false(tgt_rules_let_in(rules, &there, &why));
	assert_int_equal(rules_right(rules, &there, &proves, "v", &why), TGT_RIGHT_NONE);
	assert_int_equal(rules_right(rules, &here, &proves, "v", &why), TGT_RIGHT_WRITE);
	assert_int_equal(rules_right(rules, &here, &claims, "v", &why), TGT_RIGHT_NONE);
	tgt_rules_put(rules);
	unlink(path);
}

static void networks_are_read_strictly(void **state)
{
	static const struct {
		const char *text, *error;
	} wrong[] = {
		{"10.9", "\"10.9\" is not an address, as in 10.9.0.0/16, fd09::1 or local"},
		{"host", "\"host\" is not an address, as in 10.9.0.0/16, fd09::1 or local"},
		{"/8", "\"/8\" is not an address, as in 10.9.0.0/16, fd09::1 or local"},
		{"10.0.0.0/33", "\"10.0.0.0/33\": the bits after / must be from 0 to 32"},
		{"10.0.0.0/", "\"10.0.0.0/\": the bits after / must be from 0 to 32"},
		{"10.0.0.0/-1", "\"10.0.0.0/-1\": the bits after / must be from 0 to 32"},
		{"fd00::/129", "\"fd00::/129\": the bits after / must be from 0 to 128"},
		{"10.9.0.1/16", "\"10.9.0.1/16\": the address has bits beyond its /16"},
		{"fd00::1/64", "\"fd00::1/64\": the address has bits beyond its /64"},
	};
	struct tgt_network network;
	char error[TGT_ERROR_BYTES];

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(wrong); i++) {
		assert_true(tgt_network_parse(wrong[i].text, &network, error) < 0);
		assert_string_equal(error, wrong[i].error);
	}
	assert_int_equal(tgt_network_parse("10.9.8.7", &network, error), 0);
	assert_int_equal(network.bits, 128);
	assert_int_equal(tgt_network_parse("0.0.0.0/0", &network, error), 0);
	assert_int_equal(network.bits, 96);
	assert_int_equal(tgt_network_parse("local", &network, error), 0);
	assert_true(network.local);
}

/* -- many of all ------------------------------------------------------------------------------- */

static unsigned int looks; /* at a network */

bool __real_tgt_network_has(const struct tgt_network *network, const uint8_t address[16], bool local);
bool __wrap_tgt_network_has(const struct tgt_network *network, const uint8_t address[16], bool local);
bool __wrap_tgt_network_has(const struct tgt_network *network, const uint8_t address[16], bool local)
{
	looks++;
	return __real_tgt_network_has(network, address, local);
}

static void many_volumes(const char names[][8], unsigned int count)
{
	config.volumes = calloc(count, sizeof(*config.volumes));
	assert_non_null(config.volumes);
	config.volume_count = count;
	for (unsigned int i = 0; i < count; i++)
		strcpy(config.volumes[i].name, names[i]);
}

/* Sections are looked at once, however many volumes are asked about: any initiator may ask about all. */
static void sections_are_looked_at_once(void **state)
{
	enum { MANY = 100 };
	static char names[MANY][8];
	const struct tgt_who who = {.name = "host7"};
	struct tgt_origin origin = from("10.1.1.1");
	struct tgt_ruling ruling;
	struct tgt_rules *rules;
	char name[16];

	(void)state;
	for (unsigned int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "v%u", (i * 37) % MANY);
		snprintf(name, sizeof(name), "host%u", i);
		rule(name, "10.0.0.0/8", "", "", names[i]);
	}
	many_volumes(names, MANY);
	rules = tgt_rules_create(&config);
	assert_non_null(rules);
	looks = 0;
	tgt_rules_judge(rules, &origin, &who, &ruling);
	assert_in_range(looks, 1, MANY);
	looks = 0;
	for (unsigned int i = 0; i < MANY; i++)
		assert_int_equal(tgt_ruling_right(&ruling, names[i], &why), i == 7 ? TGT_RIGHT_WRITE : TGT_RIGHT_NONE);
	assert_int_equal(looks, 0);
	tgt_rules_put(rules);
}

/* Whether the configuration has the volume makes no difference to what its sections say of it. */
static void volumes_known_and_unknown(void **state)
{
	static const char names[][8] = {"web", "web-2", "w", "db", "other"};
	static const char *const who[] = {"a", "b", NULL}, *const where[] = {"10.1.1.1", "127.0.0.1", "192.0.2.1"};
	enum tgt_right without[5][3][3];

	(void)state;
	rule("a", "10.0.0.0/8", "w", "web*", "db");
	rule("b*", "local", "", "d*", "web-2");
	for (unsigned int pass = 0; pass < 2; pass++) {
		for (unsigned int v = 0; v < 5; v++)
			for (unsigned int i = 0; i < 9; i++) {
				enum tgt_right found = right(where[i / 3], who[i % 3], names[v]);

				if (pass)
					assert_int_equal(found, without[v][i / 3][i % 3]);
				without[v][i / 3][i % 3] = found;
			}
		if (!pass)
			many_volumes(names, 5);
	}
	assert_int_equal(right("127.0.0.1", NULL, "other"), TGT_RIGHT_WRITE);
	assert_int_equal(right("127.0.0.1", NULL, "db"), TGT_RIGHT_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(without_rules_this_machine_alone, begin, end),
		cmocka_unit_test_setup_teardown(own_addresses_are_local, begin, end),
		cmocka_unit_test_setup_teardown(names_are_proven_by_tls_from_elsewhere, begin, end),
		cmocka_unit_test_setup_teardown(name_address_and_volume_count, begin, end),
		cmocka_unit_test_setup_teardown(the_most_counts, begin, end),
		cmocka_unit_test_setup_teardown(the_book_is_replaced_whole, begin, end),
		cmocka_unit_test_setup_teardown(limits_that_do_not_change_go_on, begin, end),
		cmocka_unit_test_setup_teardown(who_has_priority, begin, end),
		cmocka_unit_test_setup_teardown(a_secret_is_needed_where_there_is_one, begin, end),
		cmocka_unit_test_setup_teardown(networks_are_read_strictly, begin, end),
		cmocka_unit_test_setup_teardown(sections_are_looked_at_once, begin, end),
		cmocka_unit_test_setup_teardown(volumes_known_and_unknown, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
