/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The thread of discovery.h. */
#include "target/watch/discovery.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "proto/wire/wire_check.h"
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/watch/discovery_limit.h"
#include "target/watch/discovery_net.h"

/*
 * The thread reads so many datagrams in a window, then sleeps until its end. What comes meanwhile waits
 * in the sockets' buffers, which are small, and what does not fit there is the kernel's to drop.
 */
#define WINDOW_NS 100000000ull
#define WINDOW_READS 64u
/* Interfaces are looked at so often at most, however often they change; and so often at least. */
#define SCAN_NS 1000000000ull
#define SCAN_IDLE_NS 60000000000ull
/* Lines about a flood. */
#define FLOOD_NS 60000000000ull

struct tgt_discovery {
	struct tgt_discovery_self self; /* fixed, as is the next */
	char interfaces[sizeof(((struct tgt_config *)0)->discovery)];
	/* The thread's, as are the following. */
	struct tgt_discovery_net net;
	struct tgt_discovery_limit limit;
	uint64_t window_ns, scanned_ns, flood_ns; /* when they began, or were last */
	unsigned int window_reads;
	bool scan_due;
	/* Written by the thread, read by any. */
	_Atomic uint64_t answered, limited, malformed;
	int stop; /* eventfd: readable at the end */
	pthread_t thread;
};

/* -- queries ----------------------------------------------------------------------------------- */

static void query_limited(struct tgt_discovery *discovery, const struct tgt_discovery_query *query,
			  uint64_t now_ns)
{
	uint64_t limited = ++discovery->limited;
	char from[64];

	if (discovery->flood_ns && now_ns - discovery->flood_ns < FLOOD_NS)
		return;
	discovery->flood_ns = now_ns;
	fab_format_address((const struct sockaddr *)&query->from, from, sizeof(from));
	tgt_log(TGT_LOG_WARNING,
		"discovery: too many queries, lately from %s on %s: %" PRIu64 " were not answered so far",
		from, query->interface->name, limited);
}

static void query_take(struct tgt_discovery *discovery, unsigned int family,
		       const struct tgt_discovery_query *query, uint64_t now_ns)
{
	if (!query->interface)
		return; /* another daemon's, or someone who is not on a link of ours */
	if (rblk_check_discover(&query->discover, query->length, RBLK_DISCOVER_QUERY)) {
		discovery->malformed++;
		return;
	}
	if (query->discover.name[0] &&
	    memcmp(query->discover.name, discovery->self.name, sizeof(query->discover.name)) != 0)
		return;
	if (!tgt_discovery_limit_take(&discovery->limit, query->address, now_ns))
		query_limited(discovery, query, now_ns);
	else if (tgt_discovery_net_answer(&discovery->net, family, query))
		discovery->answered++;
}

/* Both families in turn, so that neither keeps the other waiting. */
static void queries_take(struct tgt_discovery *discovery, uint64_t now_ns)
{
	struct tgt_discovery_query query;
	bool more = true;

	while (more && discovery->window_reads < WINDOW_READS) {
		more = false;
		for (unsigned int family = 0; family < TGT_DISCOVERY_FAMILIES; family++) {
			if (discovery->net.fds[family] < 0 ||
			    !tgt_discovery_net_receive(&discovery->net, family, &query))
				continue;
			more = true;
			discovery->window_reads++;
			query_take(discovery, family, &query, now_ns);
		}
	}
}

/* -- the thread -------------------------------------------------------------------------------- */

static void scan(struct tgt_discovery *discovery, uint64_t now_ns)
{
	tgt_discovery_net_scan(&discovery->net);
	discovery->scan_due = false;
	discovery->scanned_ns = now_ns;
}

static int timeout_ms(const struct tgt_discovery *discovery, uint64_t now_ns)
{
	uint64_t end_ns = discovery->scanned_ns + (discovery->scan_due ? SCAN_NS : SCAN_IDLE_NS);

	if (discovery->window_reads >= WINDOW_READS && discovery->window_ns + WINDOW_NS < end_ns)
		end_ns = discovery->window_ns + WINDOW_NS;
	return end_ns > now_ns ? (int)((end_ns - now_ns) / 1000000u) + 1 : 0;
}

/* False: the end. */
static bool turn(struct tgt_discovery *discovery)
{
	struct tgt_discovery_net *net = &discovery->net;
	uint64_t now_ns = env_now_ns();
	bool full;

	if (now_ns - discovery->window_ns >= WINDOW_NS) {
		discovery->window_ns = now_ns;
		discovery->window_reads = 0;
	}
	full = discovery->window_reads >= WINDOW_READS;
	struct pollfd polled[] = {
		{.fd = discovery->stop, .events = POLLIN},
		{.fd = discovery->scan_due ? -1 : net->changes, .events = POLLIN},
		{.fd = full ? -1 : net->fds[0], .events = POLLIN},
		{.fd = full ? -1 : net->fds[1], .events = POLLIN},
	};

	if (poll(polled, 4, timeout_ms(discovery, now_ns)) < 0)
		return true;
	if (polled[0].revents)
		return false;
	now_ns = env_now_ns();
	if (polled[1].revents)
		discovery->scan_due |= tgt_discovery_net_changed(net);
	if (now_ns - discovery->scanned_ns >= (discovery->scan_due ? SCAN_NS : SCAN_IDLE_NS))
		scan(discovery, now_ns);
	if (polled[2].revents || polled[3].revents)
		queries_take(discovery, now_ns);
	return true;
}

static void *discovery_thread(void *argument)
{
	while (turn(argument))
		;
	return NULL;
}

/* -- begin and end ----------------------------------------------------------------------------- */

static void self_init(struct tgt_discovery *discovery, const struct tgt_discovery_options *options)
{
	struct tgt_discovery_self *self = &discovery->self;
	char host[256] = "";

	if (!options->name[0])
		gethostname(host, sizeof(host) - 1);
	tgt_discovery_name(options->name[0] ? options->name : host, self->name);
	env_random(self->instance, sizeof(self->instance));
	self->rdma_address = fab_rdma_address;
	while (self->listen_count < TGT_LISTEN_MAX &&
	       options->listened(options->context, self->listen_count, &self->listens[self->listen_count]))
		self->listen_count++;
}

static void discovery_free(struct tgt_discovery *discovery)
{
	tgt_discovery_net_close(&discovery->net);
	if (discovery->stop >= 0)
		close(discovery->stop);
	free(discovery);
}

int tgt_discovery_create(const struct tgt_discovery_options *options, struct tgt_discovery **out,
			 char *error)
{
	struct tgt_discovery *discovery;
	uint64_t seed;
	int err;

	*out = NULL;
	if (!strcmp(options->interfaces, "none"))
		return 0;
	discovery = calloc(1, sizeof(*discovery));
	if (!discovery)
		return tgt_error(error, -ENOMEM, "discovery: out of memory");
	discovery->stop = -1;
	env_random(&seed, sizeof(seed));
	tgt_discovery_limit_init(&discovery->limit, seed);
	self_init(discovery, options);
	discovery->net.self = &discovery->self;
	/* A copy: a reload may change the configuration. */
	snprintf(discovery->interfaces, sizeof(discovery->interfaces), "%s", options->interfaces);
	discovery->net.wanted = discovery->interfaces;
	discovery->net.port = options->port;
	err = tgt_discovery_net_open(&discovery->net, error);
	if (err) {
		free(discovery);
		return err;
	}
	/* The first here: who asks when the daemon has said that it is ready is answered. */
	scan(discovery, env_now_ns());
	discovery->stop = eventfd(0, EFD_CLOEXEC);
	err = discovery->stop < 0 ? errno :
				    pthread_create(&discovery->thread, NULL, discovery_thread, discovery);
	if (err) {
		discovery_free(discovery);
		return tgt_error(error, -err, "discovery: %s", strerror(err));
	}
	pthread_setname_np(discovery->thread, "discovery");
	*out = discovery;
	return 0;
}

void tgt_discovery_destroy(struct tgt_discovery *discovery)
{
	if (!discovery)
		return;
	eventfd_write(discovery->stop, 1);
	pthread_join(discovery->thread, NULL);
	discovery_free(discovery);
}

void tgt_discovery_log_status(const struct tgt_discovery *discovery)
{
	if (discovery)
		tgt_log(TGT_LOG_INFO,
			"discovery: %s: %" PRIu64 " queries answered, %" PRIu64 " over the limits, %" PRIu64
			" malformed",
			discovery->self.name, discovery->answered, discovery->limited, discovery->malformed);
}
