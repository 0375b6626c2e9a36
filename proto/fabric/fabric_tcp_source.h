/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sources that fabric_tcp waits for: sockets in one epoll, a list of those that have work, and
 * timers. Each socket is in the epoll once, edge-triggered, so that an idle connection costs
 * nothing. An edge, a post, a completion that found no room set a work bit on the object's struct
 * tcp_source, which puts it on the active list; fabric_tcp.c runs what is on it. Knows nothing of
 * what a source stands for: the owner embeds one and frees it. One thread's, as the fab is.
 */
#ifndef RBLK_FABRIC_TCP_SOURCE_H
#define RBLK_FABRIC_TCP_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum tcp_source_kind {
	TCP_SOURCE_WAKE,     /* the fab's eventfd */
	TCP_SOURCE_LISTENER,
	TCP_SOURCE_REQUEST,  /* a socket that has not sent its whole hello */
	TCP_SOURCE_CONN,
	TCP_SOURCE_LINGER,   /* a closed connection's socket that waits for the peer's end */
};

enum tcp_work {
	TCP_WORK_RX = 1 << 0,       /* the socket may be readable, or a held frame may go on */
	TCP_WORK_TX = 1 << 1,       /* there may be something to send */
	TCP_WORK_COMPLETE = 1 << 2, /* completions or flushes found no room in the queue */
	TCP_WORK_PREPARE = 1 << 3,  /* connected: fab_poll_event() calls prepare() */
	TCP_WORK_TIMEOUT = 1 << 4,
};

/* The first member of the object that it belongs to; the owner of that object owns it. */
struct tcp_source {
	TAILQ_ENTRY(tcp_source) link; /* active list, while work != 0 */
	TAILQ_ENTRY(tcp_source) timer_link; /* timer list, while deadline_ns != 0 */
	uint64_t deadline_ns;
	int fd; /* -1: none */
	uint8_t kind;
	uint8_t work;
	bool watched; /* in the epoll */
};
TAILQ_HEAD(tcp_sources, tcp_source);

struct tcp_loop {
	int epoll_fd;
	struct tcp_source wake; /* an eventfd, to make the epoll's descriptor readable */
	bool woken;		/* by it, and epoll has not been asked since */
	uint32_t watched;	/* sources in the epoll, that one included */
	struct tcp_sources active;
	uint32_t active_count;
	struct tcp_sources timers;
	uint64_t next_deadline_ns; /* no timer is due before it; may be too early */
	uint32_t turn;		   /* counts turns, for acks that may wait for one */
	bool turning;		   /* in a turn: there will be another, or the fab is armed */
	bool armed; /* the epoll must turn readable when something comes up outside a turn */
};

#define tcp_container(pointer, type, member)                                                       \
	((type *)((char *)(pointer) - offsetof(type, member)))

/* 0 or negative errno; then there is nothing to undo. */
int tcp_loop_init(struct tcp_loop *loop);
void tcp_loop_fini(struct tcp_loop *loop);
/* Something came up: outside a turn and armed, the owner sleeps or may go to sleep. */
void tcp_loop_wake(struct tcp_loop *loop);
/* Timers that are due become TCP_WORK_TIMEOUT. */
void tcp_loop_expire(struct tcp_loop *loop);
/* Milliseconds until tcp_loop_expire() has something to do; -1: no timer runs. */
int tcp_loop_timeout_ms(const struct tcp_loop *loop);
/*
 * The first of the active list, which must not be empty. *work is what it had of these kinds; with
 * work of other kinds it goes to the end of the list.
 */
struct tcp_source *tcp_loop_take(struct tcp_loop *loop, uint8_t kinds, uint8_t *work);

void tcp_source_init(struct tcp_source *source, enum tcp_source_kind kind, int fd);
/* Put a socket into the epoll. */
int tcp_source_watch(struct tcp_loop *loop, struct tcp_source *source, uint32_t epoll_events);
/* One that is in the epoll has these events from now on, those that are there already among them. */
void tcp_source_rewatch(struct tcp_loop *loop, struct tcp_source *source, uint32_t epoll_events);
/*
 * Take it out. Closing alone does so only with the last descriptor of the socket: a child of a
 * fork has another, and events would go on naming what was freed.
 */
void tcp_source_unwatch(struct tcp_loop *loop, struct tcp_source *source);
/* Out of the epoll, and closed. */
void tcp_source_close(struct tcp_loop *loop, struct tcp_source *source);
/* Off the lists; the descriptor stays as it is. */
void tcp_source_fini(struct tcp_loop *loop, struct tcp_source *source);
/* There is work of this kind: the next turn does it. */
void tcp_source_mark(struct tcp_loop *loop, struct tcp_source *source, uint8_t work);
void tcp_source_set_timer(struct tcp_loop *loop, struct tcp_source *source, uint32_t ms);
void tcp_source_stop_timer(struct tcp_loop *loop, struct tcp_source *source);

#endif
