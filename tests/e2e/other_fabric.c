/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The fabric of other_fabric.h: fabric_tcp's table, with a device of lower limits. */
#include "tests/e2e/other_fabric.h"

#include "proto/fabric/fabric_impl.h"

static struct fab_ops ops;
static fab_prepare_fn prepare_behind;

static struct fab *other_open(const struct fab_options *options, char *error)
{
	struct fab *fab = fab_tcp_ops.open(options, error);

	if (fab)
		fab->ops = &ops;
	return fab;
}

static int other_prepare(struct fab_conn *conn, void *user)
{
	conn->device->limits.max_sge = OTHER_FABRIC_SGE;
	return prepare_behind(conn, user);
}

static int other_connect(struct fab *fab, const struct sockaddr *addr,
			 const struct fab_conn_options *options, fab_prepare_fn prepare,
			 struct fab_conn **conn)
{
	struct fab_conn_options fewer = *options;

	fewer.send_sge = OTHER_FABRIC_SGE;
	prepare_behind = prepare; /* all connections of a program have the same one */
	return fab_tcp_ops.connect(fab, addr, &fewer, other_prepare, conn);
}

void other_fabric_use(void)
{
	ops = fab_tcp_ops;
	ops.kind = FAB_SIM;
	ops.open = other_open;
	ops.connect = other_connect;
	fab_sim_ops = &ops;
}
