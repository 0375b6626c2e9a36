/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sockets of TCP in a simulated world, and the epolls that watch them. The target's are descriptors, and the linker
 * leads its calls here, so that fabric_tcp runs as it is; an NVMe host (nvme_host.h) has its end as an object. Bytes
 * take time, and come in pieces and in order. What was sent arrives after its sender has closed, too, and perhaps much
 * later, as machines send again for a while. An end may be told to nobody.
 */
#ifndef RBLK_TESTS_SIM_SOCKET_SIM_H
#define RBLK_TESTS_SIM_SOCKET_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tests/sim/actor.h"

/* Descriptors, from here on. */
#define SIM_SOCKET_FIRST (1 << 23)
#define SIM_EPOLL_FIRST (1 << 25)

struct sim_socket;

enum sim_socket_state {
	SIM_SOCKET_CONNECTING,
	SIM_SOCKET_UP,
	SIM_SOCKET_ENDED, /* refused, closed or lost, and all that came before has been read */
};

/* How an NVMe host gives a connection up. */
enum sim_socket_end {
	SIM_SOCKET_CLOSE,  /* its end follows what has been sent */
	SIM_SOCKET_LATE,   /* likewise, but all of it has to be sent again, and takes long */
	SIM_SOCKET_SILENT, /* likewise, and the end never comes */
};

/* -- an NVMe host's end -------------------------------------------------------------------- */

/* To 10.0.PORTAL.(TARGET + 1):PORT. Wakes the actor when something has come. */
struct sim_socket *sim_socket_connect(struct sim_actor *actor, unsigned int target, unsigned int portal, uint16_t port);
enum sim_socket_state sim_socket_state(const struct sim_socket *socket);
void sim_socket_write(struct sim_socket *socket, const void *data, size_t bytes);
/* How many bytes of `room` there were. */
size_t sim_socket_read(struct sim_socket *socket, void *data, size_t room);
/* Frees it. */
void sim_socket_end(struct sim_socket *socket, enum sim_socket_end how);

/* -- the world's --------------------------------------------------------------------------- */

/* Before a seed: no socket is there. */
void sim_sockets_reset(void);
/* Sockets and epolls. */
unsigned int sim_socket_count(void);
/* Of the target's: its process is killed. */
void sim_sockets_kill(const struct sim_actor *actor, bool power_lost);
/* One of all connections ends: at both ends, or one of them knows of it. False: there is none. */
bool sim_socket_break(void);
/* An epoll's descriptor: readable? */
bool sim_epoll_is(int fd);
bool sim_epoll_ready(int fd);
/* An eventfd was written to (thread.c); true: an epoll watches it. */
void sim_epoll_written(int fd);
/* True: it was one of these, and is closed. */
bool sim_socket_close(int fd);

#endif
