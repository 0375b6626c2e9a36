/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Listening and dispatch: a fab per kind of fabric, a fabric listener per address, and each
 * connection request to the reactor that the lease of its session names (serve/lease.h). address.c
 * has the grammar of addresses.
 */
#include "target/control/listener.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "proto/core/env.h"
#include "proto/secret/secret.h"
#include "proto/tls/tls.h"
#include "proto/wire/login.h"
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/base/notice.h"
#include "target/control/address.h"
#include "target/serve/lease.h"
#include "target/serve/login_answer.h"
#include "target/serve/mail.h"
#include "target/serve/rules.h"

#define BACKLOG 128
#define EVENT_BATCH 64u
#define KINDS 3u
/* Time between attempts on an address in use at the start: short compared with a restart. */
#define IN_USE_NS 20000000
/* How often an address whose device was removed is tried. */
#define AGAIN_MS 1000
/* How often the reactors look for devices that were removed. */
#define CHECK_MS 5000

/* One configured address. */
struct place {
	struct tgt_address address;
	/* Its socket addresses: resolved once, because the resolver may take long. */
	struct sockaddr_storage found[TGT_ADDRESS_CANDIDATES];
	int candidates;
	struct fab_listener *listener; /* NULL: its device was removed */
	uint64_t again_ns;	       /* without a listener: when to try again */
	struct sockaddr_storage bound; /* all zero: never */
	char text[TGT_ADDRESS_BYTES];  /* as bound */
};

struct tgt_listener {
	struct fab *fabs[KINDS]; /* by enum fab_kind, NULL: not listened on */
	struct place places[TGT_LISTEN_MAX];
	unsigned int count;
	struct tgt_reactor **reactors;
	unsigned int reactor_count;
	struct tgt_leases *leases;
	struct tgt_rulebook *rules;   /* NULL: there is no TLS */
	struct rblk_tls_context *tls; /* the rules' secrets are its keys; NULL: it has no TCP */
	struct tgt_log_limit log_limit;
	bool checks;       /* an address is of RDMA: see reactors_check() */
	uint64_t check_ns; /* when next */
};

/* -- listening --------------------------------------------------------------------------------- */

/* What an initiator of that name may prove by TLS; on this thread. */
static struct rblk_secrets *find_secrets(void *arg, const char *name)
{
	struct tgt_rules *rules = tgt_rulebook_get(arg);
	struct rblk_secrets *secrets = rblk_secrets_ref(tgt_rules_secrets(rules, name));

	tgt_rules_put(rules);
	return secrets;
}

static int fab_get(struct tgt_listener *listener, const struct place *place, char *error)
{
	/* Nothing is received here: the reactors' fabs have the connections. */
	struct fab_options options = {.cq_depth = 16, .recv_sge = 1};
	enum fab_kind kind = place->address.kind;
	char words[FAB_ERROR_BYTES];

	if (listener->fabs[kind])
		return 0;
	if (kind == FAB_TCP && listener->rules) {
		listener->tls = rblk_tls_server(find_secrets, listener->rules);
		if (!listener->tls)
			return tgt_error(error, -ENOMEM, "%s: TLS: out of memory", place->text);
		options.tls = listener->tls;
	}
	listener->fabs[kind] = fab_open(kind, &options, words);
	if (!listener->fabs[kind])
		return tgt_error(error, -errno, "%s: %s", place->text, words);
	return 0;
}

/* IPv6 is disabled, in any way. */
static bool family_missing(int err)
{
	return err == -EAFNOSUPPORT || err == -EPROTONOSUPPORT || err == -EADDRNOTAVAIL;
}

static int place_listen(struct tgt_listener *listener, struct place *place, char *error)
{
	struct fab *fab = listener->fabs[place->address.kind];
	struct sockaddr_storage bound;
	int err = -EADDRNOTAVAIL;

	for (int i = 0; i < place->candidates; i++) {
		err = fab_listen(fab, (struct sockaddr *)&place->found[i], BACKLOG, &place->listener);
		if (!err || !family_missing(err))
			break;
	}
	if (err)
		return tgt_error(error, err, "%s: %s", place->text, fab_error(fab));
	if (fab_listener_address(place->listener, &bound) == 0) {
		place->bound = bound;
		tgt_address_format_bound(place->address.kind, &bound, place->text);
		/* A caller that got a free port finds it again. It is in the same place in both
		 * families' addresses. */
		for (int i = 0; i < place->candidates; i++)
			((struct sockaddr_in *)&place->found[i])->sin_port =
				((struct sockaddr_in *)&bound)->sin_port;
	}
	return 0;
}

/* Before the daemon serves, signals stay pending for the signalfd. */
static bool end_requested(void)
{
	sigset_t pending;

	return sigpending(&pending) == 0 &&
	       (sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT));
}

/*
 * A predecessor may still have the address: it drains, or was killed and has not ended yet. The
 * start also waits for its volumes' locks (F6), but not every volume has one.
 */
static int place_listen_wait(struct tgt_listener *listener, struct place *place, uint32_t wait_ms,
			     char *error)
{
	const struct timespec pause = {.tv_nsec = IN_USE_NS};
	uint64_t deadline_ns = env_now_ns() + (uint64_t)wait_ms * 1000000u;
	bool told = false;
	int err;

	while ((err = place_listen(listener, place, error)) == -EADDRINUSE &&
	       env_now_ns() < deadline_ns && !end_requested()) {
		if (!told)
			tgt_log(TGT_LOG_WARNING, "%s: waiting up to %" PRIu32 " ms", error, wait_ms);
		told = true;
		nanosleep(&pause, NULL);
	}
	return err;
}

static int place_open(struct tgt_listener *listener, const struct tgt_address *address,
		      uint32_t wait_ms, char *error)
{
	struct place *place = &listener->places[listener->count];
	int err;

	place->address = *address;
	tgt_address_format(address, place->text);
	err = fab_get(listener, place, error);
	if (!err) {
		place->candidates = tgt_address_resolve(&place->address, place->found, error);
		err = place->candidates < 0 ? place->candidates : 0;
	}
	if (!err)
		err = place_listen_wait(listener, place, wait_ms, error);
	if (!err) {
		listener->count++;
		listener->checks |= place->address.kind != FAB_TCP;
	}
	return err;
}

int tgt_listener_create(const struct tgt_config *config, struct tgt_reactor **reactors,
			struct tgt_rulebook *rules, struct tgt_listener **out, char *error)
{
	struct tgt_listener *listener = calloc(1, sizeof(*listener));
	int err = 0;

	if (!listener || tgt_leases_create(reactors, config->reactors, &listener->leases)) {
		free(listener);
		return tgt_error(error, -ENOMEM, "listener: out of memory");
	}
	listener->reactors = reactors;
	listener->rules = rules;
	listener->reactor_count = config->reactors;
	for (unsigned int i = 0; i < config->listen_count && !err; i++)
		err = place_open(listener, &config->listen[i], config->listen_wait_ms, error);
	if (err) {
		tgt_listener_destroy(listener);
		return err;
	}
	*out = listener;
	return 0;
}

/* The reactors have been destroyed before, so that no lease is in use. */
void tgt_listener_destroy(struct tgt_listener *listener)
{
	if (!listener)
		return;
	for (unsigned int i = 0; i < listener->count; i++)
		fab_listener_destroy(listener->places[i].listener);
	for (unsigned int i = 0; i < KINDS; i++)
		fab_close(listener->fabs[i]);
	rblk_tls_context_destroy(listener->tls);
	tgt_leases_destroy(listener->leases);
	free(listener);
}

/* -- addresses that go and come ------------------------------------------------------------------ */

static void places_lost(struct tgt_listener *listener, const struct fab *fab)
{
	struct sockaddr_storage bound;

	for (unsigned int i = 0; i < listener->count; i++) {
		struct place *place = &listener->places[i];

		if (listener->fabs[place->address.kind] != fab || !place->listener ||
		    fab_listener_address(place->listener, &bound) != -ENODEV)
			continue;
		fab_listener_destroy(place->listener);
		place->listener = NULL;
		place->again_ns = env_now_ns() + AGAIN_MS * 1000000ull;
		tgt_log(TGT_LOG_WARNING,
			"%s: its device was removed: no logins until the device is back",
			place->text);
	}
}

/*
 * A driver that waits for its users is not removed before the last of them has closed the device.
 * The reactors are asked to check, because rdma_cm tells only of connections and listeners on it.
 */
static void reactors_check(struct tgt_listener *listener)
{
	for (unsigned int i = 0; i < listener->reactor_count; i++)
		tgt_reactor_check_devices(listener->reactors[i]);
	listener->check_ns = env_now_ns() + CHECK_MS * 1000000ull;
}

static void place_retry(struct tgt_listener *listener, struct place *place)
{
	char error[TGT_ERROR_BYTES];

	if (place_listen(listener, place, error) == 0) {
		tgt_log(TGT_LOG_INFO, "%s: its device is back: listening again", place->text);
		return;
	}
	tgt_log(TGT_LOG_DEBUG, "%s", error);
	place->again_ns = env_now_ns() + AGAIN_MS * 1000000ull;
	reactors_check(listener);
}

static void places_retry(struct tgt_listener *listener)
{

	for (unsigned int i = 0; i < listener->count; i++) {
		struct place *place = &listener->places[i];

		if (!place->listener && env_now_ns() >= place->again_ns)
			place_retry(listener, place);
	}
}

/* -- requests ---------------------------------------------------------------------------------- */

/* False: no memory, and the request is the caller's. */
static bool listener_request(struct tgt_listener *listener, const struct fab_event *event)
{
	struct rblk_wire_login login;
	struct tgt_origin origin;
	struct fab_channel channel;
	struct tgt_lease *lease;

	/* Here, because the kernel may take its time to tell this machine's addresses. */
	tgt_origin_of(fab_request_peer(event->request), &origin);
	origin.plain = fab_request_kind(event->request) == FAB_TCP &&
		       !fab_request_channel(event->request, &channel);
	/* Too short to name a session: any reactor will refuse it. */
	if (event->private_bytes < sizeof(login))
		return tgt_reactor_login(listener->reactors[0], event->request, &origin, event->private_data,
					 event->private_bytes, NULL);
	/* A connection manager hands it out at any address. */
	memcpy(&login, event->private_data, sizeof(login));
	lease = tgt_lease_get(listener->leases, login.session_id);
	return lease && tgt_reactor_login(lease->reactor, event->request, &origin, event->private_data,
					  event->private_bytes, lease);
}

static void listener_login(struct tgt_listener *listener, const struct fab_event *event)
{
	if (!listener_request(listener, event))
		tgt_login_reject_early(event->request, &listener->log_limit);
}

static void listener_failed(struct tgt_listener *listener, const struct fab *fab, int status)
{
	tgt_notice(&(struct tgt_notice_about){.kind = TGT_NOTICE_REFUSED, .error = -status},
		   &listener->log_limit, TGT_LOG_WARNING, "listener: %s%s", fab_error(fab),
		   status == -EMFILE ? " (" TGT_RAISE_DESCRIPTORS ")" : "");
}

unsigned int tgt_listener_step(struct tgt_listener *listener)
{
	unsigned int work = 0;

	for (unsigned int i = 0; i < KINDS; i++) {
		struct fab *fab = listener->fabs[i];
		struct fab_event event;
		struct ibv_wc wc;
		unsigned int count = 0;

		if (!fab)
			continue;
		do {
			/* Software fabrics make progress by being polled. */
			fab_poll(fab, &wc, 1);
			while (count < EVENT_BATCH && fab_poll_event(fab, &event) > 0) {
				count++;
				if (event.type == FAB_EVENT_REQUEST)
					listener_login(listener, &event);
				else if (event.type == FAB_EVENT_FAILED)
					listener_failed(listener, fab, event.status);
				else if (event.type == FAB_EVENT_DEVICE_GONE)
					places_lost(listener, fab);
			}
		} while (count < EVENT_BATCH && fab_arm(fab) > 0 && count++ < EVENT_BATCH);
		work += count;
	}
	places_retry(listener);
	if (listener->checks && env_now_ns() >= listener->check_ns)
		reactors_check(listener);
	return work;
}

unsigned int tgt_listener_fds(const struct tgt_listener *listener, int fds[TGT_LISTEN_FDS])
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < KINDS; i++)
		if (listener->fabs[i])
			fds[count++] = fab_fd(listener->fabs[i]);
	return count;
}

int tgt_listener_timeout_ms(const struct tgt_listener *listener)
{
	int least = -1;

	for (unsigned int i = 0; i < KINDS; i++) {
		int timeout_ms = listener->fabs[i] ? fab_timeout_ms(listener->fabs[i]) : -1;

		if (timeout_ms >= 0 && (least < 0 || timeout_ms < least))
			least = timeout_ms;
	}
	for (unsigned int i = 0; i < listener->count; i++)
		if (!listener->places[i].listener && (least < 0 || least > AGAIN_MS))
			least = AGAIN_MS;
	if (listener->checks && (least < 0 || least > CHECK_MS))
		least = CHECK_MS;
	return least;
}

const char *tgt_listener_address(const struct tgt_listener *listener, unsigned int n)
{
	return n < listener->count ? listener->places[n].text : NULL;
}

bool tgt_listener_bound(const struct tgt_listener *listener, unsigned int n, enum fab_kind *kind,
			struct sockaddr_storage *bound)
{
	if (n >= listener->count)
		return false;
	*kind = listener->places[n].address.kind;
	*bound = listener->places[n].bound;
	return true;
}
