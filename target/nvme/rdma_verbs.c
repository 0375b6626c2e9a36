/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* fabric_verbs, as NVMe over RDMA is made of it. */
#include "proto/fabric/fabric_verbs.h"
#include "target/nvme/rdma.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Readable without a tag, it is nobody's event: it only ends the sleep. */
static int wake(struct fab *fab)
{
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	int err = fd < 0 ? -errno : verbs_fd_watch(verbs_fab(fab), fd, NULL);

	if (!err)
		return fd;
	if (fd >= 0)
		close(fd);
	return err;
}

static void local(const struct fab_conn *conn, struct sockaddr_storage *address)
{
	const struct sockaddr *sockaddr = rdma_get_local_addr(verbs_conn(conn)->id);

	memcpy(address, sockaddr,
	       sockaddr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
}

const struct nvme_rdma_below nvme_rdma_verbs = {
	.ops = &fab_verbs_ops,
	.wake = wake,
	.local = local,
	.device = verbs_device_named,
};
