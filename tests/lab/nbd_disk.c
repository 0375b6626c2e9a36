/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the memory, the socket and the kernel's end of the device of nbd_disk.h. */
#include "tests/lab/nbd_disk.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MEGABYTES_MAX 1024u

struct nbd_disk nbd_disk;
static const struct nbd_disk_ops *ops;
static int wire;					 /* the server's end */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of answers on the wire */

void nbd_disk_fail(const char *what)
{
	perror(what);
	exit(1);
}

uint64_t nbd_disk_from(const struct nbd_request *request)
{
	return be64toh(request->from);
}

uint32_t nbd_disk_length(const struct nbd_request *request)
{
	return ntohl(request->len);
}

static void read_all(void *data, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = read(wire, (char *)data + done, bytes - done);

		if (n == 0)
			exit(0);
		if (n < 0 && errno != EINTR)
			nbd_disk_fail("read");
		done += n > 0 ? (size_t)n : 0;
	}
}

static void write_all(const void *data, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = write(wire, (const char *)data + done, bytes - done);

		if (n < 0 && errno != EINTR)
			nbd_disk_fail("write");
		done += n > 0 ? (size_t)n : 0;
	}
}

static void answer(const struct nbd_request *request, const void *data, size_t bytes)
{
	struct nbd_reply reply = {.magic = htonl(NBD_REPLY_MAGIC)};

	memcpy(reply.handle, request->handle, sizeof(reply.handle));
	pthread_mutex_lock(&lock);
	write_all(&reply, sizeof(reply));
	if (bytes)
		write_all(data, bytes);
	pthread_mutex_unlock(&lock);
}

void nbd_disk_answer(const struct nbd_request *request)
{
	answer(request, NULL, 0);
}

static void serve_write(const struct nbd_request *request, bool fua)
{
	unsigned char *data = malloc(nbd_disk_length(request));

	if (!data)
		nbd_disk_fail("malloc");
	read_all(data, nbd_disk_length(request));
	ops->write(request, data, fua);
}

static void *serve(void *arg)
{
	struct nbd_request request;

	(void)arg;
	for (;;) {
		uint64_t from;
		uint32_t bytes;

		read_all(&request, sizeof(request));
		from = nbd_disk_from(&request);
		bytes = nbd_disk_length(&request);
		if (ntohl(request.magic) != NBD_REQUEST_MAGIC || from > nbd_disk.bytes ||
		    bytes > nbd_disk.bytes - from)
			exit(3);
		switch (ntohl(request.type) & 0xffff) {
		case NBD_CMD_READ:
			answer(&request, nbd_disk.memory + from, bytes);
			break;
		case NBD_CMD_WRITE:
			serve_write(&request, ntohl(request.type) & NBD_CMD_FLAG_FUA);
			break;
		case NBD_CMD_FLUSH:
			ops->flush(&request);
			break;
		case NBD_CMD_DISC:
			exit(0);
		default:
			exit(3);
		}
	}
}

int nbd_disk_run(const char *device, const char *megabytes, unsigned long flags,
		 const struct nbd_disk_ops *own)
{
	unsigned long count = strtoul(megabytes, NULL, 10);
	int ends[2], fd;
	pthread_t thread;

	if (!count || count > MEGABYTES_MAX)
		return 2;
	ops = own;
	nbd_disk.bytes = (uint64_t)count << 20;
	nbd_disk.memory = calloc(1, nbd_disk.bytes);
	fd = open(device, O_RDWR | O_CLOEXEC);
	if (!nbd_disk.memory || fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		nbd_disk_fail(device);
	wire = ends[1];
	if (ioctl(fd, NBD_SET_BLKSIZE, (unsigned long)NBD_DISK_BLOCK) ||
	    ioctl(fd, NBD_SET_SIZE_BLOCKS, nbd_disk.bytes / NBD_DISK_BLOCK) ||
	    ioctl(fd, NBD_SET_TIMEOUT, 0ul) || ioctl(fd, NBD_SET_SOCK, ends[0]) ||
	    ioctl(fd, NBD_SET_FLAGS, NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | flags))
		nbd_disk_fail("ioctl");
	if (pthread_create(&thread, NULL, serve, NULL))
		nbd_disk_fail("pthread_create");
	/* Until the device is disconnected. */
	ioctl(fd, NBD_DO_IT);
	return 0;
}
