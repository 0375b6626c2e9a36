/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One untorn write, which Debian's fio knows no option for: untorn DEVICE OFFSET BYTES CHARACTER. Says why it was
 * refused, and ends with 1 then.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define RWF_ATOMIC_FLAG 0x40 /* Linux 6.11 */

int main(int argc, char **argv)
{
	size_t bytes = argc == 5 ? strtoul(argv[3], NULL, 0) : 0;
	void *data = bytes ? aligned_alloc(65536, (bytes + 65535) & ~65535ul) : NULL;
	struct iovec piece = {.iov_base = data, .iov_len = bytes};
	int fd = argc == 5 ? open(argv[1], O_WRONLY | O_DIRECT) : -1;
	ssize_t written;

	if (fd < 0 || !data) {
		fprintf(stderr, "untorn DEVICE OFFSET BYTES CHARACTER: %s\n", strerror(errno));
		return 2;
	}
	memset(data, argv[4][0], bytes);
	written = pwritev2(fd, &piece, 1, strtoll(argv[2], NULL, 0), RWF_ATOMIC_FLAG);
	if (written == (ssize_t)bytes)
		return 0;
	fprintf(stderr, "%s\n", written < 0 ? strerror(errno) : "only a part was written");
	return 1;
}
