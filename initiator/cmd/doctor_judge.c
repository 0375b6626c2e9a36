/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The problems as text, each with the command that solves it. Facts in, problems out; what makes
 * RDMA impossible is fatal, what only makes it fail later or slow is a warning.
 */
#include "initiator/cmd/doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Queues, their buffers and a few MiB of data must be locked; less than this does not suffice. */
#define DOCTOR_MEMLOCK_BYTES (64u << 20)

__attribute__((format(printf, 3, 4))) static struct doctor_problem *
judge_add(struct doctor_problems *problems, bool fatal, const char *format, ...)
{
	struct doctor_problem *problem = &problems->list[problems->count];
	va_list args;

	/* The last entry takes the overflow; there are never that many. */
	if (problems->count + 1 < DOCTOR_PROBLEMS_MAX)
		problems->count++;
	memset(problem, 0, sizeof(*problem));
	problem->fatal = fatal;
	va_start(args, format);
	vsnprintf(problem->text, sizeof(problem->text), format, args);
	va_end(args);
	return problem;
}

__attribute__((format(printf, 2, 3))) static void judge_fix(struct doctor_problem *problem,
							    const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(problem->fix, sizeof(problem->fix), format, args);
	va_end(args);
}

static const struct doctor_module *judge_module(const struct doctor_facts *facts, const char *name)
{
	unsigned int i;

	for (i = 0; i < facts->module_count; i++)
		if (!strcmp(facts->modules[i].name, name))
			return &facts->modules[i];
	return NULL;
}

static bool judge_module_available(const struct doctor_facts *facts, const char *name)
{
	const struct doctor_module *module = judge_module(facts, name);

	return module && module->available;
}

static void judge_no_device(const struct doctor_facts *facts, struct doctor_problems *problems)
{
	struct doctor_problem *problem;

	if (!judge_module_available(facts, "rdma_rxe")) {
		judge_add(
			problems, true,
			"no RDMA device, and kernel %s has no module rdma_rxe to emulate one: use rblk+tcp://, which needs none",
			facts->kernel);
		return;
	}
	problem = judge_add(problems, true,
			    "no RDMA device; Soft-RoCE can add one to any Ethernet device (or use rblk+tcp://, which needs none)");
	judge_fix(problem, "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev %s",
		  facts->netdev[0] ? facts->netdev : "eth0");
}

static void judge_nodes(const struct doctor_facts *facts, struct doctor_problems *problems)
{
	unsigned int uverbs = 0;
	struct doctor_problem *problem;
	unsigned int i;

	for (i = 0; i < facts->node_count; i++) {
		const struct doctor_node *node = &facts->nodes[i];
		bool is_cm = strstr(node->path, "rdma_cm") != NULL;

		uverbs += !is_cm;
		if (!node->exists) {
			problem =
				judge_add(problems, true,
					  "%s: is missing: no connections can be made", node->path);
			judge_fix(problem, "modprobe rdma_ucm");
		} else if (!node->accessible) {
			problem = judge_add(problems, true, "%s: this user may not open it",
					    node->path);
			judge_fix(problem, "chmod 0666 %s (a udev rule makes it permanent)",
				  node->path);
		}
	}
	if (!uverbs) {
		problem = judge_add(problems, true,
				    "/dev/infiniband/uverbs*: is missing: programs cannot use the "
				    "RDMA devices");
		judge_fix(problem, "modprobe ib_uverbs");
	}
}

/* rdma_cm finds a port by an IP address: on InfiniBand that is one of IPoIB. */
static bool port_found(const struct doctor_device *device, const struct doctor_port *port)
{
	return port->ethernet || device->iwarp || device->addressed;
}

static void judge_infiniband(const struct doctor_device *device, const struct doctor_port *port, bool fatal,
			     struct doctor_problems *problems)
{
	struct doctor_problem *problem;

	if (port_found(device, port))
		return;
	problem = judge_add(problems, fatal, "%s port %u: InfiniBand without an IP address: no rblk://HOST reaches it",
			    device->name, port->number);
	judge_fix(problem, "modprobe ib_ipoib, then ip address add ADDRESS/PREFIX dev %s",
		  device->netdev[0] ? device->netdev : "ib0");
}

static void judge_inactive(const struct doctor_device *device, const struct doctor_port *port, bool fatal,
			   struct doctor_problems *problems)
{
	struct doctor_problem *problem = judge_add(problems, fatal, "%s port %u: is %s", device->name, port->number,
						   port->state);

	if (port->initial && !port->ethernet && !device->iwarp)
		judge_fix(problem, "start a subnet manager (opensm) on this fabric: none has set the port up");
	else
		judge_fix(problem, "ip link set dev %s up", device->netdev[0] ? device->netdev : "DEVICE");
}

static void judge_port(const struct doctor_device *device, const struct doctor_port *port,
		       struct doctor_problems *problems)
{
	const char *netdev = device->netdev[0] ? device->netdev : "the network device";
	struct doctor_problem *problem;
	bool addressed = false;
	unsigned int i;

	if (!port->active || !port->ethernet || device->iwarp)
		return;
	for (i = 0; i < port->gid_count; i++)
		addressed |= port->gids[i].roce_v2 && !port->gids[i].link_local;
	if (!addressed) {
		problem = judge_add(
			problems, false,
			"%s port %u: only link-local RoCE v2 addresses: %s has no IP "
			"address",
			device->name, port->number, netdev);
		judge_fix(problem, "ip address add ADDRESS/PREFIX dev %s", netdev);
	}
	if (port->active_mtu && port->active_mtu < 4096 && port->max_mtu >= 4096) {
		problem = judge_add(problems, false,
				    "%s port %u: packets carry %u bytes where 4096 are possible",
				    device->name, port->number, port->active_mtu);
		judge_fix(problem, "ip link set dev %s mtu 4200 (or more, on the whole path)",
			  netdev);
	}
}

/* One usable port on one device is enough; others that are down are only reported. */
static void judge_devices(const struct doctor_facts *facts, struct doctor_problems *problems)
{
	unsigned int usable = 0;
	unsigned int i, k;

	for (i = 0; i < facts->device_count; i++)
		for (k = 0; k < facts->devices[i].port_count; k++)
			usable += facts->devices[i].ports[k].active &&
				  port_found(&facts->devices[i], &facts->devices[i].ports[k]);
	for (i = 0; i < facts->device_count; i++) {
		const struct doctor_device *device = &facts->devices[i];

		if (device->error[0])
			judge_add(problems, !usable, "%s: cannot be opened: %s", device->name,
				  device->error);
		for (k = 0; k < device->port_count; k++) {
			const struct doctor_port *port = &device->ports[k];

			if (port->active)
				judge_infiniband(device, port, !usable, problems);
			else
				judge_inactive(device, port, !usable, problems);
			judge_port(device, port, problems);
		}
	}
}

static void judge_memlock(const struct doctor_facts *facts, struct doctor_problems *problems)
{
	struct doctor_problem *problem;

	if (facts->privileged || facts->memlock_bytes >= DOCTOR_MEMLOCK_BYTES)
		return;
	problem = judge_add(problems, false,
			    "at most %" PRIu64
			    " KiB of memory may be locked; registering buffers will "
			    "fail",
			    facts->memlock_bytes >> 10);
	if (facts->memlock_max_bytes == DOCTOR_UNLIMITED)
		judge_fix(problem, "ulimit -l unlimited");
	else
		judge_fix(problem,
			  "echo '* - memlock unlimited' >> /etc/security/limits.conf, then "
			  "log in again");
}

void doctor_judge(const struct doctor_facts *facts, struct doctor_problems *problems)
{
	problems->count = 0;
	if (!facts->device_count) {
		judge_no_device(facts, problems);
		return; /* all else would be a consequence */
	}
	judge_nodes(facts, problems);
	judge_devices(facts, problems);
	judge_memlock(facts, problems);
}

bool doctor_rdma_works(const struct doctor_problems *problems)
{
	unsigned int i;

	for (i = 0; i < problems->count; i++)
		if (problems->list[i].fatal)
			return false;
	return true;
}
