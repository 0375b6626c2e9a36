/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a read returns what was written, for every size, opcode and flag, on one queue and on many,
 * in memory and in a file; and I/O takes no more messages than promised. Method: random operations
 * at depth against an array in this process; counters, not clocks.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define VOLUME_BYTES (16u << 20)
#define MAX_IO (1u << 20)
#define DEPTH 32

static struct e2e_daemon daemon_;
static struct e2e_file disk;

/* -- session and volume
 * ---------------------------------------------------------------------------------- */

static int start(void **state)
{
	e2e_file_create(&disk, "file", VOLUME_BYTES);
	e2e_daemon_start(&daemon_, "--memory", "memory=16M", "--reactors", "2", disk.volume, NULL);
	return 0;
}

static int stop(void **state)
{
	int status = e2e_daemon_stop(&daemon_);

	e2e_file_remove(&disk);
	return status;
}

struct world {
	struct rblk_session *session;
	struct rblk_volume *volume;
	const struct rblk_volume_info *info;
	uint8_t *data; /* DEPTH slots of MAX_IO */
};

static void open_world(struct world *w, const char *volume, uint32_t queues)
{
	struct rblk_options options = { .size = sizeof(options), .queues = queues };

	w->session = e2e_session_open(e2e_daemon_uri(&daemon_, volume), &options);
	w->volume = e2e_volume_open(w->session, NULL, 0);
	w->info = rblk_volume_info(w->volume);
	assert_int_equal(w->info->bytes, VOLUME_BYTES);
	w->data = rblk_buffer_alloc(w->session, DEPTH * MAX_IO);
	assert_non_null(w->data);
}

static void close_world(struct world *w)
{
	assert_int_equal(rblk_volume_close(w->volume), 0);
	rblk_session_close(w->session);
}

/* -- random operations against a model ---------------------------------------------------------- */

enum kind { READ, WRITE, ZEROES, CHECKSUM, FLUSH, KINDS };

struct op {
	struct run *run;
	enum kind kind;
	uint32_t bytes;
	uint64_t offset;
	uint8_t *data;
	bool busy;
	int calls;
};

struct run {
	struct world w;
	uint8_t *model;
	struct op ops[DEPTH];
	unsigned int seed;
	unsigned int outstanding, finished;
};

static uint32_t crc32c(const uint8_t *data, size_t bytes)
{
	static uint32_t table[256];
	uint32_t crc = 0xffffffff;

	if (!table[1])
		for (uint32_t i = 0; i < 256; i++) {
			table[i] = i;
			for (int bit = 0; bit < 8; bit++)
				table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0x82f63b78 : 0);
		}
	while (bytes--)
		crc = crc >> 8 ^ table[(crc ^ *data++) & 0xff];
	return ~crc;
}

static void op_done(void *arg, const struct rblk_result *result)
{
	struct op *op = arg;
	const uint8_t *model = op->run->model + op->offset;

	assert_true(op->busy);
	op->busy = false;
	op->calls++;
	op->run->outstanding--;
	op->run->finished++;
	if (result->error)
		fail_msg("kind %d of %u bytes at %llu: %s", op->kind, op->bytes,
			 (unsigned long long)op->offset, strerror(-result->error));
	if (op->kind == READ)
		assert_memory_equal(op->data, model, op->bytes);
	if (op->kind == CHECKSUM)
		assert_int_equal(result->value, crc32c(model, op->bytes));
}

/* Outstanding ranges do not overlap: their order would not be defined. */
static bool overlaps(const struct run *run, const struct op *op)
{
	for (int i = 0; i < DEPTH; i++) {
		const struct op *other = &run->ops[i];

		if (other != op && other->busy && op->offset < other->offset + other->bytes &&
		    other->offset < op->offset + op->bytes)
			return true;
	}
	return false;
}

static void choose(struct run *run, struct op *op)
{
	const uint32_t block = run->w.info->block_bytes;
	uint32_t most = rand_r(&run->seed) % 8 ? 65536 : run->w.info->max_io_bytes;

	op->kind = (enum kind)(rand_r(&run->seed) % 16);
	if (op->kind >= KINDS)
		op->kind = rand_r(&run->seed) % 2 ? READ : WRITE;
	do {
		op->bytes = block * (1 + (uint32_t)rand_r(&run->seed) % (most / block));
		op->offset = block * ((uint64_t)rand_r(&run->seed) %
				      ((VOLUME_BYTES - op->bytes) / block + 1));
		most = most / 2 > block ? most / 2 : block;
	} while (overlaps(run, op));
	if (op->kind == FLUSH && !run->w.info->can_flush)
		op->kind = READ;
	if (op->kind == FLUSH)
		op->bytes = 0;
}

static int start_op(struct run *run, struct op *op)
{
	struct rblk_volume *volume = run->w.volume;
	uint32_t flags = run->w.info->can_fua && rand_r(&run->seed) % 4 == 0 ? RBLK_IO_FUA : 0;

	switch (op->kind) {
	case READ:
		memset(op->data, 0xee, op->bytes);
		return rblk_read(volume, op->data, op->bytes, op->offset, 0, op_done, op);
	case WRITE:
		for (uint32_t i = 0; i < op->bytes; i += 4)
			memcpy(op->data + i, &(int){ rand_r(&run->seed) }, 4);
		memcpy(run->model + op->offset, op->data, op->bytes);
		return rblk_write(volume, op->data, op->bytes, op->offset, flags, op_done, op);
	case ZEROES:
		memset(run->model + op->offset, 0, op->bytes);
		return rblk_write_zeroes(volume, op->bytes, op->offset, flags, op_done, op);
	case CHECKSUM:
		return rblk_checksum(volume, op->bytes, op->offset, op_done, op);
	case FLUSH:
	case KINDS:
		break;
	}
	return rblk_flush(volume, op_done, op);
}

static void run_random(const char *volume, uint32_t queues, unsigned int count, unsigned int seed)
{
	struct run run = { .seed = seed, .model = malloc(VOLUME_BYTES) };
	unsigned int started = 0;

	open_world(&run.w, volume, queues);
	/* The model begins with what an earlier test left. */
	for (uint32_t at = 0; at < VOLUME_BYTES; at += MAX_IO) {
		assert_int_equal(rblk_pread(run.w.volume, run.w.data, MAX_IO, at), 0);
		memcpy(run.model + at, run.w.data, MAX_IO);
	}
	while (run.finished < count) {
		for (int i = 0; i < DEPTH && started < count; i++) {
			struct op *op = &run.ops[i];

			if (op->busy)
				continue;
			op->run = &run;
			op->data = run.w.data + (size_t)i * MAX_IO;
			choose(&run, op);
			op->busy = true;
			assert_int_equal(start_op(&run, op), 0);
			run.outstanding++;
			started++;
		}
		assert_true(rblk_wait(run.w.session, -1) > 0);
	}
	assert_int_equal(run.outstanding, 0);
	/* Once more, all of it, through another session. */
	close_world(&run.w);
	open_world(&run.w, volume, 1);
	for (uint32_t at = 0; at < VOLUME_BYTES; at += MAX_IO) {
		assert_int_equal(rblk_pread(run.w.volume, run.w.data, MAX_IO, at), 0);
		assert_memory_equal(run.w.data, run.model + at, MAX_IO);
	}
	close_world(&run.w);
	free(run.model);
}

static void random_io_in_memory(void **state)
{
	run_random("memory", 1, 4000, 1);
}

static void random_io_in_a_file(void **state)
{
	run_random("file", 1, 2000, 2);
}

static void random_io_over_four_queues(void **state)
{
	run_random("memory", 4, 4000, 3);
	run_random("file", 4, 1000, 4);
}

/* -- messages per command
 * ------------------------------------------------------------------------------ */

struct cost {
	uint64_t messages, commands;
};

static struct cost cost_of(const struct rblk_session *session)
{
	struct rblk_stats stats;

	rblk_session_stats(session, &stats, sizeof(stats));
	return (struct cost){
		.messages = stats.sends + stats.replies + stats.immediates + stats.target_writes +
			    stats.target_reads,
		.commands = stats.commands,
	};
}

static void count_done(void *arg, const struct rblk_result *result)
{
	assert_int_equal(result->error, 0);
	(*(int *)arg)++;
}

static void a_lone_command_costs_two_messages(void **state)
{
	struct cost before, after;
	struct world w;

	open_world(&w, "memory", 1);
	assert_true(w.info->max_capsule_bytes >= 4096);
	for (int i = 0; i < 100; i++) {
		before = cost_of(w.session);
		assert_int_equal(rblk_pread(w.volume, w.data, 4096, i * 4096u), 0);
		after = cost_of(w.session);
		assert_int_equal(after.messages - before.messages, 2);
		assert_int_equal(after.commands - before.commands, 1);
		before = after;
		assert_int_equal(rblk_pwrite(w.volume, w.data, 4096, i * 4096u, 0), 0);
		after = cost_of(w.session);
		assert_int_equal(after.messages - before.messages, 2);
	}
	close_world(&w);
}

static double messages_at_depth(bool write)
{
	struct cost before, after;
	struct world w;

	open_world(&w, "memory", 1);
	before = cost_of(w.session);
	for (int round = 0; round < 100; round++) {
		int finished = 0;

		for (int i = 0; i < DEPTH; i++) {
			uint8_t *data = w.data + i * 4096;

			assert_int_equal(write ? rblk_write(w.volume, data, 4096, i * 4096u, 0,
							    count_done, &finished) :
						 rblk_read(w.volume, data, 4096, i * 4096u, 0,
							   count_done, &finished),
					 0);
		}
		while (finished < DEPTH)
			assert_true(rblk_wait(w.session, -1) > 0);
	}
	after = cost_of(w.session);
	assert_int_equal(after.commands - before.commands, 100 * DEPTH);
	close_world(&w);
	return (double)(after.messages - before.messages) / (100 * DEPTH);
}

static void at_depth_it_costs_less_than_one_and_a_half(void **state)
{
	double reads = messages_at_depth(false), writes = messages_at_depth(true);

	print_message("at depth %d: %.3f messages per 4k read, %.3f per 4k write\n", DEPTH, reads,
		      writes);
	assert_true(reads < 1.5);
	assert_true(writes < 1.5);
}

/* -- what is refused ---------------------------------------------------------------------------- */

static void never(void *arg, const struct rblk_result *result)
{
	fail_msg("called back, although it was refused at once");
}

static void bad_arguments_are_refused_at_once(void **state)
{
	struct world w;
	uint32_t block;

	open_world(&w, "memory", 1);
	block = w.info->block_bytes;
	assert_int_equal(rblk_read(w.volume, w.data, block, VOLUME_BYTES, 0, never, NULL), -ERANGE);
	assert_int_equal(rblk_read(w.volume, w.data, 2 * block, VOLUME_BYTES - block, 0, never, NULL),
			 -ERANGE);
	assert_int_equal(rblk_read(w.volume, w.data, block, UINT64_MAX - block + 1, 0, never, NULL),
			 -ERANGE);
	assert_int_equal(rblk_read(w.volume, w.data, block, 1, 0, never, NULL), -EINVAL);
	assert_int_equal(rblk_read(w.volume, w.data, block - 1, 0, 0, never, NULL), -EINVAL);
	assert_int_equal(rblk_read(w.volume, w.data, 0, 0, 0, never, NULL), -EINVAL);
	assert_int_equal(rblk_read(w.volume, w.data, w.info->max_io_bytes + block, 0, 0, never, NULL),
			 -EINVAL);
	assert_int_equal(rblk_read(w.volume, w.data, block, 0, RBLK_IO_FUA, never, NULL), -EINVAL);
	assert_int_equal(rblk_write(w.volume, w.data, block, 0, 0x80, never, NULL), -EINVAL);
	assert_int_equal(rblk_wait(w.session, 0), 0);
	close_world(&w);
}

/* Memory is not durable, and says so; a file is. */
static void durability_is_not_faked(void **state)
{
	struct world w;

	open_world(&w, "memory", 1);
	assert_int_equal(rblk_fsync(w.volume), -EOPNOTSUPP);
	assert_int_equal(rblk_pwrite(w.volume, w.data, 4096, 0, RBLK_IO_FUA), -EOPNOTSUPP);
	errno = 0;
	assert_null(rblk_volume_open(w.session, NULL, RBLK_VOLUME_OPEN_NEED_FLUSH));
	assert_int_equal(errno, EOPNOTSUPP);
	close_world(&w);
	open_world(&w, "file", 1);
	assert_int_equal(rblk_pwrite(w.volume, w.data, 4096, 0, RBLK_IO_FUA), 0);
	assert_int_equal(rblk_fsync(w.volume), 0);
	close_world(&w);
}

static void unknown_volumes_are_refused_with_their_name(void **state)
{
	char error[RBLK_ERROR_BYTES] = "";
	struct rblk_session *session =
		rblk_session_open(e2e_daemon_uri(&daemon_, "absent"), NULL, error);

	assert_non_null(session);
	errno = 0;
	assert_null(rblk_volume_open(session, NULL, 0));
	assert_int_equal(errno, ENOENT);
	assert_non_null(strstr(rblk_session_error(session), "\"absent\": no such volume"));
	assert_null(rblk_volume_open(session, "a/b", 0));
	assert_int_equal(errno, EINVAL);
	/* The session goes on. */
	assert_non_null(rblk_volume_open(session, "memory", 0));
	rblk_session_close(session);
}

static void opened_read_only_it_is_not_written(void **state)
{
	struct rblk_session *session =
		rblk_session_open(e2e_daemon_uri(&daemon_, "memory"), NULL, NULL);
	struct rblk_volume *volume = rblk_volume_open(session, NULL, RBLK_VOLUME_OPEN_READ_ONLY);
	void *data = rblk_buffer_alloc(session, 4096);

	assert_non_null(volume);
	assert_true(rblk_volume_info(volume)->read_only);
	assert_int_equal(rblk_pwrite(volume, data, 4096, 0, 0), -EROFS);
	assert_int_equal(rblk_pread(volume, data, 4096, 0), 0);
	rblk_session_close(session);
}

static void the_list_names_all(void **state)
{
	struct rblk_session *session = rblk_session_open(e2e_daemon_uri(&daemon_, ""), NULL, NULL);
	struct rblk_volume_info *list;

	assert_non_null(session);
	assert_int_equal(rblk_list(session, &list, sizeof(*list)), 2);
	assert_string_equal(list[0].name, "file");
	assert_string_equal(list[1].name, "memory");
	assert_int_equal(list[1].bytes, VOLUME_BYTES);
	free(list);
	assert_null(rblk_volume_open(session, NULL, 0));
	assert_non_null(strstr(rblk_session_error(session), "no volume is named"));
	rblk_session_close(session);
}

static void discarded_blocks_can_be_written_again(void **state)
{
	struct world w;
	int finished = 0;

	open_world(&w, "file", 1);
	if (!w.info->can_discard) {
		close_world(&w);
		skip();
	}
	memset(w.data, 0x5a, 65536);
	assert_int_equal(rblk_pwrite(w.volume, w.data, 65536, 0, RBLK_IO_FUA), 0);
	assert_int_equal(rblk_discard(w.volume, 65536, 0, count_done, &finished), 0);
	while (!finished)
		assert_true(rblk_wait(w.session, -1) > 0);
	assert_int_equal(rblk_pwrite(w.volume, w.data, 4096, 4096, 0), 0);
	assert_int_equal(rblk_fsync(w.volume), 0);
	memset(w.data, 0, 4096);
	assert_int_equal(rblk_pread(w.volume, w.data, 4096, 4096), 0);
	assert_int_equal(w.data[0], 0x5a);
	assert_int_equal(w.data[4095], 0x5a);
	close_world(&w);
}

/* Memory that nobody can write is written to a volume, in a capsule and by the target's RDMA, and nothing is read into it. */
static void a_buffer_may_be_read_only(void **state)
{
	static uint8_t *own;
	struct iovec iov[2];
	struct world w;

	(void)state;
	open_world(&w, "memory", 1);
	own = mmap(NULL, MAX_IO, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(own != MAP_FAILED);
	for (uint32_t i = 0; i < MAX_IO; i++)
		own[i] = (uint8_t)(i * 7);
	assert_int_equal(mprotect(own, MAX_IO, PROT_READ), 0);
	assert_int_equal(rblk_buffer_register(w.session, own, MAX_IO, 2), -EINVAL);
	assert_non_null(strstr(rblk_session_error(w.session), "unknown flags 0x2"));
	assert_int_equal(rblk_buffer_register(w.session, own, MAX_IO, RBLK_BUFFER_READ_ONLY), 0);
	for (uint32_t bytes = 512; bytes <= MAX_IO; bytes *= 2) {
		memset(w.data, 0, bytes);
		assert_int_equal(rblk_pwrite(w.volume, own, bytes, 0, 0), 0);
		assert_int_equal(rblk_pread(w.volume, w.data, bytes, 0), 0);
		assert_memory_equal(w.data, own, bytes);
	}
	assert_int_equal(rblk_pread(w.volume, own, 512, 0), -EFAULT);
	assert_non_null(strstr(rblk_session_error(w.session), "is read-only"));
	iov[0] = (struct iovec){w.data, 512};
	iov[1] = (struct iovec){own, 512};
	assert_int_equal(rblk_preadv(w.volume, iov, 2, 0), -EFAULT);
	assert_int_equal(rblk_pwritev(w.volume, iov, 2, 0, 0), 0);
	assert_int_equal(rblk_buffer_unregister(w.session, own), 0);
	munmap(own, MAX_IO);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lone_command_costs_two_messages),
		cmocka_unit_test(at_depth_it_costs_less_than_one_and_a_half),
		cmocka_unit_test(random_io_in_memory),
		cmocka_unit_test(random_io_in_a_file),
		cmocka_unit_test(random_io_over_four_queues),
		cmocka_unit_test(bad_arguments_are_refused_at_once),
		cmocka_unit_test(durability_is_not_faked),
		cmocka_unit_test(unknown_volumes_are_refused_with_their_name),
		cmocka_unit_test(opened_read_only_it_is_not_written),
		cmocka_unit_test(the_list_names_all),
		cmocka_unit_test(discarded_blocks_can_be_written_again),
		cmocka_unit_test(a_buffer_may_be_read_only),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
