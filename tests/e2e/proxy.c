/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the proxy of proxy.h. `wanted`, `is` and `bytes` are shared; from start to join the thread
 * owns all else.
 */
#include "tests/e2e/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PAIRS_MAX 64u
#define CHUNK 65536u
#define RUN_BYTES 256u
#define DATA_BYTES 2048 /* the middle of as much is data, not a command or a reply */
#define LOOK_MS 5 /* how often the thread checks `wanted` */

enum proxy_state { PROXY_OPEN, PROXY_HELD, PROXY_CUT, PROXY_ENDED };

/* One direction of one connection: bytes read from fd[0] and not yet written to fd[1]. */
struct way {
	int from, to;
	bool to_target;
	size_t at, have;
	char data[CHUNK];
};

struct pair {
	int client, server;
	struct way ways[2];
};

struct proxy {
	pthread_t thread;
	struct sockaddr_in own, target;
	char host[32];
	int listener;
	struct pair *pairs[PAIRS_MAX];
	unsigned int count;
	_Atomic int wanted, is; /* enum proxy_state */
	_Atomic uint64_t bytes;
	_Atomic bool flip[2];	/* by way */
	_Atomic bool flip_data[2], flip_all;
	_Atomic bool truncate;
	_Atomic bool runs[256]; /* bytes of which a long run was seen */
};

static void die(const char *what)
{
	perror(what);
	abort();
}

/* -- connections --------------------------------------------------------------------------------- */

static void pair_end(struct proxy *proxy, unsigned int i)
{
	const struct linger reset = {.l_onoff = 1};
	struct pair *pair = proxy->pairs[i];

	setsockopt(pair->client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(pair->client);
	close(pair->server);
	free(pair);
	proxy->pairs[i] = proxy->pairs[--proxy->count];
}

static void pair_begin(struct proxy *proxy, int client)
{
	int one = 1, server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pair *pair = calloc(1, sizeof(*pair));

	if (server < 0 || !pair)
		die("proxy");
	/* If the target does not listen, the path is down. */
	if (proxy->count == PAIRS_MAX ||
	    connect(server, (struct sockaddr *)&proxy->target, sizeof(proxy->target))) {
		close(server);
		close(client);
		free(pair);
		return;
	}
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	pair->client = client;
	pair->server = server;
	pair->ways[0].from = pair->ways[1].to = client;
	pair->ways[0].to_target = true;
	pair->ways[0].to = pair->ways[1].from = server;
	proxy->pairs[proxy->count++] = pair;
}

static void look_for_runs(struct proxy *proxy, const char *data, size_t bytes)
{
	size_t run = 1;

	for (size_t i = 1; i < bytes; i++) {
		run = data[i] == data[i - 1] ? run + 1 : 1;
		if (run == RUN_BYTES)
			atomic_store(&proxy->runs[(unsigned char)data[i]], true);
	}
}

static bool flips(struct proxy *proxy, const struct way *way, ssize_t bytes)
{
	if (atomic_exchange(&proxy->flip[way->to_target], false))
		return true;
	return bytes >= DATA_BYTES && (atomic_load(&proxy->flip_all) ||
				       atomic_exchange(&proxy->flip_data[way->to_target], false));
}

/* False: this connection has ended. */
static bool way_step(struct proxy *proxy, struct way *way)
{
	ssize_t bytes;

	if (way->at == way->have) {
		bytes = recv(way->from, way->data, CHUNK, MSG_DONTWAIT);
		if (bytes < 0)
			return errno == EAGAIN || errno == EINTR;
		if (!bytes)
			return false;
		way->at = 0;
		way->have = (size_t)bytes;
		atomic_fetch_add(&proxy->bytes, (uint64_t)bytes);
		look_for_runs(proxy, way->data, way->have);
		if (flips(proxy, way, bytes))
			way->data[bytes / 2] ^= 4;
	}
	bytes = send(way->to, way->data + way->at, way->have - way->at,
		     MSG_DONTWAIT | MSG_NOSIGNAL);
	if (bytes < 0)
		return errno == EAGAIN || errno == EINTR;
	way->at += (size_t)bytes;
	return true;
}

/* -- the thread ---------------------------------------------------------------------------------- */

static void listen_again(struct proxy *proxy)
{
	int one = 1;

	proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (proxy->listener < 0 ||
	    setsockopt(proxy->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(proxy->listener, (struct sockaddr *)&proxy->own, sizeof(proxy->own)) ||
	    listen(proxy->listener, 64))
		die("proxy: listen");
}

static void follow(struct proxy *proxy, int wanted)
{
	if (wanted <= PROXY_HELD) {
		if (proxy->listener < 0)
			listen_again(proxy);
	} else if (proxy->listener >= 0) {
		close(proxy->listener);
		proxy->listener = -1;
		while (proxy->count)
			pair_end(proxy, 0);
	}
	atomic_store(&proxy->is, wanted);
}

static void step(struct proxy *proxy)
{
	struct pollfd polled[1 + 2 * PAIRS_MAX];
	nfds_t count = 0;

	polled[count++] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
	for (unsigned int i = 0; i < proxy->count; i++)
		for (unsigned int w = 0; w < 2; w++) {
			const struct way *way = &proxy->pairs[i]->ways[w];
			bool full = way->at < way->have;

			polled[count++] =
				(struct pollfd){.fd = full ? way->to : way->from,
						.events = full ? POLLOUT : POLLIN};
		}
	poll(polled, count, LOOK_MS);
	if (atomic_exchange(&proxy->truncate, false))
		for (unsigned int i = 0; i < proxy->count; i++) {
			shutdown(proxy->pairs[i]->client, SHUT_WR);
			shutdown(proxy->pairs[i]->server, SHUT_WR);
		}
	for (unsigned int i = 0; i < proxy->count;) {
		struct pair *pair = proxy->pairs[i];

		if (way_step(proxy, &pair->ways[0]) && way_step(proxy, &pair->ways[1]))
			i++;
		else
			pair_end(proxy, i);
	}
	if (proxy->listener >= 0 && polled[0].revents) {
		int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);

		if (client >= 0)
			pair_begin(proxy, client);
	}
}

static void *proxy_thread(void *arg)
{
	struct proxy *proxy = arg;

	while (atomic_load(&proxy->is) != PROXY_ENDED) {
		int wanted = atomic_load(&proxy->wanted);

		if (wanted != atomic_load(&proxy->is))
			follow(proxy, wanted);
		else if (wanted == PROXY_HELD)
			poll(NULL, 0, LOOK_MS);
		else
			step(proxy);
	}
	return NULL;
}

/* -- the test's thread ---------------------------------------------------------------------------- */

struct proxy *proxy_start(const char *host)
{
	struct proxy *proxy = calloc(1, sizeof(*proxy));
	socklen_t bytes = sizeof(proxy->own);
	const char *port = strrchr(host, ':');

	if (!proxy || !port)
		die("proxy");
	proxy->own.sin_family = proxy->target.sin_family = AF_INET;
	proxy->own.sin_addr.s_addr = proxy->target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	proxy->target.sin_port = htons((uint16_t)atoi(port + 1));
	listen_again(proxy);
	if (getsockname(proxy->listener, (struct sockaddr *)&proxy->own, &bytes))
		die("proxy");
	snprintf(proxy->host, sizeof(proxy->host), "127.0.0.1:%u", ntohs(proxy->own.sin_port));
	if (pthread_create(&proxy->thread, NULL, proxy_thread, proxy))
		die("proxy: thread");
	return proxy;
}

static void want(struct proxy *proxy, int state)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	atomic_store(&proxy->wanted, state);
	while (atomic_load(&proxy->is) != state)
		nanosleep(&pause, NULL);
}

void proxy_cut(struct proxy *proxy)
{
	want(proxy, PROXY_CUT);
}

void proxy_mend(struct proxy *proxy)
{
	want(proxy, PROXY_OPEN);
}

void proxy_hold(struct proxy *proxy, bool on)
{
	want(proxy, on ? PROXY_HELD : PROXY_OPEN);
}

void proxy_flip(struct proxy *proxy, bool to_target)
{
	atomic_store(&proxy->flip[to_target], true);
}

void proxy_flip_all(struct proxy *proxy, bool on)
{
	atomic_store(&proxy->flip_all, on);
}

void proxy_flip_data(struct proxy *proxy, bool to_target)
{
	atomic_store(&proxy->flip_data[to_target], true);
}

bool proxy_flips(const struct proxy *proxy)
{
	return atomic_load(&proxy->flip[0]) || atomic_load(&proxy->flip[1]) ||
	       atomic_load(&proxy->flip_data[0]) || atomic_load(&proxy->flip_data[1]);
}

void proxy_truncate(struct proxy *proxy)
{
	atomic_store(&proxy->truncate, true);
	while (atomic_load(&proxy->truncate))
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

bool proxy_saw_run(const struct proxy *proxy, unsigned char byte)
{
	return atomic_load(&proxy->runs[byte]);
}

uint64_t proxy_bytes(const struct proxy *proxy)
{
	return atomic_load(&proxy->bytes);
}

const char *proxy_host(const struct proxy *proxy)
{
	return proxy->host;
}

void proxy_stop(struct proxy *proxy)
{
	want(proxy, PROXY_ENDED);
	pthread_join(proxy->thread, NULL);
	free(proxy);
}
