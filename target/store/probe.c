/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The questions of probe.h: ioctl and sysfs for devices, statx and trials for files. */
#include "target/store/probe.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "target/base/error.h"
#include "target/base/log.h"

/*
 * Longest range of one DISCARD or WRITE_ZEROES: with the device's or file system's help it is
 * bookkeeping; without, the kernel writes all those zeroes and other I/O waits behind them.
 */
#define RANGE_BYTES_HELPED (1u << 30)
#define RANGE_BYTES_WRITTEN (32u << 20)

#define BLOCK_BYTES_MIN 512u
#define BLOCK_BYTES_MAX 4096u

/* A word of /sys/dev/block/MAJOR:MINOR/queue; a partition's is its disk's. False: not there. */
static bool queue_word(dev_t device, const char *name, char *word, int bytes)
{
	static const char *const places[] = {"queue", "../queue"};
	char path[128];
	FILE *file = NULL;
	unsigned int i;
	bool got;

	for (i = 0; i < 2 && !file; i++) {
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/%s", major(device),
			 minor(device), places[i], name);
		file = fopen(path, "re");
	}
	if (!file)
		return false;
	got = fgets(word, bytes, file);
	fclose(file);
	if (got)
		word[strcspn(word, "\n")] = 0;
	return got;
}

uint64_t tgt_probe_queue(dev_t device, const char *name, uint64_t otherwise)
{
	char word[64];

	if (!queue_word(device, name, word, sizeof(word)))
		return otherwise;
	return strtoull(word, NULL, 10);
}

/*
 * The alignment of memory for direct I/O. Most devices take what is aligned to their blocks; some
 * (DASD on s390) need more. The kernel says it as a mask, since 6.0; before, blocks were enough for
 * all.
 */
static uint32_t queue_alignment(dev_t device, uint32_t block_bytes)
{
	uint64_t alignment = tgt_probe_queue(device, "dma_alignment", 0) + 1;

	return alignment > block_bytes ? (uint32_t)alignment : block_bytes;
}

static bool power_of_two(uint64_t value)
{
	return value && !(value & (value - 1));
}

int tgt_path_size(const struct tgt_path *path, uint64_t *bytes)
{
	struct stat st;

	if (path->device)
		return ioctl(path->fd, BLKGETSIZE64, bytes) < 0 ? -errno : 0;
	if (fstat(path->fd, &st) < 0)
		return -errno;
	*bytes = (uint64_t)st.st_size;
	return 0;
}

/* -- the cache epoch ------------------------------------------------------------------------- */

static int hex_digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* F7: a disk's cache is lost when the machine goes down: the epoch follows from the boot id
 * (path.c). */
static int boot_id(uint8_t id[16])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	char text[64] = "";
	unsigned int digits = 0;
	const char *next;

	if (!file)
		return -errno;
	if (!fgets(text, sizeof(text), file))
		text[0] = 0;
	fclose(file);
	memset(id, 0, 16);
	for (next = text; *next && digits < 32; next++) {
		if (!isxdigit((unsigned char)*next))
			continue;
		id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | hex_digit(*next));
		digits++;
	}
	return digits == 32 ? 0 : -EINVAL;
}

/* -- block devices ----------------------------------------------------------------------------- */

static int probe_device(const struct tgt_volume_config *config, struct tgt_path *path, dev_t device,
			struct tgt_store_info *info)
{
	int logical = 0, read_only = 0;
	unsigned int physical = 0, optimal = 0;
	bool zeroes, discards;
	char word[64] = "";

	if (ioctl(path->fd, BLKSSZGET, &logical) < 0 || ioctl(path->fd, BLKROGET, &read_only) < 0 ||
	    ioctl(path->fd, BLKPBSZGET, &physical) < 0 || ioctl(path->fd, BLKIOOPT, &optimal) < 0)
		return -errno;
	info->read_only = config->read_only || read_only;
	info->block_bytes = (uint32_t)logical;
	info->physical_bytes = physical;
	info->optimal_bytes = optimal;
	info->alignment = queue_alignment(device, (uint32_t)logical);
	info->rotational = tgt_probe_queue(device, "rotational", 0);
	/* Unknown counts as a cache: then flushes are sent, which is always safe. */
	info->volatile_cache = !path->direct ||
			       !queue_word(device, "write_cache", word, sizeof(word)) ||
			       strcmp(word, "write through") != 0;
	/*
	 * io_uring has no discard on these kernels, but punching a hole in a block device has the
	 * device zero it, unmapping where it likes, and is refused where it cannot. Zeroing a range
	 * always works: where the device has no command for it the kernel writes the zeroes. Some
	 * devices can discard and have no command for zeroes (dm-thin, most SATA SSDs), or turn out to have none
	 * (a SCSI disk that refuses WRITE SAME): the store's worker discards there.
	 */
	zeroes = tgt_probe_queue(device, "write_zeroes_max_bytes", 0) > 0;
	discards = tgt_probe_queue(device, "discard_max_bytes", 0) > 0;
	path->punch = zeroes && !info->read_only;
	info->writes_zeroes = !zeroes;
	/* Without a cache a flush has nothing to lose. With one, the kernel does a durable write as a write and a flush, and its
	 * error tells not which: a disk may report a flush, too, as a failure of its medium. */
	info->fua_alone = !info->volatile_cache;
	info->can_discard = discards && !info->read_only;
	info->can_write_zeroes = !info->read_only;
	info->max_discard_bytes = zeroes ? RANGE_BYTES_HELPED : RANGE_BYTES_WRITTEN;
	info->discard_granularity = (uint32_t)tgt_probe_queue(device, "discard_granularity", 0);
	return 0;
}

/* -- regular files ----------------------------------------------------------------------------- */

/*
 * Tried on the file itself, as its folder may be another user's and other files have other attributes. Beyond the end there is no
 * data, and the size stays, also one that grows just now; so the block that zeroing allocates there is given back by punching. ext4
 * keeps it until the file grows over it. A file system that is full could do it, if it had room. 0 or negative errno.
 */
static int range_try(int fd, int mode, off_t size)
{
	off_t end = (size + BLOCK_BYTES_MAX - 1) & ~(off_t)(BLOCK_BYTES_MAX - 1);

	if (fallocate(fd, mode | FALLOC_FL_KEEP_SIZE, end, BLOCK_BYTES_MAX) == 0 || errno == ENOSPC || errno == EDQUOT)
		return 0;
	return -errno;
}

/* `command` is not offered. It would be missed by who copies, and the reason is not to be seen elsewhere. */
static bool range_works(const struct tgt_volume_config *config, const char *command, int err)
{
	if (err)
		tgt_log(TGT_LOG_WARNING, "volume %s: %s: %s is not offered: its file system refuses it: %s", config->name,
			config->path, command, strerror(-err));
	return !err;
}

/*
 * Direct I/O's alignments as the file system states them, or as the disk below it has them. Where neither is known (btrfs and
 * network file systems on older kernels), it may go through the page cache, whatever O_DIRECT says.
 */
static int probe_file_alignment(const struct tgt_path *path, const struct stat *st,
				struct tgt_store_info *info)
{
	struct statx stx;

	memset(&stx, 0, sizeof(stx));
	if (statx(path->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
	    stx.stx_mask & STATX_DIOALIGN) {
		if (!stx.stx_dio_offset_align || !stx.stx_dio_mem_align)
			return -EOPNOTSUPP;
		info->block_bytes = stx.stx_dio_offset_align;
		info->alignment = stx.stx_dio_mem_align;
		return 0;
	}
	info->block_bytes = (uint32_t)tgt_probe_queue(st->st_dev, "logical_block_size", 0);
	if (!info->block_bytes) {
		info->block_bytes = BLOCK_BYTES_MIN;
		info->buffered = true;
	}
	info->alignment = queue_alignment(st->st_dev, info->block_bytes);
	return 0;
}

static int probe_file(const struct tgt_volume_config *config, struct tgt_path *path,
		      const struct stat *st, struct tgt_store_info *info)
{
	int status;

	info->read_only = config->read_only;
	info->block_bytes = BLOCK_BYTES_MIN;
	info->alignment = 1;
	if (path->direct) {
		status = probe_file_alignment(path, st, info);
		if (status < 0)
			return status;
	}
	info->physical_bytes =
		power_of_two((uint64_t)st->st_blksize) ? (uint32_t)st->st_blksize : BLOCK_BYTES_MAX;
	info->rotational = tgt_probe_queue(st->st_dev, "rotational", 0);
	info->volatile_cache = true; /* the file system's own, and the disk's below it */
	info->can_extents = true;    /* if it does not know holes, the kernel reports all as data */
	if (info->read_only)
		return 0;
	info->can_write_zeroes =
		range_works(config, "WRITE_ZEROES", range_try(path->fd, FALLOC_FL_ZERO_RANGE, st->st_size));
	info->can_discard = range_works(config, "DISCARD", range_try(path->fd, FALLOC_FL_PUNCH_HOLE, st->st_size));
	path->punch = info->can_discard;
	info->max_discard_bytes = RANGE_BYTES_HELPED;
	info->discard_granularity = info->physical_bytes;
	return 0;
}

/*
 * The disk's requests, if it says how many it has: more transfers would only block threads that wait for one. Ranges always
 * block, on a slow disk for long.
 */
#define TRANSFERS_MIN 32u
#define TRANSFERS_MAX 256u
#define RANGES_MAX 2u
#define LOOKUPS_MAX 2u

static void probe_depths(dev_t device, struct tgt_depths *depths)
{
	uint64_t requests = tgt_probe_queue(device, "nr_requests", TRANSFERS_MAX);

	if (requests > TRANSFERS_MAX)
		requests = TRANSFERS_MAX;
	if (requests < TRANSFERS_MIN)
		requests = TRANSFERS_MIN;
	*depths = (struct tgt_depths){.transfers = (uint32_t)requests, .ranges = RANGES_MAX, .lookups = LOOKUPS_MAX};
}

/* -- untorn writes ----------------------------------------------------------------------------- */

/* In struct statx since Linux 6.11: newer than the headers that this has to build with. */
#define PROBE_STATX_WRITE_ATOMIC 0x10000u
#define PROBE_STATX_UNITS_AT 0xa8u /* stx_atomic_write_unit_min, and then _max */

/*
 * With O_DIRECT alone: the page cache writes back what it likes. The kernel has halved the units until none crosses a
 * boundary of the disk's.
 */
static void probe_untorn(int fd, struct tgt_store_info *info)
{
	struct statx stx;
	uint32_t units[2];

	memset(&stx, 0, sizeof(stx));
	if (statx(fd, "", AT_EMPTY_PATH, PROBE_STATX_WRITE_ATOMIC, &stx) || !(stx.stx_mask & PROBE_STATX_WRITE_ATOMIC))
		return;
	memcpy(units, (const char *)&stx + PROBE_STATX_UNITS_AT, sizeof(units));
	if (!power_of_two(units[0]) || !power_of_two(units[1]))
		return;
	info->untorn_min_bytes = units[0];
	info->untorn_max_bytes = units[1];
}

/* -- both -------------------------------------------------------------------------------------- */

int tgt_path_probe(const struct tgt_volume_config *config, struct tgt_path *path,
		   struct tgt_store_info *info, char *error)
{
	struct stat st;
	int status;

	memset(info, 0, sizeof(*info));
	info->buffered = !path->direct;
	if (fstat(path->fd, &st) < 0)
		return tgt_error(error, -errno, "%s: %s", config->path, strerror(errno));
	status = path->device ? probe_device(config, path, st.st_rdev, info)
			      : probe_file(config, path, &st, info);
	if (status == -EOPNOTSUPP)
		return tgt_error(error, status,
				 "%s: the file system has no O_DIRECT; try cache = buffered",
				 config->path);
	probe_depths(path->device ? st.st_rdev : st.st_dev, &info->depths);
	if (status == 0)
		status = tgt_path_size(path, &info->bytes);
	if (status == 0)
		status = boot_id(info->cache_epoch);
	if (status < 0)
		return tgt_error(error, status, "%s: %s", config->path, strerror(-status));
	if (info->read_only && !config->read_only)
		return tgt_error(error, -EROFS, "%s: the device is read-only; set read_only = yes",
				 config->path);
	if (info->block_bytes < BLOCK_BYTES_MIN)
		info->block_bytes = BLOCK_BYTES_MIN;
	if (info->block_bytes > BLOCK_BYTES_MAX || !power_of_two(info->block_bytes) ||
	    info->alignment > BLOCK_BYTES_MAX)
		return tgt_error(error, -EINVAL,
				 "%s: direct I/O needs units of %u bytes; at most %u are supported",
				 config->path, info->block_bytes, BLOCK_BYTES_MAX);
	if (!power_of_two(info->physical_bytes))
		info->physical_bytes = info->block_bytes;
	info->can_flush = true;
	info->can_fua = true; /* RWF_DSYNC */
	if (path->direct && !info->buffered)
		probe_untorn(path->fd, info);
	return 0;
}
