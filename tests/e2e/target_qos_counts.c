/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: whoever has a limit gets it within 3 %, and never more than the limit and its burst; whoever has none does not
 * wait, neither for a limit nor behind commands that wait for one; on a full store initiators get operations as their
 * weights say. Method: two clients of one daemon, whose operations, and the time between, are those of two of the
 * daemon's own snapshots (method "counts" of the control socket), so no clock of the test is part of a figure. A machine
 * that stops the daemon or a client for longer than the burst makes one window too poor: then the next one is looked
 * at. No window may be too rich.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define BLOCK 4096u
#define VOLUME_BYTES (8u << 20)
#define LIMIT 1000u /* operations a second */
#define BURST_MS 200u
#define WINDOW_NS 10000000000ull
#define WINDOWS 30
/* Operations outstanding on a store that takes 256, which all end at once: of both, more wait than then begin. */
#define HEAVY 600u
#define LIGHT 240u
#define OTHERS 10000ul /* operations of the one without a limit */

static struct e2e_daemon server;
static struct e2e_file disk;
static char control[64], config[80];

/* -- clients ------------------------------------------------------------------------------------- */

/* A thread that keeps so many reads outstanding, or, with depth 0, none: client_do(); between start and stop all but the last field are the thread's. */
struct client {
	struct rblk_session *session;
	struct rblk_volume *volume;
	uint8_t *data;
	unsigned int depth, outstanding;
	int error; /* of client_do()'s last one */
	pthread_t thread;
	atomic_bool stopping;
};

/* In a client's thread no test of the framework may end. */
static void must(bool right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "a client: %s\n", what);
	abort();
}

static void client_done(void *arg, const struct rblk_result *result)
{
	struct client *client = arg;

	client->outstanding--;
	if (atomic_load(&client->stopping)) {
		client->error = result->error;
		return;
	}
	must(!result->error, strerror(-result->error));
}

static void *client_run(void *arg)
{
	struct client *client = arg;

	while (!atomic_load(&client->stopping)) {
		int status = 0;

		/* -EAGAIN: the target grants fewer credits. */
		while (client->outstanding < client->depth && !status) {
			status = rblk_read(client->volume, client->data, BLOCK, 0, 0, client_done, client);
			must(!status || status == -EAGAIN, "a read does not begin");
			client->outstanding += !status;
		}
		must(rblk_wait(client->session, 100) >= 0, "the session is lost");
	}
	return NULL;
}

static void client_start(struct client *client, const char *name, const char *volume, uint32_t queues,
			 unsigned int depth)
{
	struct rblk_options options = {
		.size = sizeof(options),
		.initiator_name = name,
		.queues = queues,
		.credits = 128,
		/* What waits for a limit waits for longer than a test lasts. */
		.command_timeout_ms = 3600000,
		.polling = RBLK_POLL_NEVER,
		.no_reconnect = true,
	};

	memset(client, 0, sizeof(*client));
	client->session = e2e_session_open(e2e_daemon_uri(&server, volume), &options);
	client->volume = e2e_volume_open(client->session, NULL, 0);
	client->data = rblk_buffer_alloc(client->session, BLOCK);
	assert_non_null(client->data);
	client->depth = depth;
	if (depth)
		assert_int_equal(pthread_create(&client->thread, NULL, client_run, client), 0);
}

static void client_stop(struct client *client)
{
	atomic_store(&client->stopping, true);
	if (client->depth)
		pthread_join(client->thread, NULL);
	rblk_session_close(client->session);
}

/* One at a time; each is answered before the next one is sent. */
static void client_do(struct client *client, bool write, unsigned long count)
{
	atomic_store(&client->stopping, true); /* the callback begins no other one */
	while (count--) {
		int status = write ? rblk_write(client->volume, client->data, BLOCK, 0, 0, client_done, client)
				   : rblk_read(client->volume, client->data, BLOCK, 0, 0, client_done, client);

		assert_int_equal(status, 0);
		client->outstanding++;
		while (client->outstanding)
			assert_true(rblk_wait(client->session, -1) >= 0);
		assert_int_equal(client->error, 0);
	}
}

/* -- snapshots --------------------------------------------------------------------------------- */

/* What an initiator has done with the volumes that it has open, as one snapshot has it. */
struct use {
	uint64_t count, operations, bytes, outstanding, limited_commands, limited_ns, errors;
};

/* As its reactors have taken it: from the first to the last. */
struct snapshot {
	json_t *json;
	uint64_t first_ns, last_ns;
};

static int control_open(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = 300};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(address.sun_path, control);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	return fd;
}

/* The result; the caller's reference. */
static json_t *control_call(const char *method, const char *params)
{
	static char answer[1 << 20];
	size_t used = 0;
	int fd = control_open(), bytes;
	char request[512];
	json_t *json, *result;

	bytes = snprintf(request, sizeof(request), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":%s}\n",
			 method, params);
	assert_int_equal(send(fd, request, (size_t)bytes, MSG_NOSIGNAL), bytes);
	do {
		ssize_t got = recv(fd, answer + used, sizeof(answer) - used - 1, 0);

		assert_true(got > 0);
		used += (size_t)got;
	} while (answer[used - 1] != '\n');
	close(fd);
	json = json_loadb(answer, used, 0, NULL);
	result = json_incref(json_object_get(json, "result"));
	if (!result)
		fail_msg("%s %s: %.*s", method, params, (int)used, answer);
	json_decref(json);
	return result;
}

static uint64_t number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	assert_true(json_is_integer(value));
	return (uint64_t)json_integer_value(value);
}

static void snapshot_take(struct snapshot *snapshot, unsigned int reactors)
{
	json_t *entry;
	size_t i;

	snapshot->json = control_call("counts", "{}");
	snapshot->first_ns = UINT64_MAX;
	snapshot->last_ns = 0;
	/* One that is late is left out. */
	if (json_array_size(json_object_get(snapshot->json, "reactors")) != reactors)
		fail_msg("a reactor has not answered");
	json_array_foreach(json_object_get(snapshot->json, "reactors"), i, entry)
	{
		uint64_t taken_ns = number(entry, "taken_ns");

		snapshot->first_ns = taken_ns < snapshot->first_ns ? taken_ns : snapshot->first_ns;
		snapshot->last_ns = taken_ns > snapshot->last_ns ? taken_ns : snapshot->last_ns;
	}
}

static struct use snapshot_use(const struct snapshot *snapshot, const char *initiator)
{
	struct use use = {0};
	const char *key;
	json_t *entry, *value;
	size_t i;

	json_array_foreach(json_object_get(snapshot->json, "uses"), i, entry)
	{
		if (strcmp(json_string_value(json_object_get(entry, "initiator")), initiator) != 0)
			continue;
		use.count++;
		json_object_foreach(json_object_get(entry, "operations"), key, value)
			use.operations += (uint64_t)json_integer_value(value);
		use.bytes += number(entry, "read_bytes") + number(entry, "written_bytes");
		use.outstanding += number(entry, "outstanding");
		use.limited_commands += number(entry, "limited_commands");
		use.limited_ns += number(entry, "limited_ns");
		use.errors += json_object_size(json_object_get(entry, "errors"));
	}
	return use;
}

static struct use use_now(const char *initiator, unsigned int reactors)
{
	struct snapshot snapshot;
	struct use use;

	snapshot_take(&snapshot, reactors);
	use = snapshot_use(&snapshot, initiator);
	json_decref(snapshot.json);
	return use;
}

/* Between two looks; the daemon takes no more than ten snapshots a second. */
static void look_again(unsigned int *tries)
{
	const struct timespec pause = {.tv_nsec = 50000000};

	nanosleep(&pause, NULL);
	if (++*tries > 6000)
		fail_msg("not in five minutes");
}

/* The first snapshot that is at least `ns` later. */
static void snapshot_after(struct snapshot *snapshot, uint64_t ns, unsigned int reactors)
{
	unsigned int tries = 0;

	for (snapshot_take(snapshot, reactors); snapshot->first_ns < ns; snapshot_take(snapshot, reactors)) {
		json_decref(snapshot->json);
		look_again(&tries);
	}
}

/* -- limits -------------------------------------------------------------------------------------- */

static void limits_set(const char *section, const char *key, const char *value)
{
	char params[256];

	snprintf(params, sizeof(params), "{\"edits\":[{\"edit\":\"set\",\"section\":\"%s\",\"keys\":{\"%s\":\"%s\"}}]}",
		 section, key, value);
	json_decref(control_call("change", params));
}

/* A window of the one with the limit; true: it has got the limit within 3 %. */
static bool window_is_full(const struct snapshot *from, const struct snapshot *to, unsigned int unit)
{
	struct use before = snapshot_use(from, "guest"), after = snapshot_use(to, "guest");
	double got = (double)(unit == 1 ? after.operations - before.operations : after.bytes - before.bytes) / unit;
	double least_s = (double)(to->first_ns - from->last_ns) / 1e9;
	double most_s = (double)(to->last_ns - from->first_ns) / 1e9;

	print_message("%.0f in %.3f s: %.2f %% of the limit\n", got, most_s, got / LIMIT / most_s * 100);
	/* And what two reactors have in their hands: each buys some milliseconds in advance. */
	assert_true(got <= LIMIT * (most_s + BURST_MS / 1e3) * 1.001 + 20);
	return got >= LIMIT * least_s * 0.97 && got <= LIMIT * most_s * 1.03;
}

static void limit_is_kept(unsigned int reactors, const char *section, const char *key, const char *value,
			  unsigned int unit)
{
	struct client guest, host;
	struct snapshot from, to;
	unsigned int tries = 0;
	bool full = false;
	struct use use;

	limits_set(section, key, value);
	client_start(&host, "host", "free", 1, 2);
	client_start(&guest, "guest", "ram", reactors, 64 * reactors);
	/* The burst has been used. */
	do {
		look_again(&tries);
		use = use_now("guest", reactors);
	} while (!use.limited_commands || use.operations < 3 * LIMIT * BURST_MS / 1000);
	snapshot_after(&from, 0, reactors);
	for (unsigned int i = 0; i < WINDOWS && !full; i++) {
		snapshot_after(&to, from.last_ns + WINDOW_NS, reactors);
		full = window_is_full(&from, &to, unit);
		use = snapshot_use(&to, "host");
		assert_true(use.operations > snapshot_use(&from, "host").operations);
		assert_int_equal(use.limited_commands + use.limited_ns + use.errors, 0);
		assert_int_equal(snapshot_use(&to, "guest").errors, 0);
		json_decref(from.json);
		from = to;
	}
	json_decref(from.json);
	assert_true(full);
	client_stop(&guest);
	client_stop(&host);
	limits_set(section, key, "0");
}

static void an_initiator_gets_its_limit(void **state)
{
	(void)state;
	limit_is_kept(1, "initiator guest", "limit_iops", "1000", 1);
}

static void reactors_share_a_volumes_limit(void **state)
{
	(void)state;
	limit_is_kept(2, "volume ram", "limit_rate", "4096000", BLOCK);
}

/* Were one of them to wait for a command of the other one, it would wait for an hour. */
static void others_do_not_wait_behind(void **state)
{
	const char *volumes[] = {"ram", "disk"};

	(void)state;
	/* A block takes more than an hour: the first one goes at once. */
	limits_set("initiator guest", "limit_rate", "1");
	for (unsigned int i = 0; i < 2; i++) {
		struct client guest, host;
		unsigned int tries = 0;
		struct use use;

		client_start(&guest, "guest", volumes[i], 1, 100);
		/* All wait but the first one, which may still be under way; the second one's volume waits for what
		 * that has used. */
		do {
			look_again(&tries);
			use = use_now("guest", 1);
		} while (use.outstanding != 100 || use.limited_commands != 100 || use.operations != (i == 0));
		client_start(&host, "host", volumes[i], 1, 0);
		client_do(&host, false, OTHERS);
		client_do(&host, true, OTHERS);
		do {
			look_again(&tries);
			use = use_now("host", 1);
		} while (use.operations != 2 * OTHERS);
		assert_int_equal(use.limited_commands + use.limited_ns + use.errors, 0);
		use = use_now("guest", 1);
		assert_int_equal(use.operations, i == 0);
		assert_int_equal(use.outstanding, 100);
		client_stop(&host);
		client_stop(&guest);
		while (use_now("guest", 1).count || use_now("host", 1).count)
			look_again(&tries);
	}
	limits_set("initiator guest", "limit_rate", "0");
}

static void weights_share_a_full_store(void **state)
{
	struct client heavy, light;
	unsigned int tries = 0;
	struct snapshot from, to;
	double got[2];

	(void)state;
	client_start(&heavy, "heavy", "slow", 5, HEAVY);
	client_start(&light, "light", "slow", 2, LIGHT);
	/* Whoever comes first has all of the store until the other one waits, too. */
	while (use_now("heavy", 1).operations < 3 * HEAVY || use_now("light", 1).operations < 3 * LIGHT)
		look_again(&tries);
	snapshot_take(&from, 1);
	assert_true(snapshot_use(&from, "heavy").outstanding > 192 * 2 &&
		    snapshot_use(&from, "light").outstanding > 64 * 2);
	do {
		look_again(&tries);
		snapshot_take(&to, 1);
		got[0] = (double)(snapshot_use(&to, "heavy").operations - snapshot_use(&from, "heavy").operations);
		got[1] = (double)(snapshot_use(&to, "light").operations - snapshot_use(&from, "light").operations);
		json_decref(to.json);
	} while (got[0] + got[1] < 4000);
	print_message("%.0f to %.0f: %.3f\n", got[0], got[1], got[0] / got[1]);
	assert_true(got[0] / got[1] > 2.7 && got[0] / got[1] < 3.3);
	json_decref(from.json);
	client_stop(&light);
	client_stop(&heavy);
}

/* -- the daemon ---------------------------------------------------------------------------------- */

static int start_with(const char *reactors)
{
	snprintf(control, sizeof(control), "/tmp/rblk-qos-%d", (int)getpid());
	snprintf(config, sizeof(config), "%s.conf", control);
	e2e_file_create(&disk, "disk", VOLUME_BYTES);
	unit_file_write(config,
			"[volume ram]\nstore = memory\nsize = 8M\nlimit_burst = %ums\n"
			"[volume free]\nstore = memory\nsize = 8M\n"
			"[volume slow]\nstore = memory\nsize = 8M\nfault = delay=read:300ms\n"
			"[volume disk]\npath = %s\ncache = buffered\n"
			"[initiator guest]\naddress = local\nwrite = *\nlimit_burst = %ums\n"
			"[initiator host]\naddress = local\nwrite = *\n"
			"[initiator heavy]\naddress = local\nwrite = *\nweight = 3\n"
			"[initiator light]\naddress = local\nwrite = *\nweight = 1\n",
			BURST_MS, disk.path, BURST_MS);
	e2e_daemon_start(&server, "--config", config, "--control-socket", control, "--reactors", reactors,
			 "--memory-lock=no", "--session-time", "1ms", NULL);
	return 0;
}

static int start_one(void **state)
{
	(void)state;
	return start_with("1");
}

static int start_two(void **state)
{
	(void)state;
	return start_with("2");
}

static int stop(void **state)
{
	char lock[80];

	(void)state;
	assert_int_equal(e2e_daemon_stop(&server), 0);
	e2e_file_remove(&disk);
	snprintf(lock, sizeof(lock), "%s.lock", control);
	unlink(lock);
	unlink(config);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_initiator_gets_its_limit, start_one, stop),
		cmocka_unit_test_setup_teardown(reactors_share_a_volumes_limit, start_two, stop),
		cmocka_unit_test_setup_teardown(others_do_not_wait_behind, start_one, stop),
		cmocka_unit_test_setup_teardown(weights_share_a_full_store, start_one, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
