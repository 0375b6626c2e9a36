/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Binds the control socket, and removes it. */
#include "target/watch/control_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "target/base/denied.h"
#include "target/base/error.h"
#include "target/base/lock_holder.h"
#include "target/base/log.h"
#include "target/base/owner.h"

#define BACKLOG 16
#define LOCK_PATH_BYTES (sizeof(((struct sockaddr_un *)0)->sun_path) + 8)

bool tgt_control_socket_init(struct tgt_control_socket *control, const char *path)
{
	memset(control, 0, sizeof(*control));
	control->lock = control->fd = -1;
	control->address.sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(control->address.sun_path))
		return false;
	strcpy(control->address.sun_path, path);
	return true;
}

/* The folder of the path, if only it is missing: that of the default is made by the unit. */
static void folder_make(const char *path)
{
	char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char *slash;

	strcpy(folder, path);
	slash = strrchr(folder, '/');
	if (!slash || slash == folder)
		return;
	*slash = '\0';
	mkdir(folder, 0755);
}

static void lock_path(const struct tgt_control_socket *control, char path[LOCK_PATH_BYTES])
{
	snprintf(path, LOCK_PATH_BYTES, "%s.lock", control->address.sun_path);
}

/* Whoever had it before has removed it meanwhile: the lock is of a file that nobody else finds. */
static bool lock_is_gone(int fd, const char *path)
{
	struct stat here, there;

	return fstat(fd, &here) || stat(path, &there) || here.st_dev != there.st_dev || here.st_ino != there.st_ino;
}

/* Another user's file cannot be locked; what it has left is replaced if that one's daemon is gone. Negative errno. */
static int lock_open(const char *path)
{
	const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
	int fd = open(path, flags, 0600);

	if (fd < 0 && errno == EACCES && !access(path, F_OK)) {
		if (tgt_lock_holder(path))
			return -EAGAIN;
		if (unlink(path))
			return -errno;
		fd = open(path, flags | O_EXCL, 0600);
	}
	if (fd < 0)
		return -errno;
	tgt_owner_give(fd, path);
	return fd;
}

static int lock_take(struct tgt_control_socket *control, char *error)
{
	char path[LOCK_PATH_BYTES], advice[TGT_DENIED_BYTES];
	int fd, err;

	lock_path(control, path);
	fd = lock_open(path);
	if (fd < 0)
		err = fd;
	else if (flock(fd, LOCK_EX | LOCK_NB))
		err = -errno;
	else
		err = lock_is_gone(fd, path) ? -EAGAIN : 0;
	if (!err) {
		control->lock = fd;
		return 0;
	}
	if (fd >= 0)
		close(fd);
	if (err == -EAGAIN)
		return tgt_error(error, err, "control_socket: %s: another rblkd has it", control->address.sun_path);
	return tgt_error(error, err, "control_socket: %s: %s%s", path, strerror(-err), tgt_denied(path, err, advice));
}

/* The group's members may connect. */
static void group_give(const struct tgt_control_socket *control)
{
	const struct group *group = getgrnam(TGT_SOCKET_GROUP);
	const char *path = control->address.sun_path;

	if (!group)
		return;
	if (chown(path, (uid_t)-1, group->gr_gid) || chmod(path, 0660))
		tgt_log(TGT_LOG_WARNING, "control_socket: %s: not for group %s: %s", path,
			TGT_SOCKET_GROUP, strerror(errno));
}

static int socket_listen(struct tgt_control_socket *control, char *error)
{
	const char *path = control->address.sun_path;
	struct stat st;

	if (lstat(path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return tgt_error(error, -EEXIST,
					 "control_socket: %s: exists, and is not a socket of rblkd", path);
		if (unlink(path))
			return tgt_error(error, -errno, "control_socket: %s: cannot be removed: %s", path,
					 strerror(errno));
	}
	control->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* The file gets the mode of the socket: nobody else connects before it is the group's. */
	if (control->fd < 0 || fchmod(control->fd, 0600) ||
	    bind(control->fd, (const struct sockaddr *)&control->address, sizeof(control->address)) ||
	    listen(control->fd, BACKLOG))
		return tgt_error(error, -errno, "control_socket: %s: %s", path, strerror(errno));
	group_give(control);
	return 0;
}

int tgt_control_socket_take(struct tgt_control_socket *control, char *error)
{
	int status;

	folder_make(control->address.sun_path);
	status = lock_take(control, error);
	if (status)
		return status;
	status = socket_listen(control, error);
	if (status) {
		if (control->fd >= 0)
			close(control->fd);
		close(control->lock);
		control->fd = control->lock = -1;
	}
	return status;
}

void tgt_control_socket_leave(struct tgt_control_socket *control)
{
	char path[LOCK_PATH_BYTES];

	if (control->fd < 0)
		return;
	lock_path(control, path);
	unlink(control->address.sun_path);
	close(control->fd);
	/* Otherwise a daemon of another user could never lock it. */
	unlink(path);
	close(control->lock); /* last: until then nobody else makes one */
	control->fd = control->lock = -1;
}
