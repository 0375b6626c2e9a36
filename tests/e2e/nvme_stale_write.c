/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what an NVMe host has written on a connection that it has lost does not land on what it writes when it has
 * connected again, or goes on by another path (F5), whether the target knows of the loss or not, wherever the old write
 * was then; only the same host, as the rules allow, ends what it has left, and only on the same volume; a session of a
 * host that has gone ends at once, unless its failed flush must not be forgotten. Method: a host behind a proxy that
 * holds bytes back, its writes in a store that delays them, in the proxy, or asked for; then the same host past the
 * proxy, at the same portal or at another one; then the proxy lets go.
 */
#include "tests/unit/unit.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_host.h"
#include "tests/e2e/proxy.h"

#define BLOCK 4096u
#define SECTORS (BLOCK / 512u)
#define QUEUES 3u
#define WAIT_MS 60000
#define DISK NVME_UUID_PREFIX "01010101-0101-0101-0101-010101010101"
#define SECOND NVME_UUID_PREFIX "02020202-0202-0202-0202-020202020202"
#define NAME "uuid:00000000-0000-0000-0000-00000000000a"

static struct e2e_daemon server;
static struct proxy *proxy;
static char folder[64], address[64], other_portal[64], nqn[NVME_NQN_BYTES];
static uint8_t older[BLOCK], newer[BLOCK], back[BLOCK];

/* A host's association. */
struct host {
	struct nvme_host admin, queues[QUEUES];
	unsigned int count;
	uint32_t silence_ms; /* its keep-alive time, when it falls silent */
};

/* -- what all have in common --------------------------------------------------------------------- */

static void begin(const char *reactors, const char *fault, const char *rules)
{
	char path[96];

	e2e_folder_create(folder);
	snprintf(path, sizeof(path), "%s/rblkd.conf", folder);
	unit_file_write(path,
			"[volume disk]\nstore = memory\nsize = 1M\nuuid = 01010101-0101-0101-0101-010101010101\n%s%s\n"
			"[volume second]\nstore = memory\nsize = 1M\nuuid = 02020202-0202-0202-0202-020202020202\n%s",
			fault ? "fault = " : "", fault ? fault : "", rules);
	e2e_daemon_start(&server, "--listen", "nvme+tcp://0.0.0.0:0", "--config", path, "--reactors", reactors,
			 "--session-time", "600s", NULL);
	e2e_daemon_second_host(&server, address);
	snprintf(other_portal, sizeof(other_portal), "127.0.0.2%s", strrchr(address, ':'));
	snprintf(address, sizeof(address), "127.0.0.1%s", strrchr(other_portal, ':'));
	proxy = proxy_start(address);
	memset(older, 0x0a, sizeof(older));
	memset(newer, 0x0b, sizeof(newer));
}

static void end(void)
{
	proxy_stop(proxy);
	assert_int_equal(e2e_daemon_stop(&server), 0);
	e2e_folder_remove(folder);
}

/* The target may be busy with what is to end first: as hosts do, again. */
static void admin_connect(struct nvme_host *admin, const char *to, const char *subsystem)
{
	uint16_t status;

	do
		status = nvme_host_connect(admin, to, subsystem, NVME_HOST_NQN, 0, 32);
	while (status == NVME_CONNECT_BUSY);
	assert_int_equal(status, NVME_OK);
	nvme_host_enable(admin);
}

static void host_connect(struct host *host, const char *to, const char *subsystem, unsigned int count)
{
	admin_connect(&host->admin, to, subsystem);
	host->count = count;
	for (unsigned int i = 0; i < count; i++) {
		host->queues[i].controller = host->admin.controller;
		assert_int_equal(nvme_host_connect(&host->queues[i], to, subsystem, NVME_HOST_NQN, (uint16_t)(i + 1), 16),
				 NVME_OK);
	}
}

static void host_close(struct host *host)
{
	for (unsigned int i = 0; i < host->count; i++)
		nvme_host_close(&host->queues[i]);
	nvme_host_close(&host->admin);
}

/* Nothing goes through the proxy any more; with a keep-alive time the target learns of that. */
static void fall_silent(struct host *host)
{
	assert_int_equal(
		nvme_host_admin(&host->admin, NVME_SET_FEATURES, 0, NVME_FEATURE_KEEP_ALIVE, host->silence_ms, NULL, 0),
		NVME_OK);
	proxy_hold(proxy, true);
}

static void readable(struct nvme_host *queue)
{
	struct pollfd polled = {.fd = queue->fd, .events = POLLIN};

	assert_int_equal(poll(&polled, 1, WAIT_MS), 1);
}

/* Each queue writes a block of its own. */
static struct nvme_host_command write_begin(struct nvme_host *queue, unsigned int block, enum nvme_host_way way)
{
	struct nvme_host_command command = {.way = way, .data = older, .bytes = BLOCK, .leaves = true};

	command.command.opcode = NVME_WRITE;
	command.command.namespace = rblk_to_le32(1);
	command.command.word[0] = rblk_to_le32(block * SECTORS);
	command.command.word[2] = rblk_to_le32(SECTORS - 1);
	nvme_host_send(queue, &command);
	return command;
}

static void holds(struct nvme_host *queue, unsigned int block, const uint8_t *data)
{
	assert_int_equal(nvme_host_io(queue, NVME_READ, NVME_HOST_IN, block * SECTORS, SECTORS - 1, back, BLOCK),
			 NVME_OK);
	assert_memory_equal(back, data, BLOCK);
}

/* -- where the older write is -------------------------------------------------------------------- */

/* One write of a reactor is delayed. */
static void write_in_store(struct nvme_host *queue)
{
	write_begin(queue, 0, NVME_HOST_CAPSULE);
	/* The answer of what came behind it: so the store has it. */
	assert_int_equal(nvme_host_io(queue, NVME_READ, NVME_HOST_IN, 64, 0, back, 512), NVME_OK);
}

static void write_in_proxy(struct host *host, unsigned int from)
{
	fall_silent(host);
	for (unsigned int i = from; i < host->count; i++)
		write_begin(&host->queues[i], i, NVME_HOST_CAPSULE);
}

static void in_store(struct host *host)
{
	write_in_store(&host->queues[0]);
	write_in_proxy(host, 1);
}

static void in_store_known(struct host *host)
{
	write_in_store(&host->queues[0]);
	proxy_cut(proxy);
}

static void in_proxy(struct host *host)
{
	write_in_proxy(host, 0);
}

/* The target has the command, and waits for the data that it has asked for. */
static void data_in_proxy(struct host *host)
{
	struct nvme_host_command commands[QUEUES];

	for (unsigned int i = 0; i < host->count; i++)
		commands[i] = write_begin(&host->queues[i], i, NVME_HOST_R2T);
	for (unsigned int i = 0; i < host->count; i++)
		readable(&host->queues[i]);
	fall_silent(host);
	for (unsigned int i = 0; i < host->count; i++)
		assert_int_equal(nvme_host_await(&host->queues[i], &commands[i]), NVME_OK);
}

/* Then `new` goes on. */
static void stays_newer(struct host *old, struct host *new)
{
	for (unsigned int i = 0; i < QUEUES; i++)
		assert_int_equal(nvme_host_io(&new->queues[0], NVME_WRITE, NVME_HOST_CAPSULE, i * SECTORS, SECTORS - 1,
					      newer, BLOCK),
				 NVME_OK);
	proxy_mend(proxy);
	/* An answer, or an end. */
	for (unsigned int i = 0; i < QUEUES; i++)
		readable(&old->queues[i]);
	for (unsigned int i = 0; i < QUEUES; i++)
		holds(&new->queues[0], i, newer);
	/* When nothing is in flight any more. */
	e2e_daemon_log_wait(&server, NAME ": ended", 1);
	holds(&new->queues[0], 0, newer);
	host_close(old);
	host_close(new);
	end();
}

static void connects_again(const char *reactors, bool delays, void (*lose)(struct host *))
{
	struct host old = {.count = 0}, new = {.count = 0};

	begin(reactors, delays ? "delay=write:3s,count=1" : NULL, "");
	host_connect(&old, proxy_host(proxy), DISK, QUEUES);
	lose(&old);
	host_connect(&new, address, DISK, 1);
	stays_newer(&old, &new);
}

static void an_older_write_does_not_land(void **state)
{
	(void)state;
	for (unsigned int two = 0; two < 2; two++) {
		const char *reactors = two ? "2" : "1";

		connects_again(reactors, true, in_store);
		connects_again(reactors, true, in_store_known);
		connects_again(reactors, false, in_proxy);
		connects_again(reactors, false, data_in_proxy);
	}
}

/* The host hears that it may, whenever that is. */
static void goes_on(const char *reactors, const char *fault, void (*lose)(struct host *))
{
	struct nvme_host_command event;
	struct host old = {.silence_ms = 500}, new = {.count = 0};

	begin(reactors, fault, "");
	host_connect(&old, proxy_host(proxy), DISK, QUEUES);
	host_connect(&new, other_portal, DISK, 1);
	assert_int_equal(
		nvme_host_admin(&new.admin, NVME_SET_FEATURES, 0, NVME_FEATURE_EVENTS, NVME_EVENT_ANA, NULL, 0),
		NVME_OK);
	event = nvme_host_ask_event(&new.admin);
	lose(&old);
	assert_int_equal(nvme_host_io(&new.queues[0], NVME_WRITE, NVME_HOST_CAPSULE, 0, SECTORS - 1, newer, BLOCK),
			 NVME_INACCESSIBLE);
	assert_int_equal(nvme_host_await(&new.admin, &event), NVME_OK);
	stays_newer(&old, &new);
}

/*
 * Silent ones end by their keep-alive; a write in the store lasts longer than that, and than OPEN waits. One reactor,
 * where the newer write is not delayed, too.
 */
static void an_older_write_of_another_path_does_not_land(void **state)
{
	(void)state;
	goes_on("1", "delay=write:10s,count=1", in_store);
	goes_on("1", "delay=write:3s,count=1", in_store_known);
	goes_on("2", NULL, in_proxy);
	goes_on("2", NULL, data_in_proxy);
}

/* -- whose controllers end ----------------------------------------------------------------------- */

static void another_volume_is_another_matter(void **state)
{
	struct host first = {.count = 0}, second = {.count = 0}, again = {.count = 0};

	(void)state;
	begin("2", NULL, "");
	host_connect(&first, proxy_host(proxy), DISK, 1);
	host_connect(&second, address, SECOND, 1);
	host_connect(&again, address, DISK, 1);
	nvme_host_ended(first.queues[0].fd);
	nvme_host_ended(first.admin.fd);
	/* With words that say why, and its session has gone. */
	e2e_daemon_log_wait(&server, "closed: its host has connected to the volume again", 2);
	e2e_daemon_log_wait(&server, NAME ": ended", 1);
	assert_int_equal(nvme_host_io(&second.queues[0], NVME_WRITE, NVME_HOST_CAPSULE, 0, SECTORS - 1, older, BLOCK),
			 NVME_OK);
	assert_int_equal(nvme_host_admin(&second.admin, NVME_KEEP_ALIVE, 0, 0, 0, NULL, 0), NVME_OK);
	host_close(&second);
	host_close(&again);
	end();
}

static void nobody_else_ends_it(void **state)
{
	static const char rules[] = "[initiator " NAME "]\naddress = 127.0.0.1\nwrite = disk\n"
				    "[initiator reader]\naddress = 127.0.0.8\nread = disk\n"
				    "[initiator uuid:00000000-0000-0000-0000-00000000000b]\naddress = 127.0.0.7\n"
				    "write = disk\n";
	static const struct {
		const char *nqn;
		uint8_t id, from;
		uint16_t status;
	} others[] = {
		{NVME_UUID_PREFIX "00000000-0000-0000-0000-00000000000b", 0, 7, NVME_OK}, /* another name */
		{NVME_HOST_NQN, 1, 1, NVME_OK},			/* the same name of another host */
		{NVME_HOST_NQN, 0, 7, NVME_CONNECT_INVALID},	/* the same host, from where it may not */
		{NVME_HOST_NQN, 0, 8, NVME_CONNECT_INVALID},
		{NVME_HOST_NQN, 0, 9, NVME_CONNECT_INVALID},
	};
	struct host host = {.count = 0};

	(void)state;
	begin("1", NULL, rules);
	host_connect(&host, address, DISK, 1);
	for (size_t i = 0; i < UNIT_LENGTH(others); i++) {
		struct nvme_host other = {.host_id = others[i].id, .from = others[i].from};

		assert_int_equal(nvme_host_connect(&other, address, DISK, others[i].nqn, 0, 32), others[i].status);
		assert_int_equal(nvme_host_io(&host.queues[0], NVME_WRITE, NVME_HOST_CAPSULE, 0, SECTORS - 1, older,
					      BLOCK),
				 NVME_OK);
		assert_int_equal(nvme_host_admin(&host.admin, NVME_KEEP_ALIVE, 0, 0, 0, NULL, 0), NVME_OK);
		if (!others[i].status)
			nvme_host_close(&other);
	}
	host_close(&host);
	end();
}

/* -- sessions ------------------------------------------------------------------------------------ */

static void a_failed_flush_is_not_forgotten(void **state)
{
	struct nvme_host_command flush = {.way = NVME_HOST_NONE};
	struct host host = {.count = 0}, again = {.count = 0};
	struct e2e_file file;

	(void)state;
	e2e_file_create(&file, "disk", 1 << 20);
	e2e_daemon_start(&server, "--listen", "nvme+tcp://127.0.0.1:0", "--cache", "buffered", "--reactors", "1",
			 "--session-time", "600s", "--fault", "fail=flush,count=1", file.volume, NULL);
	e2e_daemon_second_host(&server, address);
	nvme_host_discover(address, nqn);
	host_connect(&host, address, nqn, 1);
	flush.command.opcode = NVME_FLUSH;
	flush.command.namespace = rblk_to_le32(1);
	nvme_host_send(&host.queues[0], &flush);
	/* It has failed, and the host does not hear of it. */
	e2e_daemon_log_wait(&server, "acknowledged writes may be lost", 1);
	host_close(&host);
	e2e_daemon_log_wait(&server, "has lost its client", 1);
	host_connect(&again, address, nqn, 1);
	assert_int_not_equal(nvme_host_io(&again.queues[0], NVME_FLUSH, NVME_HOST_NONE, 0, 0, NULL, 0), NVME_OK);
	assert_int_equal(e2e_daemon_log_count(&server, "FLUSH is possible again"), 0);
	host_close(&again);
	assert_int_equal(e2e_daemon_stop(&server), 0);
	e2e_file_remove(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_older_write_does_not_land),
		cmocka_unit_test(an_older_write_of_another_path_does_not_land),
		cmocka_unit_test(another_volume_is_another_matter),
		cmocka_unit_test(nobody_else_ends_it),
		cmocka_unit_test(a_failed_flush_is_not_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
