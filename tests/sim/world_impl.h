/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The inside of a world: world_build.c makes it, or world_two.c, or world_history.c; world_theme.c gives it a theme; world.c
 * lets faults happen to it and sees it end.
 */
#ifndef RBLK_TESTS_SIM_WORLD_IMPL_H
#define RBLK_TESTS_SIM_WORLD_IMPL_H

#include "tests/sim/app.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/host.h"
#include "tests/sim/module.h"
#include "tests/sim/nvme_host.h"
#include "tests/sim/raw_initiator.h"
#include "tests/sim/world.h"

#define HOSTS_MAX 2u
#define GATEWAYS_MAX 10u /* hosts of world_crowd.c; world_gateways.c has three at most */
#define APPS_MAX 3u
#define RAW_INITIATORS_MAX 2u
#define NVMES_MAX 2u
#define MACHINES_MAX (HOSTS_MAX + APPS_MAX + RAW_INITIATORS_MAX + 1u) /* and NVMES_MAX */

enum fault {
	FAULT_BREAK,
	FAULT_CUT,
	FAULT_KILL,
	FAULT_POWER,
	FAULT_DRAIN,
	FAULT_RELOAD,
	FAULT_UNPLUG,
	FAULT_PORTAL,
	FAULT_LATE, /* a reactor, while the others run */
	FAULTS
};

/* Of the seed that runs. */
extern struct sim_world {
	struct sim_host hosts[GATEWAYS_MAX];
	struct sim_app apps[APPS_MAX];
	struct sim_raw_initiator raw_initiators[RAW_INITIATORS_MAX];
	struct sim_module module;
	struct sim_nvme *nvmes[NVMES_MAX]; /* NVMe hosts; owned */
	unsigned int host_count, app_count, raw_initiator_count, module_count, nvme_count;
	struct sim_event manager; /* of several targets on one disk: world_two.c, world_gateways.c */
	struct sim_event power; /* of `lasting` */
	struct sim_host *lasting;
	struct sim_event fault, calm, heal[MACHINES_MAX + NVMES_MAX], portal_heal[GATEWAYS_MAX][SIM_PORTALS_MAX];
	unsigned int ops_max;
	uint64_t seed;
	bool late; /* reactors do not run for long, now and then */
	unsigned int faults; /* bit per enum fault: those that happen here */
	uint32_t kick; /* of a million faults: an administrator ends a session instead */
	uint64_t fault_ns;   /* mean time between them */
} sim_world;

/* Of these a world has one theme; the others are any mixture. */
enum world_kind {
	WORLD_CROWDED,	 /* few receive buffers, many writers */
	WORLD_STARVED,	 /* a pool of one block */
	WORLD_BENIGN,	 /* nothing goes wrong */
	WORLD_FENCING,	 /* sessions that are fenced while their writes are with slow disks */
	WORLD_MEMORY,	 /* volumes in memory that end, and connections that drain slowly */
	WORLD_POWER,	 /* writes that are not flushed, and power that fails */
	WORLD_RESERVED,	 /* initiators that keep each other from a volume */
	WORLD_PREEMPTED, /* the same, with READs and WRITEs that take long */
	WORLD_DRAINED,	 /* power that fails, and connections that take long to drain */
	WORLD_CLOSED,	 /* disks of the module that are detached while what they have lost is stored slowly */
	WORLD_ANY = 12,	 /* up to here, any of them */
	/* Of these every eighth seed is one, or of two. */
	WORLD_LATE = WORLD_ANY, /* reactors that do not run for long, and initiators that are killed */
	WORLD_REPLACED,	 /* disks of the module that are detached and attached while a fence is owed */
	WORLD_ASKING,	 /* applications that compare and write, and abort commands */
	WORLD_HUNG,	 /* a disk that hangs, beside one that is well, and nothing else goes wrong */
	WORLD_SHARED,	 /* applications, or one and the module, that keep each other from a volume */
};

/* All of it but what its events do, which are set before this and begin here. */
void sim_world_build(void);
/* Of worlds of several targets; loses: packets, too. */
void sim_world_plain_net(bool loses);
/* A target that has enough of everything, for worlds that are about something else. */
void sim_world_plain_config(struct tgt_config *config);
/* Devices likewise: members of struct fab_limits. */
#define SIM_WORLD_PLAIN_LIMITS                                                                     \
	.max_sge = SIM_SGE_MAX, .max_read_sge = 1, .max_send_wr = 4096, .max_recv_wr = 4096,       \
	.max_srq_wr = 4096, .max_read_in = 16, .max_read_out = 16, .invalidate_inline = true,      \
	.acknowledged = true, .late_flush = true, .max_msg_bytes = 1u << 20

/* -- world_theme.c --------------------------------------------------------------------------- */

/* Initiators keep each other from a volume: raw_initiators, and in WORLD_SHARED any others. */
bool sim_world_reserves(enum world_kind kind);
/* One of three: never, seldom, often. */
uint32_t sim_world_rate(uint32_t seldom, uint32_t often);
/* Everything is made. */
void sim_world_theme(enum world_kind kind);

/* -- world_two.c ----------------------------------------------------------------------------- */

/* Two targets that serve one disk, and one initiator that names both (F10). */
void sim_world_build_two(void);
/* The same for a history: librblk, which writes one block again and again. */
void sim_world_build_domain(void);

/* -- world_nvme.c ---------------------------------------------------------------------------- */

/* Has this seed NVMe hosts beside what it has anyway? Not by chance: the histories of all others stay what they are. */
bool sim_world_has_nvme(void);
/* Targets serve them, from their start on; and behind everything else, they begin. */
void sim_world_nvme_hosts(void);
void sim_world_nvme(void);
/* A target with two portals, and NVMe hosts. */
void sim_world_build_nvme(void);
/* Does this seed have some with paths to its gateways? They begin behind everything else. */
bool sim_world_gateways_have_nvme(void);
void sim_world_gateways_nvme(void);

/* -- world_gateways.c ------------------------------------------------------------------------ */

/* Gateways of one image of a cluster, and one initiator that names them. */
void sim_world_build_gateways(void);

/* -- world.c --------------------------------------------------------------------------------- */

/* One world: made by build(), and over when finished(), or, if that is NULL, all its initiators have. */
void sim_world_run_as(uint64_t seed, void (*build)(void), bool (*finished)(void));

/* -- world_history.c ------------------------------------------------------------------------ */

void sim_world_build_fence(void);
void sim_world_build_durable(void);

#endif
