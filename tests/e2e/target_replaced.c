/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal (F7): a FLUSH does not succeed for writes that went to another file than the volume's path
 * leads to now. Method: the path is a link, which is turned to another file while rblkd is away, or
 * before a reload. A client that has flushed, and one whose file has stayed, notice nothing. Another
 * file is another store, which a session uses only because the configuration gives it the same fence
 * domain (F10; lib_targets.c has what happens without).
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define PIECE 4096u

struct scene {
	struct e2e_file first, second;
	char link[40], config[40];
	struct e2e_daemon daemon;
	struct rblk_session *session;
	struct rblk_volume *disk;
	uint8_t *data;
};

static void turn_link(const struct scene *scene, const struct e2e_file *to)
{
	unlink(scene->link);
	assert_int_equal(symlink(to->path, scene->link), 0);
}

static void begin(struct scene *scene)
{
	memset(scene, 0, sizeof(*scene));
	e2e_file_create(&scene->first, "first", 1u << 20);
	e2e_file_create(&scene->second, "second", 1u << 20);
	snprintf(scene->link, sizeof(scene->link), "%s.link", scene->first.path);
	snprintf(scene->config, sizeof(scene->config), "%s.conf", scene->first.path);
	unit_file_write(scene->config,
			"[volume disk]\npath = %s\ncache = buffered\n"
			"fence_domain = 6d1f0c1e-7d4a-4a53-9a0e-2f1d5b7c9e11\n",
			scene->link);
	turn_link(scene, &scene->first);
	e2e_daemon_start(&scene->daemon, "--config", scene->config, NULL);
	scene->session = e2e_session_open(e2e_daemon_uri(&scene->daemon, "disk"), NULL);
	scene->disk = e2e_volume_open(scene->session, NULL, 0);
	scene->data = rblk_buffer_alloc(scene->session, PIECE);
	assert_int_equal(rblk_pwrite(scene->disk, scene->data, PIECE, 0, 0), 0);
}

static void end(struct scene *scene)
{
	rblk_session_close(scene->session);
	assert_int_equal(e2e_daemon_stop(&scene->daemon), 0);
	unlink(scene->link);
	unlink(scene->config);
	e2e_file_remove(&scene->first);
	e2e_file_remove(&scene->second);
}

static void restart(struct scene *scene)
{
	e2e_daemon_kill(&scene->daemon);
	e2e_daemon_start_again(&scene->daemon, "--config", scene->config, NULL);
	assert_int_equal(rblk_pread(scene->disk, scene->data, PIECE, 0), 0);
}

static void the_same_file_after_a_restart(void **state)
{
	struct scene scene;

	(void)state;
	begin(&scene);
	restart(&scene);
	assert_int_equal(rblk_fsync(scene.disk), 0);
	end(&scene);
}

static void expect_loss(struct scene *scene)
{
	assert_int_equal(rblk_fsync(scene->disk), -EIO);
	assert_int_equal(rblk_fsync(scene->disk), -EIO);
	assert_int_equal(rblk_acknowledge(scene->disk), 1);
	assert_int_equal(rblk_pwrite(scene->disk, scene->data, PIECE, 0, 0), 0);
	assert_int_equal(rblk_fsync(scene->disk), 0);
}

static void another_file_after_a_restart(void **state)
{
	struct scene scene;

	(void)state;
	begin(&scene);
	turn_link(&scene, &scene.second);
	restart(&scene);
	expect_loss(&scene);
	/* What was flushed is where it was promised to be. */
	turn_link(&scene, &scene.first);
	restart(&scene);
	assert_int_equal(rblk_fsync(scene.disk), 0);
	end(&scene);
}

static void another_file_after_a_reload(void **state)
{
	struct scene scene;

	(void)state;
	begin(&scene);
	turn_link(&scene, &scene.second);
	assert_int_equal(kill(scene.daemon.pid, SIGHUP), 0);
	e2e_daemon_log_wait(&scene.daemon, "reload: 0 volumes added, 0 removed, 1 changed", 1);
	assert_int_equal(rblk_volume_refresh(scene.disk), 0);
	expect_loss(&scene);
	end(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_file_after_a_restart),
		cmocka_unit_test(another_file_after_a_restart),
		cmocka_unit_test(another_file_after_a_reload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
