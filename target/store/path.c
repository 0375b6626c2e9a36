/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Opening and locking of path.h. probe.c finds out what the file or device can do. */
#include "target/store/path.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>
#include "proto/core/env.h"
#include "proto/words/units.h"
#include "target/base/denied.h"
#include "target/base/error.h"
#include "target/base/lock_holder.h"
#include "target/base/log.h"
#include "target/store/device_name.h"
#include "target/store/domain.h"
#include "target/store/nvme_namespace.h"
#include "target/store/probe.h"

#define LOCK_RETRY_NS 50000000 /* short for a human, long for a CPU */

static struct tgt_store_id id_of_device(uint64_t device)
{
	struct tgt_store_id id = {.device = device, .is_device = true};
	char name[TGT_DEVICE_NAME_BYTES];

	if (tgt_device_name("", device, name))
		uuid_generate_sha1(id.disk, (const uuid_t){0}, name, strlen(name));
	return id;
}

static struct tgt_store_id id_of(const struct stat *st)
{
	if (S_ISBLK(st->st_mode))
		return id_of_device(st->st_rdev);
	return (struct tgt_store_id){.device = st->st_dev, .inode = st->st_ino};
}

int tgt_path_identify(const char *path, struct tgt_store_id *id)
{
	struct tgt_namespace namespace;
	char ignored[TGT_ERROR_BYTES];
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	*id = id_of(&st);
	if (S_ISCHR(st.st_mode) && tgt_namespace_find(path, &namespace, ignored) == 0)
		*id = id_of_device(namespace.block_device);
	return 0;
}

/* -- F6: one server at a time --------------------------------------------------------------- */

/* Who holds the lock, in words; `otherwise` if nobody knows. */
static void holder_words(const char *path, const char *otherwise, char *words, size_t bytes)
{
	char comm[64] = "", comm_path[64];
	int holder = tgt_lock_holder(path);
	FILE *file;

	snprintf(words, bytes, "%s", otherwise);
	if (holder <= 0)
		return;
	/* volume.c has checked that it is not served under two names. */
	if (holder == getpid()) {
		snprintf(words, bytes, "this process, for a volume that is being closed");
		return;
	}
	snprintf(comm_path, sizeof(comm_path), "/proc/%d/comm", holder);
	file = fopen(comm_path, "re");
	if (file) {
		if (fgets(comm, sizeof(comm), file))
			comm[strcspn(comm, "\n")] = 0;
		fclose(file);
	}
	if (comm[0])
		snprintf(words, bytes, "process %d (%s)", holder, comm);
	else
		snprintf(words, bytes, "process %d, which has ended, but its I/O has not", holder);
}

static _Atomic bool interrupted;

void tgt_path_interrupt(bool interrupt)
{
	atomic_store(&interrupted, interrupt);
}

/* At the start, signals stay pending for the signalfd; later, tgt_path_interrupt() is called. */
bool tgt_path_interrupted(void)
{
	sigset_t pending;

	if (atomic_load(&interrupted))
		return true;
	return sigpending(&pending) == 0 &&
	       (sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT));
}

/*
 * One attempt. -EBUSY: it is in use; `words`, if it is not NULL, says by whom. A block device is
 * opened exclusively, too, which fails for disks that this machine has mounted or uses in another
 * device.
 */
static int path_open_locked(const struct tgt_volume_config *config, int flags, bool device,
			    char *words, size_t bytes, char *error)
{
	bool writes = !config->read_only;
	char advice[TGT_DENIED_BYTES];
	int fd, status;

	fd = open(config->path, flags | (device && writes ? O_EXCL : 0));
	if (fd < 0 && errno == EBUSY && device) {
		if (words)
			holder_words(config->path,
				     "this machine (mounted, swap, or part of another device)",
				     words, bytes);
		return -EBUSY;
	}
	if (fd < 0 && errno == EINVAL && flags & O_DIRECT)
		return tgt_error(error, -EOPNOTSUPP,
				 "%s: the file system has no O_DIRECT; try cache = buffered",
				 config->path);
	if (fd < 0)
		return tgt_error(error, -errno, "%s: %s%s", config->path, strerror(errno),
				 tgt_denied(config->path, errno, advice));
	/*
	 * F6: the lock belongs to the file description, which io_uring's requests hold. A killed
	 * predecessor's lock is released when its last I/O has ended, so that I/O cannot overtake
	 * ours. Readers exclude only writers.
	 */
	if (flock(fd, (writes ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0)
		return fd;
	status = -errno;
	if (status == -EWOULDBLOCK) {
		if (words)
			holder_words(config->path, "another process", words, bytes);
		status = -EBUSY;
	} else {
		tgt_error(error, status, "%s: flock: %s", config->path, strerror(-status));
	}
	close(fd);
	return status;
}

int tgt_path_claim(const struct tgt_volume_config *config, int flags, bool device, char *error)
{
	const struct timespec pause = {.tv_nsec = LOCK_RETRY_NS};
	uint64_t deadline = env_now_ns() + (uint64_t)config->lock_wait_ms * 1000000u;
	bool said = false;
	char words[160], wait[UNITS_TEXT_BYTES];
	int fd;

	for (;;) {
		bool last = env_now_ns() >= deadline;

		/* Who it is can have changed by the last attempt. */
		fd = path_open_locked(config, flags, device, !said || last ? words : NULL,
				      sizeof(words), error);
		if (fd != -EBUSY)
			return fd;
		if (last)
			return tgt_error(error, -EBUSY, "%s: in use by %s", config->path, words);
		if (tgt_path_interrupted())
			return tgt_error(error, -EINTR, "%s: in use by %s; stopped waiting",
					 config->path, words);
		if (!said)
			tgt_log(TGT_LOG_WARNING,
				"volume %s: %s: waiting up to %s: in use by %s", config->name, config->path,
				units_text(UNITS_TIME_MS, config->lock_wait_ms, wait), words);
		said = true;
		nanosleep(&pause, NULL);
	}
}

/* -- opening ----------------------------------------------------------------------------------- */

/*
 * F7: the machine's boot, and which file or device it is: what was acknowledged of another one is
 * not on this one. A file's file system may be mounted again, so its birth counts rather than the
 * number of the device. A device that was away has lost its cache.
 */
static void path_epoch(const struct tgt_path *path, struct tgt_store_info *info)
{
	uint64_t sequence = 0;
	uint8_t boot[16];
	char text[128];
	int length;

	if (path->device && ioctl(path->fd, BLKGETDISKSEQ, &sequence))
		sequence = 0; /* before Linux 5.15 */
	memcpy(boot, info->cache_epoch, sizeof(boot));
	length = snprintf(text, sizeof(text),
			  "%d %" PRIx64 " %" PRIx64 " %" PRIx64 ".%" PRIu64 " %" PRIx64,
			  info->id.is_device, info->born_s ? 0 : info->id.device, info->id.inode,
			  info->born_s, info->born_ns, sequence);
	uuid_generate_sha1(info->cache_epoch, boot, text, (size_t)length);
}

/*
 * The kernel tells a failed write of a file to whoever opens it next, but only while it keeps the file's inode; it drops that
 * when memory is short, or when the file system is mounted anew. So the inode is labelled by a write hint, which is in its
 * memory only, with a value that means the same as none. True: it still has the label of the last process that served it.
 * Another user's file cannot be labelled: it counts as one whose inode was dropped. Errors of a device are kept until the
 * device goes, which path_epoch() sees.
 */
static bool path_label(const struct tgt_path *path, bool writes)
{
	uint64_t label = RWH_WRITE_LIFE_NONE, found = 0;

	if (path->device)
		return true;
	if (fcntl(path->fd, F_GET_RW_HINT, &found))
		found = 0;
	if (writes && found != label)
		fcntl(path->fd, F_SET_RW_HINT, &label);
	return found == label;
}

/* path->device and path->direct say how. -EOPNOTSUPP: not with O_DIRECT. */
static int path_open_as(const struct tgt_volume_config *config, struct tgt_path *path,
			struct tgt_store_info *info, char *error)
{
	int flags = O_CLOEXEC | (config->read_only ? O_RDONLY : O_RDWR);
	struct statx stx;
	struct stat st;
	int status;

	if (path->direct)
		flags |= O_DIRECT;
	path->fd = tgt_path_claim(config, flags, path->device, error);
	if (path->fd < 0)
		return path->fd;
	status = tgt_path_probe(config, path, info, error);
	if (status == 0 && fstat(path->fd, &st) < 0)
		status = tgt_error(error, -errno, "%s: %s", config->path, strerror(errno));
	if (status < 0) {
		close(path->fd);
		return status;
	}
	info->id = id_of(&st);
	if (!path->device && statx(path->fd, "", AT_EMPTY_PATH, STATX_BTIME, &stx) == 0 &&
	    stx.stx_mask & STATX_BTIME) {
		info->born_s = (uint64_t)stx.stx_btime.tv_sec;
		info->born_ns = stx.stx_btime.tv_nsec;
	}
	path_epoch(path, info);
	tgt_domain_local(info, config);
	info->cache_kept = path_label(path, !info->read_only && !config->read_only);
	return 0;
}

/* Logged only when it is served: one that is not is tried again. */
static void say_buffered(const struct tgt_volume_config *config)
{
	tgt_log(TGT_LOG_WARNING,
		"volume %s: %s: the file system has no O_DIRECT: served through the page cache (set cache = buffered to avoid "
		"this warning)",
		config->name, config->path);
}

/* A device is opened to be read: one that was open to be written makes udev look at it again. */
int tgt_path_look(const struct tgt_volume_config *config, char *error)
{
	struct tgt_path path = {.fd = -1, .direct = config->cache != TGT_CACHE_BUFFERED};
	struct tgt_store_info info;
	char advice[TGT_DENIED_BYTES];
	struct stat st;
	int status = -EOPNOTSUPP;

	path.device = stat(config->path, &st) == 0 && S_ISBLK(st.st_mode);
	for (bool more = true; more;) {
		int flags = O_CLOEXEC | (config->read_only || path.device ? O_RDONLY : O_RDWR) | (path.direct ? O_DIRECT : 0);

		path.fd = open(config->path, flags);
		if (path.fd < 0 && !(errno == EINVAL && path.direct))
			return tgt_error(error, -errno, "%s: %s%s", config->path, strerror(errno),
					 tgt_denied(config->path, errno, advice));
		if (path.fd >= 0) {
			status = tgt_path_probe(config, &path, &info, error);
			close(path.fd);
		} else {
			status = tgt_error(error, -EOPNOTSUPP, "%s: the file system has no O_DIRECT; try cache = buffered", config->path);
		}
		more = status == -EOPNOTSUPP && path.direct && config->cache == TGT_CACHE_AUTO;
		path.direct = path.direct && !more;
	}
	if (status == 0 && !path.direct && config->cache == TGT_CACHE_AUTO)
		say_buffered(config);
	return status;
}

int tgt_path_open(const struct tgt_volume_config *config, struct tgt_path *path,
		  struct tgt_store_info *info, char *error)
{
	char advice[TGT_DENIED_BYTES];
	struct stat st;
	int status;

	if (!config->path[0])
		return tgt_error(error, -EINVAL, "no path given");
	if (stat(config->path, &st) < 0)
		return tgt_error(error, -errno, "%s: %s%s", config->path, strerror(errno),
				 tgt_denied(config->path, errno, advice));
	if (S_ISDIR(st.st_mode))
		return tgt_error(error, -EISDIR, "%s: %s", config->path, strerror(EISDIR));
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return tgt_error(error, -EINVAL, "%s: neither a file nor a block device",
				 config->path);
	*path = (struct tgt_path){.device = S_ISBLK(st.st_mode),
				  .direct = config->cache != TGT_CACHE_BUFFERED};
	status = path_open_as(config, path, info, error);
	if (status != -EOPNOTSUPP || config->cache != TGT_CACHE_AUTO)
		return status;
	path->direct = false;
	status = path_open_as(config, path, info, error);
	if (status == 0)
		say_buffered(config);
	return status;
}
