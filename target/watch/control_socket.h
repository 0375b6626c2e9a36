/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The place of the control socket in the file system. A lock on a file beside it says whose it is, so
 * that what a killed daemon has left is replaced, and a living daemon's socket never is.
 */
#ifndef RBLK_TARGET_WATCH_CONTROL_SOCKET_H
#define RBLK_TARGET_WATCH_CONTROL_SOCKET_H

#include <stdbool.h>
#include <sys/un.h>

/* Who may connect besides the daemon's own user and root: this group, if there is one. */
#define TGT_SOCKET_GROUP "rblk"

struct tgt_control_socket {
	struct sockaddr_un address;
	int lock; /* -1: not ours */
	int fd;	  /* listens; -1: likewise */
};

/* False: the path is too long. */
bool tgt_control_socket_init(struct tgt_control_socket *control, const char *path);
/* 0: control->fd listens. -EAGAIN: another daemon has it. Otherwise negative errno; error
 * (TGT_ERROR_BYTES) says what failed. Can be called again. */
int tgt_control_socket_take(struct tgt_control_socket *control, char *error);
void tgt_control_socket_leave(struct tgt_control_socket *control);

#endif
