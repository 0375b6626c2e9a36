/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of the fabric: fabric_tcp with another framing. It is listened on only.
 */
#include "target/nvme/fabric.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include "target/base/registrant.h"
#include "target/nvme/dh.h"
#include "target/nvme/rdma.h"
#include "target/nvme/tcp.h"

static const struct tcp_framing framing = {
	.greet = nvme_greet,
	.reject = nvme_reject,
	.answer = nvme_answer,
	.begin = nvme_begin,
	.iov = nvme_iov,
	.no_memory = nvme_no_memory,
	.finish = nvme_finish,
	.send = nvme_send_run,
	.header_bytes = sizeof(struct nvme_pdu),
	.timeout = nvme_timeout,
	.forget_hello = nvme_forget_hello,
	.forget = nvme_forget,
};

static struct fab_ops ops;

static struct fab *nvme_open(const struct fab_options *options, char *error)
{
	struct fab *fab = tcp_fab_open(&ops, &framing, options, error);

	if (!fab)
		return NULL;
	/* No word of a peer says that a message was executed; and NVMe has neither immediates nor foreign keys. */
	tcp_fab_of(fab)->device.limits.acknowledged = false;
	tcp_fab_of(fab)->device.limits.immediate = false;
	tcp_fab_of(fab)->device.limits.invalidate = false;
	tcp_fab_of(fab)->device.limits.final = true;
	nvme_controller_listen(tcp_fab_of(fab)->loop.wake.fd);
	return fab;
}

static void nvme_close(struct fab *fab)
{
	nvme_controller_leave(tcp_fab_of(fab)->loop.wake.fd);
	fab_tcp_ops.close(fab);
}

/*
 * Before it sleeps, and when an OPEN asks all threads which connections have ended (F5): then those of controllers that
 * were replaced end first. Commands cost nothing for it. A thread that sleeps finds aborts likewise; queues' timers find
 * them, too.
 */
static int nvme_arm(struct fab *fab)
{
	struct tcp_fab *tcp = tcp_fab_of(fab);
	unsigned int news = nvme_controller_news(tcp->seen_by_framing);
	struct tcp_conn *conn;

	if (news != tcp->seen_by_framing) {
		tcp->seen_by_framing = news;
		/* A sole connection is read without epoll: the wake-up would stay there, and wake each time. */
		tcp->loop.woken = true;
		TAILQ_FOREACH(conn, &tcp->all, link)
			nvme_check_conn(conn);
	}
	return fab_tcp_ops.arm(fab);
}

static int nvme_connect(struct fab *fab, const struct sockaddr *addr, const struct fab_conn_options *options,
			fab_prepare_fn prepare, struct fab_conn **conn)
{
	return fab_fail(fab, -EOPNOTSUPP, "NVMe/TCP: only hosts connect");
}

static void nvme_host_id(const struct fab_conn *conn, uint8_t id[FAB_HOST_ID_BYTES])
{
	const struct nvme_hello *hello = tcp_conn_of(conn)->state_of_framing; /* the first of a queue's, too */

	static_assert(sizeof(hello->identity.host_id) == FAB_HOST_ID_BYTES, "of one size");
	memcpy(id, hello->identity.host_id, FAB_HOST_ID_BYTES);
}

void tgt_nvme_secrets(struct rblk_secrets *(*find)(void *arg, const char *name), void *arg)
{
	nvme_auth_init(find, arg);
}

void tgt_nvme_init(uint16_t queues)
{
	ops = fab_tcp_ops;
	ops.arm_to_send = NULL; /* the framing sends, and arming does more */
	ops.kind = FAB_NVME;
	ops.open = nvme_open;
	ops.close = nvme_close;
	ops.arm = nvme_arm;
	ops.connect = nvme_connect;
	ops.conn_host_id = nvme_host_id;
	fab_nvme_ops = &ops;
	tgt_notice_tell = nvme_notice_tell;
	tgt_paths = &nvme_paths;
	nvme_rdma_init();
	nvme_greet_limits(queues);
}

void tgt_nvme_drain(void)
{
	nvme_rdma_drain();
}

void tgt_nvme_end(void)
{
	nvme_dh_stop();
}
