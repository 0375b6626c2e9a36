/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: features that only the verbs fabric has: texts for its failures, limits of a device, keys
 * that end with SEND WITH INVALIDATE, and devices that are removed.
 * Method: as in the other cases; device_removed deletes the software device under two connected
 * fabs, so it needs root.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

static void fails_with(struct fx *fx, int status, const char *words)
{
	WAIT(fx, fx->a.events[FAB_EVENT_FAILED]);
	CHECK_EQ(fx->a.status, status);
	if (!strstr(fab_error(fx->a.fab), words))
		fx_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", fab_error(fx->a.fab),
			words);
	fx_drain(fx, &fx->a);
}

static void port_nobody_listens_on(void)
{
	static struct fx fx;

	fx = (struct fx){0};
	fx_open(&fx);
	fab_listener_destroy(fx.listener);
	fx.listener = NULL;
	fx_connect_begin(&fx);
	fails_with(&fx, -ECONNREFUSED, "nobody listens");
	fx_close(&fx);
}

/* The loopback device leads to no RDMA device. */
static void address_without_device(void)
{
	static struct fx fx;
	struct sockaddr_in *in = (struct sockaddr_in *)&fx.addr;

	fx = (struct fx){0};
	fx_open(&fx);
	memset(&fx.addr, 0, sizeof(fx.addr));
	in->sin_family = AF_INET;
	in->sin_port = htons(4430);
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fx_connect_begin(&fx);
	fails_with(&fx, -ENODEV, "rdma link add rxe0 type rxe netdev");
	fx_close(&fx);
}

static void more_than_the_device_has(void)
{
	static struct fx fx;

	fx = (struct fx){.conn_options.send_depth = 1u << 24};
	fx_open(&fx);
	fx_connect_begin(&fx);
	fails_with(&fx, -EINVAL, "sends wanted");
	fx_close(&fx);
}

/* Inline data is a request: if the device has less, the fabric reports how much, and that works. */
static void inline_as_much_as_there_is(void)
{
	const struct fab_limits *limits = &fx_target.limits;
	static struct fx fx;
	uint32_t bytes;

	/* A device without immediates (iWARP) may refuse it; others must not lose it. */
	CHECK_EQ(limits->invalidate_inline, limits->invalidate && limits->immediate);
	fx = (struct fx){.conn_options.inline_bytes = 1u << 20};
	fx_open_connected(&fx);
	bytes = fab_conn_inline(fx.a.conn);
	CHECK(bytes > 0 && bytes < 1u << 20);
	fx_fill(fx.a.memory, bytes, 5);
	fx_post_recv(&fx.b, 1, 0, bytes);
	fx_post_send(&fx.a, 2, 0, bytes, IBV_SEND_INLINE);
	memset(fx.a.memory, 0, bytes);
	fx_wc_ok(&fx, &fx.b, 1);
	CHECK(fx_filled(fx.b.memory, bytes, 5));
	fx_close(&fx);
}

/*
 * Remove the device under both fabs: connections end, the removal is reported, everything can be
 * drained, destroyed and closed. rdma link delete waits until this process has ended, because
 * Soft-RoCE cannot remove a device from rdma_cm's library. So this is the last case.
 */
static void device_removed(void)
{
	static struct fx fx;
	char name[64];
	pid_t child;

	fx = (struct fx){0};
	fx_open_connected(&fx);
	snprintf(name, sizeof(name), "%s", fab_device_name(fab_conn_device(fx.a.conn)));
	fflush(NULL);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		execlp("rdma", "rdma", "link", "delete", name, (char *)NULL);
		_exit(127);
	}
	WAIT(&fx, fx.a.events[FAB_EVENT_DISCONNECTED] && fx.b.events[FAB_EVENT_DISCONNECTED]);
	WAIT(&fx, fx.a.events[FAB_EVENT_DEVICE_GONE] && fx.b.events[FAB_EVENT_DEVICE_GONE]);
	fx_close(&fx);
}

const struct fx_case fx_cases_verbs[] = {
	{"port_nobody_listens_on", port_nobody_listens_on, 1u << FAB_VERBS},
	{"address_without_device", address_without_device, 1u << FAB_VERBS},
	{"more_than_the_device_has", more_than_the_device_has, 1u << FAB_VERBS},
	{"inline_as_much_as_there_is", inline_as_much_as_there_is, 1u << FAB_VERBS},
	{"device_removed", device_removed, 1u << FAB_VERBS},
	{0},
};
