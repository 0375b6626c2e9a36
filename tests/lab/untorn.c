/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Untorn writes, which Debian's fio knows no option for: untorn DEVICE OFFSET BYTES CHARACTER [COUNT]. So many, one
 * behind the other, are submitted in one call, so that the kernel may join them. Says why one was refused, and ends
 * with 1 then.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RWF_ATOMIC_FLAG 0x40 /* Linux 6.11 */
#define COUNT_MAX 64u

int main(int argc, char **argv)
{
	size_t bytes = argc >= 5 ? strtoul(argv[3], NULL, 0) : 0;
	unsigned int count = argc == 6 ? (unsigned int)strtoul(argv[5], NULL, 0) : 1;
	void *data = bytes ? aligned_alloc(65536, (bytes + 65535) & ~65535ul) : NULL;
	int fd = argc >= 5 ? open(argv[1], O_WRONLY | O_DIRECT) : -1;
	struct io_uring ring;

	if (fd < 0 || !data || !count || count > COUNT_MAX || io_uring_queue_init(COUNT_MAX, &ring, 0)) {
		fprintf(stderr, "untorn DEVICE OFFSET BYTES CHARACTER [COUNT]: %s\n", strerror(errno));
		return 2;
	}
	memset(data, argv[4][0], bytes);
	for (unsigned int i = 0; i < count; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

		io_uring_prep_write(sqe, fd, data, (unsigned int)bytes, strtoull(argv[2], NULL, 0) + i * bytes);
		sqe->rw_flags = RWF_ATOMIC_FLAG;
	}
	io_uring_submit(&ring);
	for (unsigned int i = 0; i < count; i++) {
		struct io_uring_cqe *cqe;
		int result = io_uring_wait_cqe(&ring, &cqe);

		if (!result)
			result = cqe->res;
		if (result != (int)bytes) {
			fprintf(stderr, "%s\n", result < 0 ? strerror(-result) : "only a part was written");
			return 1;
		}
		io_uring_cqe_seen(&ring, cqe);
	}
	return 0;
}
