/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sources of fabric_tcp: the epoll, the active list, timers. Called by every file that owns a
 * source, and by the turn in fabric_tcp.c, which asks the epoll.
 */
#include "proto/fabric/fabric_tcp_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/core/env.h"

/* -- the loop --------------------------------------------------------------------------------- */

int tcp_loop_init(struct tcp_loop *loop)
{
	int err;

	TAILQ_INIT(&loop->active);
	TAILQ_INIT(&loop->timers);
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0)
		return -errno;
	tcp_source_init(&loop->wake, TCP_SOURCE_WAKE, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (loop->wake.fd < 0) {
		err = -errno;
		goto err_close_epoll;
	}
	err = tcp_source_watch(loop, &loop->wake, EPOLLIN);
	if (err)
		goto err_close_wake;
	return 0;

err_close_wake:
	close(loop->wake.fd);
err_close_epoll:
	close(loop->epoll_fd);
	return err;
}

void tcp_loop_fini(struct tcp_loop *loop)
{
	close(loop->wake.fd);
	close(loop->epoll_fd);
}

/* -- sources ---------------------------------------------------------------------------------- */

void tcp_source_init(struct tcp_source *source, enum tcp_source_kind kind, int fd)
{
	memset(source, 0, sizeof(*source));
	source->kind = kind;
	source->fd = fd;
}

int tcp_source_watch(struct tcp_loop *loop, struct tcp_source *source, uint32_t epoll_events)
{
	struct epoll_event event = {.events = epoll_events | EPOLLET, .data.ptr = source};

	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) < 0)
		return -errno;
	source->watched = true;
	loop->watched++;
	return 0;
}

void tcp_source_rewatch(struct tcp_loop *loop, struct tcp_source *source, uint32_t epoll_events)
{
	struct epoll_event event = {.events = epoll_events | EPOLLET, .data.ptr = source};

	/* It takes no memory. */
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, source->fd, &event) < 0)
		abort();
}

static void source_activate(struct tcp_loop *loop, struct tcp_source *source)
{
	TAILQ_INSERT_TAIL(&loop->active, source, link);
	loop->active_count++;
}

static void source_deactivate(struct tcp_loop *loop, struct tcp_source *source)
{
	TAILQ_REMOVE(&loop->active, source, link);
	loop->active_count--;
}

void tcp_loop_wake(struct tcp_loop *loop)
{
	uint64_t one = 1;

	if (!loop->armed)
		return;
	loop->armed = false;
	loop->woken = true;
	/* Never read: every write is an edge, and 2^64 writes do not happen. */
	if (write(loop->wake.fd, &one, sizeof(one)) < 0)
		abort();
}

void tcp_source_mark(struct tcp_loop *loop, struct tcp_source *source, uint8_t work)
{
	if (!source->work)
		source_activate(loop, source);
	source->work |= work;
	tcp_loop_wake(loop);
}

void tcp_source_stop_timer(struct tcp_loop *loop, struct tcp_source *source)
{
	if (source->deadline_ns)
		TAILQ_REMOVE(&loop->timers, source, timer_link);
	source->deadline_ns = 0;
}

void tcp_source_set_timer(struct tcp_loop *loop, struct tcp_source *source, uint32_t ms)
{
	tcp_source_stop_timer(loop, source);
	source->deadline_ns = env_now_ns() + (uint64_t)ms * 1000000;
	if (TAILQ_EMPTY(&loop->timers) || source->deadline_ns < loop->next_deadline_ns)
		loop->next_deadline_ns = source->deadline_ns;
	TAILQ_INSERT_TAIL(&loop->timers, source, timer_link);
}

void tcp_source_fini(struct tcp_loop *loop, struct tcp_source *source)
{
	tcp_source_stop_timer(loop, source);
	if (source->work)
		source_deactivate(loop, source);
	source->work = 0;
}

void tcp_source_unwatch(struct tcp_loop *loop, struct tcp_source *source)
{
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	loop->watched -= source->watched;
	source->watched = false;
}

void tcp_source_close(struct tcp_loop *loop, struct tcp_source *source)
{
	tcp_source_unwatch(loop, source);
	close(source->fd);
	source->fd = -1;
}

struct tcp_source *tcp_loop_take(struct tcp_loop *loop, uint8_t kinds, uint8_t *work)
{
	struct tcp_source *source = TAILQ_FIRST(&loop->active);

	*work = source->work & kinds;
	source_deactivate(loop, source);
	source->work &= (uint8_t)~kinds;
	if (source->work)
		source_activate(loop, source);
	return source;
}

/* Only handshakes and lingering sockets have timers: a walk once per deadline is short. */
void tcp_loop_expire(struct tcp_loop *loop)
{
	struct tcp_source *source, *next;
	uint64_t now;

	if (TAILQ_EMPTY(&loop->timers))
		return;
	now = env_now_ns();
	if (now < loop->next_deadline_ns)
		return;
	loop->next_deadline_ns = UINT64_MAX;
	for (source = TAILQ_FIRST(&loop->timers); source; source = next) {
		next = TAILQ_NEXT(source, timer_link);
		if (source->deadline_ns <= now) {
			tcp_source_stop_timer(loop, source);
			tcp_source_mark(loop, source, TCP_WORK_TIMEOUT);
		} else if (source->deadline_ns < loop->next_deadline_ns) {
			loop->next_deadline_ns = source->deadline_ns;
		}
	}
}

int tcp_loop_timeout_ms(const struct tcp_loop *loop)
{
	uint64_t now, ms;

	if (TAILQ_EMPTY(&loop->timers))
		return -1;
	now = env_now_ns();
	if (now >= loop->next_deadline_ns)
		return 0;
	ms = (loop->next_deadline_ns - now) / 1000000 + 1;
	return ms > INT32_MAX ? INT32_MAX : (int)ms;
}
