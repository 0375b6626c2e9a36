/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what the library has checked of a target's report is what it uses, although the target may write to that memory
 * at any time (over RDMA). Method: rblkd, and checks in place of the library's that spoil the registered memory as soon
 * as they have found a report well-formed.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/session.h"
#include "proto/wire/wire_check.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define BYTES (1u << 20)

static struct e2e_daemon server;
static struct e2e_file file;
static struct rblk_session *session;
static unsigned int spoiled;

static enum rblk_wire_error spoil(enum rblk_wire_error error)
{
	if (error || !session)
		return error;
	spoiled++;
	memset(session->control.memory->report, 0xff, sizeof(session->control.memory->report));
	memset(session->control.memory->extents, 0xff, sizeof(session->control.memory->extents));
	return error;
}

enum rblk_wire_error __real_rblk_check_volume(const void *data, size_t length, u32 features);
enum rblk_wire_error __wrap_rblk_check_volume(const void *data, size_t length, u32 features);
enum rblk_wire_error __wrap_rblk_check_volume(const void *data, size_t length, u32 features)
{
	return spoil(__real_rblk_check_volume(data, length, features));
}

enum rblk_wire_error __real_rblk_check_reservation_report(const void *data, size_t length);
enum rblk_wire_error __wrap_rblk_check_reservation_report(const void *data, size_t length);
enum rblk_wire_error __wrap_rblk_check_reservation_report(const void *data, size_t length)
{
	return spoil(__real_rblk_check_reservation_report(data, length));
}

enum rblk_wire_error __real_rblk_check_extents(const void *data, size_t length, u64 count, u32 blocks);
enum rblk_wire_error __wrap_rblk_check_extents(const void *data, size_t length, u64 count, u32 blocks);
enum rblk_wire_error __wrap_rblk_check_extents(const void *data, size_t length, u64 count, u32 blocks)
{
	return spoil(__real_rblk_check_extents(data, length, count, blocks));
}

static int start(void **state)
{
	(void)state;
	e2e_file_create(&file, "disk", BYTES);
	e2e_daemon_start(&server, "--cache", "buffered", file.volume, NULL);
	session = e2e_session_open(e2e_daemon_uri(&server, "disk"), NULL);
	return 0;
}

static int stop(void **state)
{
	int status;

	(void)state;
	rblk_session_close(session);
	status = e2e_daemon_stop(&server);
	e2e_file_remove(&file);
	return status;
}

static void a_volume(void **state)
{
	struct rblk_volume *volume = rblk_volume_open(session, NULL, 0);
	uint8_t *data = rblk_buffer_alloc(session, 4096);

	(void)state;
	assert_non_null(volume);
	assert_int_equal(rblk_volume_info(volume)->bytes, BYTES);
	assert_int_equal(rblk_pread(volume, data, 4096, 0), 0);
	assert_int_equal(rblk_volume_refresh(volume), 0);
	assert_int_equal(rblk_pread(volume, data, 4096, 0), 0);
	assert_int_equal(rblk_volume_close(volume), 0);
	assert_int_equal(spoiled, 2);
	rblk_buffer_free(session, data);
}

static void a_list(void **state)
{
	struct rblk_volume_info *list = NULL;

	(void)state;
	assert_int_equal(rblk_list(session, &list, sizeof(*list)), 1);
	assert_string_equal(list->name, "disk");
	assert_int_equal(list->bytes, BYTES);
	assert_int_equal(spoiled, 3);
	free(list);
}

static void extents(void **state)
{
	struct rblk_volume *volume = rblk_volume_open(session, NULL, 0);
	struct rblk_extent extent;

	(void)state;
	spoiled = 0;
	assert_int_equal(rblk_get_extents(volume, BYTES, 0, &extent, 1), 1);
	assert_int_equal(extent.bytes, BYTES);
	assert_int_equal(spoiled, 1);
	assert_int_equal(rblk_volume_close(volume), 0);
}

static void reservations(void **state)
{
	struct rblk_volume *volume = rblk_volume_open(session, NULL, 0);
	struct rblk_pr_request request = RBLK_PR_REQUEST_INIT;
	struct rblk_pr_registrant registrant;
	struct rblk_pr_state now;

	(void)state;
	request.action = RBLK_PR_REGISTER;
	request.new_key = 7;
	assert_int_equal(rblk_reserve(volume, &request), 0);
	spoiled = 0;
	assert_int_equal(rblk_reservations(volume, &now, sizeof(now), &registrant, 1), 0);
	assert_int_equal(spoiled, 1);
	assert_int_equal(now.total, 1);
	assert_int_equal(now.count, 1);
	assert_int_equal(registrant.key, 7);
	assert_int_equal(rblk_volume_close(volume), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_volume),
		cmocka_unit_test(a_list),
		cmocka_unit_test(extents),
		cmocka_unit_test(reservations),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
