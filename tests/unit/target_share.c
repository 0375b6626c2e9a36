/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a host has one share of the memory, however many sessions it has; a session leaves some to
 * the others of its host; and memory is kept free for a command that finds none, but only for a
 * bounded time. Method: shares and I/O queues made by the test, on a small pool.
 */
#include "tests/unit/unit.h"
#include <stdlib.h>
#include <string.h>
#include "target/io/request.h"
#include "target/io/share.h"
#include "target/io/work.h"
#include "target/store/channel.h"

#define PAGES 64u
#define SESSIONS 80u

struct world {
	struct tgt_loop loop;
	void *memory;
	struct tgt_host_share greedy, other;
	struct tgt_share shares[SESSIONS];
	struct tgt_io_queue io_queues[SESSIONS];
	struct tgt_portion portions[SESSIONS]; /* of a volume; `accesses` have it open */
	struct tgt_access accesses[SESSIONS];
	struct tgt_channel channel; /* no write range locks anything there */
	struct tgt_request requests[SESSIONS];
};

static void *take(struct world *world, unsigned int session, uint32_t bytes)
{
	return tgt_share_alloc(&world->io_queues[session], &world->portions[session], bytes);
}

static void io_queue_begin(struct world *world, unsigned int i, struct tgt_host_share *host)
{
	struct tgt_io_queue *io_queue = &world->io_queues[i];

	tgt_share_init(&world->shares[i], &world->loop, host);
	io_queue->loop = &world->loop;
	io_queue->share = &world->shares[i];
	io_queue->open = true;
	tgt_turns_init(&io_queue->fetching);
	tgt_turns_init(&io_queue->done);
	tgt_portion_init(&world->portions[i], &world->shares[i]);
	world->accesses[i].portion = &world->portions[i];
	world->accesses[i].channel = &world->channel;
	world->requests[i].io_queue = io_queue;
	world->requests[i].access = &world->accesses[i];
}

/* The last session belongs to the other host. */
static struct world *world_create(void)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	world->memory = aligned_alloc(TGT_POOL_PAGE, PAGES * TGT_POOL_PAGE);
	assert_non_null(world->memory);
	tgt_work_init(&world->loop);
	world->loop.now_ns = 100 * TGT_GATHER_PERIOD_NS;
	world->loop.pool = tgt_pool_create(world->memory, PAGES * TGT_POOL_PAGE,
					   PAGES * TGT_POOL_PAGE);
	assert_non_null(world->loop.pool);
	world->loop.reports = world->loop.pool;
	for (unsigned int i = 0; i < SESSIONS; i++)
		io_queue_begin(world, i, i == SESSIONS - 1 ? &world->other : &world->greedy);
	return world;
}

static void world_free(struct world *world)
{
	tgt_pool_destroy(world->loop.pool);
	free(world->memory);
	free(world);
}

static void a_host_has_one_share_however_many_sessions(void **state)
{
	struct world *world = world_create();
	unsigned int data = 0;

	(void)state;
	for (unsigned int i = 0; i < SESSIONS - 1; i++)
		data += take(world, i, TGT_POOL_PAGE) != NULL;
	assert_int_equal(data, PAGES * TGT_SHARE_OF_FREE / (TGT_SHARE_OF_FREE + 1));
	assert_non_null(take(world, SESSIONS - 1, TGT_POOL_PAGE));
	world_free(world);
}

static void reports_are_shared_likewise(void **state)
{
	struct world *world = world_create();
	unsigned int reports = 0;

	(void)state;
	for (unsigned int i = 0; i < SESSIONS - 1; i++)
		reports += tgt_share_alloc_report(&world->io_queues[i], TGT_POOL_PAGE) != NULL;
	assert_int_equal(reports, PAGES * TGT_SHARE_OF_FREE / (TGT_SHARE_OF_FREE + 1));
	assert_non_null(tgt_share_alloc_report(&world->io_queues[SESSIONS - 1], TGT_POOL_PAGE));
	world_free(world);
}

static void a_session_leaves_something_to_others_of_its_host(void **state)
{
	struct world *world = world_create();
	struct tgt_portion portions[PAGES + 3];
	unsigned int pages, all = 0;

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		/* Each for a volume of its own, so that only the session's share counts. */
		pages = 0;
		do
			tgt_portion_init(&portions[all + pages], &world->shares[i]);
		while (tgt_share_alloc(&world->io_queues[i], &portions[all + pages], TGT_POOL_PAGE) && ++pages);
		all += pages;
		assert_true(pages > 0);
		/* A host alone gets nine sixteenths of the pool. */
		assert_true(i || pages == PAGES * 9 / 16);
		assert_int_equal(world->greedy.data_bytes, all * TGT_POOL_PAGE);
	}
	world_free(world);
}

static void what_is_given_back_is_there_again(void **state)
{
	struct world *world = world_create();
	void *block = take(world, 0, TGT_POOL_PAGE);

	(void)state;
	assert_int_equal(world->shares[0].data_bytes, TGT_POOL_PAGE);
	tgt_portion_give(&world->portions[0], TGT_POOL_PAGE);
	tgt_share_free(&world->io_queues[0], block, TGT_POOL_PAGE, false);
	assert_int_equal(world->shares[0].data_bytes, 0);
	assert_int_equal(world->greedy.data_bytes, 0);
	assert_true(world->loop.memory_freed);
	world_free(world);
}

/* A large READ of the other host, for which the pool has no block of its size. */
static void large_read_waits(struct world *world)
{
	struct tgt_request *request = &world->requests[SESSIONS - 1];

	request->opcode = RBLK_OP_READ;
	request->state = TGT_REQUEST_RECEIVED;
	tgt_request_get_memory(request, PAGES * TGT_POOL_PAGE / 2);
	assert_int_equal(request->state, TGT_REQUEST_WAITING);
}

static void memory_is_gathered_for_a_bounded_time(void **state)
{
	struct world *world = world_create();
	struct tgt_loop *loop = &world->loop;

	(void)state;
	for (unsigned int i = 0; i < PAGES * 3 / 4; i++)
		assert_non_null(take(world, i, TGT_POOL_PAGE));
	large_read_waits(world);
	assert_true(loop->short_of_memory);
	loop->now_ns += TGT_GATHER_NS - 1;
	tgt_work_expire(loop);
	assert_true(loop->short_of_memory);
	loop->now_ns++;
	tgt_work_expire(loop);
	/* Other commands are served again, and it goes on waiting. */
	assert_false(loop->short_of_memory);
	assert_true(loop->memory_freed);
	tgt_work_feed(loop);
	assert_false(loop->short_of_memory);
	assert_int_equal(world->requests[SESSIONS - 1].state, TGT_REQUEST_WAITING);
	/* In the next period memory is kept free again. */
	loop->now_ns += TGT_GATHER_PERIOD_NS - TGT_GATHER_NS;
	loop->memory_freed = true;
	tgt_work_feed(loop);
	assert_true(loop->short_of_memory);
	assert_true(world->requests[SESSIONS - 1].leave(&world->requests[SESSIONS - 1]));
	world_free(world);
}

/* A host that has only used up its own share does not make others wait. */
static void a_share_that_is_used_up_gathers_nothing(void **state)
{
	struct world *world = world_create();
	struct tgt_request *request = &world->requests[SESSIONS - 2];

	(void)state;
	for (unsigned int i = 0; i < PAGES * 3 / 4; i++)
		assert_non_null(take(world, i, TGT_POOL_PAGE));
	request->opcode = RBLK_OP_READ;
	request->state = TGT_REQUEST_RECEIVED;
	tgt_request_get_memory(request, TGT_POOL_PAGE);
	assert_int_equal(request->state, TGT_REQUEST_WAITING);
	assert_false(world->loop.short_of_memory);
	assert_true(request->leave(request));
	world_free(world);
}

/* -- volumes of a session ---------------------------------------------------------------------- */

static void never_idle(struct tgt_access *access)
{
}

/* WRITEs of a page, whose data is to be fetched; `other` is another volume of session 0. */
struct writes {
	struct world *world;
	struct tgt_portion other_portion;
	struct tgt_access other;
	struct tgt_request requests[PAGES];
	unsigned int count;
};

static struct tgt_request *write_flagged(struct writes *writes, struct tgt_access *access, uint8_t flags)
{
	struct tgt_request *request = &writes->requests[writes->count++];

	access->idle = never_idle;
	tgt_access_get(access);
	request->io_queue = &writes->world->io_queues[0];
	request->access = access;
	request->opcode = RBLK_OP_WRITE;
	request->flags = flags;
	request->state = TGT_REQUEST_RECEIVED;
	tgt_request_get_memory(request, TGT_POOL_PAGE);
	return request;
}

static struct tgt_request *write_page(struct writes *writes, struct tgt_access *access)
{
	return write_flagged(writes, access, 0);
}

/* Writes to the first volume until one waits, which is returned. */
static struct tgt_request *writes_begin(struct writes *writes)
{
	struct tgt_request *request;

	memset(writes, 0, sizeof(*writes));
	writes->world = world_create();
	tgt_portion_init(&writes->other_portion, &writes->world->shares[0]);
	writes->other.portion = &writes->other_portion;
	writes->other.channel = &writes->world->channel;
	do
		request = write_page(writes, &writes->world->accesses[0]);
	while (request->state == TGT_REQUEST_DATA_IN);
	assert_int_equal(request->state, TGT_REQUEST_WAITING);
	return request;
}

static void writes_end(struct writes *writes)
{
	assert_true(TAILQ_EMPTY(&writes->world->loop.bounded));
	assert_true(TAILQ_EMPTY(&writes->world->loop.starving));
	world_free(writes->world);
}

static void done(struct tgt_request *request)
{
	TAILQ_REMOVE(&request->io_queue->fetching.plain, request, link);
	tgt_request_free_data(request);
}

/* What waits for its volume's share is passed by commands for another volume, and by none for its own. */
static void a_volume_leaves_memory_to_others_of_its_session(void **state)
{
	struct writes writes;
	struct tgt_request *first = writes_begin(&writes), *second, *last;

	(void)state;
	assert_int_equal(writes.count - 1, PAGES * 27 / 64);
	second = write_page(&writes, &writes.world->accesses[0]);
	assert_int_equal(second->state, TGT_REQUEST_WAITING);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(write_page(&writes, &writes.other)->state, TGT_REQUEST_DATA_IN);
	last = &writes.requests[writes.count - 1];
	/* Memory of the other volume does not let it go on, that of its own does, in their order. */
	done(last);
	tgt_work_feed(&writes.world->loop);
	assert_int_equal(first->state, TGT_REQUEST_WAITING);
	for (unsigned int i = 0; first->state == TGT_REQUEST_WAITING; i++) {
		done(&writes.requests[i]);
		assert_true(tgt_work_has_more(&writes.world->loop));
		tgt_work_feed(&writes.world->loop);
	}
	assert_int_equal(second->state, TGT_REQUEST_WAITING);
	assert_true(second->leave(second));
	tgt_request_drop(second);
	writes_end(&writes);
}

/* Commands with priority get memory first, also that which others wait for; but eight at most before one of these. */
static void priority_gets_memory_first(void **state)
{
	struct writes writes;
	struct tgt_request *first = writes_begin(&writes), *late, *priority[TGT_PRIORITY_MOST];
	struct tgt_access *access = &writes.world->accesses[0];
	struct tgt_loop *loop = &writes.world->loop;

	(void)state;
	for (unsigned int i = 0; i < TGT_PRIORITY_MOST; i++) {
		priority[i] = write_flagged(&writes, access, RBLK_CMD_PRIORITY);
		assert_int_equal(priority[i]->state, TGT_REQUEST_WAITING);
	}
	for (unsigned int i = 0; i < TGT_PRIORITY_MOST - 1; i++) {
		done(&writes.requests[i]);
		tgt_work_feed(loop);
		assert_int_equal(priority[i]->state, TGT_REQUEST_DATA_IN);
		assert_int_equal(first->state, TGT_REQUEST_WAITING);
	}
	assert_true(priority[TGT_PRIORITY_MOST - 1]->leave(priority[TGT_PRIORITY_MOST - 1]));
	tgt_request_drop(priority[TGT_PRIORITY_MOST - 1]);
	/* What is free is taken at once, by one more. */
	done(&writes.requests[TGT_PRIORITY_MOST]);
	assert_int_equal(write_flagged(&writes, access, RBLK_CMD_PRIORITY)->state, TGT_REQUEST_DATA_IN);
	late = write_flagged(&writes, access, RBLK_CMD_PRIORITY);
	assert_int_equal(late->state, TGT_REQUEST_WAITING);
	done(&writes.requests[TGT_PRIORITY_MOST + 1]);
	tgt_work_feed(loop);
	assert_int_equal(first->state, TGT_REQUEST_DATA_IN);
	assert_int_equal(late->state, TGT_REQUEST_WAITING);
	done(&writes.requests[TGT_PRIORITY_MOST + 2]);
	tgt_work_feed(loop);
	assert_int_equal(late->state, TGT_REQUEST_DATA_IN);
	writes_end(&writes);
}

/* For a session that has no memory at all they wait in their order; its turn then finds which of them may go on. */
static void who_waits_for_its_volume_keeps_no_queue_waiting(void **state)
{
	struct writes writes;
	struct tgt_request *slow = writes_begin(&writes), *good, *again;

	(void)state;
	do
		good = write_page(&writes, &writes.other);
	while (good->state == TGT_REQUEST_DATA_IN);
	/* Both volumes have their shares now, and wait for them. */
	assert_ptr_equal(TAILQ_FIRST(&writes.world->portions[0].waiting), slow);
	assert_ptr_equal(TAILQ_FIRST(&writes.other_portion.waiting), good);
	writes.world->loop.short_of_memory = true;
	tgt_share_gather(&writes.world->loop, true);
	again = write_page(&writes, &writes.other);
	assert_int_equal(again->state, TGT_REQUEST_WAITING);
	writes.world->loop.short_of_memory = false;
	for (unsigned int i = 0; i < writes.count; i++)
		if (writes.requests[i].state == TGT_REQUEST_DATA_IN && writes.requests[i].access == &writes.other)
			done(&writes.requests[i]);
	tgt_work_feed(&writes.world->loop);
	assert_int_equal(good->state, TGT_REQUEST_DATA_IN);
	assert_int_equal(again->state, TGT_REQUEST_DATA_IN);
	assert_int_equal(slow->state, TGT_REQUEST_WAITING);
	assert_true(slow->leave(slow));
	tgt_request_drop(slow);
	writes_end(&writes);
}

/* They are answered BUSY in time, too; the time runs from when they began to wait. */
static void who_waits_for_its_volume_is_busy_in_time(void **state)
{
	struct writes writes;
	struct tgt_request *slow = writes_begin(&writes), *priority;
	struct tgt_counts counts = {0};

	(void)state;
	priority = write_flagged(&writes, &writes.world->accesses[0], RBLK_CMD_PRIORITY);
	writes.world->accesses[0].counts = &counts;
	slow->received_ns = writes.world->loop.now_ns - TGT_MEMORY_WAIT_NS;
	writes.world->loop.now_ns += TGT_MEMORY_WAIT_NS - 1;
	tgt_work_expire(&writes.world->loop);
	assert_int_equal(slow->state, TGT_REQUEST_WAITING);
	writes.world->loop.now_ns++;
	tgt_work_expire(&writes.world->loop);
	assert_int_equal(slow->state, TGT_REQUEST_REPLYING);
	assert_int_equal(slow->status, RBLK_E_BUSY);
	assert_int_equal(priority->status, RBLK_E_BUSY);
	writes_end(&writes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_has_one_share_however_many_sessions),
		cmocka_unit_test(reports_are_shared_likewise),
		cmocka_unit_test(a_session_leaves_something_to_others_of_its_host),
		cmocka_unit_test(what_is_given_back_is_there_again),
		cmocka_unit_test(memory_is_gathered_for_a_bounded_time),
		cmocka_unit_test(a_share_that_is_used_up_gathers_nothing),
		cmocka_unit_test(a_volume_leaves_memory_to_others_of_its_session),
		cmocka_unit_test(who_waits_for_its_volume_keeps_no_queue_waiting),
		cmocka_unit_test(priority_gets_memory_first),
		cmocka_unit_test(who_waits_for_its_volume_is_busy_in_time),
	};

	return cmocka_run_group_tests_name("target shares", tests, NULL, NULL);
}
