/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A machine with disks and the target process on it: rblkd as main.c puts it together, its reactors
 * with their own loop. It is started, drained, killed, and loses its power; it
 * comes back by itself, as a supervisor would see to.
 */
#ifndef RBLK_TESTS_SIM_HOST_H
#define RBLK_TESTS_SIM_HOST_H

#include "target/control/listener.h"
#include "target/serve/peers.h"
#include "target/serve/reactor.h"
#include "tests/sim/actor.h"
#include "tests/sim/clock.h"
#include "tests/sim/disk.h"
#include "tests/sim/model.h"
#include "tests/sim/reservation.h"
#include "tests/sim/thread.h"

#define SIM_HOST_VOLUMES 3u
#define SIM_HOST_REACTORS 2u
#define SIM_QUEUES_MAX 4u /* of a session */

/* The control thread with the listener, or a reactor. */
struct sim_host_thread {
	struct sim_thread thread; /* first */
	struct sim_host *host;
	struct tgt_reactor *reactor;	  /* NULL: the control thread */
	size_t pool_bytes, reserve_bytes; /* free when nothing is in use */
};

enum sim_reload { SIM_RELOAD_NONE, SIM_RELOAD_SOME, SIM_RELOAD_ALL };

struct sim_host {
	char name[16], address[32]; /* of its first portal */
	uint8_t boot_id[16];
	struct tgt_config config; /* all volumes there are; as it starts */
	struct tgt_config served; /* in force, since it started or was told to reload */
	struct sim_volume *volumes[SIM_HOST_VOLUMES]; /* by index in config */
	struct sim_disk *disks[SIM_HOST_VOLUMES];     /* NULL: in memory */
	struct sim_reservation reservations[SIM_HOST_VOLUMES];
	bool borrowed; /* its disk is another host's, which frees it */
	bool turns[SIM_HOST_VOLUMES]; /* read-only and writable again, as it is told to reload */
	unsigned int volume_count;
	unsigned int machine;	   /* its number in the network */
	unsigned int portal_count; /* addresses at which it listens */

	bool running, stopping, wanted;
	bool untorn; /* applications ask for untorn writes where they can */
	/* Its volume is an image of the cluster (rados.h): opened and closed by a thread, which may take long. */
	bool gateway, opening, closing;
	bool process; /* it has one; while its image cannot be had, too */
	/* It is lost, and the same thread opens it again while it serves; and what is told of it meanwhile. */
	bool lost, mending;
	struct sim_event mend_lost;
	struct tgt_unserved *unserved;
	struct sim_host_thread opener;
	struct sim_event opener_ended;
	bool opened;
	struct tgt_registry *registry;
	struct tgt_peers peers; /* the reactors */
	struct tgt_listener *listener;
	struct sim_host_thread control, reactors[SIM_HOST_REACTORS];
	struct tgt_reactor *reactor_array[SIM_HOST_REACTORS]; /* as the listener wants them */
	struct sim_event restart, mend, end;
	enum sim_reload reload; /* what the control thread is to do: */
	bool kick, drain, send_away, quit;
	bool keeps;	/* reservations that are to persist */
	bool remembers; /* what was lost of the disks, beyond the end of its process (F9) */
	uint32_t mounts; /* of a million starts: how often something happens below the process before */
	uint32_t pause; /* of a million wakes: how many come late */
	uint32_t preempt; /* of a million calls of the kernel: how often a thread loses its processor */
	uint64_t pause_ns;
	struct tgt_rulebook *rules; /* NULL: everything is allowed */
	bool calm;
};

/* machine: its number in the network. Then volumes are added, then it is started. */
void sim_host_init(struct sim_host *host, unsigned int machine);
/* bytes; block_bytes; a disk, or memory. */
void sim_host_add_volume(struct sim_host *host, uint64_t bytes, uint32_t block_bytes, bool memory);
/* Both serve the first disk of `owner`, as one that two machines reach. */
void sim_host_borrow(struct sim_host *host, const struct sim_host *owner);
/* One of the gateways of an image, which is a disk of the first one. */
void sim_host_be_gateway(struct sim_host *host, const struct sim_host *first);
/* Its volumes' limits are in force, and this name (NULL: none) has to be proven, by
 * sim_secrets(); everyone may do everything. */
void sim_host_rule(struct sim_host *host, const char *proven);
/* It listens at so many addresses (sim_portal_cut()), SIM_PORTALS_MAX at most; before it is started. */
void sim_host_portals(struct sim_host *host, unsigned int count);
/* It serves NVMe hosts at the same addresses; before it is started. */
void sim_host_serve_nvme(struct sim_host *host);
/* Now, or as soon as its disks can be locked. */
void sim_host_start(struct sim_host *host);
/* SIGTERM: it ends when it has drained, and comes back unless `wanted` is false. */
void sim_host_drain(struct sim_host *host);
/* SIGHUP: it serves any of its volumes from now on, or (all) every one as soon as it can. */
void sim_host_reload(struct sim_host *host, bool all);
/* As rblkctl move, of its first volume, where it stays. */
void sim_host_send_away(struct sim_host *host);
/* As rblkctl kick: one of its sessions ends, if there are any. */
void sim_host_kick(struct sim_host *host);
/* SIGKILL, or the power fails with everything. Comes back after `back_ns`. */
void sim_host_kill(struct sim_host *host, bool power, uint64_t back_ns);
/* SIGSTOP: nothing of it runs for so long. */
void sim_host_stop(struct sim_host *host, uint64_t ns);
/* One of several reactors does not run for so long. */
void sim_host_late(struct sim_host *host, uint64_t ns);
void sim_host_fini(struct sim_host *host); /* has ended */

/* -- reservation_sim.c ---------------------------------------------------------------------- */

/* Of a million times that reservations are to be kept: it fails. */
extern uint32_t sim_reservation_fail;
void sim_reservation_files_reset(void);
/* Is this what the next process will find of the volume? Can no crash of the machine bring back what was there before? */
bool sim_reservation_file_has(const uint8_t uuid[16], const struct tgt_reservation *now);
bool sim_reservation_file_is_sure(const uint8_t uuid[16]);
/* A machine has lost its power. */
void sim_reservation_files_crash(unsigned int machine);

#endif
