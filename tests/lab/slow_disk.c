/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A block device whose writes take as long as the job wants, each independent of others, so that a
 * later one may overtake an earlier one, as on a disk that retries a bad sector: /dev/nbd0 over a
 * socket, in memory.
 *   slow_disk DEVICE MEGABYTES SLOW
 * A write that arrives while the file SLOW exists removes it and waits in its own thread until the
 * file SLOW.go exists; "SLOW.landed" is created when it is done. All other I/O is done at once.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nbd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MEGABYTES_MAX 1024u
#define NAME_BYTES 256

static unsigned char *memory;
static uint64_t memory_bytes;
static const char *slow;
static int wire;					 /* the server's end */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of replies on the wire */

struct late_write {
	struct nbd_request request;
	unsigned char *data;
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void slow_name(char name[NAME_BYTES], const char *suffix)
{
	if (snprintf(name, NAME_BYTES, "%s%s", slow, suffix) >= NAME_BYTES)
		exit(2);
}

static void read_all(void *data, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = read(wire, (char *)data + done, bytes - done);

		if (n == 0)
			exit(0);
		if (n < 0 && errno != EINTR)
			fail("read");
		done += n > 0 ? (size_t)n : 0;
	}
}

static void write_all(const void *data, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = write(wire, (const char *)data + done, bytes - done);

		if (n < 0 && errno != EINTR)
			fail("write");
		done += n > 0 ? (size_t)n : 0;
	}
}

static void reply(const struct nbd_request *request, const void *data, size_t bytes)
{
	struct nbd_reply answer = {.magic = htonl(NBD_REPLY_MAGIC)};

	memcpy(answer.handle, request->handle, sizeof(answer.handle));
	pthread_mutex_lock(&lock);
	write_all(&answer, sizeof(answer));
	if (bytes)
		write_all(data, bytes);
	pthread_mutex_unlock(&lock);
}

static void *late(void *arg)
{
	struct late_write *write_ = arg;
	char name[NAME_BYTES];
	int fd;

	slow_name(name, ".go");
	while (access(name, F_OK))
		usleep(20000);
	memcpy(memory + be64toh(write_->request.from), write_->data, ntohl(write_->request.len));
	slow_name(name, ".landed");
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		fail(name);
	close(fd);
	reply(&write_->request, NULL, 0);
	free(write_->data);
	free(write_);
	return NULL;
}

static void serve_write(const struct nbd_request *request, uint64_t from, uint32_t bytes)
{
	struct late_write *write_ = malloc(sizeof(*write_));
	unsigned char *data = malloc(bytes);
	pthread_t thread;

	if (!write_ || !data)
		fail("malloc");
	read_all(data, bytes);
	if (unlink(slow) == 0) {
		*write_ = (struct late_write){.request = *request, .data = data};
		if (pthread_create(&thread, NULL, late, write_))
			fail("pthread_create");
		pthread_detach(thread);
		return;
	}
	memcpy(memory + from, data, bytes);
	free(data);
	free(write_);
	reply(request, NULL, 0);
}

static void *serve(void *arg)
{
	struct nbd_request request;

	(void)arg;
	for (;;) {
		uint64_t from;
		uint32_t bytes;

		read_all(&request, sizeof(request));
		from = be64toh(request.from);
		bytes = ntohl(request.len);
		if (ntohl(request.magic) != NBD_REQUEST_MAGIC || from > memory_bytes ||
		    bytes > memory_bytes - from)
			exit(3);
		switch (ntohl(request.type) & 0xffff) {
		case NBD_CMD_READ:
			reply(&request, memory + from, bytes);
			break;
		case NBD_CMD_WRITE:
			serve_write(&request, from, bytes);
			break;
		case NBD_CMD_DISC:
			exit(0);
		default:
			reply(&request, NULL, 0);
		}
	}
}

int main(int argc, char **argv)
{
	unsigned long megabytes = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
	int ends[2], device;
	pthread_t thread;

	if (!megabytes || megabytes > MEGABYTES_MAX)
		return 2;
	slow = argv[3];
	memory_bytes = (uint64_t)megabytes << 20;
	memory = calloc(1, memory_bytes);
	device = open(argv[1], O_RDWR | O_CLOEXEC);
	if (!memory || device < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		fail(argv[1]);
	wire = ends[1];
	if (ioctl(device, NBD_SET_BLKSIZE, 4096ul) ||
	    ioctl(device, NBD_SET_SIZE_BLOCKS, memory_bytes / 4096) ||
	    ioctl(device, NBD_SET_TIMEOUT, 0ul) || ioctl(device, NBD_SET_SOCK, ends[0]) ||
	    ioctl(device, NBD_SET_FLAGS, (unsigned long)(NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH)))
		fail("ioctl");
	if (pthread_create(&thread, NULL, serve, NULL))
		fail("pthread_create");
	/* Serves until the device is disconnected. */
	ioctl(device, NBD_DO_IT);
	return 0;
}
