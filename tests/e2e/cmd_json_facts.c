/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For cmd_json.sh: what the command prints on other machines than this one.
 *   cmd_json_facts attached ROOT    what the sysfs below ROOT says is attached
 *   cmd_json_facts doctor           a machine with RDMA devices
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/cmd/attach.h"
#include "initiator/cmd/doctor.h"

static int print_attached(const char *root)
{
	struct attached *list;
	int count = attached_list(root, &list);
	int status = count < 0 ? CMD_FAILED : attached_print_json(list, count);

	free(list);
	return status;
}

static int print_doctor(void)
{
	static struct doctor_facts facts = {
		.kernel = "6.1.0",
		.memlock_bytes = DOCTOR_UNLIMITED,
		.modules = { { "rdma_rxe", true, true, "" }, { "siw", false, true, "" }, { "irdma", false, false, "" } },
		.ways = { { "module", true, "rblk is loaded" }, { "ublk", false, "not there" } },
		.way_count = 2,
		.module_count = 3,
		.nodes = { { "/dev/infiniband/rdma_cm", true, true },
			   { "/dev/infiniband/uverbs0", true, false },
			   { "/dev/infiniband/uverbs1", false, false } },
		.node_count = 3,
		.devices = { { .name = "rxe0",
			       .transport = "InfiniBand",
			       .netdev = "eth0",
			       .port_count = 1,
			       .ports = { { .number = 1,
					    .state = "ACTIVE",
					    .link_layer = "Ethernet",
					    .active_mtu = 1024,
					    .max_mtu = 4096,
					    .active = true,
					    .ethernet = true,
					    .gid_count = 2,
					    .gids = { { "10.0.0.1", "RoCE v2", "eth0", 1, true,
							false },
						      { "::1", "IB", "", 2, false, false } } } } },
			     { .name = "siw0", .transport = "iWARP", .error = "no" } },
		.device_count = 2,
	};
	static struct doctor_problems problems;
	struct doctor_connection connection = { .uri = "rblk://h", .error = "refused" };

	doctor_judge(&facts, &problems);
	return cmd_json_print(doctor_json(&facts, &problems, &connection));
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "attached"))
		return print_attached(argv[2]);
	return argc == 2 && !strcmp(argv[1], "doctor") ? print_doctor() : CMD_USAGE;
}
