/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns `rblk doctor`: the verb, and what it prints. */
#include "initiator/cmd/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/cmd/cmd.h"

/* -- for programs ------------------------------------------------------------------------------ */

/*
 * The facts that doctor found, as an object for programs. Pure: facts, problems and a connection
 * in.
 */

static json_t *json_port(const struct doctor_port *port)
{
	json_t *gids = json_array();

	for (unsigned int i = 0; i < port->gid_count; i++)
		json_array_append_new(
			gids, json_pack("{s:I s:s s:s s:o}", "index",
					(json_int_t)port->gids[i].index, "address",
					port->gids[i].address, "gid_type", port->gids[i].type,
					"netdev", cmd_json_words(port->gids[i].netdev)));
	return json_pack("{s:I s:s s:s s:I s:I s:o}", "port", (json_int_t)port->number,
			 "port_state", port->state, "link_layer", port->link_layer,
			 "active_mtu_bytes", (json_int_t)port->active_mtu, "max_mtu_bytes",
			 (json_int_t)port->max_mtu, "gids", gids);
}

static json_t *json_device(const struct doctor_device *device)
{
	json_t *ports = json_array();

	for (unsigned int i = 0; i < device->port_count; i++)
		json_array_append_new(ports, json_port(&device->ports[i]));
	return json_pack("{s:s s:s s:o s:I s:I s:I s:I s:I s:I s:I s:I s:o}", "fabric_device",
			 device->name, "transport", device->transport, "error",
			 cmd_json_words(device->error), "max_qp", (json_int_t)device->max_qp,
			 "max_qp_wr", (json_int_t)device->max_qp_wr, "max_cq",
			 (json_int_t)device->max_cq, "max_mr", (json_int_t)device->max_mr,
			 "max_sge", (json_int_t)device->max_sge, "max_srq_wr",
			 (json_int_t)device->max_srq_wr, "max_read_in",
			 (json_int_t)device->max_read_in, "max_read_out",
			 (json_int_t)device->max_read_out, "ports", ports);
}

static json_t *json_module(const struct doctor_module *module)
{
	return json_pack("{s:s s:s}", "module", module->name, "module_state",
			 module->loaded	     ? "loaded"
			 : module->available ? "available"
					     : "missing");
}

static json_t *json_way(const struct doctor_way *way)
{
	return json_pack("{s:s s:b s:o}", "way", way->name, "usable", (int)way->usable, "error",
			 cmd_json_words(way->usable ? NULL : way->words));
}

static json_t *json_node(const struct doctor_node *node)
{
	return json_pack("{s:s s:s}", "path", node->path, "node_state",
			 !node->exists	     ? "missing"
			 : !node->accessible ? "denied"
					     : "ok");
}

static json_t *json_system(const struct doctor_facts *facts)
{
	json_t *modules = json_array();
	json_t *ways = json_array();
	json_t *nodes = json_array();
	json_t *memlock;

	for (unsigned int i = 0; i < facts->module_count; i++)
		json_array_append_new(modules, json_module(&facts->modules[i]));
	for (unsigned int i = 0; i < facts->way_count; i++)
		json_array_append_new(ways, json_way(&facts->ways[i]));
	for (unsigned int i = 0; i < facts->node_count; i++)
		json_array_append_new(nodes, json_node(&facts->nodes[i]));
	if (facts->memlock_bytes == DOCTOR_UNLIMITED)
		memlock = json_null();
	else
		memlock = json_integer((json_int_t)facts->memlock_bytes);
	return json_pack("{s:s s:b s:o s:I s:I s:I s:o s:o s:o}", "kernel", facts->kernel, "privileged",
			 facts->privileged, "memlock_bytes", memlock, "huge_pages",
			 (json_int_t)facts->huge_pages, "huge_pages_free",
			 (json_int_t)facts->huge_pages_free, "huge_page_bytes",
			 (json_int_t)facts->huge_page_bytes, "modules", modules, "ways", ways, "nodes", nodes);
}

/* null without a connection that was asked for; its keys are null where it was not made. */
static json_t *json_connection(const struct doctor_connection *connection)
{
	bool connected = connection->connected;

	if (!connection->uri)
		return json_null();
	return json_pack("{s:s s:b s:o s:o s:o s:o s:o s:o s:I s:o s:o s:o}", "uri", connection->uri,
			 "connected", connected, "error",
			 cmd_json_words(connected ? NULL : connection->error), "peer",
			 cmd_json_words(connected ? connection->peer : NULL), "fabric_device",
			 cmd_json_words(connected ? connection->device : NULL), "features",
			 connected ? cmd_json_features(connection->features) : json_null(),
			 "tls", connected ? json_boolean(connection->tls) : json_null(), "proven",
			 connected ? json_boolean(connection->proven) : json_null(),
			 "elapsed_ns", (json_int_t)connection->elapsed_ns, "credits",
			 connected ? json_integer(connection->credits) : json_null(),
			 "volume_count",
			 connected ? json_integer(connection->volumes) : json_null(), "paths",
			 cmd_paths_json(&connection->paths));
}

json_t *doctor_json(const struct doctor_facts *facts, const struct doctor_problems *problems,
		    const struct doctor_connection *connection)
{
	json_t *devices = json_array();
	json_t *list = json_array();

	for (unsigned int i = 0; i < facts->device_count; i++)
		json_array_append_new(devices, json_device(&facts->devices[i]));
	for (unsigned int i = 0; i < problems->count; i++)
		json_array_append_new(list, json_pack("{s:b s:s s:o}", "fatal",
						      problems->list[i].fatal, "problem",
						      problems->list[i].text, "fix",
						      cmd_json_words(problems->list[i].fix)));
	return json_pack("{s:o s:o s:o s:o s:b}", "system", json_system(facts), "rdma_devices",
			 devices, "problems", list, "connection", json_connection(connection),
			 "rdma_works", doctor_rdma_works(problems));
}

/* -- the verb ---------------------------------------------------------------------------------- */

/*
 * rblk doctor: this machine's RDMA, what is wrong with it, and, given a target, whether it can be
 * reached.
 */

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
		.key_file = cmd_key_file(values.connect.key),
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
	unsigned int i, modules = 0;

	printf("kernel       %s\n", facts.kernel);
	if (facts.privileged)
		printf("memlock      not limited for this user\n");
	else if (facts.memlock_bytes == DOCTOR_UNLIMITED)
		printf("memlock      unlimited\n");
	else
		printf("memlock      %s\n", units_format_bytes(facts.memlock_bytes, size));
	printf("huge pages   %" PRIu64 " of %s, %" PRIu64 " free (not required)\n",
	       facts.huge_pages, units_format_bytes(facts.huge_page_bytes, size),
	       facts.huge_pages_free);
	printf("modules     ");
	for (i = 0; i < facts.module_count; i++)
		if (facts.modules[i].loaded)
			modules += printf(" %s", facts.modules[i].name) > 0;
	for (i = 0; i < facts.module_count; i++)
		if (facts.modules[i].available && !facts.modules[i].loaded)
			modules += printf(" (%s)", facts.modules[i].name) > 0;
	printf("%s\n", modules ? "" : " none");
	for (i = 0; i < facts.way_count; i++)
		printf("%-12s %s: %s%s\n", i ? "" : "ways", facts.ways[i].name, facts.ways[i].usable ? "" : "no: ",
		       facts.ways[i].words);
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
	char hint[CMD_HINT_BYTES];

	if (!connection->uri)
		return;
	if (!connection->connected) {
		printf("connection   failed: %s\n", connection->error);
		if (cmd_key_hint(connection->error, cmd_key_file(values.connect.key), hint))
			printf("             %s\n", hint);
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

/* The answers to what was asked: of this machine's RDMA, unless the target needs none; of the target. */
static void doctor_print_verdict(const struct doctor_connection *connection, bool needs_rdma)
{
	if (needs_rdma)
		printf("RDMA %s work on this machine.\n", doctor_rdma_works(&problems) ? "can" : "cannot");
	if (connection->uri)
		printf("%s: %s\n", connection->uri,
		       !connection->connected		    ? "cannot be used."
		       : cmd_paths_down(&connection->paths) ? "works, but not all of its hosts can be reached."
							    : "works.");
}

static void doctor_print(const struct doctor_connection *connection, bool needs_rdma)
{
	unsigned int i;

	doctor_print_system();
	doctor_print_devices();
	doctor_print_connection(connection);
	printf("\n");
	for (i = 0; i < problems.count; i++) {
		printf("%s: %s\n",
		       !needs_rdma		? "for RDMA"
		       : problems.list[i].fatal ? "problem"
						: "warning",
		       problems.list[i].text);
		if (problems.list[i].fix[0])
			printf("         %s\n", problems.list[i].fix);
	}
	doctor_print_verdict(connection, needs_rdma);
}

static int doctor_run(char **operands, int count)
{
	struct doctor_connection connection = { .uri = count ? operands[0] : NULL };
	bool needs_rdma = !count || cmd_uri_needs_rdma(operands[0]);
	bool healthy = true;

	if (count ? cmd_uri_check(operands[0], false) : CMD_OPTIONS_ONLY("without a target", "json"))
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
		doctor_print(&connection, needs_rdma);
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
