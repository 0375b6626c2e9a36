/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a vector writes and reads its pieces in order, wherever they lie, with one callback, in as
 * few commands as its memory allows, and with any number of credits. Method: random vectors against
 * an array in this process; the library's counters; a scripted target for failures.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/lib_fixture.h"
#include "tests/e2e/session.h"

#define VOLUME_BYTES (4u << 20)
#define ARENA (1u << 20)
#define ROUNDS 400

static struct e2e_daemon daemon_;

static int start(void **state)
{
	e2e_daemon_start(&daemon_, "--memory", "disk=4M", NULL);
	return 0;
}

static int stop(void **state)
{
	return e2e_daemon_stop(&daemon_);
}

struct world {
	struct rblk_session *session;
	struct rblk_volume *volume;
	char *a, *b; /* two buffers */
};

static void open_world(struct world *w, uint32_t credits, uint32_t queues)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;

	options.credits = credits;
	options.queues = queues;
	w->session = e2e_session_open(e2e_daemon_uri(&daemon_, "disk"), &options);
	w->volume = rblk_volume_open(w->session, NULL, 0);
	w->a = rblk_buffer_alloc(w->session, ARENA);
	w->b = rblk_buffer_alloc(w->session, ARENA);
	assert_true(w->volume && w->a && w->b);
}

static uint64_t commands(const struct world *w)
{
	struct rblk_stats stats;

	assert_int_equal(rblk_session_stats(w->session, &stats, sizeof(stats)), 0);
	return stats.commands;
}

/* -- against a model --------------------------------------------------------------------------- */

/* Pieces that do not overlap, spread over both buffers, some adjacent. Returns their bytes. */
static size_t choose(const struct world *w, unsigned int *seed, struct iovec *iov, int count)
{
	size_t slot = ARENA / (size_t)count, total = 0;
	bool beside = false;

	for (int i = 0; i < count; i++) {
		size_t most = slot / 512 < 16 ? slot / 512 : 16;
		char *buffer = rand_r(seed) % 3 ? w->a : w->b;
		const struct iovec *last = i ? &iov[i - 1] : NULL;

		iov[i].iov_len = 512 * ((size_t)rand_r(seed) % (most / 2 + 1));
		iov[i].iov_base = buffer + (size_t)i * slot + slot / 2;
		/* Two pieces fit into half of a slot. */
		beside = last && !beside && rand_r(seed) % 3 == 0;
		if (beside)
			iov[i].iov_base = (char *)last->iov_base + last->iov_len;
		total += iov[i].iov_len;
	}
	return total;
}

static void fill(const struct iovec *iov, int count, unsigned int *seed, uint8_t *model)
{
	for (int i = 0; i < count; i++)
		for (size_t at = 0; at < iov[i].iov_len; at++)
			*model++ = ((uint8_t *)iov[i].iov_base)[at] = (uint8_t)rand_r(seed);
}

static void run(uint32_t credits, uint32_t queues, int pieces)
{
	uint8_t *model = calloc(1, VOLUME_BYTES);
	unsigned int seed = credits * 100 + queues * 10 + (unsigned int)pieces;
	struct iovec iov[RBLK_IOV_MAX];
	struct world w;

	open_world(&w, credits, queues);
	/* What earlier runs have left. */
	for (size_t at = 0; at < VOLUME_BYTES; at += ARENA) {
		assert_int_equal(rblk_pread(w.volume, w.a, ARENA, at), 0);
		memcpy(model + at, w.a, ARENA);
	}
	for (int round = 0; round < ROUNDS; round++) {
		int count = 1 + rand_r(&seed) % pieces;
		size_t bytes = choose(&w, &seed, iov, count);
		uint64_t offset =
			512 * ((uint64_t)rand_r(&seed) % ((VOLUME_BYTES - bytes) / 512 + 1));
		const uint8_t *expected = model + offset;
		int err;

		if (!bytes) {
			assert_int_equal(rblk_preadv(w.volume, iov, count, offset), -EINVAL);
			continue;
		}
		if (rand_r(&seed) % 2) {
			fill(iov, count, &seed, model + offset);
			err = rblk_pwritev(w.volume, iov, count, offset, 0);
			if (err)
				fail_msg("%s", rblk_session_error(w.session));
			continue;
		}
		memset(w.a, 0x5a, ARENA);
		memset(w.b, 0x5a, ARENA);
		assert_int_equal(rblk_preadv(w.volume, iov, count, offset), 0);
		for (int i = 0; i < count; expected += iov[i++].iov_len)
			assert_memory_equal(iov[i].iov_base, expected, iov[i].iov_len);
	}
	rblk_session_close(w.session);
	free(model);
}

static void vectors_are_as_their_pieces(void **state)
{
	run(64, 1, 8);
	run(64, 3, 30);
	/* More pieces than credits. */
	run(4, 1, RBLK_IOV_MAX);
}

/* -- as few commands as possible --------------------------------------------------------------- */

static void commands_are_counted(void **state)
{
	struct iovec iov[20];
	struct world w;
	uint64_t before;

	open_world(&w, 64, 1);
	/* Adjacent pieces: one command, also for reads and long writes. */
	for (int i = 0; i < 20; i++)
		iov[i] = (struct iovec){w.a + i * 16384, 16384};
	before = commands(&w);
	assert_int_equal(rblk_pwritev(w.volume, iov, 20, 0, 0), 0);
	assert_int_equal(rblk_preadv(w.volume, iov, 20, 0), 0);
	assert_int_equal(commands(&w) - before, 2);
	/* Scattered pieces: a short write is still one command, a read and a long write one per
	 * piece.
	 */
	for (int i = 0; i < 8; i++)
		iov[i] = (struct iovec){(i % 2 ? w.a : w.b) + i * 16384, 1024};
	before = commands(&w);
	assert_int_equal(rblk_pwritev(w.volume, iov, 8, 0, 0), 0);
	assert_int_equal(commands(&w) - before, 1);
	assert_int_equal(rblk_preadv(w.volume, iov, 8, 0), 0);
	assert_int_equal(commands(&w) - before, 9);
	for (int i = 0; i < 8; i++)
		iov[i].iov_len = 8192;
	before = commands(&w);
	assert_int_equal(rblk_pwritev(w.volume, iov, 8, 0, 0), 0);
	assert_int_equal(commands(&w) - before, 8);
	rblk_session_close(w.session);
}

/* -- one callback, and what is refused --------------------------------------------------------- */

static void one_callback(void **state)
{
	struct outcome outcomes[3] = {0};
	struct iovec iov[16];
	struct world w;
	int told = 0;

	open_world(&w, 4, 1);
	for (int i = 0; i < 16; i++)
		iov[i] = (struct iovec){w.a + i * 32768, 16384};
	/* The first vector takes all credits, and nothing of the second begins. */
	assert_int_equal(rblk_readv(w.volume, iov, 16, 0, 0, lib_done, &outcomes[0]), 0);
	assert_int_equal(rblk_writev(w.volume, iov, 16, 0, 0, lib_done, &outcomes[1]), -EAGAIN);
	/* The iovec belongs to the caller again as soon as the call returns. */
	memset(iov, 0, sizeof(iov));
	while (!outcomes[0].calls) {
		int count = rblk_wait(w.session, 20000);

		assert_true(count >= 0);
		told += count;
	}
	assert_int_equal(told, 1);
	assert_int_equal(outcomes[0].calls, 1);
	assert_int_equal(outcomes[0].last.error, 0);
	assert_int_equal(outcomes[1].calls, 0);
	rblk_session_close(w.session);
}

static void refuse(struct world *w, const struct iovec *iov, int count, uint64_t offset, int error,
		   const char *words)
{
	assert_int_equal(rblk_preadv(w->volume, iov, count, offset), error);
	lib_assert_words(rblk_session_error(w->session), words);
}

static void refusals(void **state)
{
	struct iovec iov[2];
	char stranger[512];
	struct world w;

	open_world(&w, 64, 1);
	iov[0] = (struct iovec){w.a, 512};
	iov[1] = (struct iovec){w.b, 512};
	refuse(&w, iov, 0, 0, -EINVAL, "1 to 256 pieces");
	refuse(&w, iov, RBLK_IOV_MAX + 1, 0, -EINVAL, "1 to 256 pieces");
	refuse(&w, NULL, 1, 0, -EINVAL, "1 to 256 pieces");
	refuse(&w, iov, 2, 100, -EINVAL, "not whole blocks");
	refuse(&w, iov, 2, VOLUME_BYTES - 512, -ERANGE, "end beyond the volume");
	iov[1].iov_len = 100;
	refuse(&w, iov, 2, 0, -EINVAL, "a piece of 100 bytes");
	iov[1] = (struct iovec){stranger, 512};
	refuse(&w, iov, 2, 0, -EFAULT, "do not lie within one buffer");
	iov[1] = (struct iovec){w.b, SIZE_MAX & ~(size_t)511};
	refuse(&w, iov, 2, 0, -EINVAL, "longer than one command");
	/* Refused vectors leave nothing behind. */
	rblk_buffer_free(w.session, w.a);
	assert_int_equal(rblk_volume_close(w.volume), 0);
	rblk_session_close(w.session);
}

static enum fake_answer fail_second(struct fake_target *fake,
				    const struct rblk_wire_command *command,
				    struct rblk_wire_completion *completion)
{
	if (command->opcode == RBLK_OP_READ && rblk_le64(command->lba) == 1)
		completion->status = rblk_to_le16(RBLK_E_MEDIUM);
	return command->opcode == RBLK_OP_WRITE ? FAKE_SILENT : FAKE_REPLY;
}

static void the_first_error_is_the_vectors(void **state)
{
	struct fixture f = {.script.command = fail_second};
	struct outcome outcome = {0};
	struct iovec iov[16];

	f.options = fake_target_options();
	f.options.credits = 8;
	lib_open(&f);
	for (int i = 0; i < 16; i++)
		iov[i] = (struct iovec){f.data + i * 1024, 512};
	assert_int_equal(rblk_readv(f.volume, iov, 16, 0, 0, lib_done, &outcome), 0);
	while (!outcome.calls)
		assert_true(rblk_wait(f.session, 20000) >= 0);
	assert_int_equal(outcome.last.error, -ENODATA);
	/* Once one command has failed, no further ones begin. */
	assert_true(fake_target_seen(f.fake, RBLK_OP_READ) < 16);
	/* The target does not answer these: they are called back, once, when the session is
	 * closed. */
	outcome.calls = 0;
	for (int i = 0; i < 16; i++)
		iov[i].iov_len = 512;
	assert_int_equal(rblk_writev(f.volume, iov, 16, 0, 0, lib_done, &outcome), 0);
	lib_close(&f);
	assert_int_equal(outcome.calls, 1);
	assert_int_equal(outcome.last.error, -ECANCELED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors_are_as_their_pieces),
		cmocka_unit_test(commands_are_counted),
		cmocka_unit_test(one_callback),
		cmocka_unit_test(refusals),
		cmocka_unit_test(the_first_error_is_the_vectors),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
