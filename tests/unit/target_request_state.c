/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a request changes its state only in the allowed ways. Any other change is refused with a
 * line in the log, and ends the connection, which releases what the queue still owns of the
 * request. Method: every pair of states, on a queue made by the test with one request that is where
 * its state says; the allowed changes are listed here a second time.
 */
#include "tests/unit/target_queue_rig.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "target/io/request.h"

/* By state left: the states that may follow. F(ree), R(eceived), W(aiting), (data) I(n),
 * S(toring), H(eld), (data) O(ut), (re)P(lying), L(imited). */
static const char letters[] = "FRWISHOPL";
static const char *const steps[TGT_REQUEST_STATES] = {
	[TGT_REQUEST_FREE] = "R",      [TGT_REQUEST_RECEIVED] = "WISHOPLF",
	[TGT_REQUEST_WAITING] = "ISPF", [TGT_REQUEST_DATA_IN] = "SPF",
	[TGT_REQUEST_STORING] = "WOPFL",[TGT_REQUEST_HELD] = "OPF",
	[TGT_REQUEST_DATA_OUT] = "F",  [TGT_REQUEST_REPLYING] = "F",
	[TGT_REQUEST_LIMITED] = "RSPF",
};

static unsigned int closed;

static void fake_conn_close(struct fab_conn *conn)
{
	closed++;
}

static const struct fab_ops fake_ops = { .conn_close = fake_conn_close };

/* Of a request that waits for its limit. */
static void opened_idle(struct tgt_access *access)
{
	(void)access;
}

static struct tgt_counts counts;
static struct tgt_channel channel;
static struct tgt_access opened = {.channel = &channel, .counts = &counts, .idle = opened_idle};

/* Of its portion. */
static struct tgt_request_list waiting;

/* The list that the request is in, and how it leaves it. */
static struct tgt_request_list *listed;

static bool leave(struct tgt_request *request)
{
	TAILQ_REMOVE(listed, request, link);
	return true;
}

static bool leave_nothing(struct tgt_request *request)
{
	return true;
}

static void list(struct tgt_request *request, struct tgt_request_list *in)
{
	listed = in;
	TAILQ_INSERT_TAIL(in, request, link);
	request->leave = leave;
}

/* A queue whose only request is in `state`, and in the list that belongs to it. */
static struct queue_rig *rig_create(enum tgt_request_state state)
{
	struct queue_rig *rig = queue_rig_create(&fake_ops, 1, 1);
	struct tgt_io_queue *io_queue = &rig->io_queue;
	struct tgt_request *request = &io_queue->requests[0];

	closed = 0;
	TAILQ_INIT(&waiting);
	request->opcode = RBLK_OP_READ;
	request->data_bytes = 4096; /* a READ that is still to be posted */
	request->state = (uint8_t)state;
	io_queue->active = state != TGT_REQUEST_FREE;
	if (state == TGT_REQUEST_WAITING)
		list(request, &waiting);
	if (state == TGT_REQUEST_LIMITED) {
		request->access = &opened;
		opened.users = 1;
		list(request, &rig->loop.limited);
	}
	if (state == TGT_REQUEST_HELD)
		request->leave = leave_nothing;
	if (state == TGT_REQUEST_DATA_IN)
		list(request, &io_queue->fetching.plain);
	if (state == TGT_REQUEST_DATA_OUT || state == TGT_REQUEST_REPLYING)
		list(request, &io_queue->done.plain);
	return rig;
}

static void a_step_is_taken(enum tgt_request_state from, enum tgt_request_state to)
{
	struct queue_rig *rig = rig_create(from);

	assert_true(tgt_request_set_state(&rig->io_queue.requests[0], to));
	assert_int_equal(rig->io_queue.requests[0].state, to);
	assert_true(rig->io_queue.open);
	assert_int_equal(closed, 0);
	queue_rig_free(rig);
}

/* In these states only the queue has the request: closing ends it. */
static bool ends_with_its_queue(enum tgt_request_state state)
{
	return state != TGT_REQUEST_RECEIVED && state != TGT_REQUEST_STORING;
}

static void what_is_no_step_is_refused(enum tgt_request_state from, enum tgt_request_state to)
{
	struct queue_rig *rig = rig_create(from);
	struct tgt_io_queue *io_queue = &rig->io_queue;

	assert_false(tgt_request_set_state(&rig->io_queue.requests[0], to));
	assert_false(io_queue->open);
	assert_int_equal(closed, 1);
	assert_true(TAILQ_EMPTY(&waiting));
	assert_true(TAILQ_EMPTY(&io_queue->fetching.plain));
	assert_true(TAILQ_EMPTY(&io_queue->done.plain));
	if (ends_with_its_queue(from)) {
		assert_int_equal(rig->io_queue.requests[0].state, TGT_REQUEST_FREE);
		assert_int_equal(io_queue->active, 0);
	} else {
		assert_int_equal(rig->io_queue.requests[0].state, from);
		assert_int_equal(io_queue->active, 1);
	}
	queue_rig_free(rig);
}

static void every_pair_of_states(void **state)
{
	(void)state;
	for (int from = 0; from < TGT_REQUEST_STATES; from++)
		for (int to = 0; to < TGT_REQUEST_STATES; to++)
			if (strchr(steps[from], letters[to]))
				a_step_is_taken(from, to);
			else
				what_is_no_step_is_refused(from, to);
}

/* An answer given twice: the second one changes nothing, and is logged. */
static void a_second_answer_is_refused(void **state)
{
	struct queue_rig *rig = rig_create(TGT_REQUEST_STORING);
	int saved = dup(STDERR_FILENO);
	char said[1024] = "";
	FILE *log = tmpfile();

	(void)state;
	assert_non_null(log);
	rig->io_queue.session_number = 7;
	tgt_request_complete(&rig->io_queue.requests[0], RBLK_E_IO);
	assert_ptr_equal(TAILQ_FIRST(&rig->io_queue.done.plain), &rig->io_queue.requests[0]);
	dup2(fileno(log), STDERR_FILENO);
	tgt_request_complete(&rig->io_queue.requests[0], RBLK_OK);
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(log);
	assert_true(fread(said, 1, sizeof(said) - 1, log) > 0);
	fclose(log);
	assert_non_null(strstr(said, "session 7 queue 0 tag 0: internal error: "
				     "replying -> data out is not a step of a request"));
	assert_int_equal(closed, 1);
	assert_int_equal(rig->io_queue.requests[0].status, RBLK_E_IO);
	assert_int_equal(rig->io_queue.active, 0);
	assert_true(TAILQ_EMPTY(&rig->io_queue.done.plain));
	queue_rig_free(rig);
}

static void answered(struct tgt_request *request)
{
	tgt_request_complete(request, RBLK_E_DENIED);
	assert_int_equal(request->state, TGT_REQUEST_REPLYING);
}

static void held(struct tgt_request *request)
{
	assert_true(tgt_request_hold(request, leave_nothing, NULL));
}

static void left(struct tgt_request *request)
{
	assert_int_equal(request->state, TGT_REQUEST_RECEIVED);
}

/* A command whose effect closes its own connection goes on a little: the connection's end ends it, too. */
static void what_outlives_the_close_ends_when_drained(void **state)
{
	static void (*const ways[])(struct tgt_request *request) = {answered, held, left};

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(ways); i++) {
		struct queue_rig *rig = rig_create(TGT_REQUEST_RECEIVED);
		struct tgt_request *request = &rig->io_queue.requests[0];

		tgt_io_queue_close(&rig->io_queue);
		ways[i](request);
		tgt_io_queue_drained(&rig->io_queue);
		assert_int_equal(request->state, TGT_REQUEST_FREE);
		assert_int_equal(rig->io_queue.active, 0);
		assert_true(TAILQ_EMPTY(&rig->io_queue.done.plain));
		queue_rig_free(rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_pair_of_states),
		cmocka_unit_test(a_second_answer_is_refused),
		cmocka_unit_test(what_outlives_the_close_ends_when_drained),
	};

	return cmocka_run_group_tests_name("target request states", tests, NULL, NULL);
}
