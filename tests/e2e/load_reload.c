/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: SIGHUP under load changes what it should, and users of other volumes do not notice. Method:
 * loads on volumes that stay while another is added, grown, changed and removed, again and again.
 * That volume has its own user, whose commands may fail with GONE but with no other error.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "initiator/rblk.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/load.h"

#define ROUNDS 12u

static struct e2e_daemon server;
static char dir[64], config[96], disk[96];

static void write_config(const char *more)
{
	unit_file_write(config, "[volume steady]\nstore = memory\nsize = 4M\n%s", more);
}

static int start(void **state)
{
	FILE *file;

	strcpy(dir, "/var/tmp/rblk-e2e-reload-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(config, sizeof(config), "%s/rblkd.conf", dir);
	snprintf(disk, sizeof(disk), "%s/disk", dir);
	file = fopen(disk, "w");
	assert_non_null(file);
	assert_int_equal(ftruncate(fileno(file), 4 << 20), 0);
	fclose(file);
	write_config("");
	e2e_daemon_start(&server, "--memory", "fixed=4M", "--reactors", "2", "--config", config,
			 NULL);
	return 0;
}

static int stop(void **state)
{
	int status = e2e_daemon_stop(&server);

	unlink(config);
	unlink(disk);
	rmdir(dir);
	return status;
}

/* -- the user of the volume that comes and goes
 * ----------------------------------------------------------------- */

struct guest {
	pthread_t thread;
	char uri[256];
	atomic_bool stopping;
	atomic_uint done, gone;
};

/* GONE, or a range or length that the volume no longer has. */
static bool guest_may_see(int error)
{
	return error == -ENODEV || error == -ENOENT || error == -ERANGE || error == -EINVAL;
}

static void guest_done(void *arg, const struct rblk_result *result)
{
	struct guest *guest = arg;

	if (!result->error) {
		atomic_fetch_add(&guest->done, 1);
		return;
	}
	if (!guest_may_see(result->error)) {
		fprintf(stderr, "guest: %s\n", strerror(-result->error));
		abort();
	}
	atomic_fetch_add(&guest->gone, 1);
}

static void guest_use(struct guest *guest, struct rblk_session *session, char *data)
{
	struct rblk_volume *volume = rblk_volume_open(session, NULL, 0);
	unsigned int gone = atomic_load(&guest->gone);

	if (!volume)
		return;
	while (!atomic_load(&guest->stopping) && atomic_load(&guest->gone) == gone) {
		for (unsigned int i = 0; i < 8; i++)
			if (i % 2)
				rblk_read(volume, data + i * 65536, 65536, i * 65536, 0, guest_done,
					  guest);
			else
				rblk_write(volume, data + i * 65536, 65536, i * 65536, 0,
					   guest_done, guest);
		while (rblk_wait(session, 0) > 0)
			;
		if (rblk_wait(session, 100) < 0)
			break;
	}
	while (rblk_volume_close(volume) == -EBUSY && rblk_wait(session, 1000) >= 0)
		;
}

static void *guest_thread(void *arg)
{
	struct guest *guest = arg;

	while (!atomic_load(&guest->stopping)) {
		char error[RBLK_ERROR_BYTES];
		struct rblk_session *session = rblk_session_open(guest->uri, NULL, error);
		char *data;

		if (!session) {
			fprintf(stderr, "guest: %s\n", error);
			abort();
		}
		data = rblk_buffer_alloc(session, 8 * 65536);
		for (unsigned int i = 0; data && i < 20 && !atomic_load(&guest->stopping); i++)
			guest_use(guest, session, data);
		rblk_session_close(session);
	}
	return NULL;
}

/* -- reloading ------------------------------------------------------------------------------------- */

static void wait_for(unsigned int (*condition)(const void *arg), const void *arg, unsigned int more,
		     const char *what)
{
	const struct timespec pause = { .tv_nsec = 2000000 };
	time_t until = time(NULL) + 60;

	while (condition(arg) < more) {
		if (time(NULL) > until)
			fail_msg("%s: not within a minute", what);
		nanosleep(&pause, NULL);
	}
}

static unsigned int reloads(const void *arg)
{
	(void)arg;
	return e2e_daemon_log_count(&server, "reload: ");
}

static unsigned int guest_progress(const void *arg)
{
	return atomic_load(&((struct guest *)arg)->done);
}

static void reload(const char *more)
{
	unsigned int before = reloads(NULL);

	write_config(more);
	kill(server.pid, SIGHUP);
	wait_for(reloads, NULL, before + 1, "reload");
}

static void others_do_not_notice(void **state)
{
	struct load_options options = { .queues = 2, .depth = 8, .bytes = 4u << 20 };
	struct load *steady, *fixed;
	struct guest guest = { 0 };
	char volume[256];

	options.uri = e2e_daemon_uri(&server, "steady");
	steady = load_start(&options);
	options.uri = e2e_daemon_uri(&server, "fixed");
	options.seed = 1;
	fixed = load_start(&options);
	strcpy(guest.uri, e2e_daemon_uri(&server, "guest"));
	assert_int_equal(pthread_create(&guest.thread, NULL, guest_thread, &guest), 0);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned int done = atomic_load(&guest.done);

		snprintf(volume, sizeof(volume), "[volume guest]\npath = %s\nblock_size = %s\n", disk,
			 i % 2 ? "4K" : "512");
		reload(volume);
		wait_for(guest_progress, &guest, done + 1, "the guest's I/O");
		if (i % 3)
			reload("");
		load_wait(steady, 20);
		load_wait(fixed, 20);
	}
	atomic_store(&guest.stopping, true);
	pthread_join(guest.thread, NULL);
	assert_true(atomic_load(&guest.gone) > 0);
	load_stop(steady);
	load_stop(fixed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(others_do_not_notice),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
