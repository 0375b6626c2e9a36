/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The system calls of fabric_tcp, which the linker leads here: sockets (socket_sim.c) and epolls, edge-triggered.
 * Descriptors that are none of these are the machine's own.
 */
#include "tests/sim/socket_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "tests/sim/fiber.h"
#include "tests/sim/random.h"
#include "tests/sim/thread.h"
#include "tests/sim/trace.h"

#define SOCKETS_MAX 1024
#define EPOLLS_MAX 64

struct sim_epoll {
	bool used;
	struct sim_actor *actor; /* whom it wakes */
	TAILQ_HEAD(watched_list, sim_watched) watched;
	struct sim_watched eventfd; /* the only one */
};

static struct sim_socket *sockets[SOCKETS_MAX]; /* by descriptor */
static struct sim_epoll epolls[EPOLLS_MAX];

void sim_sockets_reset(void)
{
	if (sim_socket_count())
		sim_fail("a socket was not closed");
	sim_sockets.number = 0;
}

unsigned int sim_socket_count(void)
{
	struct sim_socket *socket;
	unsigned int count = 0;

	TAILQ_FOREACH(socket, &sim_sockets.all, link)
		count++;
	for (unsigned int i = 0; i < EPOLLS_MAX; i++)
		count += epolls[i].used;
	return count;
}

static int fails(int error)
{
	errno = error;
	return -1;
}

static struct sim_socket *socket_of(int fd)
{
	return fd >= SIM_SOCKET_FIRST && fd < SIM_SOCKET_FIRST + SOCKETS_MAX ? sockets[fd - SIM_SOCKET_FIRST] : NULL;
}

/* The lowest that is free, as the kernel does it. */
static int socket_number(struct sim_socket *socket)
{
	for (int i = 0; i < SOCKETS_MAX; i++) {
		if (sockets[i])
			continue;
		sockets[i] = socket;
		socket->watched.fd = socket->fd = SIM_SOCKET_FIRST + i;
		return socket->fd;
	}
	sim_fail("too many sockets");
}

/* -- epolls -------------------------------------------------------------------------------- */

static struct sim_epoll *epoll_of(int fd)
{
	return sim_epoll_is(fd) && epolls[fd - SIM_EPOLL_FIRST].used ? &epolls[fd - SIM_EPOLL_FIRST] : NULL;
}

bool sim_epoll_is(int fd)
{
	return fd >= SIM_EPOLL_FIRST && fd < SIM_EPOLL_FIRST + EPOLLS_MAX;
}

static uint32_t socket_events(const struct sim_socket *socket)
{
	uint32_t events = 0;

	if (socket->in_bytes || !TAILQ_EMPTY(&socket->backlog))
		events |= EPOLLIN;
	if (socket->eof)
		events |= EPOLLIN | EPOLLRDHUP;
	if (socket->error)
		events |= EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR;
	return events | EPOLLOUT;
}

/* As the kernel has it: an edge of which nothing is left is forgotten. */
bool sim_epoll_ready(int fd)
{
	const struct sim_epoll *epoll = epoll_of(fd);
	struct sim_watched *watched;

	if (!epoll)
		sim_fail("a wait for an epoll that is closed");
	TAILQ_FOREACH(watched, &epoll->watched, link) {
		if (watched != &epoll->eventfd)
			watched->pending &= socket_events(socket_of(watched->fd));
		if (watched->pending)
			return true;
	}
	return false;
}

void sim_watched_edge(struct sim_watched *watched, uint32_t events)
{
	events &= watched->events | EPOLLHUP | EPOLLERR;
	if (!watched->epoll || !events)
		return;
	watched->pending |= events;
	sim_actor_wake(watched->epoll->actor);
}

void sim_epoll_written(int fd)
{
	for (unsigned int i = 0; i < EPOLLS_MAX; i++)
		if (epolls[i].used && epolls[i].eventfd.epoll && epolls[i].eventfd.fd == fd)
			sim_watched_edge(&epolls[i].eventfd, EPOLLIN);
}

int __wrap_epoll_create1(int flags);
int __wrap_epoll_create1(int flags)
{
	(void)flags;
	for (int i = 0; i < EPOLLS_MAX; i++) {
		if (epolls[i].used)
			continue;
		memset(&epolls[i], 0, sizeof(epolls[i]));
		epolls[i].used = true;
		epolls[i].actor = sim_actor_self();
		TAILQ_INIT(&epolls[i].watched);
		return SIM_EPOLL_FIRST + i;
	}
	sim_fail("too many epolls");
}

static void unwatch(struct sim_watched *watched)
{
	if (watched->epoll)
		TAILQ_REMOVE(&watched->epoll->watched, watched, link);
	watched->epoll = NULL;
	watched->pending = 0;
}

int __wrap_epoll_ctl(int epoll_fd, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int what, int fd, struct epoll_event *event)
{
	struct sim_epoll *epoll = epoll_of(epoll_fd);
	struct sim_socket *socket = socket_of(fd);
	struct sim_watched *watched = socket ? &socket->watched : NULL;

	if (epoll && sim_eventfd_is(fd))
		watched = &epoll->eventfd;
	if (!epoll || !watched)
		sim_fail("%s: an epoll cannot watch this", sim_actor_self()->name);
	unwatch(watched);
	if (what == EPOLL_CTL_DEL)
		return 0;
	watched->fd = fd;
	watched->events = event->events;
	watched->data = event->data.ptr;
	watched->epoll = epoll;
	TAILQ_INSERT_TAIL(&epoll->watched, watched, link);
	if (socket)
		watched->pending = socket_events(socket) & (watched->events | EPOLLHUP | EPOLLERR);
	return 0;
}

int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int room, int timeout_ms);
int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int room, int timeout_ms)
{
	struct sim_epoll *epoll = epoll_of(epoll_fd);
	struct sim_watched *watched;
	int count = 0;

	if (!epoll || timeout_ms)
		sim_fail("%s: an epoll is waited for", sim_actor_self()->name);
	sim_fiber_preempt();
	TAILQ_FOREACH(watched, &epoll->watched, link) {
		if (!watched->pending || count == room)
			continue;
		events[count].events = watched->pending;
		events[count++].data.ptr = watched->data;
		watched->pending = 0;
	}
	return count;
}

/* As a tcp_fab wakes its owner. Of other descriptors: the kernel's. */
ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
	eventfd_t value;

	if (!sim_eventfd_is(fd))
		return __real_write(fd, data, bytes);
	memcpy(&value, data, sizeof(value));
	eventfd_write(fd, value);
	return (ssize_t)bytes;
}

/* -- sockets ------------------------------------------------------------------------------- */

int __wrap_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol)
{
	(void)family;
	(void)type;
	(void)protocol;
	return socket_number(sim_socket_new(sim_actor_self()));
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	memcpy(&socket_of(fd)->target, address, bytes);
	return 0;
}

int __wrap_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog)
{
	(void)backlog;
	socket_of(fd)->listens = true;
	return 0;
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
	struct sim_socket *listener = socket_of(fd), *socket = TAILQ_FIRST(&listener->backlog);
	struct sockaddr_in *in = (struct sockaddr_in *)address;

	(void)flags;
	sim_fiber_preempt();
	if (!socket)
		return fails(EAGAIN);
	TAILQ_REMOVE(&listener->backlog, socket, backlog_link);
	socket->listener = NULL;
	in->sin_family = AF_INET;
	in->sin_port = (in_port_t)socket->number;
	in->sin_addr.s_addr = htonl(0x0a010000u + socket->from_machine);
	*bytes = sizeof(*in);
	return socket_number(socket);
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
	*bytes = sizeof(struct sockaddr_in);
	memcpy(address, &socket_of(fd)->target, *bytes);
	return 0;
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes)
{
	(void)fd;
	(void)level;
	(void)option;
	(void)value;
	(void)bytes;
	return 0;
}

int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how)
{
	struct sim_socket *socket = socket_of(fd);

	(void)how;
	if (socket->dead || socket->error)
		return fails(ENOTCONN);
	if (!socket->shut && socket->peer)
		sim_socket_segment(socket->peer, NULL, 0, true, 0);
	socket->shut = true;
	return 0;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	struct sim_socket *socket = socket_of(fd);
	size_t room, sent = 0;

	(void)flags;
	sim_fiber_preempt();
	if (socket->dead || socket->error || socket->shut)
		return fails(socket->error ? -socket->error : EPIPE);
	room = socket->peer ? sim_socket_room(socket->peer) : SIZE_MAX;
	if (room && room != SIZE_MAX && sim_chance(50000))
		room = (size_t)sim_between(1, room);
	for (size_t i = 0; i < message->msg_iovlen && sent < room; i++) {
		size_t bytes = message->msg_iov[i].iov_len;

		if (bytes > room - sent)
			bytes = room - sent;
		sim_socket_send(socket, message->msg_iov[i].iov_base, bytes);
		sent += bytes;
	}
	socket->blocked = sent == room;
	return sent ? (ssize_t)sent : fails(EAGAIN);
}

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
	struct sim_socket *socket = socket_of(fd);

	(void)flags;
	if (socket->dead || socket->error || socket->shut)
		return fails(EPIPE);
	sim_socket_send(socket, data, bytes);
	return (ssize_t)bytes;
}

/* What a read finds that finds no bytes. */
static ssize_t socket_nothing(const struct sim_socket *socket)
{
	if (socket->error)
		return fails(-socket->error);
	return socket->eof || socket->dead ? 0 : fails(EAGAIN);
}

ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
	struct sim_socket *socket = socket_of(fd);
	size_t got = socket->dead ? 0 : sim_socket_take(socket, data, bytes, flags & MSG_PEEK);

	return got ? (ssize_t)got : socket_nothing(socket);
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	struct sim_socket *socket = socket_of(fd);
	size_t got = 0;

	(void)flags;
	sim_fiber_preempt();
	for (size_t i = 0; i < message->msg_iovlen && !socket->dead; i++)
		got += sim_socket_take(socket, message->msg_iov[i].iov_base, message->msg_iov[i].iov_len, false);
	return got ? (ssize_t)got : socket_nothing(socket);
}

static void socket_close(struct sim_socket *socket)
{
	struct sim_socket *waiting;

	while ((waiting = TAILQ_FIRST(&socket->backlog))) {
		if (waiting->peer)
			sim_socket_segment(waiting->peer, NULL, 0, false, -ECONNRESET);
		sim_socket_free(waiting);
	}
	unwatch(&socket->watched);
	/* What it has not read is lost, and the peer is told so. */
	if (socket->peer && !socket->dead && !socket->error) {
		if (socket->in_bytes || socket->coming_bytes)
			sim_socket_segment(socket->peer, NULL, 0, false, -ECONNRESET);
		else if (!socket->shut)
			sim_socket_segment(socket->peer, NULL, 0, true, 0);
	}
	sockets[socket->fd - SIM_SOCKET_FIRST] = NULL;
	sim_socket_free(socket);
}

bool sim_socket_close(int fd)
{
	struct sim_socket *socket = socket_of(fd);
	struct sim_epoll *epoll = epoll_of(fd);

	if (socket)
		socket_close(socket);
	if (epoll) {
		while (!TAILQ_EMPTY(&epoll->watched))
			unwatch(TAILQ_FIRST(&epoll->watched));
		epoll->used = false;
	}
	return socket || epoll;
}
