/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblktab is read as rblktab(5) says: names, URIs, options, comments. A wrong line gets an error
 * that says what is wrong, and does not affect other lines. Method: a table of lines and their
 * results.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "initiator/cmd/attach.h"

/* The tab made from this text. */
static struct attach_tab tab_of(const char *text)
{
	char path[] = "/tmp/rblktab.XXXXXX";
	int fd = mkstemp(path);
	struct attach_tab tab;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	assert_int_equal(attach_tab_read(path, &tab), 0);
	unlink(path);
	return tab;
}

static void lines_are_volumes(void **state)
{
	struct attach_tab tab = tab_of("# a comment\n"
				       "\n"
				       "data rblk://host/disk\n"
				       "  \t a.b_c:d-1\trblk://[fe80::1]:99/x  noauto # why\r\n"
				       "q rblk://h/v queues=2,poll-queues=1,credits=64,connect-timeout=500ms,"
				       "command-timeout=10,give-up=0,read-only,own-session,name=me\n"
				       "root rblk://h/root initramfs");
	const struct attach_entry *e = tab.entries;

	assert_int_equal(tab.count, 4);
	for (size_t i = 0; i < tab.count; i++)
		assert_string_equal(e[i].error, "");
	assert_int_equal(e[0].line, 3);
	assert_string_equal(e[0].name, "data");
	assert_string_equal(e[0].uri, "rblk://host/disk");
	assert_false(e[0].noauto || e[0].options.read_only || e[0].options.own_session);
	assert_true(e[0].options.give_up_ms == ATTACH_UNSAID);
	assert_int_equal(e[1].line, 4);
	assert_string_equal(e[1].name, "a.b_c:d-1");
	assert_string_equal(e[1].uri, "rblk://[fe80::1]:99/x");
	assert_true(e[1].noauto);
	assert_int_equal(e[2].options.queues, 2);
	assert_int_equal(e[2].options.poll_queues, 1);
	assert_int_equal(e[2].options.credits, 64);
	assert_int_equal(e[2].options.connect_ms, 500);
	assert_int_equal(e[2].options.command_ms, 10000);
	assert_int_equal(e[2].options.give_up_ms, 0);
	assert_true(e[2].options.read_only);
	assert_true(e[2].options.own_session);
	assert_string_equal(e[2].options.initiator, "me");
	assert_true(e[3].noauto); /* the initial RAM file system has attached it */
	assert_ptr_equal(attach_tab_find(&tab, "q"), &e[2]);
	assert_null(attach_tab_find(&tab, "none"));
	attach_tab_free(&tab);
}

static void mistakes_are_told(void **state)
{
	static const struct {
		const char *line, *error;
	} rows[] = {
		{ "only", "only: the URI is missing" },
		{ "only # rblk://h/v", "only: the URI is missing" },
		{ "sl/ash rblk://h/v", "\"sl/ash\": a name consists of letters" },
		{ "-x rblk://h/v", "\"-x\": a name consists of letters" },
		{ "rblk12 rblk://h/v", "\"rblk12\": a name consists of letters" },
		{ "d http://h/v", "http://h/v: a URI begins with" },
		{ "d rblk://h", "rblk://h: the volume is missing" },
		{ "ublkb0 rblk://h/v", "\"ublkb0\": a name consists of letters" },
		{ "d rblk+tcp://h/v module", "rblk+tcp://h/v: the kernel module supports only RDMA" },
		{ "d rblk+tcp://h/v initramfs", "rblk+tcp://h/v: the kernel module supports only RDMA" },
		{ "d rblk://h/v ublk,module", "module: not together with ublk" },
		{ "d rblk://h/v initramfs,ublk", "initramfs: not together with ublk" },
		{ "d rblk://h/v ublk,poll-queues=1", "--poll-queues: only the kernel module has it" },
		{ "d rblk://a,rblk+tcp://b/v fail-fast=1s", "--fail-fast: only the kernel module has it" },
		{ "d rblk+tcp://h/v key=name", "key \"name\": with ublk it is the whole path" },
		{ "d rblk://h/v queues=0", "queues: \"0\" is not a number from 1 to 16" },
		{ "d rblk://h/v queues", "queues: COUNT is missing" },
		{ "d rblk://h/v queues=", "queues: COUNT is missing" },
		{ "d rblk://h/v give-up=soon", "give-up: \"soon\" is not a time" },
		{ "d rblk://h/v give-up=2000h", "give-up: \"2000h\" is not a time from 0 to" },
		{ "d rblk://h/v noauto=yes", "noauto: takes no value" },
		{ "d rblk://h/v colour=red", "unknown option \"colour\"; see rblktab(5)" },
		{ "d rblk://h/v giveup=5s", "unknown option \"giveup\"; did you mean \"give-up\"?" },
		{ "d rblk://h/v read-only noauto", "\"noauto\": unexpected word" },
		{ "d discover://st1", "discover://st1: the volume is missing" },
		{ "d discover:///v", "discover:///v: names of target and volume" },
		{ "d discover://a,b/v", "discover://a,b/v: names of target and volume" },
		{ "d rblk://h/v name=sl/ash", "name \"sl/ash\": 1 to 63 letters" },
	};
	struct attach_tab tab;

	for (size_t i = 0; i < UNIT_LENGTH(rows); i++) {
		tab = tab_of(rows[i].line);
		assert_int_equal(tab.count, 1);
		if (strncmp(tab.entries[0].error, rows[i].error, strlen(rows[i].error)))
			assert_string_equal(tab.entries[0].error, rows[i].error);
		attach_tab_free(&tab);
	}
}

static void a_mistake_stays_in_its_line(void **state)
{
	struct attach_tab tab = tab_of("a rblk://h/v\nb nothing\na rblk://h/w\nc rblk://h/x\n");

	assert_int_equal(tab.count, 4);
	assert_string_equal(tab.entries[0].error, "");
	assert_true(tab.entries[1].error[0]);
	assert_string_equal(tab.entries[2].error, "a: already defined in line 1");
	assert_string_equal(tab.entries[3].error, "");
	assert_ptr_equal(attach_tab_find(&tab, "a"), &tab.entries[0]);
	assert_string_equal(attach_tab_find(&tab, "b")->error, tab.entries[1].error);
	attach_tab_free(&tab);
}

/* Nobody is asked before the volume is attached. */
static void a_target_by_its_name(void **state)
{
	struct attach_tab tab = tab_of("a discover://st1/v queues=2,noauto\n");

	assert_string_equal(tab.entries[0].error, "");
	assert_string_equal(tab.entries[0].uri, "discover://st1/v");
	assert_int_equal(tab.entries[0].options.queues, 2);
	assert_true(tab.entries[0].noauto);
	attach_tab_free(&tab);
}

/* Without a word for it, the machine decides when the volume is attached: TCP is no mistake. */
static void ways_are_chosen(void **state)
{
	struct attach_tab tab = tab_of("a rblk://h/v ublk,key=/k\nb rblk://h/v module,fail-fast=1s\nc rblk+tcp://h/v\n"
				       "d rblk://h/v poll-queues=1\nublkbx rblk+tcp://h/v ublk,give-up=0\n");

	assert_int_equal(tab.count, 5);
	for (size_t i = 0; i < tab.count; i++) {
		assert_string_equal(tab.entries[i].error, "");
		assert_int_equal(tab.entries[i].options.ublk, i == 0 || i == 4);
		assert_int_equal(tab.entries[i].options.module, i == 1);
	}
	attach_tab_free(&tab);
}

static void what_cannot_be_read(void **state)
{
	struct attach_tab tab;

	assert_int_equal(attach_tab_read("/nonexistent/rblktab", &tab), -ENOENT);
	assert_int_equal(attach_tab_read("/tmp", &tab), -EIO);
	assert_int_equal(tab.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_volumes),
		cmocka_unit_test(mistakes_are_told),
		cmocka_unit_test(a_mistake_stays_in_its_line),
		cmocka_unit_test(a_target_by_its_name),
		cmocka_unit_test(ways_are_chosen),
		cmocka_unit_test(what_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
