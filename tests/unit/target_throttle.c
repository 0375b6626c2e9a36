/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a command that has to wait for a limit is counted once, however often it waits, with all the time of its waits,
 * whether it goes on or is ended; one that may begin at once is not counted. Method: requests of an I/O queue made by the
 * test, at a limit of one operation a second, on a clock of the test's; what a command does then is the test's, too.
 */
#include "target/io/throttle.h"
#include "tests/unit/target_queue_rig.h"

#define S 1000000000ull
#define TAGS 16u

static struct queue_rig *rig;
static struct tgt_counts counts;
static struct tgt_volume volume;
static struct tgt_channel channel = {.volume = &volume};
static struct tgt_token_bucket bucket;
static struct tgt_access access_limited = {.channel = &channel, .counts = &counts, .limited = true, .buckets = {&bucket}};
static unsigned int gone_on;
static struct tgt_request *last; /* that has */

/* Linked instead of request.c's. */
void __wrap_tgt_request_unlimited(struct tgt_request *request);
void __wrap_tgt_request_unlimited(struct tgt_request *request)
{
	bool begun = request->done_bytes > 0;

	assert_true(tgt_request_set_state(request, begun ? TGT_REQUEST_STORING : TGT_REQUEST_RECEIVED));
	gone_on++;
	last = request;
}

static int begin(void **state)
{
	static const struct fab_ops none;
	const struct tgt_limit_config config = {.iops = 1, .burst_ms = 100};
	struct tgt_limit *limit = tgt_limit_create(&config);

	(void)state;
	assert_non_null(limit);
	rig = queue_rig_create(&none, TAGS, 1);
	rig->loop.now_ns = 5 * S;
	tgt_token_bucket_init(&bucket, limit);
	TAILQ_INSERT_TAIL(&rig->loop.buckets, &bucket, link);
	counts = (struct tgt_counts){0};
	gone_on = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	tgt_token_bucket_fini(&bucket, rig->loop.now_ns);
	queue_rig_free(rig);
	return 0;
}

/* A new command in this slot. */
static struct tgt_request *arrive(uint16_t tag)
{
	struct tgt_request *request = &rig->io_queue.requests[tag];

	request->state = TGT_REQUEST_RECEIVED;
	request->opcode = RBLK_OP_READ;
	request->access = &access_limited;
	request->done_bytes = 0;
	request->limited_ns = 0;
	request->flags = 0;
	return request;
}

static void check_counts(uint64_t commands, uint64_t ns)
{
	assert_int_equal(counts.limited_commands, commands);
	assert_int_equal(counts.limited_ns, ns);
}

/* Until the one that waits goes on. In short steps: what a bucket does not ask for in time is lost. */
static void let_go_on(void)
{
	uint64_t from_ns = rig->loop.now_ns, before_ns = counts.limited_ns;

	gone_on = 0;
	do {
		assert_int_equal(counts.limited_ns, before_ns);
		assert_true(rig->loop.now_ns < from_ns + 10 * S);
		rig->loop.now_ns += S / 100;
		tgt_throttle_again(&rig->loop);
	} while (!tgt_throttle_resume(&rig->loop));
	assert_int_equal(gone_on, 1);
	assert_int_equal(counts.limited_ns, before_ns + rig->loop.now_ns - from_ns);
}

static void let_one_go_on(void)
{
	gone_on = 0;
	do {
		rig->loop.now_ns += S / 100;
		tgt_throttle_again(&rig->loop);
	} while (!tgt_throttle_resume(&rig->loop));
	assert_int_equal(gone_on, 1);
}

static void waits_are_counted(void **state)
{
	uint64_t all_ns;

	(void)state;
	assert_true(tgt_throttle_pass(arrive(0), false));
	check_counts(0, 0);
	assert_false(tgt_throttle_pass(arrive(1), false));
	check_counts(1, 0);
	let_go_on();
	all_ns = counts.limited_ns;
	check_counts(1, all_ns);
	/* The next command in its slot is another one. */
	assert_false(tgt_throttle_pass(arrive(1), false));
	check_counts(2, all_ns);
	let_go_on();
	assert_int_equal(counts.limited_commands, 2);
}

/* A CHECKSUM, before each of its pieces. */
static void a_command_that_waits_again_is_counted_once(void **state)
{
	struct tgt_request *request;
	uint64_t all_ns;

	(void)state;
	assert_true(tgt_throttle_pass(arrive(0), false));
	request = arrive(1);
	assert_false(tgt_throttle_pass(request, false));
	for (unsigned int piece = 1; piece < 4; piece++) {
		let_go_on();
		request->done_bytes += 4096;
		request->state = TGT_REQUEST_STORING;
		assert_false(tgt_throttle_pass(request, false));
		assert_int_equal(counts.limited_commands, 1);
	}
	/* It is aborted. */
	all_ns = counts.limited_ns;
	rig->loop.now_ns += S;
	assert_true(request->leave(request));
	check_counts(1, all_ns + S);
	assert_true(TAILQ_EMPTY(&rig->loop.limited));
}

/* A session's commands with priority take the places of its others, eight at most before one of these. */
static void priority_goes_first(void **state)
{
	(void)state;
	assert_true(tgt_throttle_pass(arrive(0), false));
	for (uint16_t tag = 1; tag < TAGS; tag++) {
		struct tgt_request *request = arrive(tag);

		request->flags = tag > 4 ? RBLK_CMD_PRIORITY : 0;
		assert_false(tgt_throttle_pass(request, false));
	}
	/* One of them is ended. */
	assert_true(rig->io_queue.requests[5].leave(&rig->io_queue.requests[5]));
	for (uint16_t tag = 6; tag < 6 + TGT_PRIORITY_MOST; tag++) {
		let_one_go_on();
		assert_ptr_equal(last, &rig->io_queue.requests[tag]);
	}
	let_one_go_on();
	assert_ptr_equal(last, &rig->io_queue.requests[1]);
	for (uint16_t tag = 6 + TGT_PRIORITY_MOST; tag < TAGS; tag++) {
		let_one_go_on();
		assert_ptr_equal(last, &rig->io_queue.requests[tag]);
	}
	for (uint16_t tag = 2; tag <= 4; tag++) {
		let_one_go_on();
		assert_ptr_equal(last, &rig->io_queue.requests[tag]);
	}
	assert_true(TAILQ_EMPTY(&rig->loop.limited) && TAILQ_EMPTY(&rig->share.limited) &&
		    TAILQ_EMPTY(&rig->share.limited_priority));
}

/* Whoever goes on comes again at once, so that some always wait: of those without priority each goes when it is the
 * oldest. */
static void nobody_waits_for_ever(void **state)
{
	(void)state;
	assert_true(tgt_throttle_pass(arrive(0), false));
	for (uint16_t plain = 1; plain <= 4; plain++)
		for (uint16_t all = (uint16_t)(plain + 1); all <= TAGS - 1; all++) {
			unsigned int begun = 0, quick = 0;

			for (uint16_t tag = 1; tag <= all; tag++) {
				struct tgt_request *request = arrive(tag);

				request->flags = tag > plain ? RBLK_CMD_PRIORITY : 0;
				assert_false(tgt_throttle_pass(request, false));
			}
			while (begun < 3 * plain) {
				uint8_t flags;

				let_one_go_on();
				flags = last->flags;
				if (flags & RBLK_CMD_PRIORITY)
					quick++;
				else
					assert_ptr_equal(last, &rig->io_queue.requests[1 + begun++ % plain]);
				arrive(last->tag)->flags = flags;
				assert_false(tgt_throttle_pass(last, false));
			}
			assert_true(quick <= 3 * plain * (TGT_PRIORITY_MOST + TAGS));
			for (uint16_t tag = 1; tag <= all; tag++)
				rig->io_queue.requests[tag].leave(&rig->io_queue.requests[tag]);
		}
}

/* A drain lets all go on. */
static void each_that_waits_is_counted(void **state)
{
	(void)state;
	assert_true(tgt_throttle_pass(arrive(0), false));
	assert_false(tgt_throttle_pass(arrive(0), false));
	rig->loop.now_ns += S / 10;
	assert_false(tgt_throttle_pass(arrive(1), false));
	check_counts(2, 0);
	rig->loop.now_ns += S / 10;
	rig->loop.draining = true;
	assert_int_equal(tgt_throttle_resume(&rig->loop), 2);
	check_counts(2, 3 * (S / 10));
}

/* The bytes that this one has paid for. */
static uint64_t paid(uint8_t opcode, bool writes_zeroes)
{
	static const struct tgt_limit_config config = {.rate_bytes = 1000000000, .burst_ms = 100};
	struct tgt_store store = {.info.writes_zeroes = writes_zeroes};
	struct tgt_token_bucket before = bucket;
	struct tgt_request *request;
	uint64_t used_ns;

	volume.store = &store;
	volume.block_bytes = 512;
	tgt_token_bucket_init(&bucket, tgt_limit_create(&config));
	request = arrive(0);
	request->opcode = opcode;
	request->blocks = 1000;
	request->length = opcode == RBLK_OP_WRITE ? 1000 * 512 : 0;
	assert_true(tgt_throttle_pass(request, false));
	used_ns = bucket.kinds[TGT_LIMIT_BYTES].used_ns;
	tgt_token_bucket_fini(&bucket, rig->loop.now_ns);
	bucket = before;
	return used_ns;
}

/* What has to be written counts, however it was asked for. */
static void zeroes_count_where_they_are_written(void **state)
{
	(void)state;
	assert_int_equal(paid(RBLK_OP_WRITE, false), 1000 * 512);
	assert_int_equal(paid(RBLK_OP_WRITE_ZEROES, true), 1000 * 512);
	assert_int_equal(paid(RBLK_OP_WRITE_ZEROES, false), 0);
	assert_int_equal(paid(RBLK_OP_DISCARD, true), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(priority_goes_first, begin, end),
		cmocka_unit_test_setup_teardown(nobody_waits_for_ever, begin, end),
		cmocka_unit_test_setup_teardown(waits_are_counted, begin, end),
		cmocka_unit_test_setup_teardown(a_command_that_waits_again_is_counted_once, begin, end),
		cmocka_unit_test_setup_teardown(each_that_waits_is_counted, begin, end),
		cmocka_unit_test_setup_teardown(zeroes_count_where_they_are_written, begin, end),
	};

	return cmocka_run_group_tests_name("target limited", tests, NULL, NULL);
}
