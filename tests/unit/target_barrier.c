/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: before an OPEN for writing, every reactor has seen which connections have ended (F5): a
 * reactor answers after a whole turn in which its connections had nothing, or after a bounded
 * number of turns if it is never quiet. A barrier that is given up is freed when its last message is
 * back. An OPEN without memory for its barrier, or for itself, is answered NO_RESOURCES and leaves
 * nothing behind. One that is held waits for its barrier as long as that takes, and then for orphans for a
 * bounded time; a CLOSE of its handle ends it. Method: reactors made by the test, which delivers their messages itself, and
 * memory that it counts and refuses.
 */
#include "tests/unit/unit.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "proto/fabric/fabric_impl.h"
#include "target/base/log.h"
#include "target/serve/peers.h"
#include "target/serve/barrier.h"
#include "target/serve/reactor_impl.h"
#include "target/serve/queue.h"
#include "target/serve/session_command.h"

#define REACTORS 2u
#define HANDLE 1025u
/* More turns than any reactor may take for its answer. */
#define TURNS_MAX 1000u

static struct rig {
	struct tgt_peers peers;
	struct tgt_reactor reactors[REACTORS];
	struct fab fab;
	unsigned int arms;
	struct tgt_message *messages[REACTORS]; /* on its way to each reactor: one at a time */
} * rig;

/* -- memory of the code under test ---------------------------------------------------------------
 */

static unsigned int allocated;
static unsigned int refuse; /* the n-th allocation from now; 0: none */

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
	void *memory;

	if (refuse && !--refuse)
		return NULL;
	memory = __real_calloc(count, bytes);
	allocated += memory != NULL;
	return memory;
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
	allocated -= memory != NULL;
	__real_free(memory);
}

/* -- messages ------------------------------------------------------------------------------------
 */

static int fake_arm(struct fab *fab)
{
	(void)fab;
	rig->arms++;
	return 0;
}

static const struct fab_ops fake_ops = {.kind = FAB_TCP, .arm = fake_arm};

void __wrap_tgt_reactor_send(struct tgt_reactor *to, struct tgt_message *message);
void __wrap_tgt_reactor_send(struct tgt_reactor *to, struct tgt_message *message)
{
	unsigned int index = (unsigned int)(to - rig->reactors);

	assert_null(rig->messages[index]);
	rig->messages[index] = message;
}

/* A reactor runs the message that it has, in a turn in which its connections had so much. */
static void turn(unsigned int index, unsigned int polled)
{
	struct tgt_message *message = rig->messages[index];

	rig->messages[index] = NULL;
	rig->reactors[index].polled = polled;
	if (message)
		message->run(&rig->reactors[index], message);
}

static int setup(void **state)
{
	(void)state;
	tgt_log_set_level(TGT_LOG_ERROR);
	rig = __real_calloc(1, sizeof(*rig));
	assert_non_null(rig);
	rig->fab.ops = &fake_ops;
	for (unsigned int i = 0; i < REACTORS; i++) {
		struct tgt_reactor *reactor = &rig->reactors[i];

		reactor->peers = &rig->peers;
		reactor->is_peer = true;
		reactor->index = i;
		reactor->fabrics[0].fab = &rig->fab;
		reactor->fabric_count = 1;
		TAILQ_INIT(&reactor->pending);
		rig->peers.reactors[i] = reactor;
	}
	atomic_store(&rig->peers.count, REACTORS);
	allocated = refuse = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	__real_free(rig);
	return 0;
}

/* -- barriers ---------------------------------------------------------------------------------------
 */

/* Reactor 0 asks. Its own question is answered first, so that only reactor 1 is left. */
static struct tgt_barrier *barrier_of_the_other(void)
{
	struct tgt_barrier *barrier = tgt_barrier_begin(&rig->reactors[0]);

	assert_non_null(barrier);
	assert_non_null(rig->messages[0]);
	assert_non_null(rig->messages[1]);
	turn(0, 0);
	turn(0, 0); /* the answer is a message to itself */
	turn(0, 0);
	assert_null(rig->messages[0]);
	assert_false(tgt_barrier_is_over(barrier));
	return barrier;
}

static void it_is_over_after_a_quiet_turn_of_every_reactor(void **state)
{
	struct tgt_barrier *barrier = barrier_of_the_other();
	unsigned int arms = rig->arms;

	(void)state;
	/* It may have polled before it was asked: its first turn does not count. */
	turn(1, 0);
	assert_non_null(rig->messages[1]);
	assert_true(rig->arms > arms);
	assert_false(tgt_barrier_is_over(barrier));
	/* Its connections had something. */
	turn(1, 3);
	assert_non_null(rig->messages[1]);
	turn(1, 0);
	assert_null(rig->messages[1]);
	assert_false(tgt_barrier_is_over(barrier));
	turn(0, 0);
	assert_true(tgt_barrier_is_over(barrier));
	tgt_barrier_end(barrier);
	assert_int_equal(allocated, 0);
}

static void a_reactor_that_is_never_quiet_answers_too(void **state)
{
	struct tgt_barrier *barrier = barrier_of_the_other();
	unsigned int turns = 0;

	(void)state;
	while (rig->messages[1] && turns++ < TURNS_MAX)
		turn(1, 1);
	assert_null(rig->messages[1]);
	assert_true(turns > 1);
	turn(0, 1);
	assert_true(tgt_barrier_is_over(barrier));
	tgt_barrier_end(barrier);
	assert_int_equal(allocated, 0);
}

static void one_that_is_given_up_is_freed_with_its_last_letter(void **state)
{
	struct tgt_barrier *barrier = barrier_of_the_other();

	(void)state;
	tgt_barrier_end(barrier);
	assert_int_equal(allocated, 1);
	turn(1, 0);
	turn(1, 0);
	assert_int_equal(allocated, 1);
	turn(0, 0);
	assert_int_equal(allocated, 0);
}

/* -- OPEN ----------------------------------------------------------------------------------------
 */

static struct {
	struct tgt_volume volume;
	unsigned int references, completed, held;
	enum rblk_status status;
} open_;

void *__wrap_tgt_request_report_alloc(struct tgt_request *request, uint32_t bytes);
void *__wrap_tgt_request_report_alloc(struct tgt_request *request, uint32_t bytes)
{
	static struct rblk_wire_volume report;

	(void)request;
	assert_int_equal(bytes, sizeof(report));
	return &report;
}

struct tgt_volume *__wrap_tgt_volume_get(struct tgt_registry *registry, const char *name);
struct tgt_volume *__wrap_tgt_volume_get(struct tgt_registry *registry, const char *name)
{
	static struct tgt_store store;

	open_.volume.store = &store;
	(void)registry;
	(void)name;
	open_.references++;
	return &open_.volume;
}

void __wrap_tgt_volume_put(struct tgt_volume *volume);
void __wrap_tgt_volume_put(struct tgt_volume *volume)
{
	assert_ptr_equal(volume, &open_.volume);
	open_.references--;
}

void __wrap_tgt_request_complete(struct tgt_request *request, enum rblk_status status);
void __wrap_tgt_request_complete(struct tgt_request *request, enum rblk_status status)
{
	(void)request;
	open_.completed++;
	open_.status = status;
}

bool __wrap_tgt_request_hold(struct tgt_request *request, bool (*leave)(struct tgt_request *), void *held);
bool __wrap_tgt_request_hold(struct tgt_request *request, bool (*leave)(struct tgt_request *), void *held)
{
	(void)request;
	open_.held++;
	return true;
}

static void open_without_memory(unsigned int allocation)
{
	struct rblk_wire_open wire = {.name = "v"};
	const struct tgt_arguments arguments = {.capsule = (const char *)&wire, .capsule_bytes = sizeof(wire)};
	struct tgt_session session = {.reactor = &rig->reactors[0]};
	struct tgt_queue queue = {.io_queue.loop = &session.reactor->loop, .session = &session};
	struct tgt_request request = {.io_queue = &queue.io_queue};

	memset(&open_, 0, sizeof(open_));
	refuse = allocation;
	assert_int_equal(tgt_open_begin(&request, &arguments), RBLK_E_NO_RESOURCES);
	assert_null(request.held);
	assert_int_equal(refuse, 0);
	assert_int_equal(open_.references, 0);
	assert_int_equal(allocated, 0);
	assert_true(TAILQ_EMPTY(&rig->reactors[0].pending));
}

static void go_on(struct tgt_reactor *reactor)
{
	struct tgt_pending *pending = TAILQ_FIRST(&reactor->pending);

	pending->go_on(pending);
}

static void an_open_without_memory_is_refused(void **state)
{
	(void)state;
	open_without_memory(1);
}

static void an_open_without_memory_for_its_barrier_is_refused(void **state)
{
	(void)state;
	open_without_memory(2);
}

static void an_open_waits_for_slow_reactors_and_then_for_orphans(void **state)
{
	struct rblk_wire_open wire = {.name = "v"};
	struct tgt_reactor *reactor = &rig->reactors[0];
	const struct tgt_arguments arguments = {.capsule = (const char *)&wire, .capsule_bytes = sizeof(wire)};
	struct tgt_session session = {.reactor = reactor};
	struct tgt_queue queue = {.io_queue.loop = &reactor->loop, .session = &session};
	struct tgt_request request = {.io_queue = &queue.io_queue};
	uint8_t orphan;

	(void)state;
	memset(&open_, 0, sizeof(open_));
	orphan = tgt_orphans_begin(&open_.volume.orphans);
	assert_int_equal(tgt_open_begin(&request, &arguments), TGT_UNANSWERED);
	assert_int_equal(open_.held, 1);
	for (unsigned int i = 0; i < 3; i++)
		turn(0, 0);
	assert_null(rig->messages[0]);
	for (unsigned int turns = 0; rig->messages[1]; turns++) {
		assert_true(turns < TURNS_MAX);
		reactor->loop.now_ns += TGT_OPEN_WAIT_NS;
		go_on(reactor);
		assert_int_equal(open_.completed, 0);
		turn(1, 1);
	}
	turn(0, 0);
	/* The barrier is over: from here on its time counts. */
	go_on(reactor);
	reactor->loop.now_ns += TGT_OPEN_WAIT_NS - 1;
	go_on(reactor);
	assert_int_equal(open_.completed, 0);
	reactor->loop.now_ns++;
	go_on(reactor);
	assert_int_equal(open_.completed, 1);
	assert_int_equal(open_.status, RBLK_E_BUSY);
	assert_int_equal(open_.references, 0);
	assert_int_equal(allocated, 0);
	assert_true(TAILQ_EMPTY(&reactor->pending));
	tgt_orphans_end(&open_.volume.orphans, orphan);
}

static void a_close_ends_an_open_that_waits(void **state)
{
	struct rblk_wire_open wire = {.name = "v"};
	struct tgt_reactor *reactor = &rig->reactors[0];
	const struct tgt_arguments arguments = {
		.capsule = (const char *)&wire, .capsule_bytes = sizeof(wire), .volume = HANDLE};
	struct tgt_session session = {.reactor = reactor}, other = {.reactor = reactor};
	struct tgt_queue queue = {.io_queue.loop = &reactor->loop, .session = &session};
	struct tgt_request request = {.io_queue = &queue.io_queue};

	(void)state;
	memset(&open_, 0, sizeof(open_));
	assert_int_equal(tgt_open_begin(&request, &arguments), TGT_UNANSWERED);
	tgt_open_drop(&session, HANDLE + 1);
	tgt_open_drop(&other, HANDLE);
	assert_int_equal(open_.completed, 0);
	tgt_open_drop(&session, HANDLE);
	assert_int_equal(open_.completed, 1);
	assert_int_equal(open_.status, RBLK_E_ABORTED);
	assert_int_equal(open_.references, 0);
	assert_true(TAILQ_EMPTY(&reactor->pending));
	for (unsigned int i = 0; i < 3; i++)
		turn(0, 0);
	for (unsigned int i = 0; i < 2; i++)
		turn(1, 0);
	turn(0, 0);
	assert_int_equal(allocated, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_is_over_after_a_quiet_turn_of_every_reactor,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_reactor_that_is_never_quiet_answers_too, setup,
						teardown),
		cmocka_unit_test_setup_teardown(one_that_is_given_up_is_freed_with_its_last_letter,
						setup, teardown),
		cmocka_unit_test_setup_teardown(an_open_without_memory_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(an_open_without_memory_for_its_barrier_is_refused,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			an_open_waits_for_slow_reactors_and_then_for_orphans, setup, teardown),
		cmocka_unit_test_setup_teardown(a_close_ends_an_open_that_waits, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
