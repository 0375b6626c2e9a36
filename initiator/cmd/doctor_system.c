/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the facts about this machine that doctor_judge.c judges. */
#include "initiator/cmd/doctor.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

/* -- RDMA devices ------------------------------------------------------------------------------ */

/* The facts from rdma-core: devices, their limits, ports and addresses. */

static uint32_t rdma_mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

static void rdma_gid(struct doctor_port *port, const struct ibv_gid_entry *entry)
{
	struct doctor_gid *gid = &port->gids[port->gid_count++];
	struct in6_addr address;

	memcpy(&address, entry->gid.raw, sizeof(address));
	if (IN6_IS_ADDR_V4MAPPED(&address))
		inet_ntop(AF_INET, &address.s6_addr[12], gid->address, sizeof(gid->address));
	else
		inet_ntop(AF_INET6, &address, gid->address, sizeof(gid->address));
	gid->link_local = IN6_IS_ADDR_LINKLOCAL(&address);
	gid->index = entry->gid_index;
	gid->roce_v2 = entry->gid_type == IBV_GID_TYPE_ROCE_V2;
	snprintf(gid->type, sizeof(gid->type), "%s",
		 gid->roce_v2				   ? "RoCE v2"
		 : entry->gid_type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1"
							   : "IB");
	if (entry->ndev_ifindex)
		if_indextoname(entry->ndev_ifindex, gid->netdev);
}

static void rdma_gids(struct doctor_device *device, struct ibv_context *context)
{
	struct ibv_gid_entry entries[256];
	ssize_t count = ibv_query_gid_table(context, entries, 256, 0);
	struct doctor_port *port;
	ssize_t i;

	for (i = 0; i < count; i++) {
		if (!entries[i].port_num || entries[i].port_num > device->port_count)
			continue;
		port = &device->ports[entries[i].port_num - 1];
		if (port->gid_count < DOCTOR_GIDS_MAX)
			rdma_gid(port, &entries[i]);
	}
}

static void rdma_port(struct doctor_device *device, struct ibv_context *context, uint8_t number)
{
	struct doctor_port *port = &device->ports[device->port_count];
	struct ibv_port_attr attributes;

	if (device->port_count == DOCTOR_PORTS_MAX || ibv_query_port(context, number, &attributes))
		return;
	device->port_count++;
	port->number = number;
	snprintf(port->state, sizeof(port->state), "%s", ibv_port_state_str(attributes.state));
	if (!strncmp(port->state, "PORT_", 5))
		memmove(port->state, port->state + 5, strlen(port->state + 5) + 1);
	port->active = attributes.state == IBV_PORT_ACTIVE;
	port->initial = attributes.state == IBV_PORT_INIT;
	port->ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
	snprintf(port->link_layer, sizeof(port->link_layer), "%s",
		 port->ethernet ? "Ethernet" : "InfiniBand");
	port->active_mtu = rdma_mtu_bytes(attributes.active_mtu);
	port->max_mtu = rdma_mtu_bytes(attributes.max_mtu);
}

/* An RDMA device's network device is found through its addresses. */
static void rdma_netdev(struct doctor_device *device)
{
	unsigned int i, k;

	for (i = 0; i < device->port_count; i++)
		for (k = 0; k < device->ports[i].gid_count; k++)
			if (!device->netdev[0])
				memcpy(device->netdev, device->ports[i].gids[k].netdev,
				       sizeof(device->netdev));
}

static void rdma_addressed(struct doctor_device *device)
{
	struct ifaddrs *addresses, *at;

	if (!device->netdev[0] || getifaddrs(&addresses))
		return;
	for (at = addresses; at; at = at->ifa_next)
		device->addressed |= at->ifa_addr && !strcmp(at->ifa_name, device->netdev) &&
				     (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6);
	freeifaddrs(addresses);
}

static void rdma_device(struct doctor_device *device, struct ibv_device *verbs)
{
	struct ibv_device_attr attributes;
	struct ibv_context *context;
	unsigned int port;

	snprintf(device->name, sizeof(device->name), "%s", ibv_get_device_name(verbs));
	device->iwarp = verbs->transport_type == IBV_TRANSPORT_IWARP;
	snprintf(device->transport, sizeof(device->transport), "%s",
		 device->iwarp ? "iWARP" : "InfiniBand");
	context = ibv_open_device(verbs);
	if (!context) {
		snprintf(device->error, sizeof(device->error), "%s", strerror(errno));
		return;
	}
	if (ibv_query_device(context, &attributes)) {
		snprintf(device->error, sizeof(device->error), "query: %s", strerror(errno));
	} else {
		device->max_qp = (uint32_t)attributes.max_qp;
		device->max_cq = (uint32_t)attributes.max_cq;
		device->max_mr = (uint32_t)attributes.max_mr;
		device->max_sge = (uint32_t)attributes.max_sge;
		device->max_srq_wr = (uint32_t)attributes.max_srq_wr;
		device->max_qp_wr = (uint32_t)attributes.max_qp_wr;
		device->max_read_in = (uint32_t)attributes.max_qp_rd_atom;
		device->max_read_out = (uint32_t)attributes.max_qp_init_rd_atom;
		for (port = 1; port <= attributes.phys_port_cnt; port++)
			rdma_port(device, context, (uint8_t)port);
		rdma_gids(device, context);
		rdma_netdev(device);
		rdma_addressed(device);
	}
	ibv_close_device(context);
}

void doctor_collect_rdma(struct doctor_facts *facts)
{
	struct ibv_device **list;
	int count = 0;
	int i;

	list = ibv_get_device_list(&count);
	if (!list)
		return; /* ENOSYS: the kernel has no RDMA; the modules tell why */
	for (i = 0; i < count && facts->device_count < DOCTOR_DEVICES_MAX; i++)
		rdma_device(&facts->devices[facts->device_count++], list[i]);
	ibv_free_device_list(list);
}

/* -- the machine ------------------------------------------------------------------------------- */

/* The facts from the kernel's files: modules, device nodes, limits, huge pages, network devices. */

#define DOCTOR_CAP_IPC_LOCK 14 /* linux/capability.h */

static const char *const doctor_modules[] = {
	"ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "rdma_rxe", "siw", "mlx5_ib", "irdma",
};

bool doctor_line(const char *root, const char *path, const char *key, char *line, int bytes)
{
	char name[PATH_MAX];
	bool found = false;
	FILE *file;

	snprintf(name, sizeof(name), "%s%s", root, path);
	file = fopen(name, "re");
	if (!file)
		return false;
	while (!found && fgets(line, bytes, file)) {
		line[strcspn(line, "\n")] = '\0';
		found = !strncmp(line, key, strlen(key));
	}
	fclose(file);
	if (found)
		memmove(line, line + strlen(key), strlen(line + strlen(key)) + 1);
	return found;
}

static uint64_t system_number(const char *root, const char *path, const char *key, int base)
{
	char line[256];

	return doctor_line(root, path, key, line, sizeof(line)) ? strtoull(line, NULL, base) : 0;
}

/* Is there a module of this name for the running kernel, in a file or built in? */
static bool system_module_listed(const char *root, const char *kernel, const char *list, struct doctor_module *module)
{
	char path[PATH_MAX], line[1024], with_ko[48];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s/lib/modules/%s/%s", root, kernel, list);
	snprintf(with_ko, sizeof(with_ko), "/%s.ko", module->name);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, ":\n")] = '\0';
		found = strstr(line, with_ko) != NULL;
	}
	fclose(file);
	if (found)
		snprintf(module->file, sizeof(module->file), "%.*s", (int)sizeof(module->file) - 1, line);
	return found;
}

void doctor_module_read(const struct doctor_facts *facts, const char *root, const char *name, struct doctor_module *module)
{
	char path[PATH_MAX];

	*module = (struct doctor_module){ .loaded = false };
	snprintf(module->name, sizeof(module->name), "%s", name);
	snprintf(path, sizeof(path), "%s/sys/module/%s", root, module->name);
	module->loaded = !access(path, F_OK);
	module->available = module->loaded ||
			    system_module_listed(root, facts->kernel, "modules.dep", module) ||
			    system_module_listed(root, facts->kernel, "modules.builtin", module);
}

static void system_modules(struct doctor_facts *facts, const char *root)
{
	for (size_t i = 0; i < sizeof(doctor_modules) / sizeof(doctor_modules[0]); i++)
		doctor_module_read(facts, root, doctor_modules[i], &facts->modules[facts->module_count++]);
}

static void system_node(struct doctor_facts *facts, const char *root, const char *name)
{
	struct doctor_node *node = &facts->nodes[facts->node_count];
	char path[PATH_MAX];

	if (facts->node_count == DOCTOR_NODES_MAX)
		return;
	facts->node_count++;
	snprintf(node->path, sizeof(node->path), "/dev/infiniband/%.40s", name);
	snprintf(path, sizeof(path), "%s%s", root, node->path);
	node->exists = !access(path, F_OK);
	node->accessible = !access(path, R_OK | W_OK);
}

/* rdma_cm is always looked for; uverbsN as many as there are. */
static void system_nodes(struct doctor_facts *facts, const char *root)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *folder;

	system_node(facts, root, "rdma_cm");
	snprintf(path, sizeof(path), "%s/dev/infiniband", root);
	folder = opendir(path);
	if (!folder)
		return;
	while ((entry = readdir(folder)))
		if (!strncmp(entry->d_name, "uverbs", 6))
			system_node(facts, root, entry->d_name);
	closedir(folder);
}

/* A network device that is up, in the order of the names; loopback only if there is no other. */
static void system_netdev(struct doctor_facts *facts, const char *root)
{
	char path[PATH_MAX], state[32];
	struct dirent **entries;
	int count, i;

	snprintf(path, sizeof(path), "%s/sys/class/net", root);
	count = scandir(path, &entries, NULL, alphasort);
	for (i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;

		snprintf(path, sizeof(path), "/sys/class/net/%.64s/operstate", name);
		if (!facts->netdev[0] && name[0] != '.' && strcmp(name, "lo") &&
		    doctor_line(root, path, "", state, sizeof(state)) && !strcmp(state, "up"))
			snprintf(facts->netdev, sizeof(facts->netdev), "%.15s", name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

static uint64_t system_limit(rlim_t limit)
{
	return limit == RLIM_INFINITY ? DOCTOR_UNLIMITED : (uint64_t)limit;
}

void doctor_collect_system(struct doctor_facts *facts, const char *root)
{
	struct rlimit limit = { 0 };
	struct utsname name;
	uint64_t capabilities;

	if (!doctor_line(root, "/proc/sys/kernel/osrelease", "", facts->kernel,
			 sizeof(facts->kernel)) &&
	    !uname(&name))
		snprintf(facts->kernel, sizeof(facts->kernel), "%.79s", name.release);
	capabilities = system_number(root, "/proc/self/status", "CapEff:", 16);
	facts->privileged = capabilities >> DOCTOR_CAP_IPC_LOCK & 1;
	getrlimit(RLIMIT_MEMLOCK, &limit);
	facts->memlock_bytes = system_limit(limit.rlim_cur);
	facts->memlock_max_bytes = system_limit(limit.rlim_max);
	facts->huge_pages = system_number(root, "/proc/meminfo", "HugePages_Total:", 10);
	facts->huge_pages_free = system_number(root, "/proc/meminfo", "HugePages_Free:", 10);
	facts->huge_page_bytes = system_number(root, "/proc/meminfo", "Hugepagesize:", 10) * 1024;
	system_modules(facts, root);
	doctor_collect_ways(facts, root);
	system_nodes(facts, root);
	system_netdev(facts, root);
}
