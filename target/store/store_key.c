/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The texts of store_key.h. They must be the same in every version and on every kernel: what asks for them is fixed for
 * each kind of file system.
 */
#include "target/store/store_key.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/btrfs.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "target/store/device_name.h"
#include "target/store/path.h"

/* -- files ------------------------------------------------------------------------------------- */

/* XFS_IOC_FSGEOMETRY_V1, of which the kernel's headers for programs know nothing. */
struct xfs_geometry {
	uint32_t numbers[8];
	uint64_t blocks[4];
	uint8_t uuid[16];
	uint32_t more[7];
};
#define XFS_GEOMETRY _IOR('X', 100, struct xfs_geometry)

static void text_of_uuid(const uint8_t uuid[16], char text[40])
{
	for (unsigned int i = 0; i < 16; i++)
		snprintf(text + 2 * i, 3, "%02x", uuid[i]);
}

/*
 * The file system's UUID, or "-": then the birth of the file has to tell it from those of others. statfs()'s number is
 * made of it on ext4; on most others of the device's number, which changes.
 */
static void file_system(int fd, char text[40])
{
	struct btrfs_ioctl_fs_info_args btrfs;
	struct xfs_geometry xfs;
	struct statfs fs;

	strcpy(text, "-");
	if (fstatfs(fd, &fs))
		return;
	memset(&btrfs, 0, sizeof(btrfs));
	if (fs.f_type == EXT4_SUPER_MAGIC)
		snprintf(text, 40, "%08x%08x", (unsigned int)fs.f_fsid.__val[0], (unsigned int)fs.f_fsid.__val[1]);
	else if (fs.f_type == XFS_SUPER_MAGIC && ioctl(fd, XFS_GEOMETRY, &xfs) == 0)
		text_of_uuid(xfs.uuid, text);
	else if (fs.f_type == BTRFS_SUPER_MAGIC && ioctl(fd, BTRFS_IOC_FS_INFO, &btrfs) == 0)
		text_of_uuid(btrfs.fsid, text);
}

static void file_key(int fd, char key[TGT_STORE_KEY_BYTES])
{
	struct statx stx;
	char fs[40];

	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &stx))
		return;
	file_system(fd, fs);
	/* Neither: an inode's number alone is no identity. */
	if (!(stx.stx_mask & STATX_BTIME) && fs[0] == '-')
		return;
	if (!(stx.stx_mask & STATX_BTIME))
		memset(&stx.stx_btime, 0, sizeof(stx.stx_btime));
	snprintf(key, TGT_STORE_KEY_BYTES, "file %s %" PRIu64 " %" PRId64 ".%09u", fs, (uint64_t)stx.stx_ino,
		 (int64_t)stx.stx_btime.tv_sec, stx.stx_btime.tv_nsec);
}

int tgt_store_key(const char *path, char key[TGT_STORE_KEY_BYTES])
{
	struct tgt_store_id id;
	int err = tgt_path_identify(path, &id);
	int fd;

	key[0] = 0;
	if (err)
		return err;
	if (id.is_device) {
		tgt_device_name("", id.device, key);
		return 0;
	}
	/* Not a pipe that somebody has put there, which would hold us up. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? -ENOENT : 0;
	file_key(fd, key);
	close(fd);
	return 0;
}
