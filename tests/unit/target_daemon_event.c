/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the last events are kept, in order, each once; a kind that comes too often does not push
 * out others, neither in a second nor in days, nor does a peer those of other peers, and none is dropped in
 * a second without being counted; every kind has its own name and ID, and the manual has the same ones.
 * Method: the table itself, with virtual time.
 */
#include "tests/unit/unit.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "target/base/daemon_event.h"

static uint64_t clock_ns = 1;

uint64_t __wrap_env_now_ns(void);
uint64_t __wrap_env_now_ns(void)
{
	return clock_ns;
}

static void happen(enum tgt_daemon_event_kind kind, unsigned int n)
{
	const struct tgt_daemon_event_about about = {.kind = kind, .volume = "disk", .error = 5};

	tgt_daemon_event(&about, NULL, TGT_LOG_DEBUG, "number %u", n);
}

static void test_bursts(void **state)
{
	uint64_t before = tgt_daemon_events_last();
	struct tgt_daemon_event events[TGT_DAEMON_EVENTS_BURST + 4];

	(void)state;
	clock_ns += 2000000000u;
	for (unsigned int i = 0; i < TGT_DAEMON_EVENTS_BURST + 7; i++)
		happen(TGT_DAEMON_EVENT_REFUSED, i);
	happen(TGT_DAEMON_EVENT_IO_FAILED, 0);
	clock_ns += 2000000000u;
	happen(TGT_DAEMON_EVENT_REFUSED, 99);
	assert_int_equal(tgt_daemon_events_after(before, events, TGT_DAEMON_EVENTS_BURST + 4),
			 TGT_DAEMON_EVENTS_BURST + 2);
	for (unsigned int i = 0; i < TGT_DAEMON_EVENTS_BURST; i++) {
		assert_int_equal(events[i].kind, TGT_DAEMON_EVENT_REFUSED);
		assert_int_equal(events[i].number, before + 1 + i);
		assert_int_equal(events[i].suppressed, 0);
	}
	assert_int_equal(events[TGT_DAEMON_EVENTS_BURST].kind, TGT_DAEMON_EVENT_IO_FAILED);
	assert_string_equal(events[TGT_DAEMON_EVENTS_BURST + 1].message, "number 99");
	assert_int_equal(events[TGT_DAEMON_EVENTS_BURST + 1].suppressed, 7);
	assert_int_equal(events[TGT_DAEMON_EVENTS_BURST + 1].error, 5);
	assert_string_equal(events[TGT_DAEMON_EVENTS_BURST + 1].volume, "disk");
	assert_string_equal(events[TGT_DAEMON_EVENTS_BURST + 1].initiator, "");
}

static void refuse(const char *initiator, const char *address)
{
	const struct tgt_daemon_event_about about = {
		.kind = TGT_DAEMON_EVENT_REFUSED, .initiator = initiator, .address = address};

	tgt_daemon_event(&about, NULL, TGT_LOG_DEBUG, "refused");
}

/* It changes its ports and its names, and stays one. */
static void test_peers_of_a_second(void **state)
{
	uint64_t before = tgt_daemon_events_last();
	struct tgt_daemon_event events[2 * TGT_DAEMON_EVENTS_BURST];

	(void)state;
	clock_ns += 2000000000u;
	for (unsigned int i = 0; i < 100; i++) {
		char name[16], address[32];

		snprintf(name, sizeof(name), "host%u", i);
		snprintf(address, sizeof(address), "[2001:db8::7]:%u", 1000 + i);
		refuse(name, address);
	}
	refuse("good", "[2001:db8::8]:1000");
	for (unsigned int i = 0; i < 100; i++)
		refuse("unknown", NULL);
	assert_int_equal(tgt_daemon_events_after(before, events, 2 * TGT_DAEMON_EVENTS_BURST), TGT_DAEMON_EVENTS_BURST);
	assert_string_equal(events[TGT_DAEMON_EVENTS_PEER - 1].initiator, "host4");
	assert_string_equal(events[TGT_DAEMON_EVENTS_PEER].initiator, "good");
	assert_int_equal(events[TGT_DAEMON_EVENTS_PEER].suppressed, 100 - TGT_DAEMON_EVENTS_PEER);
	assert_string_equal(events[TGT_DAEMON_EVENTS_PEER + 1].initiator, "unknown");
	clock_ns += 2000000000u;
	refuse("unknown", NULL);
	assert_int_equal(tgt_daemon_events_after(before + TGT_DAEMON_EVENTS_BURST, events, 2), 1);
	assert_int_equal(events[0].suppressed, 100 - (TGT_DAEMON_EVENTS_BURST - TGT_DAEMON_EVENTS_PEER - 1));
}

/* As often as is kept of one kind. */
static void happen_often(enum tgt_daemon_event_kind kind, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		clock_ns += 1000000000u;
		happen(kind, i);
	}
}

static unsigned int count_kind(const struct tgt_daemon_event *events, unsigned int count,
			       enum tgt_daemon_event_kind kind)
{
	unsigned int found = 0;

	for (unsigned int i = 0; i < count; i++)
		found += events[i].kind == kind;
	return found;
}

/* All that are kept, each once, and in their order. */
static void all_kept(struct tgt_daemon_event *events)
{
	assert_int_equal(tgt_daemon_events_after(0, events, TGT_DAEMON_EVENTS_MAX + 1), TGT_DAEMON_EVENTS_MAX);
	for (unsigned int i = 1; i < TGT_DAEMON_EVENTS_MAX; i++)
		assert_true(events[i].number > events[i - 1].number);
	assert_int_equal(events[TGT_DAEMON_EVENTS_MAX - 1].number, tgt_daemon_events_last());
}

static void test_room(void **state)
{
	static struct tgt_daemon_event events[TGT_DAEMON_EVENTS_MAX + 1];
	uint64_t before = tgt_daemon_events_last(), last;

	(void)state;
	/* A disk fails, and then a peer is refused for an hour. */
	happen_often(TGT_DAEMON_EVENT_WRITES_LOST, 3);
	happen_often(TGT_DAEMON_EVENT_REFUSED, 3600);
	all_kept(events);
	assert_int_equal(count_kind(events, TGT_DAEMON_EVENTS_MAX, TGT_DAEMON_EVENT_WRITES_LOST), 3);
	last = tgt_daemon_events_last();
	assert_int_equal(last, before + 3603);
	for (unsigned int i = 0; i < 900; i++)
		assert_int_equal(events[TGT_DAEMON_EVENTS_MAX - 1 - i].number, last - i);
	assert_string_equal(events[TGT_DAEMON_EVENTS_MAX - 1].message, "number 3599");
	assert_int_equal(tgt_daemon_events_after(last - 3, events, 2), 2);
	assert_int_equal(events[1].number, last - 1);
	assert_int_equal(tgt_daemon_events_after(last, events, 1), 0);
	assert_int_equal(tgt_daemon_events_after(UINT64_MAX, events, 1), 0);
	/* Another kind that comes as often gets its half, and no more. */
	happen_often(TGT_DAEMON_EVENT_VIOLATION, 3600);
	all_kept(events);
	assert_int_equal(count_kind(events, TGT_DAEMON_EVENTS_MAX, TGT_DAEMON_EVENT_WRITES_LOST), 3);
	assert_in_range(count_kind(events, TGT_DAEMON_EVENTS_MAX, TGT_DAEMON_EVENT_REFUSED), 450, 500);
	assert_in_range(count_kind(events, TGT_DAEMON_EVENTS_MAX, TGT_DAEMON_EVENT_VIOLATION), 450, 500);
	/* The oldest of the kind has made room, so its newest is there. */
	for (unsigned int i = 0; i < TGT_DAEMON_EVENTS_MAX; i++) {
		if (events[i].kind == TGT_DAEMON_EVENT_REFUSED)
			last = events[i].number;
	}
	assert_int_equal(last, before + 3603);
}

static unsigned int count_address(const struct tgt_daemon_event *events, const char *address)
{
	unsigned int found = 0;

	for (unsigned int i = 0; i < TGT_DAEMON_EVENTS_MAX; i++)
		found += !strcmp(events[i].address, address);
	return found;
}

static void test_room_of_peers(void **state)
{
	static struct tgt_daemon_event events[TGT_DAEMON_EVENTS_MAX + 1];

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		clock_ns += 1000000000u;
		refuse("good", "10.0.0.1:1");
	}
	for (unsigned int i = 0; i < 5000; i++) {
		clock_ns += 1000000000u;
		refuse("bad", "10.0.0.2:1");
	}
	all_kept(events);
	assert_int_equal(count_address(events, "10.0.0.1:1"), 3);
	assert_true(count_address(events, "10.0.0.2:1") > 200);
	/* Its newest is there. */
	assert_string_equal(events[TGT_DAEMON_EVENTS_MAX - 1].address, "10.0.0.2:1");
}

static void test_wake(void **state)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	eventfd_t count;

	(void)state;
	tgt_daemon_events_wake(fd);
	clock_ns += 2000000000u;
	happen(TGT_DAEMON_EVENT_READY, 0);
	assert_int_equal(eventfd_read(fd, &count), 0);
	tgt_daemon_events_wake(-1);
	happen(TGT_DAEMON_EVENT_READY, 0);
	assert_int_equal(eventfd_read(fd, &count), -1);
	close(fd);
}

static void test_names(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < TGT_DAEMON_EVENTS; i++) {
		assert_int_equal(strlen(tgt_daemon_event_id(i)), 32);
		assert_int_equal(strspn(tgt_daemon_event_id(i), "0123456789abcdef"), 32);
		for (unsigned int j = 0; j < i; j++) {
			assert_string_not_equal(tgt_daemon_event_name(i), tgt_daemon_event_name(j));
			assert_string_not_equal(tgt_daemon_event_id(i), tgt_daemon_event_id(j));
		}
	}
}

/* The part of rblkd(8) about events. The caller frees it. */
static char *manual_section(void)
{
	FILE *file = fopen(RBLK_MANUALS "/rblkd.8.scd", "r");
	char *text = NULL, *section, *end;
	size_t size = 0;

	assert_non_null(file);
	assert_true(getdelim(&text, &size, '\0', file) > 0);
	fclose(file);
	section = strstr(text, "\n# EVENTS\n");
	assert_non_null(section);
	end = strstr(section + 1, "\n# ");
	assert_non_null(end);
	section = strndup(section, (size_t)(end - section));
	free(text);
	return section;
}

/* Each kind is there with its ID, in the table's order, and there are no others. */
static void test_manual(void **state)
{
	char *section = manual_section(), *entry = section, wanted[128];
	unsigned int i;

	(void)state;
	for (i = 0; (entry = strstr(entry, "\n*")); entry++, i++) {
		if (i == TGT_DAEMON_EVENTS)
			fail_msg("the manual has one more:%.40s", entry);
		snprintf(wanted, sizeof(wanted), "\n*%s* (%s)\n", tgt_daemon_event_name(i),
			 tgt_daemon_event_id(i));
		if (strncmp(entry, wanted, strlen(wanted)))
			fail_msg("the manual should have%sand has%.60s", wanted, entry);
	}
	assert_int_equal(i, TGT_DAEMON_EVENTS);
	free(section);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bursts),
		cmocka_unit_test(test_peers_of_a_second),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_room_of_peers),
		cmocka_unit_test(test_wake),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_manual),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
