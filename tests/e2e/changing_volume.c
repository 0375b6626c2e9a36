/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* See changing_volume.h. */
#include "tests/e2e/changing_volume.h"
#include "tests/e2e/session.h"
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_refreshed(void *arg, struct rblk_volume *volume, int error)
{
	struct changing_volume *v = arg;

	assert_ptr_equal(volume, v->volume);
	assert_int_equal(error, 0);
	v->refreshed++;
}

/* As a program with a loop does it: in the callback, without waiting for its own I/O. */
static void on_event(void *arg, struct rblk_session *session, const struct rblk_session_event *event)
{
	struct changing_volume *v = arg;

	(void)session;
	if (event->type != RBLK_SESSION_EVENT_VOLUME_CHANGED)
		return;
	assert_ptr_equal(event->volume, v->volume);
	v->changed++;
	assert_int_equal(rblk_volume_refresh_start(event->volume, on_refreshed, v), 0);
}

void changing_volume_start(struct changing_volume *v, const char *more, const struct rblk_options *options)
{
	memset(v, 0, sizeof(*v));
	e2e_file_create(&v->file, "disk", 1 << 20);
	strcpy(v->config, "/var/tmp/rblk-e2e-config-XXXXXX");
	close(mkstemp(v->config));
	changing_volume_configure(v, more);
	e2e_daemon_start(&v->server, "--config", v->config, NULL);
	v->session = e2e_session_open(e2e_daemon_uri(&v->server, "disk"), options);
	rblk_session_on_event(v->session, on_event, v);
	v->data = rblk_buffer_alloc(v->session, DEPTH * BLOCK);
	assert_non_null(v->data);
}

int changing_volume_stop(struct changing_volume *v)
{
	int status;

	rblk_session_close(v->session);
	status = e2e_daemon_stop(&v->server);
	e2e_file_remove(&v->file);
	unlink(v->config);
	return status;
}

void changing_volume_configure(const struct changing_volume *v, const char *more)
{
	unit_file_write(v->config, "[volume disk]\npath = %s\ncache = buffered\n%s", v->file.path, more);
}

void changing_volume_open(struct changing_volume *v, uint32_t flags)
{
	v->volume = e2e_volume_open(v->session, NULL, flags);
}

static void done(void *arg, const struct rblk_result *result)
{
	struct changing_volume *v = arg;

	v->outstanding--;
	v->errors += result->error != 0;
}

void changing_volume_turn(struct changing_volume *v, unsigned int depth)
{
	while (v->outstanding < depth) {
		assert_int_equal(rblk_read(v->volume, v->data + v->outstanding * BLOCK, BLOCK, 0, 0, done, v), 0);
		v->outstanding++;
	}
	assert_true(rblk_wait(v->session, 100) >= 0);
}

void changing_volume_settle(struct changing_volume *v)
{
	while (v->outstanding)
		changing_volume_turn(v, 0);
}

void changing_volume_assert_one_handle(const struct changing_volume *v)
{
	assert_int_equal(kill(v->server.pid, SIGUSR1), 0);
	e2e_daemon_log_wait(&v->server, "open: disk", 1);
	assert_int_equal(e2e_daemon_log_count(&v->server, "open: disk, disk"), 0);
}
