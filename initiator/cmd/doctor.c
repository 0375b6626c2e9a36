/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk doctor: this machine's RDMA, what is wrong with it, and, given a target, whether it can be
 * reached.
 */
#include "initiator/cmd/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/cmd/progress.h"

static struct doctor_values {
	struct cmd_connect connect;
	bool json;
} values = { .connect = CMD_CONNECT_DEFAULTS };

static const struct cmd_option options[] = {
	CMD_OPTION_JSON(struct doctor_values),
	CMD_CONNECT_OPTIONS(struct doctor_values),
	CMD_OPTION_HELP,
	CMD_OPTIONS_END,
};

/* Large, and one is enough for the process. */
static struct doctor_facts facts;
static struct doctor_problems problems;

static void doctor_connect(struct doctor_connection *connection)
{
	struct rblk_options session_options = {
		.no_reconnect = true,
		.size = sizeof(session_options),
		.connect_timeout_ms = (uint32_t)values.connect.timeout_ms,
		.device = values.connect.device,
		.initiator_name = values.connect.name,
		.key_file = values.connect.key,
		.tls = values.connect.tls,
		.digest = values.connect.digest,
		.queues = cmd_paths_hosts(connection->uri),
	};
	struct rblk_volume_info *list = NULL;
	uint64_t start_ns = progress_now_ns();
	struct rblk_session_info info;
	struct rblk_session *session;

	session = rblk_session_open(connection->uri, &session_options, connection->error);
	connection->elapsed_ns = progress_now_ns() - start_ns;
	if (!session)
		return;
	rblk_session_info(session, &info, sizeof(info));
	snprintf(connection->peer, sizeof(connection->peer), "%s", info.peer);
	snprintf(connection->device, sizeof(connection->device), "%s", info.device);
	snprintf(connection->features, sizeof(connection->features), "%s", info.features);
	connection->tls = info.tls;
	connection->proven = info.proven;
	cmd_paths_read(session, &connection->paths);
	connection->credits = cmd_paths_credits(session, &connection->paths);
	connection->volumes = rblk_list(session, &list, sizeof(*list));
	connection->connected = connection->volumes >= 0;
	if (!connection->connected)
		snprintf(connection->error, sizeof(connection->error), "%s",
			 rblk_session_error(session));
	free(list);
	rblk_session_close(session);
}

/* -- for people -------------------------------------------------------------------------------- */

static void doctor_print_system(void)
{
	char size[CMD_TEXT_BYTES];
	unsigned int i;

	printf("kernel       %s\n", facts.kernel);
	if (facts.privileged)
		printf("memlock      not limited for this user\n");
	else if (facts.memlock_bytes == DOCTOR_UNLIMITED)
		printf("memlock      unlimited\n");
	else
		printf("memlock      %s\n", cmd_format_bytes(facts.memlock_bytes, size));
	printf("huge pages   %" PRIu64 " of %s, %" PRIu64 " free (not required)\n",
	       facts.huge_pages, cmd_format_bytes(facts.huge_page_bytes, size),
	       facts.huge_pages_free);
	printf("modules     ");
	for (i = 0; i < facts.module_count; i++)
		if (facts.modules[i].loaded)
			printf(" %s", facts.modules[i].name);
	for (i = 0; i < facts.module_count; i++)
		if (facts.modules[i].available && !facts.modules[i].loaded)
			printf(" (%s)", facts.modules[i].name);
	printf("\n");
	for (i = 0; i < facts.node_count; i++)
		printf("%-12s %s: %s\n", i ? "" : "nodes", facts.nodes[i].path,
		       !facts.nodes[i].exists	    ? "missing"
		       : !facts.nodes[i].accessible ? "not for this user"
						    : "ok");
}

static void doctor_print_port(const struct doctor_port *port)
{
	unsigned int i;

	printf("  port %u     %s, %s, MTU %u of %u\n", port->number, port->state, port->link_layer,
	       port->active_mtu, port->max_mtu);
	for (i = 0; i < port->gid_count; i++)
		printf("    gid %-4u %s, %s%s%s\n", port->gids[i].index, port->gids[i].address,
		       port->gids[i].type, port->gids[i].netdev[0] ? ", " : "",
		       port->gids[i].netdev);
}

static void doctor_print_devices(void)
{
	unsigned int i, k;

	if (!facts.device_count)
		printf("device       none\n");
	for (i = 0; i < facts.device_count; i++) {
		const struct doctor_device *device = &facts.devices[i];

		printf("device       %s, %s%s%s\n", device->name, device->transport,
		       device->error[0] ? ": " : "", device->error);
		if (device->error[0])
			continue;
		printf("  limits     %u QPs of %u WRs, %u CQs, %u MRs, %u SGEs, %u SRQ entries, "
		       "READs %u in and %u out\n",
		       device->max_qp, device->max_qp_wr, device->max_cq, device->max_mr,
		       device->max_sge, device->max_srq_wr, device->max_read_in,
		       device->max_read_out);
		for (k = 0; k < device->port_count; k++)
			doctor_print_port(&device->ports[k]);
	}
}

static void doctor_print_connection(const struct doctor_connection *connection)
{
	if (!connection->uri)
		return;
	if (!connection->connected) {
		printf("connection   failed: %s\n", connection->error);
	} else {
		printf("connection   %s through %s in %.1f ms: %s, %s, %u credits, %d volume%s, features: "
		       "%s\n",
		       connection->peer, connection->device, (double)connection->elapsed_ns / 1e6,
		       connection->tls ? "encrypted" : "not encrypted", connection->proven ? "proven" : "not proven",
		       connection->credits, connection->volumes,
		       connection->volumes == 1 ? "" : "s",
		       connection->features[0] ? connection->features : "none");
		cmd_paths_print(&connection->paths, "", 12);
	}
}

static void doctor_print(const struct doctor_connection *connection)
{
	unsigned int i;

	doctor_print_system();
	doctor_print_devices();
	doctor_print_connection(connection);
	printf("\n");
	for (i = 0; i < problems.count; i++) {
		printf("%s: %s\n", problems.list[i].fatal ? "problem" : "warning",
		       problems.list[i].text);
		if (problems.list[i].fix[0])
			printf("         %s\n", problems.list[i].fix);
	}
	printf("%s\n", doctor_rdma_works(&problems) ? "RDMA can work on this machine."
						    : "RDMA cannot work on this machine.");
}

static int doctor_run(char **operands, int count)
{
	struct doctor_connection connection = { .uri = count ? operands[0] : NULL };
	bool needs_rdma = !count || cmd_uri_needs_rdma(operands[0]);
	bool healthy = true;

	if (count && cmd_uri_check(operands[0], false))
		return CMD_USAGE;
	doctor_collect_system(&facts, "");
	doctor_collect_rdma(&facts);
	doctor_judge(&facts, &problems);
	if (connection.uri) {
		doctor_connect(&connection);
		healthy = connection.connected && !cmd_paths_down(&connection.paths);
	}
	if (needs_rdma && !doctor_rdma_works(&problems))
		healthy = false;
	if (!values.json)
		doctor_print(&connection);
	else if (cmd_json_print(doctor_json(&facts, &problems, &connection)))
		return CMD_FAILED;
	return healthy ? CMD_OK : CMD_FAILED;
}

const struct cmd_verb cmd_verb_doctor = {
	.name = "doctor",
	.operands = "[TARGET]",
	.summary = "examine this machine's RDMA, list problems and how to solve them",
	.options = options,
	.values = &values,
	.connects = true,
	.operands_least = 0,
	.operands_most = 1,
	.run = doctor_run,
};
