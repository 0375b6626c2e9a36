/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblkd whose NVMe over RDMA is made of fabric_tcp, which keeps RDMA's rules without a device: for tests on machines
 * without one. Linked with rblkd's main().
 */
#include "proto/fabric/fabric_tcp_conn.h"
#include "target/nvme/rdma.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
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

static struct fab_ops ops;

/* -- RBLKD_SOFT_QUICK: RDMA is quicker than a turn of the reactor: what was posted has completed when it polls -- */

#define QUICK_US 10000

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

/* -- SIGUSR2: the device goes; its connections stay, until somebody closes them ------------------ */

static atomic_uint removals;

static void remove_device(int number)
{
	(void)number;
	atomic_fetch_add(&removals, 1);
}

static int poll_event(struct fab *fab, struct fab_event *event)
{
	static _Thread_local unsigned int seen;
	struct tcp_fab *own = tcp_fab_of(fab);

	if (seen == atomic_load(&removals) || !own->srq.depth)
		return fab_tcp_ops.poll_event(fab, event);
	seen++;
	fprintf(stderr, "the device goes\n");
	*event = (struct fab_event){.type = FAB_EVENT_DEVICE_GONE, .device = &own->device};
	return 1;
}

/* Nothing is posted to one that comes. */
static void device_release(struct fab_device *of)
{
	struct tcp_rq *srq = &tcp_fab_of(of->fab)->srq;

	srq->head = srq->tail;
}

static const struct nvme_rdma_below soft = {.ops = &ops, .wake = wake, .local = local, .device = device};

static void __attribute__((constructor)) soften(void)
{
	ops = fab_tcp_ops;
	ops.poll_event = poll_event;
	ops.device_release = device_release;
	if (getenv("RBLKD_SOFT_QUICK")) {
		ops.post_send = quick_post;
		ops.poll = quick_poll;
	}
	nvme_rdma_below = &soft;
	signal(SIGUSR2, remove_device);
}
