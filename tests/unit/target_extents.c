/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a range reported as a hole is one up to its last byte, whatever the file system answers;
 * lists are bounded and continue where they ended; and a store's worker delivers its answers to the
 * ring that waits for them. Method: the test's own seek function over a map of the file, a real
 * file, and threads that post at the same time.
 */
#include <pthread.h>
#include <semaphore.h>
#include "target/store/seek.h"
#include "target/store/worker.h"
#include "tests/unit/target_rig.h"

/* -- the walk ---------------------------------------------------------------------------------- */

/* A file as its file system describes it: one character for each 512 bytes, '#' is data. */
static const char *map;
static unsigned int asked;
static int seek_error;

static off_t map_seek(int fd, off_t offset, int whence)
{
	size_t length = strlen(map), at = (size_t)offset / 512;
	char wanted = whence == SEEK_DATA ? '#' : '.';

	asked++;
	if (seek_error || at >= length) {
		errno = seek_error ? seek_error : ENXIO;
		return -1;
	}
	if (map[at] == wanted)
		return offset;
	while (at < length && map[at] != wanted)
		at++;
	if (at < length || wanted == '.')
		return (off_t)at * 512;
	errno = ENXIO;
	return -1;
}

/* As text: "d8 h16", in units of 512 bytes. */
static const char *found(uint64_t first, uint64_t count, uint32_t unit, uint32_t room, int expected)
{
	static char text[512];
	struct tgt_extent list[64];
	struct tgt_io io = {
		.offset = first * 512,
		.bytes = count * 512,
		.buffer = memset(list, 0, sizeof(list)),
		.extent_room = room,
		.extent_unit = unit,
	};
	size_t used = 0;

	asked = 0;
	assert_int_equal(tgt_seek_extents(-1, strlen(map) * 512, &io, map_seek), expected);
	text[0] = 0;
	for (uint32_t i = 0; i < room && list[i].bytes; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%c%llu", i ? " " : "",
					 list[i].hole ? 'h' : 'd',
					 (unsigned long long)list[i].bytes / 512);
	return text;
}

static void holes_and_data(void **state)
{
	map = "....####..##";
	assert_string_equal(found(0, 12, 512, 64, 0), "h4 d4 h2 d2");
	assert_string_equal(found(2, 4, 512, 64, 0), "h2 d2");
	assert_string_equal(found(4, 4, 512, 64, 0), "d4");
	assert_string_equal(found(9, 1, 512, 64, 0), "h1");
	map = "............";
	assert_string_equal(found(0, 12, 512, 64, 0), "h12");
	map = "############";
	assert_string_equal(found(3, 9, 512, 64, 0), "d9");
}

static void holes_shrink_to_whole_units(void **state)
{
	/*     0       8       16      24 */
	map = "...........#........#...........";
	assert_string_equal(found(0, 32, 4096, 64, 0), "h8 d16 h8");
	/* No hole is a whole unit: the result is one piece of data, not two adjacent ones. */
	map = "#......#.......##......#";
	assert_string_equal(found(0, 24, 4096, 64, 0), "d24");
}

static void lists_are_bounded(void **state)
{
	map = "#.#.#.#.#.#.#.#.";
	assert_string_equal(found(0, 16, 512, 3, 0), "d1 h1 d1");
	assert_string_equal(found(3, 13, 512, 3, 0), "h1 d1 h1");
	assert_string_equal(found(15, 1, 512, 3, 0), "h1");
	/* The number of seeks is bounded too, if they find little; and the list has at least one
	 * piece. */
	map = "#.......#.......#.......#.......#.......#.......#.......#.......";
	assert_string_equal(found(0, 64, 4096, 1, 0), "d32");
	assert_true(asked <= 8);
}

static void beyond_the_end_is_data(void **state)
{
	map = "..##....";
	assert_string_equal(found(0, 16, 512, 64, 0), "h2 d2 h4 d8");
	assert_string_equal(found(8, 4, 512, 64, 0), "d4");
	assert_string_equal(found(12, 4, 512, 64, 0), "d4");
	/* Also with a last unit that is not whole. */
	assert_string_equal(found(0, 16, 4096, 64, 0), "d16");
	map = "....";
	assert_string_equal(found(0, 16, 4096, 64, 0), "d16");
}

static void errors_are_told(void **state)
{
	map = "#.#.";
	seek_error = EIO;
	assert_string_equal(found(0, 4, 512, 64, -EIO), "");
	seek_error = 0;
}

/* Between the two seeks the data is punched out, so that it begins and ends at the same place. */
static off_t punched_seek(int fd, off_t offset, int whence)
{
	return offset;
}

static void a_file_that_changes_is_walked_to_its_end(void **state)
{
	struct tgt_extent list[4] = {{0}};
	struct tgt_io io = {
		.bytes = 2 * 4096, .buffer = list, .extent_room = 4, .extent_unit = 4096};

	assert_int_equal(tgt_seek_extents(-1, 1 << 20, &io, punched_seek), 0);
	assert_int_equal(list[0].bytes, 2 * 4096);
	assert_false(list[0].hole);
	assert_int_equal(list[1].bytes, 0);
}

/* -- through the store ------------------------------------------------------------------------- */

static void a_sparse_file(void **state)
{
	char *directory = rig_directory(), path[64], error[TGT_ERROR_BYTES];
	struct tgt_extent list[8] = {{0}};
	struct tgt_volume_config config;
	struct rig_io one = {.io = {
				     .kind = TGT_IO_EXTENTS,
				     .bytes = 16 << 20,
				     .buffer = list,
				     .extent_room = 8,
				     .extent_unit = 4096,
			     }};
	struct rig rig;
	int fd;

	snprintf(path, sizeof(path), "%s/disk", directory);
	rig_file(path, 16 << 20);
	fd = open(path, O_RDWR);
	assert_int_equal(pwrite(fd, "x", 1, 4 << 20), 1);
	assert_int_equal(fsync(fd), 0);
	close(fd);
	config = rig_volume("uring", path, 0);
	config.cache = TGT_CACHE_BUFFERED;
	assert_int_equal(rig_open(&rig, &tgt_store_uring, &config, error), 0);
	assert_true(rig.store->info.can_extents);
	for (int i = 0; i < 3; i++) {
		memset(list, 0, sizeof(list));
		assert_int_equal(rig_do(&rig, &one), 0);
		assert_int_equal(tgt_ring_inflight(rig.ring), 0);
		assert_true(list[0].hole);
		/* File systems may allocate more than one block, but written data stays in its
		 * place. */
		assert_true(list[0].bytes && list[0].bytes <= 4 << 20);
		assert_false(list[1].hole);
		assert_true(list[0].bytes + list[1].bytes > 4 << 20);
		assert_int_equal(list[0].bytes + list[1].bytes + list[2].bytes, 16 << 20);
		assert_true(list[2].hole);
	}
	rig_close(&rig);
	rig_directory_remove(directory);
}

/* -- the worker -------------------------------------------------------------------------------- */

struct job {
	struct tgt_job job; /* first member */
	sem_t *hold;
	int number;
	int result, ends;
};

static int job_run(struct tgt_job *job)
{
	struct job *own = (struct job *)job;

	if (own->hold)
		sem_wait(own->hold);
	return own->number;
}

static void job_done(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct job *own = (struct job *)message;

	own->result = own->job.result;
	own->ends++;
}

static void the_queue_is_bounded_and_in_order(void **state)
{
	static struct job jobs[TGT_WORKER_JOBS_MAX + 1];
	struct tgt_worker worker;
	struct tgt_ring *ring;
	sem_t hold;

	sem_init(&hold, 0, 0);
	assert_int_equal(tgt_worker_init(&worker, "test"), 0);
	assert_int_equal(tgt_ring_create(64, 1, &ring), 0);
	for (unsigned int i = 0; i <= TGT_WORKER_JOBS_MAX; i++) {
		jobs[i] = (struct job){.number = (int)i, .hold = &hold};
		jobs[i].job.work = job_run;
		jobs[i].job.message.run = job_done;
		assert_int_equal(tgt_worker_submit(&worker, ring, &jobs[i].job),
				 i < TGT_WORKER_JOBS_MAX ? 0 : -EBUSY);
	}
	assert_int_equal(tgt_ring_inflight(ring), TGT_WORKER_JOBS_MAX);
	assert_int_equal(tgt_ring_reap(ring, 1), 0);
	for (unsigned int i = 0; i < TGT_WORKER_JOBS_MAX; i++) {
		sem_post(&hold);
		while (!jobs[i].ends) {
			/* Sleeps until it is woken: after a lost wakeup the test runs into its
			 * time limit.
			 */
			assert_int_equal(tgt_ring_wait(ring, -1), 0);
			tgt_ring_reap(ring, 64);
		}
		assert_int_equal(jobs[i].result, i);
		assert_int_equal(tgt_ring_inflight(ring), TGT_WORKER_JOBS_MAX - 1 - i);
	}
	assert_int_equal(tgt_ring_inflight(ring), 0);
	tgt_worker_fini(&worker);
	tgt_ring_destroy(ring);
	sem_destroy(&hold);
}

#define WORKERS 4
#define ROUNDS 500

/* Several workers post to one ring, whose owner sleeps whenever it has found nothing. */
static void no_wake_is_lost(void **state)
{
	static struct job jobs[WORKERS][16];
	struct tgt_worker workers[WORKERS];
	struct tgt_ring *ring;

	assert_int_equal(tgt_ring_create(64, 1, &ring), 0);
	for (int w = 0; w < WORKERS; w++)
		assert_int_equal(tgt_worker_init(&workers[w], "test"), 0);
	for (int round = 0; round < ROUNDS; round++) {
		unsigned int left = 0;

		for (int w = 0; w < WORKERS; w++) {
			for (int i = 0; i <= round % 16; i++) {
				struct job *job = &jobs[w][i];

				*job = (struct job){.number = round};
				job->job.work = job_run;
				job->job.message.run = job_done;
				assert_int_equal(tgt_worker_submit(&workers[w], ring, &job->job),
						 0);
				left++;
			}
		}
		while (left) {
			unsigned int got = tgt_ring_reap(ring, 64);

			/* The completion of a watch counts as well. */
			left = tgt_ring_inflight(ring);
			if (!got && left)
				assert_int_equal(tgt_ring_wait(ring, -1), 0);
		}
		for (int w = 0; w < WORKERS; w++)
			for (int i = 0; i <= round % 16; i++)
				assert_int_equal(jobs[w][i].ends, 1);
	}
	for (int w = 0; w < WORKERS; w++)
		tgt_worker_fini(&workers[w]);
	tgt_ring_destroy(ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holes_and_data),
		cmocka_unit_test(holes_shrink_to_whole_units),
		cmocka_unit_test(lists_are_bounded),
		cmocka_unit_test(beyond_the_end_is_data),
		cmocka_unit_test(errors_are_told),
		cmocka_unit_test(a_file_that_changes_is_walked_to_its_end),
		cmocka_unit_test(a_sparse_file),
		cmocka_unit_test(the_queue_is_bounded_and_in_order),
		cmocka_unit_test(no_wake_is_lost),
	};

	return cmocka_run_group_tests_name("target extents", tests, NULL, NULL);
}
