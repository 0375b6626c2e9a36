/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sockets of socket_sim.h: the network between two ends. What is on its way to one belongs to that one, so that its
 * sender may go. socket_calls.c has the system calls.
 */
#include "tests/sim/socket_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

/* A segment that the network has lost is sent again behind this. */
#define RESEND_NS (5 * SIM_MS)
/* What an end has not read, and what is on its way to it. */
#define WINDOW_BYTES (64u << 10)

struct sim_sockets sim_sockets = {.all = TAILQ_HEAD_INITIALIZER(sim_sockets.all)};

/* A part of the stream on its way, or its end. */
struct segment {
	TAILQ_ENTRY(segment) link;
	uint64_t due_ns;
	size_t bytes;
	bool fin;
	int error; /* of a reset */
	uint8_t data[];
};

/* -- making -------------------------------------------------------------------------------- */

static void arrive(void *arg);

struct sim_socket *sim_socket_new(struct sim_actor *actor)
{
	struct sim_socket *socket = calloc(1, sizeof(*socket));

	if (!socket)
		sim_fail("out of memory");
	socket->actor = actor;
	socket->number = ++sim_sockets.number;
	socket->arrival = (struct sim_event){.run = arrive, .arg = socket};
	TAILQ_INIT(&socket->coming);
	TAILQ_INIT(&socket->backlog);
	TAILQ_INSERT_TAIL(&sim_sockets.all, socket, link);
	return socket;
}

void sim_socket_free(struct sim_socket *socket)
{
	struct segment *segment;

	while ((segment = TAILQ_FIRST(&socket->coming))) {
		TAILQ_REMOVE(&socket->coming, segment, link);
		free(segment);
	}
	sim_event_cancel(&socket->arrival);
	if (socket->listener)
		TAILQ_REMOVE(&socket->listener->backlog, socket, backlog_link);
	if (socket->peer)
		socket->peer->peer = NULL;
	TAILQ_REMOVE(&sim_sockets.all, socket, link);
	free(socket->in);
	free(socket);
}

/* -- the network --------------------------------------------------------------------------- */

/* From its peer, or where that was. */
static bool way_is_up(const struct sim_socket *socket)
{
	unsigned int portal = ntohl(socket->target.sin_addr.s_addr) >> 8 & 0xff;

	return sim_way_up(socket->from_machine, socket->actor->machine, socket->target_machine, portal, socket->server);
}

static void signal_in(struct sim_socket *socket, uint32_t events)
{
	sim_watched_edge(&socket->watched, events);
	if (!socket->server)
		sim_actor_wake(socket->actor);
}

/* Its peer's machine knows no such connection. */
static void refuse_unknown(struct sim_socket *socket)
{
	if (socket->silenced)
		return;
	socket->silenced = true;
	sim_socket_segment(socket, NULL, 0, false, -ECONNRESET);
}

static void in_add(struct sim_socket *socket, const uint8_t *data, size_t bytes)
{
	if (socket->in_head && socket->in_head + socket->in_bytes + bytes > socket->in_room) {
		memmove(socket->in, socket->in + socket->in_head, socket->in_bytes);
		socket->in_head = 0;
	}
	if (socket->in_bytes + bytes > socket->in_room) {
		socket->in_room = 2 * (socket->in_bytes + bytes);
		socket->in = realloc(socket->in, socket->in_room);
		if (!socket->in)
			sim_fail("out of memory");
	}
	memcpy(socket->in + socket->in_head + socket->in_bytes, data, bytes);
	socket->in_bytes += bytes;
}

static void take(struct sim_socket *socket, const struct segment *segment)
{
	if (segment->error) {
		socket->error = segment->error;
		signal_in(socket, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP | EPOLLERR);
	} else if (segment->fin) {
		socket->eof = true;
		signal_in(socket, EPOLLIN | EPOLLRDHUP);
	} else if (segment->bytes) {
		in_add(socket, segment->data, segment->bytes);
		signal_in(socket, EPOLLIN);
		if (socket->ended)
			sim_reached("socket", "data comes of a connection that its host has given up", NULL);
	} else {
		sim_socket_connected(socket);
	}
}

static void arrive(void *arg)
{
	struct sim_socket *socket = arg;
	struct segment *segment;

	while ((segment = TAILQ_FIRST(&socket->coming)) && segment->due_ns <= sim_now_ns()) {
		if (!way_is_up(socket)) {
			sim_event_in(&socket->arrival, RESEND_NS);
			return;
		}
		TAILQ_REMOVE(&socket->coming, segment, link);
		socket->coming_bytes -= segment->bytes;
		if (!socket->error && !socket->eof && !socket->dead)
			take(socket, segment);
		free(segment);
	}
	if (segment)
		sim_event_at(&socket->arrival, segment->due_ns);
}

/* Of a segment that may be lost, and is sent again. */
static uint64_t delay_ns(void)
{
	uint64_t ns = sim_latency_ns();

	if (!sim_net.calm && sim_chance(sim_net.lose))
		ns += sim_below(10 * sim_net.resend_ns);
	return ns;
}

void sim_socket_segment(struct sim_socket *to, const void *data, size_t bytes, bool fin, int error)
{
	struct segment *segment = malloc(sizeof(*segment) + bytes);
	uint64_t due_ns = sim_now_ns() + delay_ns();

	if (!segment)
		sim_fail("out of memory");
	/* In order. */
	if (due_ns < to->last_ns)
		due_ns = to->last_ns;
	to->last_ns = due_ns;
	segment->due_ns = due_ns;
	segment->bytes = bytes;
	segment->fin = fin;
	segment->error = error;
	if (bytes)
		memcpy(segment->data, data, bytes);
	to->coming_bytes += bytes;
	TAILQ_INSERT_TAIL(&to->coming, segment, link);
	sim_event_by(&to->arrival, due_ns);
}

/* In one piece or several. */
static void send_pieces(struct sim_socket *to, const uint8_t *data, size_t bytes)
{
	while (bytes) {
		size_t piece = bytes > 1 && sim_chance(200000) ? (size_t)sim_between(1, bytes - 1) : bytes;

		sim_socket_segment(to, data, piece, false, 0);
		data += piece;
		bytes -= piece;
	}
}

size_t sim_socket_room(const struct sim_socket *to)
{
	size_t used = to->coming_bytes + to->in_bytes;

	return used < WINDOW_BYTES ? WINDOW_BYTES - used : 0;
}

void sim_socket_send(struct sim_socket *socket, const void *data, size_t bytes)
{
	if (socket->peer)
		send_pieces(socket->peer, data, bytes);
	else
		refuse_unknown(socket);
}

size_t sim_socket_take(struct sim_socket *socket, void *data, size_t room, bool peek)
{
	size_t bytes = socket->in_bytes < room ? socket->in_bytes : room;

	if (bytes)
		memcpy(data, socket->in + socket->in_head, bytes);
	if (peek)
		return bytes;
	socket->in_head += bytes;
	socket->in_bytes -= bytes;
	if (!socket->in_bytes)
		socket->in_head = 0;
	/* There is room again. */
	if (bytes && socket->peer && socket->peer->blocked) {
		socket->peer->blocked = false;
		sim_watched_edge(&socket->peer->watched, EPOLLOUT);
	}
	return bytes;
}

/* -- connecting ---------------------------------------------------------------------------- */

static struct sim_socket *listener_at(const struct sockaddr_in *address)
{
	struct sim_socket *socket;

	TAILQ_FOREACH(socket, &sim_sockets.all, link)
		if (socket->listens && !socket->dead && socket->target.sin_port == address->sin_port &&
		    socket->target.sin_addr.s_addr == address->sin_addr.s_addr)
			return socket;
	return NULL;
}

/* A host's asks for a connection: a target's is made of it, which waits until it is accepted. Then that answers. */
void sim_socket_connected(struct sim_socket *socket)
{
	struct sim_socket *listener, *server;

	if (socket->asked) {
		socket->up = true;
		sim_actor_wake(socket->actor);
		return;
	}
	/* The request, which has come to the target. */
	socket->asked = true;
	listener = listener_at(&socket->target);
	if (!listener) {
		sim_socket_segment(socket, NULL, 0, false, -ECONNREFUSED);
		return;
	}
	server = sim_socket_new(listener->actor);
	server->server = true;
	server->up = true;
	server->target = socket->target;
	server->target_machine = socket->target_machine;
	server->from_machine = socket->actor->machine;
	server->peer = socket;
	socket->peer = server;
	server->listener = listener;
	TAILQ_INSERT_TAIL(&listener->backlog, server, backlog_link);
	sim_watched_edge(&listener->watched, EPOLLIN);
	sim_socket_segment(socket, NULL, 0, false, 0);
}

struct sim_socket *sim_socket_connect(struct sim_actor *actor, unsigned int target, unsigned int portal, uint16_t port)
{
	struct sim_socket *socket = sim_socket_new(actor);

	socket->target = (struct sockaddr_in){.sin_family = AF_INET,
					      .sin_port = htons(port),
					      .sin_addr.s_addr = htonl(0x0a000000u + (portal << 8) + target + 1)};
	socket->target_machine = target;
	socket->from_machine = target;
	sim_socket_segment(socket, NULL, 0, false, 0);
	return socket;
}

enum sim_socket_state sim_socket_state(const struct sim_socket *socket)
{
	if ((socket->error || socket->eof) && !socket->in_bytes)
		return SIM_SOCKET_ENDED;
	return socket->up ? SIM_SOCKET_UP : SIM_SOCKET_CONNECTING;
}

void sim_socket_write(struct sim_socket *socket, const void *data, size_t bytes)
{
	if (!socket->error && !socket->eof)
		sim_socket_send(socket, data, bytes);
}

size_t sim_socket_read(struct sim_socket *socket, void *data, size_t room)
{
	return sim_socket_take(socket, data, room, false);
}

/* -- the end ------------------------------------------------------------------------------- */

/* All that is on its way to it takes longer. */
static void delay_coming(struct sim_socket *socket)
{
	uint64_t more_ns = sim_below(sim_chance(500000) ? 20 * SIM_MS : 500 * SIM_MS);
	struct segment *segment;

	TAILQ_FOREACH(segment, &socket->coming, link)
		segment->due_ns += more_ns;
	segment = TAILQ_FIRST(&socket->coming);
	socket->last_ns += more_ns;
	if (segment)
		sim_event_at(&socket->arrival, segment->due_ns);
}

void sim_socket_end(struct sim_socket *socket, enum sim_socket_end how)
{
	struct sim_socket *peer = socket->peer;

	if (peer) {
		peer->ended = true;
		if (how != SIM_SOCKET_CLOSE)
			delay_coming(peer);
		peer->silenced = how == SIM_SOCKET_SILENT;
		if (how == SIM_SOCKET_SILENT)
			sim_reached("socket", "its host gives it up, and the target is not told", NULL);
		else
			sim_socket_segment(peer, NULL, 0, true, 0);
	}
	sim_socket_free(socket);
}

void sim_sockets_kill(const struct sim_actor *actor, bool power_lost)
{
	struct sim_socket *socket;

	TAILQ_FOREACH(socket, &sim_sockets.all, link) {
		if (socket->actor != actor || socket->dead)
			continue;
		socket->dead = true;
		if (!socket->peer)
			continue;
		if (!power_lost)
			sim_socket_segment(socket->peer, NULL, 0, false, -ECONNRESET);
		socket->peer->silenced = !power_lost || sim_chance(500000);
		socket->peer->peer = NULL;
		socket->peer = NULL;
	}
}

bool sim_socket_break(void)
{
	struct sim_socket *socket;
	uint64_t count = 0, how;

	TAILQ_FOREACH(socket, &sim_sockets.all, link)
		count += socket->server && socket->peer && !socket->listener;
	if (!count)
		return false;
	count = sim_below(count);
	TAILQ_FOREACH(socket, &sim_sockets.all, link)
		if (socket->server && socket->peer && !socket->listener && !count--)
			break;
	how = sim_below(3);
	sim_trace(socket->actor->name, "socket %u breaks (%u)", socket->number, (unsigned int)how);
	sim_reached("socket",
		    how == 0   ? "breaks, as its host knows"
		    : how == 1 ? "breaks, as its target knows"
			       : "breaks, as both know",
		    NULL);
	socket->ended = how != 1;
	delay_coming(socket);
	if (how != 0)
		sim_socket_segment(socket, NULL, 0, false, -ECONNRESET);
	else
		socket->silenced = true;
	if (how == 1)
		return true;
	sim_socket_segment(socket->peer, NULL, 0, false, -ECONNRESET);
	socket->peer->peer = NULL;
	socket->peer = NULL;
	return true;
}
