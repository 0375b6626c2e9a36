/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns by which way a disk is attached, by the kernel module or by ublk, and why. Called by attach.c. */
#include "initiator/cmd/attach.h"

#include <unistd.h>
#include "initiator/ublk/kernel.h"

enum attach_way attach_way_choose(bool rdma, bool module, bool ublk, const char **why)
{
	*why = NULL;
	if ((rdma && module) || !ublk)
		return ATTACH_BY_MODULE;
	*why = rdma ? "by ublk: the kernel module rblk is not here" : "by ublk: the kernel module rblk supports only RDMA";
	return ATTACH_BY_UBLK;
}

bool attach_way_there(const char *node, const char *module)
{
	const char *const load[] = { "/sbin/modprobe", "-q", module, NULL };

	return !access(node, F_OK) || (!geteuid() && !attach_program_run(load) && !access(node, F_OK));
}

bool attach_way_rdma(const struct ini_uri *uri)
{
	bool rdma = true;

	for (u16 i = 0; i < uri->host_count; i++)
		rdma &= uri->hosts[i].kind == FAB_VERBS;
	return rdma;
}

enum attach_way attach_way_here(const struct ini_uri *uri, const char **why)
{
	bool rdma = attach_way_rdma(uri), module;

	module = rdma && attach_way_there(ATTACH_CONTROL, "rblk");
	return attach_way_choose(rdma, module, !module && attach_way_there(UBLK_CONTROL_PATH, "ublk_drv"), why);
}
