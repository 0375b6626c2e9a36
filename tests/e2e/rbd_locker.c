/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Locks an image of pool rbd by hand, says so, and gives it back when its input ends: rbd_locker IMAGE. */
#include <stdio.h>
#include <string.h>
#include <rados/librados.h>
#include <rbd/librbd.h>

static int failed(const char *what, int err)
{
	fprintf(stderr, "rbd_locker: %s: %s\n", what, strerror(-err));
	return 1;
}

int main(int argc, char **argv)
{
	rbd_image_t image;
	rados_ioctx_t io;
	rados_t cluster;
	int err;

	if (argc != 2)
		return 2;
	err = rados_create(&cluster, NULL);
	err = err ? err : rados_conf_read_file(cluster, NULL);
	err = err ? err : rados_connect(cluster);
	err = err ? err : rados_ioctx_create(cluster, "rbd", &io);
	err = err ? err : rbd_open(io, argv[1], &image, NULL);
	if (err)
		return failed("open", err);
	err = rbd_lock_acquire(image, RBD_LOCK_MODE_EXCLUSIVE);
	if (err)
		return failed("lock", err);
	printf("locked\n");
	fflush(stdout);
	while (getchar() != EOF)
		;
	rbd_lock_release(image);
	rbd_close(image);
	rados_ioctx_destroy(io);
	rados_shutdown(cluster);
	return 0;
}
