/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The facts from the kernel's files: modules, device nodes, limits, huge pages, network devices. */
#include "initiator/cmd/doctor.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#define DOCTOR_CAP_IPC_LOCK 14 /* linux/capability.h */

static const char *const doctor_modules[] = {
	"ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "rdma_rxe", "siw", "mlx5_ib", "irdma",
};

/* The first line of a file that has `key` in front, without it. */
static bool system_line(const char *root, const char *path, const char *key, char *line, int bytes)
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

	return system_line(root, path, key, line, sizeof(line)) ? strtoull(line, NULL, base) : 0;
}

/* Is there a module of this name for the running kernel, in a file or built in? */
static bool system_module_listed(const char *root, const char *kernel, const char *list,
				 const char *module)
{
	char path[PATH_MAX], line[1024], with_ko[48];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s/lib/modules/%s/%s", root, kernel, list);
	snprintf(with_ko, sizeof(with_ko), "/%s.ko", module);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, ":\n")] = '\0';
		found = strstr(line, with_ko) != NULL;
	}
	fclose(file);
	return found;
}

static void system_modules(struct doctor_facts *facts, const char *root)
{
	struct doctor_module *module;
	char path[PATH_MAX];
	size_t i;

	for (i = 0; i < sizeof(doctor_modules) / sizeof(doctor_modules[0]); i++) {
		module = &facts->modules[facts->module_count++];
		snprintf(module->name, sizeof(module->name), "%s", doctor_modules[i]);
		snprintf(path, sizeof(path), "%s/sys/module/%s", root, module->name);
		module->loaded = !access(path, F_OK);
		module->available =
			module->loaded ||
			system_module_listed(root, facts->kernel, "modules.dep", module->name) ||
			system_module_listed(root, facts->kernel, "modules.builtin", module->name);
	}
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
		    system_line(root, path, "", state, sizeof(state)) && !strcmp(state, "up"))
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

	if (!system_line(root, "/proc/sys/kernel/osrelease", "", facts->kernel,
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
	system_nodes(facts, root);
	system_netdev(facts, root);
}
