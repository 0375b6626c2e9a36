/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblkd whose NVMe over RDMA is made of fabric_tcp, which keeps RDMA's rules without a device: for tests on machines
 * without one. Linked with rblkd's main().
 */
#include "proto/fabric/fabric_tcp_conn.h"
#include "target/nvme/rdma.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

static int wake(struct fab *fab)
{
	int fd = fcntl(tcp_fab_of(fab)->loop.wake.fd, F_DUPFD_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

static void local(const struct fab_conn *conn, struct sockaddr_storage *address)
{
	socklen_t bytes = sizeof(*address);

	getsockname(tcp_conn_of((struct fab_conn *)conn)->source.fd, (struct sockaddr *)address, &bytes);
}

static struct fab_device *device(struct fab *fab, const char *name)
{
	(void)name;
	return &tcp_fab_of(fab)->device;
}

static const struct nvme_rdma_below soft = {.ops = &fab_tcp_ops, .wake = wake, .local = local, .device = device};

static void __attribute__((constructor)) soften(void)
{
	nvme_rdma_below = &soft;
}
