/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a COMPARE_AND_WRITE that the old epoch may have done is not done again in the new one (F8). It was sent, lost and
 * fenced, and was to go again when that connection, too, was lost before it went: so it is READY, and only its flag says
 * that it may be done. Method: commands that wait are put where a lost connection leaves them.
 */
#include "initiator/retry.h"
#include "initiator/volume.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>

static struct rblk_volume volume;

static struct ini_parked *waits(struct rblk_session *session, u8 opcode, u8 flags)
{
	struct ini_parked *parked = ini_parking_take(&session->parking);

	assert_non_null(parked);
	parked->counted = &volume.parked;
	parked->io.opcode = opcode;
	parked->io.flags = flags;
	ini_parking_wait(&session->parking, parked, INI_PARKED_READY);
	return parked;
}

static void what_may_be_done_is_not_done_twice(void **state)
{
	struct rblk_session *session = calloc(1, sizeof(*session));
	struct ini_parked *twice, *once, *write;

	(void)state;
	assert_non_null(session);
	assert_int_equal(ini_parking_init(&session->parking, 4), 0);
	twice = waits(session, RBLK_OP_COMPARE_AND_WRITE, RBLK_CMD_RETRY);
	once = waits(session, RBLK_OP_COMPARE_AND_WRITE, 0);
	write = waits(session, RBLK_OP_WRITE, RBLK_CMD_RETRY);

	ini_parked_renew(session);
	assert_int_equal(twice->state, INI_PARKED_DONE);
	assert_int_equal(twice->result.error, -EIO);
	assert_ptr_equal(ini_parking_done(&session->parking), twice);
	assert_null(ini_parking_done(&session->parking));
	/* It was never sent; and that one may be done twice. */
	assert_int_equal(once->state, INI_PARKED_READY);
	assert_int_equal(write->state, INI_PARKED_READY);
	assert_int_equal(session->parking.ready, 2);
	assert_int_equal(volume.parked, 2);
	ini_parking_fini(&session->parking);
	free(session);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_may_be_done_is_not_done_twice),
	};

	return cmocka_run_group_tests_name("initiator renewed", tests, NULL, NULL);
}
