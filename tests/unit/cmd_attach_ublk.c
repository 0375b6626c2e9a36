/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Attaching by ublk: which way is chosen, what becomes of the options, and what a server's record tells the command,
 * also one that was left behind or is nonsense; with what a next server is started, and when. Method: a root folder
 * made for the test.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include "initiator/cmd/attach.h"
#include "initiator/ublk/keeper.h"
#include "initiator/ublk/record.h"
#include "initiator/ublk/summary.h"

static char reason[ATTACH_REASON_BYTES];

static void the_module_comes_first(void **state)
{
	const char *missing = attach_way_words("modprobe: FATAL: Module rblk not found in directory /lib/modules/6.12");

	assert_int_equal(attach_way_choose(true, NULL, true, reason), ATTACH_BY_MODULE);
	assert_string_equal(reason, "");
	assert_int_equal(attach_way_choose(true, NULL, false, reason), ATTACH_BY_MODULE);
	assert_int_equal(attach_way_choose(true, missing, true, reason), ATTACH_BY_UBLK);
	assert_string_equal(reason, "by ublk: the kernel module rblk is not here: it is not built for this kernel");
	assert_int_equal(attach_way_choose(false, NULL, true, reason), ATTACH_BY_UBLK);
	assert_non_null(strstr(reason, "only RDMA"));
	/* The module's own messages say what is missing. */
	assert_int_equal(attach_way_choose(true, missing, false, reason), ATTACH_BY_MODULE);
	assert_string_equal(reason, "");
	assert_int_equal(attach_way_choose(false, NULL, false, reason), ATTACH_BY_MODULE);
	assert_string_equal(reason, "");
}

static void a_module_that_is_refused(void **state)
{
	assert_non_null(strstr(attach_way_words("modprobe: ERROR: could not insert 'rblk': Key was rejected by service"), "not signed"));
	assert_non_null(strstr(attach_way_words("modprobe: ERROR: could not insert 'rblk': Operation not permitted"), "Secure Boot"));
	assert_non_null(strstr(attach_way_words("could not insert 'rblk': Required key not available"), "does not know the key"));
	assert_non_null(strstr(attach_way_words("could not insert 'rblk': Invalid argument"), "another kernel"));
	assert_string_equal(attach_way_words(""), "is not here: it cannot be loaded");
}

static struct ublk_disk_options own;

static void options_are_librblks(void **state)
{
	struct attach_options o = ATTACH_OPTIONS_DEFAULTS;

	setenv("RBLK_KEY", "none", 1);
	assert_int_equal(attach_ublk_options("rblk://a/v", &o, &own, reason), 0);
	assert_string_equal(own.uri, "rblk://a/v");
	assert_int_equal(own.queues, 0);
	assert_int_equal(own.session.queues, 1);
	assert_int_equal(own.session.credits, UBLK_CREDITS);
	assert_int_equal(own.session.connect_timeout_ms, 10000);
	assert_int_equal(own.session.command_timeout_ms, 30000);
	assert_int_equal(own.session.give_up_ms, 60000);
	assert_false(own.session.no_reconnect);
	assert_null(own.session.key_file);
	o = (struct attach_options){ .queues = 3, .credits = 9, .connect_ms = 1, .command_ms = 2, .give_up_ms = 4, .tos = 8,
				     .ack_timeout = 5, .fail_fast_ms = ATTACH_UNSAID, .initiator = "me", .key = "/k",
				     .source = "::1", .read_only = true, .accept_volatile = true, .digest = true };
	assert_int_equal(attach_ublk_options("rblk://a,b/v", &o, &own, reason), 0);
	assert_int_equal(own.queues, 3);
	assert_true(own.read_only && own.accept_volatile && own.session.digest);
	assert_int_equal(own.session.queues, 2);
	assert_int_equal(own.session.credits, 9);
	assert_int_equal(own.session.connect_timeout_ms, 1);
	assert_int_equal(own.session.command_timeout_ms, 2);
	assert_int_equal(own.session.give_up_ms, 4);
	assert_int_equal(own.session.tos, 8);
	assert_int_equal(own.session.ack_timeout, 5);
	assert_string_equal(own.session.initiator_name, "me");
	assert_string_equal(own.session.key_file, "/k");
	assert_string_equal(own.session.source, "::1");
	/* As the other verbs have it, but the server has no folder. */
	o.key = NULL;
	setenv("RBLK_KEY", "/there", 1);
	assert_int_equal(attach_ublk_options("rblk://a/v", &o, &own, reason), 0);
	assert_string_equal(own.session.key_file, "/there");
	setenv("RBLK_KEY", "here", 1);
	assert_int_equal(attach_ublk_options("rblk://a/v", &o, &own, reason), -EINVAL);
	assert_string_equal(reason, "key \"here\": with ublk it is the whole path of a file");
	memset(reason, '/', 200);
	reason[200] = '\0';
	setenv("RBLK_KEY", reason, 1);
	assert_int_equal(attach_ublk_options("rblk://a/v", &o, &own, reason), -EINVAL);
	o.key = "none";
	assert_int_equal(attach_ublk_options("rblk://a/v", &o, &own, reason), 0);
	assert_null(own.session.key_file);
	/* Not at all: not the default. */
	o.give_up_ms = 0;
	assert_int_equal(attach_ublk_options("rblk://a/v", &o, &own, reason), 0);
	assert_true(own.session.no_reconnect);
}

static void what_a_server_has_not_is_refused(void **state)
{
	struct attach_options o = ATTACH_OPTIONS_DEFAULTS;

	o.poll_queues = 1;
	assert_int_equal(attach_ublk_options("rblk://a/v", &o, &own, reason), -EINVAL);
	assert_non_null(strstr(reason, "--poll-queues"));
	o.poll_queues = 0;
	o.reconnect_ms = 200;
	assert_int_equal(attach_ublk_options("rblk://a/v", &o, &own, reason), -EINVAL);
	assert_non_null(strstr(reason, "--reconnect"));
	o.reconnect_ms = 0;
	o.fail_fast_ms = 0;
	assert_int_equal(attach_ublk_options("rblk://a/v", &o, &own, reason), -EINVAL);
	assert_non_null(strstr(reason, "--fail-fast"));
	o.fail_fast_ms = ATTACH_UNSAID;
	o.key = "name";
	assert_int_equal(attach_ublk_options("rblk://a/v", &o, &own, reason), -EINVAL);
	assert_non_null(strstr(reason, "whole path"));
}

static char root[64];

static int setup(void **state)
{
	char path[PATH_MAX];

	snprintf(root, sizeof(root), "/tmp/rblk-root.XXXXXX");
	if (!mkdtemp(root))
		return -1;
	snprintf(path, sizeof(path), "mkdir -p %s/sys/block/rblk0/rblk %s/sys/block/ublkb7 && echo live > %s/sys/block/rblk0/rblk/state",
		 root, root, root);
	return system(path);
}

static int teardown(void **state)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

static void put_record(const char *file, const char *text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s" UBLK_RECORD_FOLDER "/%s", root, file);
	unit_file_write(path, "%s", text);
}

static void is_text(const char *file, const char *text)
{
	char path[PATH_MAX], line[512];
	FILE *in;

	snprintf(path, sizeof(path), "%s" UBLK_RECORD_FOLDER "/%s", root, file);
	in = fopen(path, "r");
	assert_non_null(in);
	line[fread(line, 1, sizeof(line) - 1, in)] = '\0';
	fclose(in);
	assert_string_equal(line, text);
}

static void a_record_tells_of_the_disk(void **state)
{
	const struct ublk_record record = {
		.id = 12, .server = 99, .attachment = UINT64_MAX, .uri = "rblk+tcp://a/v", .volume = "v", .peer = "1.2.3.4:4430",
		.key = "/k", .state = "recovering", .words = "no answer", .bytes = 1 << 20, .block_bytes = 4096, .queues = 2,
		.credits = 64, .give_up_ms = 5, .read_only = true, .digest = true, .writes_lost = true, .name = "data",
		.uuid = { 0x6c, 0x1f, [15] = 0xfe }, .losses = 3, .volume_bytes = 1 << 20, .path_count = 2,
		.stats = { .commands = 7, .sends = 6, .replies = 5, .immediates = 4, .doorbells = 2, .retries = 9, .digest_retries = 1 },
		.paths = { { .host = "a:1", .peer = "1.2.3.4:1", .device = "tcp", .connections = 2, .tls = true, .proven = true,
			     .connected_ms = ublk_record_now_ms() - 90000 },
			   { .host = "b:1", .words = "no answer" } },
	};
	struct attached a, *list;
	struct ublk_kept *kept, *other;
	int fd = ublk_kept_create(root, &kept), second;
	char device[16];

	assert_true(fd >= 0);
	kept->id = 12;
	assert_int_equal(ublk_kept_open(root, 12, &other), -ENODEV);
	assert_int_equal(ublk_kept_link(root, kept), 0);
	second = ublk_kept_open(root, 12, &other);
	assert_true(second >= 0);
	assert_int_equal(other->keeper, getpid());
	assert_int_equal(ublk_kept_lock(second), -EAGAIN);
	assert_int_equal(ublk_record_write(root, &record), 0);
	assert_int_equal(ublk_record_write_udev(root, &record), 0);
	is_text("12.udev", "RBLK_NAME=data\nRBLK_TARGET=1.2.3.4:4430\nRBLK_VOLUME=v\nRBLK_URI=rblk+tcp://a/v\nRBLK_STATE=recovering\n"
			   "RBLK_SERIAL=6c1f00000000000000000000000000fe\n");
	assert_int_equal(attached_read(root, "ublkb12", &a), 0);
	assert_string_equal(a.device, "ublkb12");
	assert_int_equal(a.server, 99);
	assert_false(a.left);
	assert_string_equal(a.attachment, "ffffffffffffffff");
	assert_string_equal(a.uri, "rblk+tcp://a/v");
	assert_string_equal(a.name, "data");
	assert_string_equal(a.serial, "6c1f00000000000000000000000000fe");
	assert_string_equal(a.wwid, "uuid.6c1f00000000000000000000000000fe");
	assert_true(attached_named(root, "data", device));
	assert_string_equal(device, "ublkb12");
	assert_string_equal(a.target, "1.2.3.4:4430");
	assert_string_equal(a.state, "recovering");
	assert_string_equal(a.reason, "no answer");
	assert_int_equal(a.bytes, 1 << 20);
	assert_true(a.read_only && a.digest && a.writes_lost);
	assert_int_equal(a.losses, 3);
	assert_int_equal(a.retries, 9);
	assert_int_equal(attached_counter(&a, "commands"), 7);
	assert_int_equal(attached_counter(&a, "messages"), 6);
	assert_int_equal(attached_counter(&a, "replies"), 5);
	assert_int_equal(attached_counter(&a, "immediates"), 4);
	assert_int_equal(attached_counter(&a, "doorbells"), 2);
	assert_int_equal(attached_counter(&a, "digest_retries"), 1);
	assert_int_equal(a.paths.count, 2);
	assert_string_equal(a.paths.list[0].peer, "1.2.3.4:1");
	assert_true(a.paths.list[0].tls && a.paths.list[0].proven && !a.paths.list[0].digest);
	assert_true(a.paths.list[0].connected_ms >= 90000 && a.paths.list[0].connected_ms < 3600000);
	assert_string_equal(cmd_paths_over(&a.paths), "TLS");
	assert_string_equal(a.paths.list[1].words, "no answer");
	assert_int_equal(a.paths.list[1].connections, 0);
	assert_int_equal(attached_read(root, "ublkb7", &a), -ENODEV); /* another program's */

	/* Server and keeper are killed: the lock is gone, what they have stored stays. */
	kept->stage = UBLK_KEPT_STARTED;
	ublk_kept_close(fd, kept);
	assert_int_equal(other->stage, UBLK_KEPT_STARTED);
	assert_int_equal(ublk_kept_lock(second), 0);
	other->version++;
	assert_int_equal(ublk_kept_open(root, 12, &kept), -ESTALE);
	ublk_kept_close(second, other);
	put_record("9", "no record");
	put_record("8", "[1]");
	put_record("3", "{\"server\": \"x\"}");
	put_record("2", "{\"server\": 5, \"state\": 3}");
	assert_int_equal(attached_list(root, &list), 3);
	assert_string_equal(list[0].device, "rblk0");
	assert_int_equal(list[0].server, 0);
	assert_string_equal(list[2].device, "ublkb12");
	free(list);
}

/* Two queues with two hosts: what is said of the disk is said of both. */
static void queues_are_added_up(void **state)
{
	static struct ublk_queue_view views[2] = {
		{ .session = RBLK_SESSION_READY, .peer = "1.2.3.4:1", .losses = 1, .stats = { .commands = 3, .retries = 1 }, .path_count = 2,
		  .paths = { { .host = "a:1", .connections = 1, .connected_ms = 50, .tls = true, .proven = true, .digest = true },
			     { .host = "b:1", .words = "no answer" } } },
		{ .session = RBLK_SESSION_RECOVERING, .words = "cut", .losses = 2, .stats = { .commands = 4 }, .path_count = 2,
		  .paths = { { .host = "a:1", .connections = 1, .connected_ms = 40, .proven = true, .digest = true }, { .host = "b:1" } } },
	};
	struct ublk_record r = { .words = "old", .losses = 9, .path_count = 2, .writes_lost = true, .peer = "old" };

	ublk_summary_begin(&r);
	assert_string_equal(r.state, "live");
	ublk_summary_add(&r, &views[0]);
	assert_string_equal(r.state, "live");
	assert_false(r.writes_lost || r.words[0]);
	views[1].writes_lost = true;
	ublk_summary_add(&r, &views[1]);
	assert_string_equal(r.state, "recovering");
	assert_string_equal(r.words, "cut");
	assert_string_equal(r.peer, "1.2.3.4:1");
	assert_true(r.writes_lost);
	assert_int_equal(r.losses, 3);
	assert_int_equal(r.stats.commands, 7);
	assert_int_equal(r.stats.retries, 1);
	assert_int_equal(r.path_count, 2);
	assert_int_equal(r.paths[0].connections, 2);
	assert_int_equal(r.paths[0].connected_ms, 40);
	assert_true(r.paths[0].proven && r.paths[0].digest && !r.paths[0].tls);
	assert_string_equal(r.paths[1].words, "no answer");
	assert_int_equal(r.paths[1].connections, 0);
	/* A queue that has given up is worse, in any order. */
	views[0].session = RBLK_SESSION_FAILED;
	ublk_summary_begin(&r);
	ublk_summary_add(&r, &views[0]);
	ublk_summary_add(&r, &views[1]);
	assert_string_equal(r.state, "failed");
}

/* A store into a mapped file without memory would be a SIGBUS, of the keeper. */
static void a_full_file_system_is_an_error(void **state)
{
	char full[128], path[256], page[4096] = "x";
	struct ublk_kept *kept;
	int fd;

	snprintf(full, sizeof(full), "%s/full", root);
	assert_int_equal(mkdir(full, 0755), 0);
	/* It goes with the process. */
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", full, "tmpfs", 0, "size=4k"))
		skip(); /* only root may */
	snprintf(path, sizeof(path), "%s/page", full);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, page, sizeof(page)), sizeof(page));
	close(fd);
	assert_int_equal(ublk_kept_create(full, &kept), -ENOSPC);
	/* Nor is the file left. */
	snprintf(path, sizeof(path), "%s" UBLK_RECORD_FOLDER, full);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(umount(full), 0);
}

static void a_size_that_the_disk_has_not(void **state)
{
	struct ublk_record record = { .id = 4, .server = 99, .state = "live", .bytes = 1024, .volume_bytes = 4096 };
	struct ublk_kept *kept;
	struct attached a;
	int fd = ublk_kept_create(root, &kept);

	assert_true(fd >= 0);
	kept->id = 4;
	assert_int_equal(ublk_kept_link(root, kept), 0);
	assert_int_equal(ublk_record_write(root, &record), 0);
	assert_int_equal(attached_read(root, "ublkb4", &a), 0);
	assert_string_equal(a.state, "live");
	assert_non_null(strstr(a.reason, "the volume has 4096 bytes now"));
	assert_int_equal(a.bytes, 1024);
	ublk_kept_close(fd, kept);
	ublk_record_remove(root, 4);
}

static void a_record_without_its_server_is_a_failed_disk(void **state)
{
	struct attached *list;
	const struct attached *found;
	char path[PATH_MAX];
	int count = attached_list(root, &list);

	assert_true(count > 1);
	found = attached_find("rblk+tcp://a/v", list, count);
	assert_non_null(found);
	assert_int_equal(found->index, 12);
	assert_true(found->left);
	assert_string_equal(found->state, "failed");
	assert_non_null(strstr(found->reason, "its server, process 99, and its keeper have ended"));
	assert_int_equal(cmd_paths_down(&found->paths), found->paths.count);
	assert_ptr_equal(attached_find("ublkb12", list, count), found);
	assert_ptr_equal(attached_find("data", list, count), found);
	assert_null(attached_find("rblk://a/v", list, count));
	free(list);
	ublk_record_remove(root, 12);
	snprintf(path, sizeof(path), "%s" UBLK_RECORD_FOLDER "/12.udev", root);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(ublk_kept_open(root, 12, &(struct ublk_kept *){ 0 }), -ENODEV);
	assert_int_equal(ublk_record_read(root, 12, &(struct ublk_record){ 0 }), -ENODEV);
}

/* A server of another program has the options of the first. */
static void a_disk_is_taken_over_as_it_was_attached(void **state)
{
	const struct attach_options o = {
		.queues = 3, .credits = 9, .connect_ms = 1, .command_ms = 2, .give_up_ms = 4, .tos = 8, .ack_timeout = 5,
		.fail_fast_ms = ATTACH_UNSAID, .initiator = "me", .key = "/k", .source = "::1", .read_only = true,
		.accept_volatile = true, .digest = true,
	};
	const struct ublk_record first = {
		.id = 4, .server = 7, .uri = "rblk://a,b/v", .key = "/k", .queues = 3, .credits = 9, .connect_ms = 1,
		.command_ms = 2, .give_up_ms = 4, .read_only = true, .digest = true, .initiator = "me", .source = "::1",
		.tos = 8, .ack_timeout = 5, .accept_volatile = true,
	};
	struct ublk_disk_options again;
	struct ublk_record record;

	assert_int_equal(ublk_record_write(root, &first), 0);
	assert_int_equal(ublk_record_read(root, 4, &record), 0);
	assert_int_equal(attach_ublk_options("rblk://a,b/v", &o, &own, reason), 0);
	attach_ublk_again(&record, &again);
	assert_string_equal(again.uri, own.uri);
	assert_int_equal(again.queues, own.queues);
	assert_true(again.read_only && again.accept_volatile);
	assert_string_equal(again.session.initiator_name, own.session.initiator_name);
	assert_string_equal(again.session.key_file, own.session.key_file);
	assert_string_equal(again.session.source, own.session.source);
	/* Not by memory: between members there is anything. */
	assert_int_equal(again.session.size, own.session.size);
	assert_int_equal(again.session.queues, own.session.queues);
	assert_int_equal(again.session.polling, own.session.polling);
	assert_int_equal(again.session.credits, own.session.credits);
	assert_int_equal(again.session.connect_timeout_ms, own.session.connect_timeout_ms);
	assert_int_equal(again.session.command_timeout_ms, own.session.command_timeout_ms);
	assert_int_equal(again.session.give_up_ms, own.session.give_up_ms);
	assert_int_equal(again.session.fail_fast_ms, own.session.fail_fast_ms);
	assert_int_equal(again.session.no_reconnect, own.session.no_reconnect);
	assert_int_equal(again.session.digest, own.session.digest);
	assert_int_equal(again.session.tos, own.session.tos);
	assert_int_equal(again.session.ack_timeout, own.session.ack_timeout);
	/* As many addresses as there can be hosts. */
	own.session.source = "2001:db8:1111:2222:3333:4444:5555:6661,2001:db8:1111:2222:3333:4444:5555:6662,"
			     "2001:db8:1111:2222:3333:4444:5555:6663,2001:db8:1111:2222:3333:4444:5555:6664,"
			     "2001:db8:1111:2222:3333:4444:5555:6665,2001:db8:1111:2222:3333:4444:5555:6666,"
			     "2001:db8:1111:2222:3333:4444:5555:6667,2001:db8:1111:2222:3333:4444:5555:6668";
	ublk_summary_options(&record, &own);
	attach_ublk_again(&record, &again);
	assert_string_equal(again.session.source, own.session.source);
	record.give_up_ms = 0;
	record.initiator[0] = record.key[0] = record.source[0] = '\0';
	attach_ublk_again(&record, &again);
	assert_true(again.session.no_reconnect);
	assert_null(again.session.initiator_name);
	assert_null(again.session.key_file);
	assert_null(again.session.source);
	ublk_record_remove(root, 4);
}

#define LIMIT 60000

/* Killed after so long; and it had served. */
static uint32_t killed(struct ublk_keeper_history *history, uint64_t *now_ms, uint64_t lived_ms)
{
	uint64_t start_ms = *now_ms;

	*now_ms += lived_ms;
	return ublk_keeper_pause_ms(history, start_ms, *now_ms, true, false, LIMIT);
}

static void a_killed_server_is_followed_at_once(void **state)
{
	struct ublk_keeper_history history = { 0 };
	uint64_t now_ms = 1000;

	for (int i = 0; i < 1000; i++)
		assert_int_equal(killed(&history, &now_ms, 5000), 0);
	assert_int_equal(killed(&history, &now_ms, 10), 0);
}

static void servers_that_die_again_and_again_do_not_spin(void **state)
{
	struct ublk_keeper_history history = { 0 };
	uint64_t now_ms = 1000;
	uint32_t before = 0, pause_ms = 0;
	int count = 0;

	while ((pause_ms = killed(&history, &now_ms, 10)) != UBLK_KEEPER_STOP && ++count < 100) {
		assert_true(pause_ms >= before);
		before = pause_ms;
	}
	assert_in_range(count, 5, 20);
	assert_true(before >= 1000);
	/* One that lives for a while has done with it. */
	history = (struct ublk_keeper_history){ 0 };
	for (int i = 0; i < 100; i++)
		assert_true(killed(&history, &now_ms, i % 4 ? 10 : 5000) != UBLK_KEEPER_STOP);
}

static void io_waits_for_a_server_no_longer_than_it_may(void **state)
{
	struct ublk_keeper_history history = { 0 };
	uint64_t now_ms = 1000;
	uint32_t pause_ms = killed(&history, &now_ms, 10000);
	int count = 0;

	while (pause_ms != UBLK_KEEPER_STOP && ++count < 1000) {
		uint64_t start_ms = now_ms + pause_ms;

		now_ms = start_ms + 1000;
		pause_ms = ublk_keeper_pause_ms(&history, start_ms, now_ms, false, true, LIMIT);
		assert_true(pause_ms > 0);
	}
	assert_in_range(now_ms, 11000 + LIMIT, 11000 + LIMIT + 2000);
	/* One that has served has all of the time again. */
	assert_int_equal(killed(&history, &now_ms, 10000), 0);
	assert_true(ublk_keeper_pause_ms(&history, now_ms, now_ms + LIMIT - 1, false, true, LIMIT) != UBLK_KEEPER_STOP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_module_comes_first),
		cmocka_unit_test(a_module_that_is_refused),
		cmocka_unit_test(options_are_librblks),
		cmocka_unit_test(what_a_server_has_not_is_refused),
		cmocka_unit_test(a_record_tells_of_the_disk),
		cmocka_unit_test(queues_are_added_up),
		cmocka_unit_test(a_full_file_system_is_an_error),
		cmocka_unit_test(a_size_that_the_disk_has_not),
		cmocka_unit_test(a_record_without_its_server_is_a_failed_disk),
		cmocka_unit_test(a_disk_is_taken_over_as_it_was_attached),
		cmocka_unit_test(a_killed_server_is_followed_at_once),
		cmocka_unit_test(servers_that_die_again_and_again_do_not_spin),
		cmocka_unit_test(io_waits_for_a_server_no_longer_than_it_may),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
