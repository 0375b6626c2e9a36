/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What tests of stores and volumes share: a directory below the current one, files in it, and a
 * ring that does one operation at a time. One thread.
 */
#ifndef RBLK_TESTS_TARGET_RIG_H
#define RBLK_TESTS_TARGET_RIG_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "target/base/settings.h"
#include "target/control/options.h"
#include "target/store/ring.h"
#include "target/store/store.h"
#include "tests/unit/unit.h"

/* -- a directory ------------------------------------------------------------------------------- */

static inline char *rig_directory(void)
{
	static char name[32];

	strcpy(name, "unit-rig-XXXXXX");
	assert_non_null(mkdtemp(name));
	return name;
}

static inline int rig_remove_one(const char *path, const struct stat *st, int flag,
				 struct FTW *place)
{
	(void)st;
	(void)flag;
	(void)place;
	return remove(path);
}

static inline void rig_directory_remove(const char *directory)
{
	assert_int_equal(nftw(directory, rig_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static inline void rig_file(const char *path, off_t bytes)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, bytes), 0);
	close(fd);
}

static inline void rig_file_bytes(const char *path, void *buffer, size_t bytes, off_t offset)
{
	int fd = open(path, O_RDONLY);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, buffer, bytes, offset), (ssize_t)bytes);
	close(fd);
}

/* -- a store ----------------------------------------------------------------------------------- */

static inline struct tgt_volume_config rig_volume(const char *store, const char *path,
						  uint64_t bytes)
{
	struct tgt_volume_config config = {0};

	tgt_options_default(&config, TGT_IN_VOLUME);
	strcpy(config.name, "v");
	strcpy(config.store, store);
	strcpy(config.path, path);
	config.bytes = bytes;
	config.lock_wait_ms = 0;
	return config;
}

struct rig {
	struct tgt_ring *ring;
	struct tgt_store *store;
	struct tgt_channel *channel;
};

/* Returns the result of open; after 0 the rig is ready. */
static inline int rig_open(struct rig *rig, const struct tgt_store_ops *ops,
			   const struct tgt_volume_config *config, char *error)
{
	int status = ops->open(config, &rig->store, error);

	if (status < 0)
		return status;
	assert_int_equal(tgt_ring_create(64, 8, &rig->ring), 0);
	assert_int_equal(rig->store->ops->attach(rig->store, rig->ring, &rig->channel), 0);
	return 0;
}

/* The uring store of a file, or no test: not each file system of a build folder has O_DIRECT. */
static inline void rig_open_file(struct rig *rig, const char *path, enum tgt_cache_mode cache)
{
	struct tgt_volume_config config = rig_volume("uring", path, 0);
	char error[TGT_ERROR_BYTES];
	int status;

	config.cache = cache;
	status = rig_open(rig, &tgt_store_uring, &config, error);
	if (cache == TGT_CACHE_DIRECT && status == -EOPNOTSUPP) {
		print_message("SKIP: no O_DIRECT here: %s\n", error);
		skip();
	}
	assert_int_equal(status, 0);
}

static inline void rig_close(struct rig *rig)
{
	rig->store->ops->detach(rig->channel);
	tgt_ring_destroy(rig->ring);
	rig->store->ops->close(rig->store);
}

/* An operation that stores its result. */
struct rig_io {
	struct tgt_io io; /* first member: done() gets its address */
	unsigned int done;
	int error;
};

static inline void rig_io_done(struct tgt_io *io, int error)
{
	struct rig_io *rig_io = (struct rig_io *)io;

	rig_io->done++;
	rig_io->error = error;
}

/* Submits and waits; returns 0 or a negative errno. done() is called exactly once, or the
 * operation ends at once. */
static inline int rig_do(struct rig *rig, struct rig_io *one)
{
	int status;

	one->io.done = rig_io_done;
	one->done = 0;
	status = rig->store->ops->submit(rig->channel, &one->io);
	if (status != 0) {
		assert_int_equal(one->done, 0);
		return status == 1 ? 0 : status;
	}
	while (!one->done) {
		status = tgt_ring_wait(rig->ring, 1000);
		assert_true(status == 0 || status == -ETIME || status == -EINTR);
		tgt_ring_reap(rig->ring, 64);
	}
	assert_int_equal(one->done, 1);
	assert_int_equal(tgt_ring_inflight(rig->ring), 0);
	return one->error;
}

static inline int rig_io(struct rig *rig, enum tgt_io_kind kind, uint32_t flags, uint64_t offset,
			 void *buffer, uint64_t bytes)
{
	struct rig_io one = {.io = {.kind = kind,
				    .flags = flags,
				    .offset = offset,
				    .bytes = bytes,
				    .buffer = buffer,
				    .buffer_index = -1}};

	return rig_do(rig, &one);
}

static inline void *rig_buffer(size_t bytes, int fill)
{
	void *buffer = aligned_alloc(4096, bytes);

	assert_non_null(buffer);
	memset(buffer, fill, bytes);
	return buffer;
}

#endif
