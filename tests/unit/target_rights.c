/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a session that takes another name loses what its old name has lost before, though its reactor had not heard of it, and what
 * the new name may not do; a PREEMPT that waits for the old name's writes would miss them otherwise. Method: a session, a
 * volume's reservation, and a record of which commands are revoked under which name.
 */
#include "tests/unit/unit.h"
#include <stdlib.h>
#include <string.h>
#include "target/io/request.h"
#include "target/io/work.h"
#include "target/serve/queue.h"
#include "target/serve/rights.h"

static struct rig {
	struct tgt_reactor reactor;
	struct tgt_volume volume;
	struct tgt_channel channel;
	struct tgt_session session;
	struct tgt_queue queue;
	struct tgt_handle handle;
	struct tgt_handle *handles[1];
	unsigned int revoked; /* how often */
	char name[RBLK_NAME_BYTES]; /* the session's, then */
	uint8_t refused;
	bool aborts;
} *rig;

bool __wrap_tgt_io_queue_revoke(struct tgt_io_queue *io_queue, struct tgt_access *access, bool aborts);
bool __wrap_tgt_io_queue_revoke(struct tgt_io_queue *io_queue, struct tgt_access *access, bool aborts)
{
	assert_ptr_equal(io_queue, &rig->queue.io_queue);
	assert_ptr_equal(access, &rig->handle.access);
	rig->revoked++;
	memcpy(rig->name, rig->session.initiator, sizeof(rig->name));
	rig->refused = access->refused;
	rig->aborts = aborts;
	return false;
}

static const char *padded(const char *name)
{
	static char text[RBLK_NAME_BYTES];

	memset(text, 0, sizeof(text));
	strcpy(text, name);
	return text;
}

/* As if another reactor had done it: this one has not seen it. */
static void change(const char *name, struct tgt_reserve reserve)
{
	static const uint8_t host[TGT_REGISTRANT_HOST_BYTES];
	struct tgt_reservation next;
	bool changed;

	reserve.initiator = padded(name);
	reserve.host = host;
	assert_int_equal(tgt_reservations_begin(&rig->volume.reservations, &reserve, &next, &changed), RBLK_OK);
	assert_true(changed);
	tgt_reservations_commit(&rig->volume.reservations, &next,
				&(struct tgt_reservation_by){.aborts = reserve.flags & RBLK_RESERVE_ABORT});
	tgt_reservations_end(&rig->volume.reservations);
}

static void registers(const char *name, uint64_t key)
{
	change(name, (struct tgt_reserve){.action = RBLK_RESERVE_REGISTER, .new_key = key});
}

static int begin(void **state)
{
	static const uint8_t uuid[16] = {1};
	char error[TGT_ERROR_BYTES];

	(void)state;
	rig = calloc(1, sizeof(*rig));
	assert_non_null(rig);
	tgt_work_init(&rig->reactor.loop);
	TAILQ_INIT(&rig->reactor.sessions);
	TAILQ_INSERT_TAIL(&rig->reactor.sessions, &rig->session, link);
	rig->reactor.channels[0] = &rig->channel;
	rig->channel.volume = &rig->volume;
	assert_int_equal(tgt_reservations_init(&rig->volume.reservations, NULL, uuid, NULL, error), 0);
	tgt_reservations_join(&rig->volume.reservations, &rig->channel.subscriber, &rig->reactor);
	rig->session.reactor = &rig->reactor;
	rig->session.handles = rig->handles;
	rig->session.handle_slots = 1;
	rig->session.slots[0].queue = &rig->queue;
	rig->handles[0] = &rig->handle;
	rig->handle.session = &rig->session;
	rig->handle.access.channel = &rig->channel;
	pthread_mutex_init(&rig->session.lock, NULL);
	registers("a", 1);
	registers("b", 2);
	tgt_rights_name(&rig->session, padded("a"));
	assert_int_equal(rig->revoked, 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	pthread_mutex_destroy(&rig->session.lock);
	tgt_reservations_leave(&rig->volume.reservations, &rig->channel.subscriber);
	tgt_reservations_fini(&rig->volume.reservations);
	free(rig);
	return 0;
}

static void what_the_old_name_has_lost_is_taken_first(void **state)
{
	(void)state;
	/* Now `b` alone may write. */
	change("b", (struct tgt_reserve){.action = RBLK_RESERVE_ACQUIRE, .key = 2, .type = RBLK_RESERVATION_WRITE_EXCLUSIVE});
	tgt_rights_name(&rig->session, padded("b"));
	assert_int_equal(rig->revoked, 1);
	assert_string_equal(rig->name, "a");
	assert_true(rig->refused & TGT_REFUSED_WRITE);
	/* Whoever has the name has its rights. */
	assert_int_equal(rig->handle.access.refused, 0);
	assert_string_equal(rig->session.initiator, "b");
	assert_true(tgt_reservations_seen(&rig->volume.reservations, &rig->channel.subscriber));
}

/* Its commands end, too. */
static void who_was_preempted_is_aborted_under_its_old_name(void **state)
{
	(void)state;
	change("b", (struct tgt_reserve){.action = RBLK_RESERVE_PREEMPT, .flags = RBLK_RESERVE_ABORT, .key = 2, .other_key = 1,
					 .type = RBLK_RESERVATION_WRITE_EXCLUSIVE});
	tgt_rights_name(&rig->session, padded("b"));
	assert_int_equal(rig->revoked, 1);
	assert_string_equal(rig->name, "a");
	assert_true(rig->aborts);
}

static void what_the_new_name_may_not_is_taken(void **state)
{
	(void)state;
	change("a", (struct tgt_reserve){.action = RBLK_RESERVE_ACQUIRE, .key = 1, .type = RBLK_RESERVATION_WRITE_EXCLUSIVE});
	tgt_rights_changed(&rig->reactor, &rig->volume);
	assert_int_equal(rig->revoked, 0);
	tgt_rights_name(&rig->session, padded("b"));
	assert_int_equal(rig->revoked, 1);
	assert_string_equal(rig->name, "b");
	assert_true(rig->handle.access.refused & TGT_REFUSED_WRITE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_the_old_name_has_lost_is_taken_first, begin, end),
		cmocka_unit_test_setup_teardown(who_was_preempted_is_aborted_under_its_old_name, begin, end),
		cmocka_unit_test_setup_teardown(what_the_new_name_may_not_is_taken, begin, end),
	};

	return cmocka_run_group_tests_name("target rights", tests, NULL, NULL);
}
