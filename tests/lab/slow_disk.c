/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A block device whose writes take as long as the job wants, each independent of others, so that a
 * later one may overtake an earlier one, as on a disk that retries a bad sector; see nbd_disk.h.
 *   slow_disk DEVICE MEGABYTES SLOW
 * A write that arrives while the file SLOW exists removes it and waits in its own thread until the
 * file SLOW.go exists; "SLOW.landed" is created when it is done. All other I/O is done at once.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/lab/nbd_disk.h"

#define NAME_BYTES 256

static const char *slow;

struct late_write {
	struct nbd_request request;
	unsigned char *data;
};

static void slow_name(char name[NAME_BYTES], const char *suffix)
{
	if (snprintf(name, NAME_BYTES, "%s%s", slow, suffix) >= NAME_BYTES)
		exit(2);
}

static void land(const struct nbd_request *request, unsigned char *data)
{
	memcpy(nbd_disk.memory + nbd_disk_from(request), data, nbd_disk_length(request));
	free(data);
}

static void *late(void *arg)
{
	struct late_write *write_ = arg;
	char name[NAME_BYTES];
	int fd;

	slow_name(name, ".go");
	while (access(name, F_OK))
		usleep(20000);
	land(&write_->request, write_->data);
	slow_name(name, ".landed");
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		nbd_disk_fail(name);
	close(fd);
	nbd_disk_answer(&write_->request);
	free(write_);
	return NULL;
}

static void slow_write(const struct nbd_request *request, unsigned char *data, bool fua)
{
	struct late_write *write_;
	pthread_t thread;

	(void)fua;
	if (unlink(slow)) {
		land(request, data);
		nbd_disk_answer(request);
		return;
	}
	write_ = malloc(sizeof(*write_));
	if (!write_)
		nbd_disk_fail("malloc");
	*write_ = (struct late_write){.request = *request, .data = data};
	if (pthread_create(&thread, NULL, late, write_))
		nbd_disk_fail("pthread_create");
	pthread_detach(thread);
}

int main(int argc, char **argv)
{
	static const struct nbd_disk_ops ops = {.write = slow_write, .flush = nbd_disk_answer};

	if (argc != 4)
		return 2;
	slow = argv[3];
	return nbd_disk_run(argv[1], argv[2], 0, &ops);
}
