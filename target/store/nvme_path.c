/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Opening of nvme_path.h. The block device says what the kernel has found out, its limits included (they follow
 * from MDTS, and know of devices that promise more than they do); the device is asked for what the block layer hides.
 */
#include "target/store/nvme_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/blkzoned.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "target/base/error.h"
#include "target/store/nvme_command.h"
#include "target/store/nvme_identify.h"
#include "target/store/ring.h"

#define PAGE_BYTES 4096u
/* The commands that one DISCARD or WRITE_ZEROES becomes at most; and its bytes. */
#define RANGE_COMMANDS_MAX 256u
#define RANGE_BYTES_MAX (1u << 30)

bool tgt_nvme_is_generic(const char *path)
{
	return tgt_namespace_is_generic(path);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* -- does the kernel pass commands through? ---------------------------------------------------- */

struct trial {
	struct tgt_ring_op op; /* first: leads back here */
	bool done;
	int result;
};

static void trial_complete(struct tgt_ring_op *op, int result, uint32_t flags)
{
	struct trial *trial = (struct trial *)op;

	(void)flags;
	trial->done = true;
	trial->result = result;
}

/* Reads the first block. The result of the command, or negative errno. It ends, as the kernel sees to it. */
static int trial_read(const struct tgt_nvme_path *path, struct tgt_ring *ring, int file, void *page, int buffer_index)
{
	struct trial trial = {.op.complete = trial_complete};
	struct io_uring_sqe *sqe = tgt_ring_get_wide(ring, &trial.op);
	struct tgt_nvme_command command = {
		.opcode = TGT_NVME_READ,
		.nsid = path->nsid,
		.data = page,
		.data_bytes = 1u << path->block_shift,
		.buffer_index = buffer_index,
	};
	int err = 0;

	if (!sqe)
		return -EBUSY;
	tgt_nvme_prep(sqe, file, &command);
	while (!trial.done && !err) {
		err = tgt_ring_wait(ring, 1000);
		tgt_ring_reap(ring, 1);
	}
	return trial.done ? trial.result : err;
}

/* As trial_read(), with a ring of its own; learns whether fixed buffers may be used. */
static int trial_run(struct tgt_nvme_path *path)
{
	struct iovec iov = {.iov_base = aligned_alloc(PAGE_BYTES, PAGE_BYTES), .iov_len = PAGE_BYTES};
	struct tgt_ring *ring = NULL;
	int err = -ENOMEM, file, fixed;

	if (iov.iov_base)
		err = tgt_ring_create(4, 1, &ring);
	if (err)
		goto out;
	fixed = tgt_ring_register_buffers(ring, &iov, 1);
	err = tgt_ring_widen(ring);
	if (err) {
		err = err == -EINVAL ? -EOPNOTSUPP : err;
		goto out;
	}
	file = tgt_ring_register_wide_file(ring, path->fd);
	err = file < 0 ? file : -EINVAL;
	if (file >= 0 && fixed >= 0 && tgt_ring_wide_has_buffer(ring, fixed))
		err = trial_read(path, ring, file, iov.iov_base, fixed);
	path->fixed = err >= 0;
	if (file >= 0 && err == -EINVAL)
		err = trial_read(path, ring, file, iov.iov_base, -1);
	/* Only a ring that is broken: the device may still write to the page. */
	if (tgt_ring_inflight(ring))
		return err;
out:
	tgt_ring_destroy(ring);
	free(iov.iov_base);
	return err;
}

/* A command that failed has been passed through, too: a bad block is no reason not to serve the others. */
static int path_try(struct tgt_nvme_path *path, char *error)
{
	const char *name = path->namespace.generic;
	int result = trial_run(path);

	switch (result < 0 ? -result : 0) {
	case 0:
	case EINTR: /* the controller was reset meanwhile */
		return 0;
	case EACCES:
	case EPERM:
		return tgt_error(error, -EOPNOTSUPP, "%s: the kernel lets only CAP_SYS_ADMIN pass commands to it", name);
	case EINVAL:
	case ENOTTY:
	case EOPNOTSUPP:
		return tgt_error(error, -EOPNOTSUPP,
				 "%s: this kernel passes no NVMe commands through io_uring (Linux 5.19 and later do)", name);
	default:
		return tgt_error(error, result, "%s: passing a command to it: %s", name, strerror(-result));
	}
}

/* -- limits ------------------------------------------------------------------------------------ */

static void path_limits(struct tgt_nvme_path *path, const struct tgt_nvme_identity *identity, struct tgt_store_info *info)
{
	dev_t device = path->namespace.block_device;
	uint64_t commands_bytes = (uint64_t)TGT_NVME_BLOCKS_MAX << path->block_shift;
	uint64_t transfer = least(tgt_probe_queue(device, "max_hw_sectors_kb", 128) * 1024, commands_bytes);
	uint64_t segments = tgt_probe_queue(device, "max_segments", 0);
	uint64_t zeroes = tgt_probe_queue(device, "write_zeroes_max_bytes", 0);
	uint64_t discard = tgt_probe_queue(device, "discard_max_bytes", 0);

	if (identity->max_bytes)
		transfer = least(transfer, identity->max_bytes);
	/* Each page may be a segment, and data that does not begin with a page has one page more. */
	if (segments > 1)
		transfer = least(transfer, (segments - 1) * PAGE_BYTES);
	transfer -= transfer % PAGE_BYTES;
	path->transfer_bytes = transfer ? (uint32_t)transfer : PAGE_BYTES;
	zeroes = least(zeroes, commands_bytes);
	discard = least(discard, (uint64_t)UINT32_MAX << path->block_shift);
	path->zeroes_bytes = (uint32_t)(zeroes >> path->block_shift << path->block_shift);
	path->discard_bytes = discard >> path->block_shift << path->block_shift;
	path->deallocates = identity->deallocates;

	info->can_write_zeroes = path->zeroes_bytes && !info->read_only;
	info->can_discard = path->discard_bytes && !info->read_only;
	info->max_discard_bytes = RANGE_BYTES_MAX;
	if (info->can_write_zeroes)
		info->max_discard_bytes = least(info->max_discard_bytes, (uint64_t)path->zeroes_bytes * RANGE_COMMANDS_MAX);
	if (info->can_discard)
		info->max_discard_bytes = least(info->max_discard_bytes, path->discard_bytes * RANGE_COMMANDS_MAX);
	/* One command, or the driver would not have made it whole. */
	while (info->untorn_max_bytes > path->transfer_bytes)
		info->untorn_max_bytes /= 2;
	info->alignment = 4; /* of PRPs; the kernel copies what its driver cannot take */
	info->volatile_cache = identity->volatile_cache;
	info->fua_alone = true; /* a bit of the command, which fails by itself */
	info->writes_zeroes = false; /* the block device's answer does not count */
}

/* -- opening ----------------------------------------------------------------------------------- */

/* The node in /dev is what sysfs says. */
static int check_node(int fd, const char *name, dev_t device, char *error)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return tgt_error(error, -errno, "%s: %s", name, strerror(errno));
	if (st.st_rdev != device)
		return tgt_error(error, -ENXIO, "%s: another device than the kernel's of that name", name);
	return 0;
}

/*
 * The block device first, exclusively: whoever has mounted it, or part of it, keeps it. Data that others have read
 * through the page cache, or not written yet, would differ from what passthrough does.
 */
static int open_block(const struct tgt_volume_config *config, struct tgt_nvme_path *path, struct tgt_store_info *info,
		      char *error)
{
	struct tgt_volume_config block = *config;
	uint32_t zone_sectors = 0;
	int err;

	snprintf(block.path, sizeof(block.path), "%s", path->namespace.block);
	block.cache = TGT_CACHE_DIRECT;
	err = tgt_path_open(&block, &path->block, info, error);
	if (err)
		return err;
	err = check_node(path->block.fd, block.path, path->namespace.block_device, error);
	if (!err && ioctl(path->block.fd, BLKGETZONESZ, &zone_sectors) == 0 && zone_sectors)
		err = tgt_error(error, -EINVAL, "%s: a namespace of zones, which is not supported", block.path);
	if (!err && !info->read_only && fsync(path->block.fd) < 0)
		err = tgt_error(error, -errno, "%s: %s", block.path, strerror(errno));
	if (err) {
		close(path->block.fd);
		return err;
	}
	posix_fadvise(path->block.fd, 0, 0, POSIX_FADV_DONTNEED);
	return 0;
}

static int open_generic(const struct tgt_volume_config *config, struct tgt_nvme_path *path, char *error)
{
	struct tgt_volume_config generic = *config;
	int err;

	if (!path->namespace.has_generic)
		return tgt_error(error, -EOPNOTSUPP, "%s: the kernel has no generic device for it (Linux 5.13 and later do)",
				 path->namespace.block);
	snprintf(generic.path, sizeof(generic.path), "%s", path->namespace.generic);
	path->fd = tgt_path_claim(&generic, O_CLOEXEC | (config->read_only ? O_RDONLY : O_RDWR), false, error);
	/* As without CAP_SYS_ADMIN: the words remain, and the block layer serves it. */
	if (path->fd == -EACCES || path->fd == -EPERM)
		return -EOPNOTSUPP;
	if (path->fd < 0)
		return path->fd;
	err = check_node(path->fd, generic.path, path->namespace.generic_device, error);
	if (err)
		close(path->fd);
	return err;
}

static int path_learn(struct tgt_nvme_path *path, struct tgt_store_info *info, char *error)
{
	struct tgt_nvme_identity identity;
	int err = tgt_nvme_identify(path->fd, path->namespace.generic, &identity, error);

	if (err)
		return err;
	if (identity.block_bytes != info->block_bytes)
		return tgt_error(error, -EINVAL, "%s: blocks of %u bytes, but of %u bytes on %s", path->namespace.generic,
				 identity.block_bytes, info->block_bytes, path->namespace.block);
	path->nsid = identity.nsid;
	path->block_shift = (unsigned int)__builtin_ctz(identity.block_bytes);
	path_limits(path, &identity, info);
	return path_try(path, error);
}

int tgt_nvme_open(const struct tgt_volume_config *config, struct tgt_nvme_path *path, struct tgt_store_info *info,
		  char *error)
{
	int err;

	memset(path, 0, sizeof(*path));
	if (!config->path[0])
		return tgt_error(error, -EINVAL, "no path given");
	if (config->cache == TGT_CACHE_BUFFERED)
		return tgt_error(error, -EINVAL, "%s: passthrough has no page cache: remove cache = buffered", config->path);
	err = tgt_namespace_find(config->path, &path->namespace, error);
	if (err)
		return err;
	err = open_block(config, path, info, error);
	if (err)
		return err;
	err = open_generic(config, path, error);
	if (err)
		goto err_block;
	err = path_learn(path, info, error);
	if (err)
		goto err_generic;
	return 0;

err_generic:
	close(path->fd);
err_block:
	close(path->block.fd);
	return err;
}

void tgt_nvme_close(struct tgt_nvme_path *path)
{
	/* Data that others have read of the block device meanwhile may be older than what was written. */
	posix_fadvise(path->block.fd, 0, 0, POSIX_FADV_DONTNEED);
	close(path->fd);
	close(path->block.fd);
}

int tgt_nvme_size(const struct tgt_nvme_path *path, uint64_t *bytes)
{
	int block_bytes = 0;

	if (ioctl(path->block.fd, BLKSSZGET, &block_bytes) < 0)
		return -errno;
	if (block_bytes != 1 << path->block_shift)
		return -ESTALE;
	return tgt_path_size(&path->block, bytes);
}
