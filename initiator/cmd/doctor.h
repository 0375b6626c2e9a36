/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk doctor, in four files: doctor_system.c collects facts about this machine, doctor_ways.c those about how it can use volumes,
 * doctor_judge.c says what is wrong in them (facts in, problems out: no look at the machine),
 * doctor.c is the verb and prints, also as an object for programs.
 */
#ifndef RBLK_CMD_DOCTOR_H
#define RBLK_CMD_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "initiator/cmd/cmd.h"

#define DOCTOR_DEVICES_MAX 16
#define DOCTOR_PORTS_MAX 4   /* of a device, that are looked at */
#define DOCTOR_GIDS_MAX 16   /* of a port, that are kept */
#define DOCTOR_MODULES_MAX 16
#define DOCTOR_WAYS_MAX 4
#define DOCTOR_NODES_MAX 20
#define DOCTOR_PROBLEMS_MAX 64
#define DOCTOR_UNLIMITED UINT64_MAX

struct doctor_gid {
	char address[48]; /* as IPv6 or, mapped, as IPv4 */
	char type[8];     /* "IB", "RoCE v1", "RoCE v2" */
	char netdev[16];
	uint32_t index;
	bool roce_v2;
	bool link_local; /* fe80::/10 */
};

struct doctor_port {
	uint32_t number;
	char state[16];      /* "ACTIVE" */
	char link_layer[16]; /* "Ethernet", "InfiniBand" */
	bool active, initial, ethernet; /* initial: INIT, which a subnet manager would end */
	uint32_t active_mtu, max_mtu; /* bytes */
	struct doctor_gid gids[DOCTOR_GIDS_MAX];
	unsigned int gid_count;
};

struct doctor_device {
	char name[64];
	char transport[16]; /* "InfiniBand", "iWARP" */
	bool iwarp;         /* over TCP: neither RoCE's addresses nor its packet sizes */
	char netdev[16];    /* of the first port, where there is one */
	bool addressed;     /* that has an IP address */
	char error[128];    /* why it could not be opened; empty: it was opened */
	uint32_t max_qp, max_cq, max_mr, max_sge, max_srq_wr, max_qp_wr;
	uint32_t max_read_in, max_read_out; /* IRD, ORD */
	struct doctor_port ports[DOCTOR_PORTS_MAX];
	unsigned int port_count;
};

struct doctor_module {
	char name[32];
	bool loaded;
	bool available; /* loaded, built in, or to be loaded on this kernel */
	char file[128]; /* below the kernel's folder; "": it is none, or only loaded */
};

struct doctor_way {
	char name[16];   /* "module", "ublk", "nbdkit", "librblk" */
	bool usable;
	char words[128]; /* how it is, or why not */
};

struct doctor_node {
	char path[64];
	bool exists, accessible;
};

struct doctor_facts {
	char kernel[80];
	bool privileged; /* CAP_IPC_LOCK: the memlock limit does not apply */
	uint64_t memlock_bytes, memlock_max_bytes; /* DOCTOR_UNLIMITED: no limit */
	uint64_t huge_pages, huge_pages_free, huge_page_bytes;
	char netdev[16]; /* that a software RDMA device could go on; empty: none */
	struct doctor_module modules[DOCTOR_MODULES_MAX];
	unsigned int module_count;
	struct doctor_way ways[DOCTOR_WAYS_MAX];
	unsigned int way_count;
	struct doctor_node nodes[DOCTOR_NODES_MAX];
	unsigned int node_count;
	struct doctor_device devices[DOCTOR_DEVICES_MAX];
	unsigned int device_count;
};

struct doctor_problem {
	bool fatal;     /* RDMA cannot work */
	char text[192];
	char fix[160];  /* a command; empty: there is none */
};

struct doctor_problems {
	struct doctor_problem list[DOCTOR_PROBLEMS_MAX];
	unsigned int count;
};

/* The result of the requested connection. */
struct doctor_connection {
	const char *uri; /* NULL: none was */
	bool connected;
	char error[RBLK_ERROR_BYTES];
	char peer[288], device[64], features[128];
	bool tls, proven;
	struct cmd_paths paths; /* if it is connected */
	unsigned int credits; /* of one connection */
	int volumes;
	uint64_t elapsed_ns;
};

/* root: "" for this machine; tests give a folder that holds their own /proc, /sys and /dev. */
void doctor_collect_system(struct doctor_facts *facts, const char *root);
void doctor_collect_rdma(struct doctor_facts *facts);
/* Needs facts->kernel; called by doctor_collect_system(), whose two helpers follow. */
void doctor_collect_ways(struct doctor_facts *facts, const char *root);
/* The first line of a file that has `key` in front, without it. */
bool doctor_line(const char *root, const char *path, const char *key, char *line, int bytes);
void doctor_module_read(const struct doctor_facts *facts, const char *root, const char *name, struct doctor_module *module);

void doctor_judge(const struct doctor_facts *facts, struct doctor_problems *problems);
json_t *doctor_json(const struct doctor_facts *facts, const struct doctor_problems *problems,
		    const struct doctor_connection *connection);
bool doctor_rdma_works(const struct doctor_problems *problems);

#endif
