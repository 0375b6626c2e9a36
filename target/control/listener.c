/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Listening, and which reactor a session lives on. All queues of a session go to one reactor; the
 * lease says to which, for as long as a login of the session is under way or the session lives. The
 * reactors give leases back; only this thread looks for those that nobody has any more.
 */
#include "target/control/listener.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/wire/login.h"
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/serve/reactor_impl.h"

#define BACKLOG 128
#define EVENT_BATCH 64u
#define KINDS 3u
/* Logins of hostile or broken peers must not fill the table: beyond this they are refused. */
#define LEASES_MAX 65536u

struct tgt_listener {
	struct fab *fabs[KINDS]; /* by enum fab_kind, NULL: not listened on */
	struct fab_listener *listeners[TGT_LISTEN_MAX];
	char addresses[TGT_LISTEN_MAX][128];
	unsigned int count;
	struct tgt_reactor **reactors;
	unsigned int reactor_count;
	struct tgt_lease **leases;
	unsigned int lease_count, lease_room;
	struct tgt_log_limit log_limit;
};

/* -- addresses --------------------------------------------------------------------------------- */

static const struct {
	const char *scheme;
	enum fab_kind kind;
} schemes[] = {
	{"rblk://", FAB_VERBS},
	{"rblk+tcp://", FAB_TCP},
	{"sim://", FAB_SIM},
};

/* "scheme://host[:port]", "scheme://[v6][:port]", an empty host is every address. */
static int address_split(const char *text, enum fab_kind *kind, char host[128], char port[16])
{
	const char *rest = NULL, *colon;
	size_t length;

	for (unsigned int i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		if (strncmp(text, schemes[i].scheme, strlen(schemes[i].scheme)))
			continue;
		*kind = schemes[i].kind;
		rest = text + strlen(schemes[i].scheme);
	}
	if (!rest)
		return -EINVAL;
	if (*rest == '[') {
		const char *end = strchr(++rest, ']');

		if (!end || (end[1] && end[1] != ':'))
			return -EINVAL;
		length = (size_t)(end - rest);
		colon = end[1] ? end + 1 : NULL;
	} else {
		colon = strrchr(rest, ':');
		length = colon ? (size_t)(colon - rest) : strlen(rest);
	}
	if (length >= 128 || (colon && strlen(colon + 1) >= 16))
		return -EINVAL;
	memcpy(host, rest, length);
	host[length] = 0;
	if (colon)
		strcpy(port, colon + 1);
	else
		snprintf(port, 16, "%d", RBLK_DEFAULT_PORT);
	return 0;
}

static int address_resolve(const char *text, enum fab_kind *kind, struct sockaddr_storage *addr,
			   char *error)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	char host[128], port[16];
	int err = address_split(text, kind, host, port);

	if (err)
		return tgt_error(error, err,
				 "%s: not an address to listen on (rblk://host[:port], "
				 "rblk+tcp://host[:port])",
				 text);
	err = getaddrinfo(host[0] ? host : NULL, port, &hints, &found);
	if (err)
		return tgt_error(error, -EINVAL, "%s: %s", text, gai_strerror(err));
	memcpy(addr, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

/* The address as bound, in the words of the configuration. */
static void address_text(struct tgt_listener *listener, unsigned int n, enum fab_kind kind)
{
	struct sockaddr_storage addr;
	char text[100];

	if (fab_listener_address(listener->listeners[n], &addr))
		return;
	fab_format_address((struct sockaddr *)&addr, text, sizeof(text));
	for (unsigned int i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (schemes[i].kind == kind)
			snprintf(listener->addresses[n], sizeof(listener->addresses[n]), "%s%s",
				 schemes[i].scheme, text);
}

static int listener_add(struct tgt_listener *listener, const char *text, char *error)
{
	/* Nothing is received here: the reactors' fabs have the connections. */
	struct fab_options options = {.cq_depth = 16, .recv_sge = 1};
	char fab_words[FAB_ERROR_BYTES];
	struct sockaddr_storage addr;
	unsigned int n = listener->count;
	enum fab_kind kind = FAB_VERBS;
	int err = address_resolve(text, &kind, &addr, error);

	if (err)
		return err;
	if (!listener->fabs[kind]) {
		listener->fabs[kind] = fab_open(kind, &options, fab_words);
		if (!listener->fabs[kind])
			return tgt_error(error, -errno, "%s: %s", text, fab_words);
	}
	err = fab_listen(listener->fabs[kind], (struct sockaddr *)&addr, BACKLOG,
			 &listener->listeners[n]);
	if (err)
		return tgt_error(error, err, "%s: %s", text, fab_error(listener->fabs[kind]));
	listener->count++;
	snprintf(listener->addresses[n], sizeof(listener->addresses[n]), "%s", text);
	address_text(listener, n, kind);
	return 0;
}

int tgt_listener_create(const struct tgt_config *config, struct tgt_reactor **reactors,
			struct tgt_listener **out, char *error)
{
	struct tgt_listener *listener = calloc(1, sizeof(*listener));
	int err = 0;

	if (!listener)
		return tgt_error(error, -ENOMEM, "listener: out of memory");
	listener->reactors = reactors;
	listener->reactor_count = config->reactors;
	for (unsigned int i = 0; i < config->listen_count && !err; i++)
		err = listener_add(listener, config->listen[i], error);
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
		fab_listener_destroy(listener->listeners[i]);
	for (unsigned int i = 0; i < KINDS; i++)
		fab_close(listener->fabs[i]);
	for (unsigned int i = 0; i < listener->lease_count; i++)
		free(listener->leases[i]);
	free(listener->leases);
	free(listener);
}

/* -- leases ------------------------------------------------------------------------------------ */

/*
 * Free what nobody uses. Acquire pairs with the release of the last user; only this thread adds
 * users, so that 0 stays 0.
 */
static void leases_reap(struct tgt_listener *listener)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < listener->lease_count; i++) {
		struct tgt_lease *lease = listener->leases[i];

		if (atomic_load_explicit(&lease->users, memory_order_acquire))
			listener->leases[kept++] = lease;
		else
			free(lease);
	}
	listener->lease_count = kept;
}

static struct tgt_reactor *reactor_least_loaded(const struct tgt_listener *listener)
{
	unsigned int load[TGT_REACTORS_MAX] = {0};
	unsigned int best = 0;

	for (unsigned int i = 0; i < listener->lease_count; i++)
		load[listener->leases[i]->reactor->index]++;
	for (unsigned int i = 1; i < listener->reactor_count; i++)
		if (load[i] < load[best])
			best = i;
	return listener->reactors[best];
}

static bool leases_grow(struct tgt_listener *listener)
{
	unsigned int room = listener->lease_room ? listener->lease_room * 2 : 16;
	struct tgt_lease **leases;

	if (listener->lease_count < listener->lease_room)
		return true;
	if (room > LEASES_MAX)
		return false;
	leases = realloc(listener->leases, room * sizeof(struct tgt_lease *));
	if (!leases)
		return false;
	listener->leases = leases;
	listener->lease_room = room;
	return true;
}

/* The session's lease with one more user; a new one on the least loaded reactor. NULL: no room. */
static struct tgt_lease *lease_get(struct tgt_listener *listener, const uint8_t id[16])
{
	struct tgt_lease *lease;

	leases_reap(listener);
	for (unsigned int i = 0; i < listener->lease_count; i++) {
		lease = listener->leases[i];
		if (memcmp(lease->session_id, id, 16))
			continue;
		atomic_fetch_add_explicit(&lease->users, 1, memory_order_relaxed);
		return lease;
	}
	if (!leases_grow(listener))
		return NULL;
	lease = calloc(1, sizeof(*lease));
	if (!lease)
		return NULL;
	memcpy(lease->session_id, id, 16);
	lease->reactor = reactor_least_loaded(listener);
	atomic_init(&lease->users, 1);
	listener->leases[listener->lease_count++] = lease;
	return lease;
}

/* -- requests ---------------------------------------------------------------------------------- */

static void listener_request(struct tgt_listener *listener, const struct fab_event *event)
{
	struct rblk_wire_login login;
	struct tgt_lease *lease = NULL;
	struct rblk_wire_reject reject = {
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_PROTOCOL_VERSION),
		.reason = rblk_to_le16(RBLK_REJECT_NO_RESOURCES),
	};

	/* Too short to name a session: any reactor will say so. */
	if (event->private_bytes < sizeof(login)) {
		tgt_reactor_login(listener->reactors[0], event->request, event->private_data,
				  event->private_bytes, NULL);
		return;
	}
	/* A connection manager hands it out at any address. */
	memcpy(&login, event->private_data, sizeof(login));
	lease = lease_get(listener, login.session_id);
	if (!lease) {
		fab_reject(event->request, &reject, sizeof(reject));
		return;
	}
	tgt_reactor_login(lease->reactor, event->request, event->private_data, event->private_bytes,
			  lease);
}

static void listener_failed(struct tgt_listener *listener, const struct fab *fab, int status)
{
	tgt_log_limited(&listener->log_limit, TGT_LOG_WARNING, "listener: %s%s", fab_error(fab),
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
					listener_request(listener, &event);
				else if (event.type == FAB_EVENT_FAILED)
					listener_failed(listener, fab, event.status);
			}
		} while (count < EVENT_BATCH && fab_arm(fab) > 0 && count++ < EVENT_BATCH);
		work += count;
	}
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
	return least;
}

const char *tgt_listener_address(const struct tgt_listener *listener, unsigned int n)
{
	return n < listener->count ? listener->addresses[n] : NULL;
}
