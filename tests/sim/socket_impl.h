/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What socket_sim.c and socket_calls.c share. */
#ifndef RBLK_TESTS_SIM_SOCKET_IMPL_H
#define RBLK_TESTS_SIM_SOCKET_IMPL_H

#include <netinet/in.h>
#include <sys/queue.h>
#include "tests/sim/clock.h"
#include "tests/sim/socket_sim.h"

struct sim_epoll;

/* What an epoll watches: a socket, or an eventfd. */
struct sim_watched {
	struct sim_epoll *epoll; /* NULL: none */
	TAILQ_ENTRY(sim_watched) link;
	int fd;
	uint32_t events, pending; /* by edges */
	void *data;
};

/* Its end of a connection, or a listener. The target's until it is closed; an NVMe host's until sim_socket_end(). */
struct sim_socket {
	TAILQ_ENTRY(sim_socket) link, backlog_link;
	struct sim_actor *actor;
	unsigned int number;
	int fd; /* of the target's; 0: none yet */
	bool server, listens;
	bool asked, up; /* a host's: the request has come to the target, and its answer here */
	bool ended;	/* a target's: its host has given it up */
	bool dead;	/* its process was killed */
	bool blocked;	/* it waits for room at its peer */
	bool shut;	/* nothing more is sent */
	bool silenced;	/* nobody resets it when it sends to a peer that is not there */
	bool eof;
	int error;			    /* negative errno, behind what there is to be read */
	struct sim_socket *peer, *listener; /* listener: in whose backlog it is */
	struct sockaddr_in target;	    /* this end's, of a target */
	unsigned int target_machine, from_machine;
	uint8_t *in; /* that has come */
	size_t in_head, in_bytes, in_room;
	TAILQ_HEAD(, segment) coming;
	size_t coming_bytes;
	uint64_t last_ns; /* of the last of them */
	struct sim_event arrival;
	TAILQ_HEAD(, sim_socket) backlog;
	struct sim_watched watched;
};

extern struct sim_sockets {
	TAILQ_HEAD(, sim_socket) all;
	unsigned int number;
} sim_sockets;

struct sim_socket *sim_socket_new(struct sim_actor *actor);
void sim_socket_free(struct sim_socket *socket);
/* Bytes, the end (fin), a reset (error), or none of them: a step of connecting. */
void sim_socket_segment(struct sim_socket *to, const void *data, size_t bytes, bool fin, int error);
void sim_socket_connected(struct sim_socket *socket);
void sim_socket_send(struct sim_socket *socket, const void *data, size_t bytes);
size_t sim_socket_room(const struct sim_socket *to);
size_t sim_socket_take(struct sim_socket *socket, void *data, size_t room, bool peek);

/* -- socket_calls.c ------------------------------------------------------------------------ */

/* Something has come up: once. */
void sim_watched_edge(struct sim_watched *watched, uint32_t events);

#endif
