/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: answers that belong to one target become one target; what is kept is bounded, whoever
 * answers. Method: answers written down here are added; the list is compared.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "tests/unit/unit.h"
#include "initiator/cmd/discover.h"
#include "proto/wire/wire_check.h"

static struct rblk_wire_discover answer_make(const char *name, uint8_t instance)
{
	struct rblk_wire_discover answer = {
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(1),
		.type = rblk_to_le16(RBLK_DISCOVER_ANSWER),
		.instance = { 1, instance },
		.protocol = rblk_to_le16(1),
	};

	strcpy(answer.name, name);
	return answer;
}

static void portal_add(struct rblk_wire_discover *answer, uint8_t kind, uint8_t last)
{
	uint16_t count = rblk_le16(answer->portal_count);

	answer->portals[count] = (struct rblk_wire_portal){
		.address = { [10] = 0xff, 0xff, 10, 9, 0, last }, .port = rblk_to_le16(4430), .kind = kind };
	answer->portal_count = rblk_to_le16(count + 1u);
}

static void add_over(struct discover_list *list, const struct rblk_wire_discover *answer, const char *interface,
		     enum discover_over over)
{
	assert_int_equal(rblk_check_discover(answer, sizeof(*answer), RBLK_DISCOVER_ANSWER), RBLK_WIRE_OK);
	assert_int_equal(discover_list_add(list, answer, interface, over), 0);
}

static void add(struct discover_list *list, const struct rblk_wire_discover *answer, const char *interface)
{
	add_over(list, answer, interface, DISCOVER_OVER_UDP);
}

static void together(void **state)
{
	struct rblk_wire_discover one = answer_make("one", 0), two = answer_make("one", 0),
				  other = answer_make("one", 2), first = answer_make("a", 0);
	struct discover_list list = { 0 };
	char text[DISCOVER_PORTAL_BYTES];

	portal_add(&one, RBLK_PORTAL_TCP, 1);
	portal_add(&two, RBLK_PORTAL_TCP, 1);
	portal_add(&two, RBLK_PORTAL_RDMA, 1);
	portal_add(&two, 77, 1); /* of a kind to come */
	add(&list, &one, "eth0");
	add_over(&list, &two, "eth1", DISCOVER_OVER_RDMA);
	add(&list, &other, "eth0"); /* another one by the same name */
	add(&list, &first, "eth0");
	discover_list_sort(&list);
	assert_int_equal(list.count, 3);
	assert_string_equal(list.targets[0].name, "a");
	assert_int_equal(list.targets[1].portal_count, 2);
	assert_int_equal(list.targets[0].over, DISCOVER_OVER_UDP);
	assert_int_equal(list.targets[1].over, DISCOVER_OVER_UDP | DISCOVER_OVER_RDMA);
	assert_string_equal(list.targets[1].interface, "eth0");
	assert_string_equal(discover_portal_format(&list.targets[1].portals[0], text), "rblk+tcp://10.9.0.1:4430");
	assert_string_equal(discover_portal_format(&list.targets[1].portals[1], text), "rblk://10.9.0.1:4430");
	assert_int_equal(list.targets[2].instance[1], 2);
	assert_int_equal(list.left_out, 0);
	discover_list_free(&list);
}

static void bounded(void **state)
{
	struct discover_list list = { 0 };
	struct rblk_wire_discover answer;
	char name[32];

	for (unsigned int i = 0; i < DISCOVER_TARGETS_MAX + 100; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		answer = answer_make(name, 0);
		add(&list, &answer, "eth0");
	}
	assert_int_equal(list.count, DISCOVER_TARGETS_MAX);
	assert_int_equal(list.left_out, 100);
	for (unsigned int i = 0; i < 100; i++) {
		answer = answer_make("t0", 0);
		portal_add(&answer, RBLK_PORTAL_TCP, (uint8_t)(i + 1));
		add(&list, &answer, "eth0");
	}
	assert_int_equal(list.targets[0].portal_count, DISCOVER_PORTALS_MAX);
	assert_int_equal(list.left_out, 100 + 100 - DISCOVER_PORTALS_MAX);
	discover_list_free(&list);
}

/* The URI, or the reason why there is none. */
static const char *composed(const struct discover_list *list, enum discover_fabric fabric)
{
	static char uri[RBLK_URI_BYTES], reason[DISCOVER_REASON_BYTES];

	return discover_uri_compose(list, "one", "v", fabric, uri, reason) ? reason : uri;
}

static void uris(void **state)
{
	struct rblk_wire_discover one = answer_make("one", 0), other = answer_make("one", 2);
	struct discover_list list = { 0 };
	char uri[RBLK_URI_BYTES], reason[DISCOVER_REASON_BYTES];

	assert_string_equal(composed(&list, DISCOVER_ANY), "one: no target of this name answered");
	add(&list, &one, "eth0");
	assert_string_equal(composed(&list, DISCOVER_ANY), "one: it tells no address for RDMA or TCP");
	portal_add(&one, RBLK_PORTAL_TCP, 1);
	portal_add(&one, RBLK_PORTAL_TCP, 2);
	add(&list, &one, "eth0");
	assert_string_equal(composed(&list, DISCOVER_ANY), "rblk+tcp://10.9.0.1:4430,10.9.0.2:4430/v");
	assert_string_equal(composed(&list, DISCOVER_RDMA), "one: it tells no address for RDMA");
	/* RDMA is better; as many paths as a URI has. */
	for (unsigned int i = 0; i < 10; i++)
		portal_add(&one, RBLK_PORTAL_RDMA, (uint8_t)(i + 1));
	add(&list, &one, "eth0");
	assert_int_equal(strncmp(composed(&list, DISCOVER_ANY), "rblk://10.9.0.1:4430,10.9.0.2:4430,", 35), 0);
	assert_non_null(strstr(composed(&list, DISCOVER_RDMA), ",10.9.0.8:4430/v"));
	assert_string_equal(composed(&list, DISCOVER_TCP), "rblk+tcp://10.9.0.1:4430,10.9.0.2:4430/v");
	assert_int_equal(discover_uri_compose(&list, "one", "", DISCOVER_TCP, uri, reason), 0);
	assert_string_equal(uri, "rblk+tcp://10.9.0.1:4430,10.9.0.2:4430");
	/* Which of two is meant nobody knows. */
	add(&list, &other, "eth0");
	assert_int_equal(strncmp(composed(&list, DISCOVER_ANY), "one: 2 targets of this name answered", 36), 0);
	discover_list_free(&list);
}

static void names(void **state)
{
	static const char *const bad[] = { "discover://", "discover:///v", "discover://a b/v", "discover://a/v/w",
					   "discover://[::1]/v", "discover://a/\x1b" };
	char name[RBLK_NAME_BYTES], volume[RBLK_NAME_BYTES], reason[DISCOVER_REASON_BYTES];
	char text[200];

	assert_true(discover_uri_is("discover://a"));
	assert_false(discover_uri_is("rblk://a"));
	assert_int_equal(discover_uri_parse("discover://st-1.x/v1", name, volume, reason), 0);
	assert_string_equal(name, "st-1.x");
	assert_string_equal(volume, "v1");
	assert_int_equal(discover_uri_parse("discover://st1", name, volume, reason), 0);
	assert_string_equal(volume, "");
	assert_int_equal(discover_uri_parse("discover://st1/", name, volume, reason), 0);
	for (unsigned int i = 0; i < UNIT_LENGTH(bad); i++)
		assert_int_equal(discover_uri_parse(bad[i], name, volume, reason), -EINVAL);
	snprintf(text, sizeof(text), "discover://%063d/v", 0);
	assert_int_equal(discover_uri_parse(text, name, volume, reason), 0);
	snprintf(text, sizeof(text), "discover://%064d/v", 0);
	assert_int_equal(discover_uri_parse(text, name, volume, reason), -EINVAL);
}

static void ipv6(void **state)
{
	struct discover_portal portal = { .address = { 0xfd, 9, [15] = 1 }, .port = 1, .kind = RBLK_PORTAL_RDMA };
	char text[DISCOVER_PORTAL_BYTES];

	assert_string_equal(discover_portal_format(&portal, text), "rblk://[fd09::1]:1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(together),
		cmocka_unit_test(bounded),
		cmocka_unit_test(uris),
		cmocka_unit_test(names),
		cmocka_unit_test(ipv6),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
