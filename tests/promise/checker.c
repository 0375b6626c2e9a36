/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the checker of the promise journal finds what breaks a promise, and nothing else: a flushed
 * write that is lost, a stale one, a torn block, another's block; and a journal that ends in the
 * middle of a line is used as far as it goes. Method: journals made by hand and a disk that is
 * written by hand, block by block.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/promise/block.h"
#include "tests/promise/run.h"

#define UNIT 4096u
#define BLOCKS 8u
#define RUN 99u

static struct fixture {
	char folder[32], disk[64], journal[64];
	int disk_fd, journal_fd;
} f;

static int setup(void **state)
{
	const struct promise_range range = {
		.run = RUN, .blocks = BLOCKS, .writer = 1, .unit = UNIT};

	(void)state;
	strcpy(f.folder, "/var/tmp/rblk-promise-XXXXXX");
	assert_non_null(mkdtemp(f.folder));
	snprintf(f.disk, sizeof(f.disk), "%s/disk", f.folder);
	snprintf(f.journal, sizeof(f.journal), "%s/journal", f.folder);
	f.disk_fd = open(f.disk, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(f.disk_fd, BLOCKS * UNIT), 0);
	f.journal_fd = promise_journal_open(f.journal, &range, 0);
	assert_true(f.journal_fd >= 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(f.disk_fd);
	close(f.journal_fd);
	unlink(f.disk);
	unlink(f.journal);
	return rmdir(f.folder);
}

static void line(const char *text)
{
	assert_int_equal(write(f.journal_fd, text, strlen(text)), strlen(text));
}

/* The block holds this write; from: the block for which it was made. */
static void put(uint64_t block, uint64_t from, uint64_t op, uint32_t writer, uint32_t sectors)
{
	const struct promise_value value = {
		.run = RUN, .op = op, .block = from, .time_ns = op, .writer = writer};
	unsigned char data[UNIT];

	promise_block_fill(data, UNIT, &value);
	assert_int_equal(pwrite(f.disk_fd, data, sectors * 512, (off_t)(block * UNIT)),
			 sectors * 512);
}

static void holds(uint64_t block, uint64_t op)
{
	put(block, block, op, 1, 8);
}

static void expect(enum promise_exit status, uint64_t broken, bool strict)
{
	const char *const journals[] = {f.journal};
	const struct promise_check check = {
		.journals = journals, .journal_count = 1, .disk = f.disk, .strict = strict};
	uint64_t found;

	assert_int_equal(promise_check(&check, &found), status);
	assert_int_equal(found, broken);
}

static void kept(void)
{
	expect(PROMISE_EXIT_OK, 0, false);
}

static void broken(uint64_t count)
{
	expect(PROMISE_EXIT_BROKEN, count, false);
}

static void lost_flushed_write(void **state)
{
	(void)state;
	line("B 1\nO 1\nW 1 1 3 2 0\nA 1 1\n");
	kept(); /* not flushed: it may be lost */
	expect(PROMISE_EXIT_BROKEN, 2, true);
	line("F 1 1\nG 1 1\n");
	broken(2);
	holds(3, 1);
	broken(1);
	holds(4, 1);
	kept();
	expect(PROMISE_EXIT_OK, 0, true);
}

/* A flush covers what was acknowledged before it began, and nothing else. */
static void flush_covers_what_was_before(void **state)
{
	(void)state;
	line("B 1\nO 1\nW 1 1 0 1 0\nA 1 1\nF 1 1\nW 1 2 1 1 0\nA 1 2\nW 1 3 2 1 0\nG 1 1\nA 1 "
	     "3\n");
	holds(0, 1);
	kept();
	line("W 1 4 5 1 1\n"); /* FUA */
	kept();
	line("A 1 4\n");
	broken(1);
	holds(5, 4);
	kept();
}

static void stale_write(void **state)
{
	(void)state;
	line("B 1\nO 1\nW 1 1 0 1 0\nA 1 1\nW 1 2 0 1 0\nA 1 2\n");
	holds(0, 1);
	kept();
	expect(PROMISE_EXIT_BROKEN, 1, true);
	line("F 1 1\nG 1 1\n");
	broken(1);
	holds(0, 2);
	kept();
}

/* A write without an answer may take effect late, but not in a later life. */
static void write_of_an_earlier_life(void **state)
{
	(void)state;
	line("B 1\nO 1\nW 1 1 0 1 0\n");
	kept();
	holds(0, 1);
	kept();
	line("B 2\nO 2\nW 2 2 0 1 1\nA 2 2\n");
	broken(1);
	holds(0, 2);
	kept();
}

/* An error that leaves open how far the write got; and one that says that it is over. */
static void write_that_failed(void **state)
{
	(void)state;
	line("B 1\nO 1\nW 1 1 0 1 0\nE 1 1 110 0\nW 1 2 0 1 1\nA 1 2\n");
	line("W 1 3 1 1 0\nE 1 3 5 1\nW 1 4 1 1 1\nA 1 4\n");
	holds(0, 1);
	holds(1, 4);
	kept();
	holds(1, 3);
	broken(1);
}

/* F7: what was not flushed may be lost from then on; what was, holds. */
static void flush_that_failed(void **state)
{
	(void)state;
	line("B 1\nO 1\nW 1 1 0 1 0\nA 1 1\nF 1 1\nG 1 1\nW 1 2 0 1 0\nA 1 2\nW 1 3 1 1 0\nA 1 "
	     "3\n");
	line("F 1 2\nH 1 2 5\nF 1 3\nG 1 3\n");
	broken(1); /* the first write was durable */
	holds(0, 1);
	kept();
	line("W 1 4 1 1 0\nA 1 4\nF 1 4\nG 1 4\n");
	broken(1);
	holds(1, 4);
	kept();
}

static void torn_block(void **state)
{
	(void)state;
	line("B 1\nO 1\nW 1 1 0 1 0\nA 1 1\nW 1 2 0 1 0\nA 1 2\n");
	holds(0, 1);
	put(0, 0, 2, 1, 3);
	broken(1);
	holds(0, 2);
	kept();
	assert_int_equal(pwrite(f.disk_fd, "x", 1, 1000), 1);
	broken(1);
}

static void block_of_another(void **state)
{
	(void)state;
	line("B 1\nO 1\nW 1 1 2 1 0\nA 1 1\nW 1 2 3 1 0\nA 1 2\n");
	put(2, 3, 2, 1, 8);
	broken(1);
	put(2, 2, 1, 7, 8);
	broken(1);
	holds(2, 2); /* a write that was not for this block */
	broken(1);
	holds(2, 3); /* and one that was never begun */
	broken(1);
	holds(2, 1);
	kept();
}

static void journal_cut_short(void **state)
{
	struct promise_run run = {
		.journal = f.journal,
		.disk = f.disk,
		.options = {.depth = 4, .queues = 1},
		.seed = 1,
		.writes = 50,
		.blocks_max = 2,
		.last_flush = true,
	};

	(void)state;
	line("B 1\nO 1\nW 1 1 0 1 1\nA 1 1\nW 1 2 0 1 1\nA 1");
	broken(1);
	holds(0, 1); /* the second one is not acknowledged */
	kept();
	holds(0, 2);
	kept();
	/* The next life goes on behind the last whole line. */
	assert_int_equal(promise_run(&run), PROMISE_EXIT_OK);
	kept();
	expect(PROMISE_EXIT_OK, 0, true);
}

static void journal_that_is_none(void **state)
{
	(void)state;
	line("B 1\nO 1\nA 1 7\n");
	expect(PROMISE_EXIT_CANNOT, 0, false);
	assert_int_equal(ftruncate(f.journal_fd, 0), 0);
	expect(PROMISE_EXIT_CANNOT, 0, false);
	line("hello\n");
	expect(PROMISE_EXIT_CANNOT, 0, false);
	assert_int_equal(ftruncate(f.journal_fd, 0), 0);
	line("promise 1 writer=1 run=99 unit=4096 first=0 blocks=8\nB 1\nO 1\nW 1 1 8 1 0\n");
	expect(PROMISE_EXIT_CANNOT, 0, false);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(lost_flushed_write), TEST(flush_covers_what_was_before),
		TEST(stale_write),	  TEST(write_of_an_earlier_life),
		TEST(write_that_failed),  TEST(flush_that_failed),
		TEST(torn_block),	  TEST(block_of_another),
		TEST(journal_cut_short),  TEST(journal_that_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
