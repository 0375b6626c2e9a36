/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the load of load.h. From start to join its thread owns all fields except `finished`,
 * `stopping` and `pause_us`.
 */
#include "tests/e2e/load.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "initiator/rblk.h"

#define LOAD_BLOCK 4096u
#define LOAD_BYTES_MAX (256u << 10)
#define LOAD_WAIT_S 120 /* generous: sanitizers are slow */

enum load_kind { LOAD_READ, LOAD_WRITE, LOAD_ZEROES, LOAD_FLUSH };

struct load_op {
	struct load *load;
	enum load_kind kind;
	uint32_t bytes;
	uint64_t at; /* in the range */
	uint8_t *data;
	bool busy;
};

struct load {
	struct load_options options;
	char uri[256];
	pthread_t thread;
	atomic_ulong finished;
	atomic_bool stopping;
	_Atomic uint64_t pause_us;
	uint64_t completed_us; /* the last completion's time */
	struct rblk_session *session;
	struct rblk_volume *volume;
	uint8_t *data;	/* the session's memory: LOAD_BYTES_MAX for each operation */
	uint8_t *model; /* what the range holds */
	struct load_op ops[LOAD_DEPTH_MAX];
	unsigned int outstanding;
	uint32_t random;
};

__attribute__((noreturn, format(printf, 2, 3))) static void load_die(const struct load *load,
								     const char *format, ...)
{
	va_list list;

	va_start(list, format);
	fprintf(stderr, "load %u on %s: ", load->options.seed, load->uri);
	vfprintf(stderr, format, list);
	fputc('\n', stderr);
	va_end(list);
	abort();
}

static uint32_t load_random(struct load *load)
{
	load->random ^= load->random << 13;
	load->random ^= load->random >> 17;
	load->random ^= load->random << 5;
	return load->random;
}

/* -- operations ---------------------------------------------------------------------------------- */

static void load_compare(const struct load *load, const uint8_t *data, uint64_t at, size_t bytes)
{
	if (memcmp(data, load->model + at, bytes) == 0)
		return;
	for (size_t i = 0; i < bytes; i++)
		if (data[i] != load->model[at + i])
			load_die(load, "byte %llu is %02x, %02x was written",
				 (unsigned long long)(load->options.offset + at + i), data[i],
				 load->model[at + i]);
}

static void load_clock(struct load *load)
{
	uint64_t now_us, pause_us = atomic_load(&load->pause_us);
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	now_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	if (load->completed_us && now_us - load->completed_us > pause_us)
		/* If a reader set it to zero meanwhile, it stays zero. */
		atomic_compare_exchange_strong(&load->pause_us, &pause_us,
					       now_us - load->completed_us);
	load->completed_us = now_us;
}

static void load_done(void *arg, const struct rblk_result *result)
{
	struct load_op *op = arg;
	struct load *load = op->load;

	if (!op->busy)
		load_die(load, "an operation was completed twice");
	op->busy = false;
	load->outstanding--;
	if (result->error)
		load_die(load, "operation %d of %u bytes at %llu: %s (status %u): %s", op->kind,
			 op->bytes, (unsigned long long)(load->options.offset + op->at),
			 strerror(-result->error), result->status,
			 rblk_session_error(load->session));
	if (op->kind == LOAD_READ)
		load_compare(load, op->data, op->at, op->bytes);
	load_clock(load);
	atomic_fetch_add(&load->finished, 1);
}

/* Outstanding ranges do not overlap: their order would not be defined. */
static bool load_overlaps(const struct load *load, const struct load_op *op)
{
	for (unsigned int i = 0; i < load->options.depth; i++) {
		const struct load_op *other = &load->ops[i];

		if (other->busy && op->at < other->at + other->bytes &&
		    other->at < op->at + op->bytes)
			return true;
	}
	return false;
}

/* Mostly small, sometimes many pieces. */
static void load_choose(struct load *load, struct load_op *op)
{
	const struct rblk_volume_info *info = rblk_volume_info(load->volume);
	uint32_t dice = load_random(load) % 100;
	uint64_t blocks = load->options.bytes / LOAD_BLOCK;
	uint32_t most = LOAD_BYTES_MAX / LOAD_BLOCK;

	op->kind = dice < 45 ? LOAD_READ : dice < 90 ? LOAD_WRITE : dice < 96 ? LOAD_ZEROES : LOAD_FLUSH;
	if (op->kind == LOAD_ZEROES && !info->can_write_zeroes)
		op->kind = LOAD_WRITE;
	if (op->kind == LOAD_FLUSH && !info->can_flush)
		op->kind = LOAD_READ;
	op->bytes = 0;
	op->at = 0;
	if (op->kind == LOAD_FLUSH)
		return;
	if (load_random(load) % 8)
		most = 4;
	op->bytes = (1 + load_random(load) % most) * LOAD_BLOCK;
	op->at = load_random(load) % (blocks - op->bytes / LOAD_BLOCK + 1) * LOAD_BLOCK;
}

static int load_begin(struct load *load, struct load_op *op)
{
	const struct rblk_volume_info *info = rblk_volume_info(load->volume);
	uint32_t flags = info->can_fua && load_random(load) % 4 == 0 ? RBLK_IO_FUA : 0;
	uint64_t offset = load->options.offset + op->at;

	switch (op->kind) {
	case LOAD_READ:
		memset(op->data, 0xdd, op->bytes);
		return rblk_read(load->volume, op->data, op->bytes, offset, 0, load_done, op);
	case LOAD_WRITE:
		for (uint32_t i = 0; i < op->bytes; i += sizeof(uint32_t))
			*(uint32_t *)(op->data + i) = load->random + i * 2654435761u;
		return rblk_write(load->volume, op->data, op->bytes, offset, flags, load_done, op);
	case LOAD_ZEROES:
		memset(op->data, 0, op->bytes);
		return rblk_write_zeroes(load->volume, op->bytes, offset, flags, load_done, op);
	case LOAD_FLUSH:
		return rblk_flush(load->volume, load_done, op);
	}
	return -1;
}

/* False: no credit now. */
static bool load_try(struct load *load, struct load_op *op)
{
	int err;

	load_choose(load, op);
	if (load_overlaps(load, op))
		return true;
	err = load_begin(load, op);
	if (err == -EAGAIN)
		return false;
	if (err)
		load_die(load, "operation %d was refused: %s", op->kind, strerror(-err));
	/* Nothing reads this part of the model until the operation is done. */
	if (op->kind == LOAD_WRITE || op->kind == LOAD_ZEROES)
		memcpy(load->model + op->at, op->data, op->bytes);
	op->busy = true;
	load->outstanding++;
	return true;
}

/* -- the thread ---------------------------------------------------------------------------------- */

static void load_open(struct load *load, uint32_t queues, size_t data_bytes)
{
	struct rblk_options options = {
		.size = sizeof(options),
		.queues = queues,
		.policy = load->options.policy,
	};
	char error[RBLK_ERROR_BYTES];

	load->session = rblk_session_open(load->uri, &options, error);
	if (!load->session)
		load_die(load, "%s", error);
	load->volume = rblk_volume_open(load->session, NULL, 0);
	if (!load->volume)
		load_die(load, "%s", rblk_session_error(load->session));
	load->data = rblk_buffer_alloc(load->session, data_bytes);
	if (!load->data)
		load_die(load, "no memory: %s", rblk_session_error(load->session));
}

/* The whole range, written as zeroes or read and compared. */
static void load_sweep(struct load *load, bool write)
{
	for (uint64_t at = 0; at < load->options.bytes; at += LOAD_BYTES_MAX) {
		uint64_t left = load->options.bytes - at;
		size_t bytes = left < LOAD_BYTES_MAX ? left : LOAD_BYTES_MAX;
		uint64_t offset = load->options.offset + at;
		int err;

		memset(load->data, write ? 0 : 0xdd, bytes);
		err = write ? rblk_pwrite(load->volume, load->data, bytes, offset, 0) :
			      rblk_pread(load->volume, load->data, bytes, offset);
		if (err)
			load_die(load, "sweep at %llu: %s: %s", (unsigned long long)offset,
				 strerror(-err), rblk_session_error(load->session));
		if (!write)
			load_compare(load, load->data, at, bytes);
	}
}

static void *load_thread(void *arg)
{
	struct load *load = arg;

	load_open(load, load->options.queues, load->options.depth * LOAD_BYTES_MAX);
	for (unsigned int i = 0; i < load->options.depth; i++) {
		load->ops[i].load = load;
		load->ops[i].data = load->data + i * LOAD_BYTES_MAX;
	}
	load_sweep(load, true);
	while (!atomic_load(&load->stopping) || load->outstanding) {
		for (unsigned int i = 0; i < load->options.depth; i++)
			if (!load->ops[i].busy && !atomic_load(&load->stopping) &&
			    !load_try(load, &load->ops[i]))
				break;
		if (rblk_wait(load->session, 1000) < 0)
			load_die(load, "the session was lost: %s", rblk_session_error(load->session));
	}
	load_sweep(load, false);
	rblk_session_close(load->session);
	return NULL;
}

/* -- the test's thread ---------------------------------------------------------------------------- */

struct load *load_start(const struct load_options *options)
{
	struct load *load = calloc(1, sizeof(*load));

	if (!load)
		abort();
	load->options = *options;
	load->model = calloc(1, options->bytes);
	if (!load->model)
		abort();
	snprintf(load->uri, sizeof(load->uri), "%s", options->uri);
	load->random = options->seed * 2654435761u + 1;
	if (pthread_create(&load->thread, NULL, load_thread, load))
		load_die(load, "no thread");
	return load;
}

unsigned long load_count(const struct load *load)
{
	return atomic_load(&load->finished);
}

void load_wait(const struct load *load, unsigned long more)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	unsigned long until = load_count(load) + more;
	time_t give_up = time(NULL) + LOAD_WAIT_S;

	while (load_count(load) < until) {
		if (time(NULL) > give_up)
			load_die(load, "no progress after %lu operations", load_count(load));
		nanosleep(&pause, NULL);
	}
}

uint64_t load_pause_us(struct load *load)
{
	return atomic_exchange(&load->pause_us, 0);
}

unsigned long load_stop(struct load *load)
{
	unsigned long count;

	atomic_store(&load->stopping, true);
	pthread_join(load->thread, NULL);
	/* Another session reads what this one has written. */
	load_open(load, 1, LOAD_BYTES_MAX);
	load_sweep(load, false);
	rblk_session_close(load->session);
	count = load_count(load);
	free(load->model);
	free(load);
	return count;
}
