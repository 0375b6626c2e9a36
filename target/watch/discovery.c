/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The thread of discovery.h. */
#include "target/watch/discovery.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/base/poll.h"
#include "target/watch/discovery_interfaces.h"
#include "target/watch/discovery_net.h"
#include "target/watch/discovery_rdma.h"
#include "target/watch/discovery_responder.h"
#include "target/watch/discovery_window.h"

/* Interfaces are looked at so often at most, however often they change; and so often at least. */
#define SCAN_NS 1000000000ull
#define SCAN_IDLE_NS 60000000000ull

struct tgt_discovery {
	char interfaces[sizeof(((struct tgt_config *)0)->discovery)]; /* fixed */
	struct tgt_discovery_responder responder;
	struct tgt_discovery_rdma *rdma; /* the other thread; NULL: no address is listened on by RDMA */
	/* The thread's, as are the following. */
	struct tgt_discovery_net net;
	struct tgt_discovery_window window;
	uint64_t scanned_ns;
	bool scan_due;
	int changes; /* readable: interfaces or addresses have changed; -1: nobody tells */
	int stop;    /* eventfd: readable at the end */
	pthread_t thread;
};

/* -- queries ----------------------------------------------------------------------------------- */

static void query_take(struct tgt_discovery *discovery, unsigned int family,
		       const struct tgt_discovery_query *query, uint64_t now_ns)
{
	struct tgt_discovery_question question = {.discover = &query->discover, .length = query->length};
	struct rblk_wire_discover answer;

	if (!query->interface)
		return; /* another daemon's, or someone who is not on a link of ours */
	memcpy(question.address, query->address, sizeof(question.address));
	question.interface = query->interface->name;
	answer = query->interface->answer;
	if (tgt_discovery_responder_take(&discovery->responder, &question, &answer, now_ns) &&
	    tgt_discovery_net_answer(&discovery->net, family, query, &answer))
		tgt_discovery_responder_answered(&discovery->responder);
}

/* Both families in turn, so that neither keeps the other waiting. */
static void queries_take(struct tgt_discovery *discovery, uint64_t now_ns)
{
	struct tgt_discovery_query query;
	bool more = true;

	while (more && tgt_discovery_window_open(&discovery->window, now_ns)) {
		more = false;
		for (unsigned int family = 0; family < TGT_DISCOVERY_FAMILIES; family++) {
			if (discovery->net.fds[family] < 0 ||
			    !tgt_discovery_net_receive(&discovery->net, family, &query))
				continue;
			more = true;
			discovery->window.reads++;
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

static uint64_t scan_at_ns(const struct tgt_discovery *discovery)
{
	return discovery->scanned_ns + (discovery->scan_due ? SCAN_NS : SCAN_IDLE_NS);
}

/* False: the end. */
static bool turn(struct tgt_discovery *discovery)
{
	struct tgt_discovery_net *net = &discovery->net;
	uint64_t now_ns = env_now_ns();
	bool open = tgt_discovery_window_open(&discovery->window, now_ns);
	struct pollfd polled[] = {
		{.fd = discovery->stop, .events = POLLIN},
		{.fd = discovery->scan_due ? -1 : discovery->changes, .events = POLLIN},
		{.fd = open ? net->fds[0] : -1, .events = POLLIN},
		{.fd = open ? net->fds[1] : -1, .events = POLLIN},
	};

	if (tgt_poll(polled, 4, tgt_discovery_window_wait_ms(&discovery->window, scan_at_ns(discovery), now_ns)) < 0)
		return true;
	if (polled[0].revents)
		return false;
	now_ns = env_now_ns();
	if (polled[1].revents)
		discovery->scan_due |= tgt_discovery_changes_read(discovery->changes);
	if (now_ns >= scan_at_ns(discovery))
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

static void self_init(struct tgt_discovery_self *self, const struct tgt_discovery_options *options)
{
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
	tgt_discovery_rdma_destroy(discovery->rdma);
	tgt_discovery_net_close(&discovery->net);
	if (discovery->changes >= 0)
		close(discovery->changes);
	if (discovery->stop >= 0)
		close(discovery->stop);
	tgt_discovery_responder_fini(&discovery->responder);
	free(discovery);
}

/* The sockets and threads. 0 or -errno. */
static int discovery_start(struct tgt_discovery *discovery, char *error)
{
	int err = tgt_discovery_net_open(&discovery->net, error);

	if (err)
		return err;
	discovery->changes = tgt_discovery_changes_open();
	/* The first here: who asks when the daemon has said that it is ready is answered. */
	scan(discovery, env_now_ns());
	err = tgt_discovery_rdma_create(&discovery->responder, &discovery->rdma, error);
	if (err)
		return err;
	discovery->stop = eventfd(0, EFD_CLOEXEC);
	err = discovery->stop < 0 ? errno :
				    pthread_create(&discovery->thread, NULL, discovery_thread, discovery);
	return err ? tgt_error(error, -err, "discovery: %s", strerror(err)) : 0;
}

int tgt_discovery_create(const struct tgt_discovery_options *options, struct tgt_discovery **out,
			 char *error)
{
	struct tgt_discovery *discovery;
	int err;

	*out = NULL;
	if (!strcmp(options->interfaces, "none"))
		return 0;
	discovery = calloc(1, sizeof(*discovery));
	if (!discovery)
		return tgt_error(error, -ENOMEM, "discovery: out of memory");
	discovery->stop = discovery->changes = -1;
	discovery->net.fds[0] = discovery->net.fds[1] = -1;
	/* A copy: a reload may change the configuration. */
	snprintf(discovery->interfaces, sizeof(discovery->interfaces), "%s", options->interfaces);
	tgt_discovery_responder_init(&discovery->responder, discovery->interfaces);
	self_init(&discovery->responder.self, options);
	discovery->net.self = &discovery->responder.self;
	discovery->net.wanted = discovery->interfaces;
	discovery->net.port = options->port;
	err = discovery_start(discovery, error);
	if (err) {
		discovery_free(discovery);
		return err;
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
			discovery->responder.self.name, discovery->responder.answered, discovery->responder.limited,
			discovery->responder.malformed);
}
