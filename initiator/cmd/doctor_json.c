/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The facts that doctor found, as an object for programs. Pure: facts, problems and a connection
 * in.
 */
#include "initiator/cmd/doctor.h"

#include <jansson.h>

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
	json_t *nodes = json_array();
	json_t *memlock;

	for (unsigned int i = 0; i < facts->module_count; i++)
		json_array_append_new(modules, json_module(&facts->modules[i]));
	for (unsigned int i = 0; i < facts->node_count; i++)
		json_array_append_new(nodes, json_node(&facts->nodes[i]));
	if (facts->memlock_bytes == DOCTOR_UNLIMITED)
		memlock = json_null();
	else
		memlock = json_integer((json_int_t)facts->memlock_bytes);
	return json_pack("{s:s s:b s:o s:I s:I s:I s:o s:o}", "kernel", facts->kernel, "privileged",
			 facts->privileged, "memlock_bytes", memlock, "huge_pages",
			 (json_int_t)facts->huge_pages, "huge_pages_free",
			 (json_int_t)facts->huge_pages_free, "huge_page_bytes",
			 (json_int_t)facts->huge_page_bytes, "modules", modules, "nodes", nodes);
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
