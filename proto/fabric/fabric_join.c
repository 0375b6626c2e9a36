/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One readiness descriptor for several fabs of one thread: an epoll that watches theirs. librblk's
 * sessions use it if their hosts are of several kinds of fabric. The simulator replaces it.
 */
#include "proto/fabric/fabric.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

int fab_join(struct fab *const *fabs, unsigned int count)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int err;

	if (epoll < 0)
		return -errno;
	for (unsigned int i = 0; i < count; i++) {
		struct epoll_event event = {.events = EPOLLIN};

		if (!epoll_ctl(epoll, EPOLL_CTL_ADD, fab_fd(fabs[i]), &event))
			continue;
		err = -errno;
		close(epoll);
		return err;
	}
	return epoll;
}

void fab_join_end(int fd)
{
	close(fd);
}
