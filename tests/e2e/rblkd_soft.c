/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblkd whose NVMe over RDMA is made of fabric_tcp, which keeps RDMA's rules without a device: for tests on machines
 * without one. Linked with rblkd's main().
 */
#include "proto/fabric/fabric_tcp_conn.h"
#include "target/nvme/rdma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* -- RDMA is quicker than a turn of the reactor: what this has posted has completed when it polls -- */

#define QUICK_US 10000

static struct fab_ops quick_ops;
static _Thread_local bool posted;

static int quick_post(struct fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	posted = true;
	return fab_tcp_ops.post_send(conn, wr, bad);
}

static int quick_poll(struct fab *fab, struct ibv_wc *wc, int count)
{
	int got = fab_tcp_ops.poll(fab, wc, count);

	if (!posted || got < 0)
		return got;
	posted = false;
	usleep(QUICK_US);
	return got + fab_tcp_ops.poll(fab, wc + got, count - got);
}

static struct nvme_rdma_below soft = {.ops = &fab_tcp_ops, .wake = wake, .local = local, .device = device};

static void __attribute__((constructor)) soften(void)
{
	if (getenv("RBLKD_SOFT_QUICK")) {
		quick_ops = fab_tcp_ops;
		quick_ops.post_send = quick_post;
		quick_ops.poll = quick_poll;
		soft.ops = &quick_ops;
	}
	nvme_rdma_below = &soft;
}
