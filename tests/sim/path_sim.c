/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * target/store/path.h on simulated disks: opening, the lock (F6), and the cache epoch, which is the
 * machine's boot (F7), and whether the kernel still knows of failed writes. No disk is an NVMe namespace. Linked instead of
 * target/store/path.c, probe.c, nvme_path.c and store_key.c. Waiting for a lock is left to whoever starts the process (host.c).
 */
#include "target/store/nvme_path.h"
#include "target/store/store_key.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "target/base/error.h"
#include "target/store/domain.h"
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/rados.h"
#include "tests/sim/socket_sim.h"
#include "tests/sim/thread.h"
#include "tests/sim/trace.h"

#define RANGE_BYTES_MAX (1u << 20)
#define HOLE_BYTES 4096u

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	struct sim_file *file = sim_file_of_fd(fd);

	if (sim_eventfd_close(fd) || sim_socket_close(fd))
		return 0;
	if (!file)
		return __real_close(fd);
	sim_file_close(file);
	return 0;
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	struct sim_file *file = sim_file_of_fd(fd);
	int err;

	if (!file)
		return __real_fdatasync(fd);
	err = sim_disk_sync(file);
	if (!err)
		return 0;
	errno = -err;
	return -1;
}

/* Of a disk: what a file system says of a file. Its blocks that are zero are holes. */
static off_t disk_seek(const struct sim_disk *disk, off_t offset, bool data)
{
	uint64_t at = (uint64_t)offset;

	for (; at < disk->bytes; at = (at / HOLE_BYTES + 1) * HOLE_BYTES)
		if (sim_disk_is_zero(disk, at / HOLE_BYTES * HOLE_BYTES, HOLE_BYTES) != data)
			return (off_t)at;
	if (!data)
		return (off_t)disk->bytes;
	errno = ENXIO;
	return -1;
}

off_t __real_lseek(int fd, off_t offset, int whence);
off_t __wrap_lseek(int fd, off_t offset, int whence);
off_t __wrap_lseek(int fd, off_t offset, int whence)
{
	struct sim_file *file = sim_file_of_fd(fd);

	if (!file)
		return __real_lseek(fd, offset, whence);
	sim_reached("disk", "is asked for its holes", NULL);
	return disk_seek(file->disk, offset, whence == SEEK_DATA);
}

static struct tgt_store_id id_of(const struct sim_disk *disk)
{
	return (struct tgt_store_id){.device = (uintptr_t)disk, .is_device = true};
}

int tgt_path_identify(const char *path, struct tgt_store_id *id)
{
	const struct sim_disk *disk = sim_disk_find(path);

	if (!disk)
		return -ENOENT;
	*id = id_of(disk);
	return 0;
}

/* Nobody waits for another process, or only a gateway for its cluster. */
bool tgt_path_interrupted(void)
{
	return sim_rados_process_is_dead(sim_actor_self()->machine);
}

/* Nothing is kept of which volume it is. */
int tgt_store_key(const char *path, char key[TGT_STORE_KEY_BYTES])
{
	(void)path;
	key[0] = 0;
	return -ENOENT;
}

int tgt_path_size(const struct tgt_path *path, uint64_t *bytes)
{
	*bytes = sim_file_of_fd(path->fd)->disk->bytes;
	return 0;
}

int tgt_path_open(const struct tgt_volume_config *config, struct tgt_path *path,
		  struct tgt_store_info *info, char *error)
{
	struct sim_disk *disk = sim_disk_find(config->path);
	struct sim_file *file;

	if (!disk)
		return tgt_error(error, -ENOENT, "%s: no such disk", config->path);
	file = sim_file_open(disk, config->read_only);
	if (!file)
		return tgt_error(error, -EBUSY, "%s: in use", config->path);
	*path = (struct tgt_path){
		.fd = file->fd, .device = true, .punch = disk->can_discard};
	*info = (struct tgt_store_info){
		.bytes = disk->bytes,
		.block_bytes = disk->block_bytes,
		.physical_bytes = disk->block_bytes,
		.alignment = disk->alignment,
		.untorn_min_bytes = disk->untorn_bytes ? disk->block_bytes : 0,
		.untorn_max_bytes = disk->untorn_bytes,
		.discard_granularity = disk->block_bytes,
		.max_discard_bytes = RANGE_BYTES_MAX,
		.can_flush = true,
		.can_fua = true,
		.can_discard = disk->can_discard,
		.can_write_zeroes = true,
		.can_extents = disk->can_extents,
		.volatile_cache = disk->volatile_cache,
		.id = id_of(disk),
	};
	memcpy(info->cache_epoch, disk->boot_id, sizeof(info->cache_epoch));
	tgt_domain_local(info, config);
	info->cache_kept = !disk->forgotten;
	/* What a target says that no session may use is nobody's concern (F10). */
	if (sim_actor_self()->machine != sim_stranger &&
	    (!*disk->remembers_failed_syncs || !sim_failed_sync_file_is_there(disk) ||
	     (disk->forgotten && !sim_failed_sync_file_is_clean(disk))))
		disk->doubted(disk->user);
	if (!config->read_only)
		disk->forgotten = false;
	return 0;
}

/* F10: of the machine, and of the disk. */
void tgt_domain_local(struct tgt_store_info *info, const struct tgt_volume_config *config)
{
	const char *name = config->path;

	memset(info->fence_domain, 0, sizeof(info->fence_domain));
	memcpy(info->fence_domain, name, strnlen(name, sizeof(info->fence_domain) - 1));
	info->fence_domain[sizeof(info->fence_domain) - 1] = (uint8_t)(sim_actor_self()->machine + 1);
}

void tgt_domain_warn(const struct tgt_store_info *info, const struct tgt_volume_config *config)
{
	(void)info;
	(void)config;
}

bool tgt_nvme_is_generic(const char *path)
{
	(void)path;
	return false;
}

int tgt_nvme_open(const struct tgt_volume_config *config, struct tgt_nvme_path *path, struct tgt_store_info *info,
		  char *error)
{
	(void)path;
	(void)info;
	return tgt_error(error, -ENODEV, "%s: no NVMe namespace", config->path);
}

void tgt_nvme_close(struct tgt_nvme_path *path)
{
	sim_fail("%s: was never open", path->namespace.generic);
}

int tgt_nvme_size(const struct tgt_nvme_path *path, uint64_t *bytes)
{
	return tgt_path_size(&path->block, bytes);
}
