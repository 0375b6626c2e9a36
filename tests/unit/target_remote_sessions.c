/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what a session shares between reactors keeps its order, whichever letter is late: a CLOSE is answered when no reactor
 * uses the handle any more, none opens a handle whose CLOSE waits, a login that another reactor refuses takes back no
 * FENCE, and what only a store has of a session keeps none of its other volumes open. Method: a session and two remote sessions of it on reactors made by the test, which delivers their messages when it likes.
 */
#include "tests/unit/unit.h"
#include <stdlib.h>
#include <string.h>
#include "target/io/work.h"
#include "target/serve/handle.h"
#include "target/serve/remote_queue.h"
#include "target/serve/session_command.h"

#define HANDLE (1u << 10)

static struct rig {
	struct tgt_peers peers;
	struct tgt_reactor reactors[3]; /* the home's, and two others */
	struct tgt_session sessions[3]; /* the home, and its remote sessions there */
	struct tgt_remote_queue remote_queue[3]; /* of the remote sessions' queues */
	struct tgt_handle *handle;	/* the home's */
	struct tgt_request closer;
	struct tgt_message *messages[8];
	struct tgt_reactor *to[8];
	unsigned int sent, delivered, answers;
	enum rblk_status answer;
} *rig;

void __wrap_tgt_reactor_send(struct tgt_reactor *to, struct tgt_message *message);
void __wrap_tgt_reactor_send(struct tgt_reactor *to, struct tgt_message *message)
{
	assert_true(rig->sent < UNIT_LENGTH(rig->messages));
	/* Whoever reads it at once finds the handle closed at the home. */
	assert_true(!rig->handle || to == &rig->reactors[0] || rig->handle->closing);
	rig->to[rig->sent] = to;
	rig->messages[rig->sent++] = message;
}

void __wrap_tgt_request_complete(struct tgt_request *request, enum rblk_status status);
void __wrap_tgt_request_complete(struct tgt_request *request, enum rblk_status status)
{
	rig->answers++;
	rig->answer = status;
}

bool __wrap_tgt_request_hold(struct tgt_request *request, bool (*leave)(struct tgt_request *), void *held);
bool __wrap_tgt_request_hold(struct tgt_request *request, bool (*leave)(struct tgt_request *), void *held)
{
	return true;
}

static void deliver(void)
{
	unsigned int next = rig->delivered++;

	assert_true(next < rig->sent);
	rig->messages[next]->run(rig->to[next], rig->messages[next]);
}

static void session_begin(unsigned int i)
{
	struct tgt_session *session = &rig->sessions[i];

	session->reactor = &rig->reactors[i];
	session->home = i ? &rig->sessions[0] : NULL;
	session->id[0] = 7;
	session->epoch = 1;
	pthread_mutex_init(&session->lock, NULL);
	for (unsigned int slot = 0; slot < RBLK_QUEUES_MAX; slot++)
		TAILQ_INIT(&session->slots[slot].asks);
	TAILQ_INSERT_TAIL(&rig->reactors[i].sessions, session, link);
	if (!i)
		return;
	rig->remote_queue[i].reactor = &rig->reactors[i];
	rig->sessions[0].slots[i].away = &rig->remote_queue[i];
	rig->sessions[0].queues_away++;
}

/* Of a volume that was removed, so that no store is needed. */
static void handle_begin(void)
{
	struct tgt_session *home = &rig->sessions[0];

	rig->handle = calloc(1, sizeof(*rig->handle));
	home->handles = calloc(4, sizeof(*home->handles));
	assert_true(rig->handle && home->handles);
	home->handle_slots = 4;
	home->handles_open = 1;
	home->handles[0] = rig->handle;
	rig->handle->session = home;
	rig->handle->id = HANDLE;
}

static int begin(void **state)
{
	(void)state;
	rig = calloc(1, sizeof(*rig));
	assert_non_null(rig);
	atomic_init(&rig->peers.count, 3);
	for (unsigned int i = 0; i < 3; i++) {
		rig->peers.reactors[i] = &rig->reactors[i];
		rig->reactors[i].peers = &rig->peers;
		TAILQ_INIT(&rig->reactors[i].sessions);
		tgt_work_init(&rig->reactors[i].loop);
		session_begin(i);
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		tgt_handle_close_all(&rig->sessions[i]);
		pthread_mutex_destroy(&rig->sessions[i].lock);
	}
	free(rig);
	return 0;
}

/* A command on another reactor names the handle. */
static struct tgt_handle *use(unsigned int remote, enum rblk_status *status)
{
	return tgt_handle_use(&rig->sessions[remote], HANDLE, status);
}

/* A CLOSE waits for a command that has it in the first remote session: returned. */
static struct tgt_handle *close_while_used(void)
{
	enum rblk_status status;
	struct tgt_handle *used;

	handle_begin();
	used = use(1, &status);
	assert_non_null(used);
	tgt_access_get(&used->access);
	assert_int_equal(tgt_handle_close(rig->handle), RBLK_E_BUSY);
	rig->handle->closer = &rig->closer;
	return used;
}

static void a_close_waits_for_commands_everywhere(void **state)
{
	struct tgt_handle *used = close_while_used();

	(void)state;
	assert_int_equal(rig->sent, 2); /* to both remote sessions */
	deliver();
	deliver();
	/* The second had not opened it, and answers at once. */
	assert_int_equal(rig->sent, 3);
	deliver();
	assert_int_equal(rig->answers, 0);
	tgt_access_put(&used->access);
	assert_int_equal(rig->answers, 0);
	assert_int_equal(rig->sent, 4);
	rig->handle = NULL; /* it ends now */
	deliver();
	assert_int_equal(rig->answers, 1);
	assert_int_equal(rig->answer, RBLK_OK);
	assert_int_equal(rig->sessions[0].handles_open, 0);
}

static void no_reactor_opens_what_is_being_closed(void **state)
{
	struct tgt_handle *used = close_while_used();
	enum rblk_status status;

	(void)state;
	/* Before the letter has come, and behind it. */
	assert_null(use(2, &status));
	assert_int_equal(status, RBLK_E_NO_VOLUME);
	deliver();
	deliver();
	for (unsigned int remote = 1; remote < 3; remote++) {
		assert_null(use(remote, &status));
		assert_int_equal(status, RBLK_E_NO_VOLUME);
	}
	tgt_access_put(&used->access);
	deliver();
	rig->handle = NULL;
	deliver();
	assert_int_equal(rig->answers, 1);
}

/* -- logins ------------------------------------------------------------------------------------ */

/* A login of queue 1 goes to another reactor, which refuses it; FENCE meanwhile, if it is not 0. Returns the incarnation that
 * its slot remembers. */
static uint32_t refused(uint32_t incarnation, uint32_t fence)
{
	struct tgt_login login = {
		.wire = {.queue_index = rblk_to_le16(1), .incarnation = rblk_to_le32(incarnation)}};
	struct tgt_session *home = &rig->sessions[0];
	struct tgt_queue_slot *slot = &home->slots[1];
	struct tgt_queue queue = {.session = home};
	struct tgt_request request = {.io_queue = &queue.io_queue, .lba = 1, .argument = fence};
	const struct tgt_arguments arguments = {.volume = 0};
	struct tgt_remote_queue *remote_queue;

	slot->away = NULL;
	slot->incarnation = 3;
	remote_queue = tgt_remote_queue_create(home, &rig->reactors[1], &login);
	assert_non_null(remote_queue);
	tgt_remote_queue_send(remote_queue);
	rig->delivered = rig->sent; /* that reactor has it */
	assert_int_equal(slot->incarnation, incarnation);
	if (fence)
		assert_int_equal(tgt_fence_begin(&request, &arguments), TGT_UNANSWERED);
	tgt_remote_queue_end(remote_queue);
	tgt_fence_done(slot);
	/* That the queue be closed: there is none. */
	while (rig->delivered < rig->sent)
		deliver();
	return slot->incarnation;
}

static void a_refused_login_takes_back_no_fence(void **state)
{
	(void)state;
	/* It may come again. */
	assert_int_equal(refused(4, 0), 3);
	/* F5: the fenced incarnation, and those below, may not. */
	assert_int_equal(refused(4, 4), 4);
	assert_int_equal(refused(4, 9), 9);
	/* One that fences less is over at once, and changes nothing. */
	assert_int_equal(refused(4, 2), 3);
}

/* Its connections have ended, and its commands of one volume have: that one need not wait for those of another. */
static void a_volume_is_left_when_its_last_command_ends(void **state)
{
	struct tgt_session *remote = &rig->sessions[1];
	enum rblk_status status;
	struct tgt_handle *used;

	(void)state;
	handle_begin();
	remote->queues_here = 1;
	used = use(1, &status);
	assert_non_null(used);
	tgt_access_get(&used->access);
	tgt_access_put(&used->access);
	assert_int_equal(remote->handles_open, 1);
	tgt_access_get(&used->access);
	remote->queues_here = 0;
	remote->lingering = 1;
	tgt_handle_close_idle(remote);
	assert_int_equal(remote->handles_open, 1);
	tgt_access_put(&used->access);
	assert_int_equal(remote->handles_open, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_close_waits_for_commands_everywhere, begin, end),
		cmocka_unit_test_setup_teardown(no_reactor_opens_what_is_being_closed, begin, end),
		cmocka_unit_test_setup_teardown(a_refused_login_takes_back_no_fence, begin, end),
		cmocka_unit_test_setup_teardown(a_volume_is_left_when_its_last_command_ends, begin, end),
	};

	return cmocka_run_group_tests_name("target remote sessions", tests, NULL, NULL);
}
