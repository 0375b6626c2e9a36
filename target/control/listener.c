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
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "proto/core/env.h"
#include "proto/secret/secret.h"
#include "proto/tls/tls.h"
#include "proto/wire/login.h"
#include "proto/words/units.h"
#include "target/base/daemon_event.h"
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/base/unserved.h"
#include "target/control/address.h"
#include "target/control/resolve.h"
#include "target/nvme/fabric.h"
#include "target/serve/calls.h"
#include "target/serve/lease.h"
#include "target/serve/login.h"
#include "target/serve/rules.h"

#define BACKLOG 128
#define EVENT_BATCH 64u
#define KINDS 5u
/* Time between attempts on an address in use at the start: short compared with a restart. */
#define IN_USE_NS 20000000
/* How often an address whose device was removed is tried. */
#define AGAIN_MS TGT_UNSERVED_AGAIN_MS
/* How often the reactors look for devices that were removed. */
#define CHECK_MS 5000

/* More than there are interfaces, for each address that was configured. */
#define PLACES_MAX 64u

/*
 * One socket to listen on: of a configured address, or one of those that a configured name has. Other threads read `text`,
 * behind `count` and `ready`.
 */
struct listen_place {
	struct tgt_address address;
	/* Not resolved again once it is known, because the resolver may take long. Without a host: the wildcard address of each
	 * family, of which the first that can be listened on is taken. */
	struct sockaddr_storage found[2];
	int candidates;		     /* in `found`; 0: the name could not be resolved so far */
	struct tgt_resolve *resolve; /* it is being resolved again; NULL: it is not */
	bool several;		       /* of a name that has other addresses, too */
	struct fab_listener *listener; /* NULL: it cannot be listened on now */
	uint64_t again_ns;	       /* without a listener: when to try again */
	char name[TGT_ADDRESS_BYTES];  /* fixed; for messages */
	char text[TGT_ADDRESS_BYTES];  /* as bound, from the first time on: */
	_Atomic bool ready;
};

struct tgt_listener {
	struct fab *fabs[KINDS]; /* by enum fab_kind, NULL: not listened on */
	struct listen_place places[PLACES_MAX];
	_Atomic unsigned int count;
	struct tgt_unserved *unserved; /* NULL: nobody asks what is missing */
	_Atomic uint64_t *tls_failures; /* NULL: likewise */
	struct tgt_reactor **reactors;
	unsigned int reactor_count;
	struct tgt_leases *leases;
	struct tgt_rulebook *rules;   /* NULL: there is no TLS */
	struct rblk_tls_context *tls[KINDS]; /* the rules' secrets are their keys; of kinds of TCP */
	struct tgt_log_limit log_limit;
	bool checks;       /* an address is of RDMA: see reactors_check() */
	uint64_t check_ns; /* when next */
};

/* -- listening --------------------------------------------------------------------------------- */

static int fab_get(struct tgt_listener *listener, const struct listen_place *place, char *error)
{
	/* Nothing is received here: the reactors' fabs have the connections. */
	struct fab_options options = {.cq_depth = 16, .recv_sge = 1, .later = true};
	enum fab_kind kind = place->address.kind;
	char words[FAB_ERROR_BYTES];

	if (listener->fabs[kind])
		return 0;
	if ((kind == FAB_TCP || kind == FAB_NVME) && listener->rules) {
		/* An attempt before this one may have made it. */
		if (!listener->tls[kind])
			listener->tls[kind] = rblk_tls_server_of(kind == FAB_NVME ? tgt_nvme_tls() : NULL,
								 tgt_rulebook_secrets, listener->rules);
		if (!listener->tls[kind])
			return tgt_error(error, -ENOMEM, "%s: TLS: out of memory", place->name);
		options.tls = listener->tls[kind];
	}
	if (kind == FAB_NVME || kind == FAB_NVME_RDMA)
		tgt_nvme_secrets(tgt_rulebook_secrets, listener->rules);
	listener->fabs[kind] = fab_open(kind, &options, words);
	if (!listener->fabs[kind])
		return tgt_error(error, -errno, "%s: %s", place->name, words);
	return 0;
}

/* IPv6 is disabled, in any way. */
static bool family_missing(int err)
{
	return err == -EAFNOSUPPORT || err == -EPROTONOSUPPORT || err == -EADDRNOTAVAIL;
}

/* Others of its name get the port that the kernel chose. It is in the same place in both families' addresses. */
static void place_set_port(struct tgt_listener *listener, const struct listen_place *place, in_port_t port)
{
	for (unsigned int i = 0; i < listener->count; i++) {
		struct listen_place *other = &listener->places[i];

		for (int j = 0; j < other->candidates && (other == place || other->several); j++)
			if (memcmp(&other->address, &place->address, sizeof(other->address)) == 0)
				((struct sockaddr_in *)&other->found[j])->sin_port = port;
	}
}

/* A place of our own that has this one's port; NULL: another process may have it. */
static const struct listen_place *place_taken(const struct tgt_listener *listener, const struct listen_place *place)
{
	for (unsigned int i = 0; i < listener->count; i++) {
		const struct listen_place *other = &listener->places[i];

		if (!other->listener || !tgt_kinds_share_ports(other->address.kind, place->address.kind))
			continue;
		for (int j = 0; j < place->candidates; j++)
			if (tgt_sockets_collide(&other->found[0], &place->found[j]))
				return other;
	}
	return NULL;
}

static int place_listen(struct tgt_listener *listener, struct listen_place *place, char *error)
{
	const struct listen_place *taken = place_taken(listener, place);
	struct sockaddr_storage bound;
	struct fab *fab;
	int err = fab_get(listener, place, error);

	if (err)
		return err;
	if (taken)
		return tgt_error(error, -EADDRINUSE, "%s: %s is listened on, too, and takes the same port", place->name,
				 taken->name);
	if (!place->candidates)
		return tgt_error(error, -EINVAL, "%s: it is not known yet", place->name);
	fab = listener->fabs[place->address.kind];
	err = -EADDRNOTAVAIL;
	for (int i = 0; i < place->candidates; i++) {
		err = fab_listen(fab, (struct sockaddr *)&place->found[i], BACKLOG, &place->listener);
		if (!err || !family_missing(err))
			break;
	}
	if (err)
		return tgt_error(error, err, "%s: %s", place->name, fab_error(fab));
	if (!place->ready && fab_listener_address(place->listener, &bound) == 0) {
		tgt_address_format_bound(place->address.kind, &bound, place->text);
		if (!place->address.port)
			place_set_port(listener, place, ((struct sockaddr_in *)&bound)->sin_port);
		place->found[0] = bound;
		place->candidates = 1;
		atomic_store(&place->ready, true);
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
static int place_listen_wait(struct tgt_listener *listener, struct listen_place *place, uint32_t wait_ms,
			     char *error)
{
	const struct timespec pause = {.tv_nsec = IN_USE_NS};
	uint64_t deadline_ns = env_now_ns() + (uint64_t)wait_ms * 1000000u;
	char text[UNITS_TEXT_BYTES];
	bool told = false;
	int err;

	while ((err = place_listen(listener, place, error)) == -EADDRINUSE && !place_taken(listener, place) &&
	       env_now_ns() < deadline_ns && !end_requested()) {
		if (!told)
			tgt_log(TGT_LOG_WARNING, "%s: waiting up to %s", error,
				units_text(UNITS_TIME_MS, wait_ms, text));
		told = true;
		nanosleep(&pause, NULL);
	}
	return err;
}

/* A name often has an address of a family that the machine has disabled: its other addresses are enough. */
static bool place_needless(const struct listen_place *place, int err)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&place->found[0];

	return place->several && place->found[0].ss_family == AF_INET6 &&
	       (err == -EAFNOSUPPORT || err == -EPROTONOSUPPORT ||
		(err == -EADDRNOTAVAIL && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr)));
}

static void place_missing(struct tgt_listener *listener, struct listen_place *place, int err, const char *reason)
{
	char advice[TGT_ERROR_BYTES];
	bool missing = err == -ENODEV || err == -ENOENT || err == -ENOSYS;

	tgt_error(advice, err, "%s%s", reason,
		  !missing || !fab_kind_is_rdma(place->address.kind) ? ""
		  : place->address.kind == FAB_VERBS		     ? "; to serve over TCP: listen = rblk+tcp://:4430"
								     : "; to serve over TCP: listen = nvme+tcp://:4420");
	tgt_unserved_add(listener->unserved, TGT_UNSERVED_ADDRESS, place->name, advice);
	place->again_ns = env_now_ns() + AGAIN_MS * 1000000ull;
}

/* `place` and new ones become those of a name's addresses; those without room are left out, and logged. */
static void places_fill(struct tgt_listener *listener, struct listen_place *place, const struct sockaddr_storage *found,
			int candidates)
{
	unsigned int count = listener->count;

	for (int i = 0; i < candidates; i++) {
		struct listen_place *one = i ? &listener->places[count] : place;

		if (i && count == PLACES_MAX) {
			tgt_log(TGT_LOG_ERROR, "%s: has too many addresses to listen on all", place->name);
			break;
		}
		count += i > 0;
		one->address = place->address;
		one->several = candidates > 1;
		one->found[0] = found[i];
		if (candidates > 1)
			tgt_address_format_bound(place->address.kind, &found[i], one->name);
		one->again_ns = 0;
		one->candidates = 1;
	}
	atomic_store(&listener->count, count);
}

/* reasons: of each place; why its name has no addresses now. */
static int places_add(struct tgt_listener *listener, const struct tgt_address *address,
		      char (*reasons)[TGT_ERROR_BYTES], char *error)
{
	struct sockaddr_storage found[TGT_ADDRESS_CANDIDATES];
	struct listen_place *place = &listener->places[listener->count];
	int candidates;

	if (listener->count == PLACES_MAX)
		return tgt_error(error, -ENOSPC, "too many addresses to listen on, the maximum is %u", PLACES_MAX);
	candidates = tgt_address_resolve(address, found, reasons[listener->count]);
	place->address = *address;
	tgt_address_format(address, place->name);
	listener->checks |= address->kind != FAB_TCP && address->kind != FAB_NVME;
	atomic_store(&listener->count, listener->count + 1);
	if (address->host[0]) {
		places_fill(listener, place, found, candidates);
	} else {
		memcpy(place->found, found, sizeof(place->found));
		place->candidates = candidates;
	}
	return 0;
}

/* Listens on all that were added. At most `lacking` of them may be missing. reasons: of places_add(). */
static int places_open(struct tgt_listener *listener, const struct tgt_config *config, unsigned int lacking,
		       char (*reasons)[TGT_ERROR_BYTES], char *error)
{
	int errors[PLACES_MAX];
	uint64_t begun_ns = env_now_ns();
	unsigned int left = 0, count = 0;
	int failed = 0;

	for (unsigned int i = 0; i < listener->count && !failed; i++) {
		uint64_t waited_ms = (env_now_ns() - begun_ns) / 1000000u;
		uint32_t wait_ms = config->listen_wait_ms;

		wait_ms -= waited_ms < wait_ms ? (uint32_t)waited_ms : wait_ms;
		errors[i] = listener->places[i].candidates
				    ? place_listen_wait(listener, &listener->places[i], wait_ms, reasons[i])
				    : -EINVAL;
		count += !errors[i];
		if (errors[i] && !place_needless(&listener->places[i], errors[i]) && ++left > lacking)
			failed = tgt_error(error, errors[i], "%s", reasons[i]);
	}
	/* Nothing is listened on, although nothing counts as missing: all were needless addresses of names. */
	if (!failed && !count && !left)
		failed = tgt_error(error, errors[0], "%s", reasons[0]);
	for (unsigned int i = 0; i < listener->count && !failed; i++) {
		if (errors[i] && place_needless(&listener->places[i], errors[i]))
			listener->places[i].again_ns = UINT64_MAX;
		else if (errors[i])
			place_missing(listener, &listener->places[i], errors[i], reasons[i]);
	}
	return failed;
}

/* How many of its addresses may be missing at the start. */
static unsigned int may_lack(const struct tgt_listener *listener, const struct tgt_listener_options *options)
{
	if (options->config->require_all)
		return 0;
	return options->none_will_do ? listener->count : listener->count - 1;
}

int tgt_listener_create(const struct tgt_listener_options *options, struct tgt_listener **out, char *error)
{
	const struct tgt_config *config = options->config;
	struct tgt_listener *listener = calloc(1, sizeof(*listener));
	char(*reasons)[TGT_ERROR_BYTES] = calloc(PLACES_MAX, sizeof(*reasons));
	int err = 0;

	if (listener && reasons)
		listener->leases = tgt_leases_create(options->reactors, config->reactors);
	if (!listener || !listener->leases) {
		free(reasons);
		free(listener);
		return tgt_error(error, -ENOMEM, "listener: out of memory");
	}
	listener->reactors = options->reactors;
	listener->rules = options->rules;
	listener->unserved = options->unserved;
	listener->tls_failures = options->tls_failures;
	listener->reactor_count = config->reactors;
	for (unsigned int i = 0; i < config->listen_count && !err; i++)
		err = places_add(listener, &config->listen[i], reasons, error);
	if (!err)
		err = places_open(listener, config, may_lack(listener, options), reasons, error);
	free(reasons);
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
	for (unsigned int i = 0; i < listener->count; i++) {
		if (listener->places[i].listener)
			fab_listener_destroy(listener->places[i].listener);
		tgt_resolve_leave(listener->places[i].resolve);
	}
	for (unsigned int i = 0; i < KINDS; i++) {
		fab_close(listener->fabs[i]);
		rblk_tls_context_destroy(listener->tls[i]);
	}
	tgt_leases_destroy(listener->leases);
	free(listener);
}

/* -- addresses that go and come ------------------------------------------------------------------ */

static void places_lost(struct tgt_listener *listener, const struct fab *fab)
{
	struct sockaddr_storage bound;
	char error[TGT_ERROR_BYTES];

	for (unsigned int i = 0; i < listener->count; i++) {
		struct listen_place *place = &listener->places[i];

		if (listener->fabs[place->address.kind] != fab || !place->listener ||
		    fab_listener_address(place->listener, &bound) != -ENODEV)
			continue;
		fab_listener_destroy(place->listener);
		place->listener = NULL;
		tgt_error(error, 0, "%s: its device was removed: no logins until the device is back", place->text);
		place_missing(listener, place, 0, error);
	}
}

/*
 * A driver that waits for its users is not removed before the last of them has closed the device.
 * The reactors are asked to check, because rdma_cm tells only of connections and listeners on it.
 */
static void reactors_check(struct tgt_listener *listener)
{
	tgt_reactors_call(listener->reactors, listener->reactor_count, tgt_reactor_check_devices, NULL);
	listener->check_ns = env_now_ns() + CHECK_MS * 1000000ull;
}

/* Without a wait. False: not known yet, and tried again. */
static bool place_resolve(struct tgt_listener *listener, struct listen_place *place)
{
	struct sockaddr_storage found[TGT_ADDRESS_CANDIDATES];
	char error[TGT_ERROR_BYTES];
	int candidates;

	place->again_ns = env_now_ns() + AGAIN_MS * 1000000ull;
	if (!place->resolve) {
		place->resolve = tgt_resolve_begin(&place->address);
		return false;
	}
	candidates = tgt_resolve_end(place->resolve, found, error);
	if (candidates == -EAGAIN)
		return false;
	place->resolve = NULL;
	if (candidates < 0) {
		place_missing(listener, place, candidates, error);
		return false;
	}
	tgt_unserved_remove(listener->unserved, TGT_UNSERVED_ADDRESS, place->name);
	places_fill(listener, place, found, candidates);
	return true;
}

static void place_retry(struct tgt_listener *listener, struct listen_place *place)
{
	char error[TGT_ERROR_BYTES];
	int err;

	if (!place->candidates && !place_resolve(listener, place))
		return;
	err = place_listen(listener, place, error);

	if (err == 0) {
		tgt_unserved_remove(listener->unserved, TGT_UNSERVED_ADDRESS, place->name);
		tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_ADDRESS_ADDED,
								  .address = place->text},
				 NULL, TGT_LOG_INFO, "%s: is there now: listening", place->text);
		return;
	}
	if (place_needless(place, err)) {
		place->again_ns = UINT64_MAX;
		return;
	}
	place_missing(listener, place, err, error);
	if (place->address.kind != FAB_TCP && place->address.kind != FAB_NVME)
		reactors_check(listener);
}

static void places_retry(struct tgt_listener *listener)
{
	for (unsigned int i = 0; i < listener->count; i++) {
		struct listen_place *place = &listener->places[i];

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
	enum fab_kind kind;

	/* Here, because the kernel may take its time to tell this machine's addresses. */
	tgt_origin_of(fab_request_peer(event->request), &origin);
	kind = fab_request_kind(event->request);
	origin.nvme = kind == FAB_NVME || kind == FAB_NVME_RDMA;
	origin.plain = (kind == FAB_TCP || kind == FAB_NVME) && !fab_request_channel(event->request, &channel);
	/* Too short to name a session: any reactor will refuse it. */
	if (event->private_bytes < sizeof(login))
		return tgt_reactor_login(listener->reactors[0], event->request, &origin, event->private_data,
					 event->private_bytes, NULL);
	/* A connection manager hands it out at any address. */
	memcpy(&login, event->private_data, sizeof(login));
	lease = tgt_lease_get(listener->leases, login.session_id, fab_request_fab(event->request));
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
	/* Want of descriptors or memory, when a connection was to be taken. */
	bool full = status == -EMFILE || status == -ENFILE || status == -ENOBUFS || status == -ENOMEM;

	/* EKEYREJECTED is the fabric's word for a handshake: the peer does not have the secret of the name that it gives. */
	if (!full)
		tgt_reactor_call(listener->reactors[0],
				 status == -EKEYREJECTED ? tgt_reactor_login_denied : tgt_reactor_login_malformed, NULL);
	if (status == -EKEYREJECTED && listener->tls_failures)
		atomic_fetch_add(listener->tls_failures, 1);
	tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = full ? TGT_DAEMON_EVENT_FULL : TGT_DAEMON_EVENT_REFUSED,
							  .error = -status},
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
		if (!listener->places[i].listener && listener->places[i].again_ns != UINT64_MAX &&
		    (least < 0 || least > AGAIN_MS))
			least = AGAIN_MS;
	if (listener->checks && (least < 0 || least > CHECK_MS))
		least = CHECK_MS;
	return least;
}

const char *tgt_listener_address(const struct tgt_listener *listener, unsigned int n)
{
	unsigned int count = atomic_load(&listener->count);

	for (unsigned int i = 0; i < count; i++)
		if (atomic_load(&listener->places[i].ready) && !n--)
			return listener->places[i].text;
	return NULL;
}

bool tgt_listener_bound(const struct tgt_listener *listener, unsigned int n, enum fab_kind *kind,
			struct sockaddr_storage *bound)
{
	unsigned int count = atomic_load(&listener->count);

	for (unsigned int i = 0; i < count; i++) {
		const struct listen_place *place = &listener->places[i];

		if (!place->candidates || n--)
			continue;
		*kind = place->address.kind;
		*bound = place->found[0];
		return true;
	}
	return false;
}
