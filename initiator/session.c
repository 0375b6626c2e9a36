/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the session as an object: options, making and freeing it, and the turn that rblk_poll() makes.
 */
#include "initiator/session.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "initiator/durable.h"
#include "initiator/own_name.h"
#include "initiator/publish.h"
#include "initiator/source.h"
#include "proto/secret/secret.h"
#include "proto/tls/tls.h"
#include "proto/wire/wire_check.h"

/* rdma_cm repeats a lost request after 4.3 s: time for two of them. */
#define CONNECT_TIMEOUT_MS 10000
#define COMMAND_TIMEOUT_MS 30000
#define TIMEOUT_MS_MAX 3600000u
/* No version's struct is so long: detects a `size` that was never set. */
#define OPTIONS_BYTES_MAX 4096
#define RECONNECT_MIN_MS 100
#define RECONNECT_MAX_MS 10000
#define GIVE_UP_MS 60000
#define CREDITS 64
#define TOS_MAX 255u
#define ACK_TIMEOUT_MAX 31u /* five bits of a queue pair */
/* Adaptive: the longest poll is at least this, however fast wake-ups are here. */
#define SPIN_LEAST_NS 200000ull
/* How often a busy session checks for the fabric's events: that costs a system call. */
#define EVENTS_PERIOD_NS 1000000ull

/* -- options ----------------------------------------------------------------------------------- */

static int option_fault(char *error, const char *text)
{
	snprintf(error, RBLK_ERROR_BYTES, "options: %s", text);
	return -EINVAL;
}

static u32 or_default(u32 value, u32 otherwise)
{
	return value ? value : otherwise;
}

static int set_name(struct rblk_session *session, char *error)
{
	const char *name = session->options.initiator_name;

	if (!name || !*name) {
		ini_own_name(session->identity.name);
		return 0;
	}
	if (strlen(name) >= RBLK_NAME_BYTES)
		return option_fault(error, "initiator_name has more than 63 characters");
	memcpy(session->identity.name, name, strlen(name));
	if (!rblk_name_valid(session->identity.name))
		return option_fault(error,
				    "initiator_name consists of letters, digits and . _ : + -");
	return 0;
}

/* The secrets that prove the name; the option's text is not needed any more. */
static int set_secrets(struct rblk_session *session, char *error)
{
	const char *path = session->options.key_file;
	char words[RBLK_SECRET_ERROR_BYTES];
	int err;

	session->options.key_file = NULL;
	if (!path || !*path)
		return 0;
	session->identity.secrets = rblk_secrets_read(path, words);
	if (session->identity.secrets)
		return 0;
	err = -errno;
	snprintf(error, RBLK_ERROR_BYTES, "key file %.90s: %.120s", path, words);
	return err;
}

static int set_tls(struct rblk_session *session, char *error)
{
	const struct ini_uri *uri = &session->uri;

	if (session->options.tls > RBLK_TLS_NEVER)
		return option_fault(error, "tls is not an enum rblk_tls_use");
	if (session->options.tls == RBLK_TLS_ALWAYS && !session->identity.secrets)
		return option_fault(error, "TLS needs a key file");
	for (u16 i = 0; i < uri->host_count && session->options.tls == RBLK_TLS_ALWAYS; i++)
		if (uri->hosts[i].kind != FAB_TCP)
			return option_fault(error, "TLS is for rblk+tcp:// only: over RDMA nothing is encrypted");
	if (!session->identity.secrets || session->options.tls == RBLK_TLS_NEVER)
		return 0;
	session->identity.tls = rblk_tls_client(session->identity.name, session->identity.secrets);
	if (session->identity.tls)
		return 0;
	option_fault(error, "TLS: out of memory");
	return -ENOMEM;
}

/* How connections are made. Texts are not needed any more. */
static int set_connecting(struct rblk_session *session, char *error)
{
	struct rblk_options *set = &session->options;
	const char *fault;
	char text[64];

	fault = set->source ? ini_source_parse(set->source, session->uri.host_count, &session->portals.sources) : NULL;
	if (fault) {
		snprintf(text, sizeof(text), "source %s", fault);
		return option_fault(error, text);
	}
	set->source = NULL;
	if (set->tos > TOS_MAX)
		return option_fault(error, "tos must be from 0 to 255");
	if (set->ack_timeout > ACK_TIMEOUT_MAX)
		return option_fault(error, "ack_timeout must be from 0 to 31");
	return 0;
}

/*
 * An older program's struct is shorter: missing members have their default. A newer one's is
 * longer: members that this library does not know must be zero.
 */
static int copy_options(struct rblk_options *set, const struct rblk_options *options, char *error)
{
	const u8 *bytes = (const u8 *)options;

	if (options->size < offsetof(struct rblk_options, polling) ||
	    options->size > OPTIONS_BYTES_MAX)
		return option_fault(error, "size is not that of a struct rblk_options");
	for (size_t i = sizeof(*set); i < options->size; i++)
		if (bytes[i]) {
			option_fault(error, "an option is set that this version of librblk does not know");
			return -E2BIG;
		}
	memcpy(set, options, options->size < sizeof(*set) ? options->size : sizeof(*set));
	return 0;
}

static int set_options(struct rblk_session *session, const struct rblk_options *options,
		       char *error)
{
	struct rblk_options *set = &session->options;

	if (options) {
		int err = copy_options(set, options, error);

		if (err)
			return err;
	}
	set->connect_timeout_ms = or_default(set->connect_timeout_ms, CONNECT_TIMEOUT_MS);
	set->command_timeout_ms = or_default(set->command_timeout_ms, COMMAND_TIMEOUT_MS);
	set->give_up_ms = or_default(set->give_up_ms, GIVE_UP_MS);
	set->credits = or_default(set->credits, CREDITS);
	set->queues = or_default(set->queues, 1);
	if (set->connect_timeout_ms > TIMEOUT_MS_MAX || set->command_timeout_ms > TIMEOUT_MS_MAX ||
	    set->begun_timeout_ms > TIMEOUT_MS_MAX ||
	    set->fail_fast_ms > TIMEOUT_MS_MAX)
		return option_fault(error, "a timeout is longer than an hour");
	if (set->credits < RBLK_CREDITS_MIN || set->credits > RBLK_CREDITS_MAX)
		return option_fault(error, "credits must be from 4 to 1024");
	if (set->queues > RBLK_QUEUES_MAX)
		return option_fault(error, "queues must be from 1 to 16");
	if (set->polling > RBLK_POLL_NEVER)
		return option_fault(error, "polling is not an enum rblk_polling");
	if (set->policy > RBLK_POLICY_LEAST_IN_FLIGHT)
		return option_fault(error, "policy is not an enum rblk_policy");
	return set_connecting(session, error) ?: set_name(session, error) ?: set_secrets(session, error) ?:
	       set_tls(session, error);
}

/* -- starting ---------------------------------------------------------------------------------- */

static int open_fabric(struct rblk_session *session, const struct ini_uri_host *host,
		       struct fab **fab, char *error)
{
	u16 credits = (u16)session->options.credits;
	/* A completion for each receive and each SEND. */
	u32 per_queue = core_tags_count(credits) + RBLK_EVENT_RECEIVES + ini_queue_send_depth(credits);
	struct fab_options options = {
		.cq_depth = per_queue * session->options.queues,
		.recv_sge = 1,
		.device = session->options.device,
		.apart = true,
	};

	/* The RDMA device of a session that has hosts over TCP as well. */
	if (host->kind == FAB_TCP && ini_uri_mixed(&session->uri))
		options.device = NULL;
	*fab = ini_fabs_get(&session->fabs, host->kind, &options, error);
	return *fab ? 0 : -(errno ? errno : EIO);
}

static void portal_failed(struct ini_portal *portal, int error, const char *words)
{
	portal->error = error;
	memcpy(portal->words, words, sizeof(portal->words));
}

/* Its name, for the first time. */
static int resolve(struct ini_portal *portal, char *error)
{
	portal->name_error = ini_names_ask(portal->host->name, portal->host->port, &portal->addresses);
	if (!portal->name_error)
		return 0;
	snprintf(error, RBLK_ERROR_BYTES, "%.180s: %s", portal->host->name, gai_strerror(portal->name_error));
	portal_failed(portal, -EHOSTUNREACH, error);
	return -EHOSTUNREACH;
}

/*
 * A host whose fabric this machine does not have is left out for the whole session; one whose name is not known now is
 * asked for again (drive.c). At least one must have an address.
 */
static int init_portals(struct rblk_session *session, char *error)
{
	u16 known = 0;
	int err, last = 0;

	for (u16 i = 0; i < session->uri.host_count; i++) {
		const struct ini_uri_host *host = &session->uri.hosts[i];
		struct ini_portal *portal = &session->portals.of[session->portals.count];
		struct fab *fab = NULL;

		err = open_fabric(session, host, &fab, error);
		if (err)
			portal = &session->portals.of[session->uri.host_count - ++session->portals.unknown_count];
		else
			session->portals.count++;
		portal->fab = fab;
		portal->host = host;
		portal->source = ini_source_of(&session->portals.sources, i);
		ini_uri_format_host(&session->uri, host, portal->where, sizeof(portal->where));
		if (err) {
			portal_failed(portal, err, error);
		} else {
			portal->numeric = ini_names_numeric(host->name);
			err = resolve(portal, error);
		}
		known += !err;
		if (err)
			last = err;
	}
	if (!known)
		return last;
	err = ini_fabs_join(&session->fabs);
	if (err)
		snprintf(error, RBLK_ERROR_BYTES, "session: a descriptor for its fabrics: %s",
			 strerror(-err));
	return err;
}

static int init_memory(struct rblk_session *session, char *error)
{
	int err = ini_control_init(session);

	for (u16 i = 0; i < session->options.queues && !err; i++) {
		session->queue_count++;
		err = ini_queue_init(&session->queues[i], session, i);
	}
	if (!err)
		err = ini_parking_init(&session->parking,
				       2 * session->options.queues * session->options.credits);
	if (err)
		snprintf(error, RBLK_ERROR_BYTES, "registered memory for %u queues of %u credits: %s",
			 session->options.queues, session->options.credits, strerror(-err));
	return err;
}

static u64 spin_max_ns(enum rblk_polling polling)
{
	switch (polling) {
	case RBLK_POLL_ALWAYS:
		return UINT64_MAX;
	case RBLK_POLL_NEVER:
		return 0;
	case RBLK_POLL_ADAPTIVE:
		break;
	}
	return core_spin_max_ns(env_wake_ns(), SPIN_LEAST_NS);
}

/*
 * A session's successor has its id and a later epoch, whatever epoch the former has come to: so its login ends the
 * former.
 */
static void init_identity(struct rblk_session *session)
{
	struct rblk_kept_session *kept = session->options.kept_session;
	u8 *id = session->identity.session_id;

	env_random(id, sizeof(session->identity.session_id));
	id[0] |= 1; /* never all zero */
	if (!kept)
		return;
	if (kept->lives)
		memcpy(id, kept->session_id, sizeof(kept->session_id));
	else
		memcpy(kept->session_id, id, sizeof(kept->session_id));
	kept->lives++;
}

static void init_core(struct rblk_session *session)
{
	const struct rblk_options *options = &session->options;
	struct core_session_options core = {
		.queues = session->queue_count,
		.portals = session->portals.count,
		.connect_timeout_ms = options->connect_timeout_ms,
		.reconnect_min_ms = RECONNECT_MIN_MS,
		.reconnect_max_ms = RECONNECT_MAX_MS,
		.fail_fast_ms = options->fail_fast_ms,
		.give_up_ms = options->no_reconnect ? 0 : options->give_up_ms,
		.epoch = options->kept_session ? options->kept_session->lives << 32 : 0,
	};

	for (u16 i = 0; i < core.portals; i++)
		core.group[i] = (u8)session->portals.of[i].host->group;
	env_random(&core.random, sizeof(core.random));
	core_session_init(&session->core, &core);
}

static int session_init(struct rblk_session *session, const char *uri,
			const struct rblk_options *options, char *error)
{
	int err = ini_uri_parse(uri, &session->uri, error);

	if (!err)
		err = set_options(session, options, error);
	if (!err)
		err = init_portals(session, error);
	if (!err)
		err = init_memory(session, error);
	if (err)
		return err;
	session->durables = ini_durables();
	init_identity(session);
	session->now_ns = env_now_ns();
	init_core(session);
	err = ini_publish_create(session->options.statistics, uri, session->identity.name,
				 &session->publish, error);
	session->options.statistics = session->options.device = NULL; /* the caller's texts */
	if (err)
		return err;
	session->looks.events_due = true;
	core_spin_init(&session->spin, spin_max_ns(session->options.polling));
	return 0;
}

struct rblk_session *rblk_session_start(const char *uri, const struct rblk_options *options,
					char *error)
{
	char own_error[RBLK_ERROR_BYTES > FAB_ERROR_BYTES ? RBLK_ERROR_BYTES : FAB_ERROR_BYTES];
	struct rblk_session *session = calloc(1, sizeof(*session));
	int err;

	own_error[0] = '\0';
	if (!session) {
		snprintf(own_error, sizeof(own_error), "session: %s", strerror(ENOMEM));
		err = -ENOMEM;
	} else {
		err = session_init(session, uri, options, own_error);
	}
	if (error)
		memcpy(error, own_error, RBLK_ERROR_BYTES);
	if (err) {
		ini_session_free(session);
		errno = -err;
		return NULL;
	}
	/* From here on a failure makes the session FAILED, with words. */
	core_session_start(&session->core, session->now_ns);
	ini_drive(session);
	return session;
}

void ini_session_free(struct rblk_session *session)
{
	if (!session)
		return;
	rblk_secrets_put(session->identity.secrets);
	ini_publish_destroy(session->publish);
	ini_buffers_fini(&session->buffers);
	ini_parking_fini(&session->parking);
	for (u16 i = 0; i < session->queue_count; i++)
		ini_queue_fini(&session->queues[i]);
	ini_control_fini(session);
	ini_fabs_close(&session->fabs);
	rblk_tls_context_destroy(session->identity.tls);
	for (u16 i = 0; i < session->portals.count; i++)
		ini_lookup_drop(session->portals.of[i].lookup);
	free(session);
}

/* -- turning ----------------------------------------------------------------------------------- */

void ini_session_turn(struct rblk_session *session)
{
	unsigned int work;

	if (session->ended)
		return;
	session->now_ns = env_now_ns();
	session->sends_unheard = false;
	work = ini_complete_poll(session);
	if (session->looks.events_due || core_session_live(&session->core) != session->queue_count ||
	    session->now_ns - session->looks.events_ns >= EVENTS_PERIOD_NS) {
		session->looks.events_ns = session->now_ns;
		ini_event_poll(session);
		/* Completions that arrived before the connection was lost can still be polled. */
		if (!work)
			ini_complete_poll(session);
	}
	ini_timer_run(session);
	ini_drive(session);
	session->looks.events_due = false;
	ini_session_doorbells(session);
}

int rblk_poll(struct rblk_session *session, unsigned int max)
{
	unsigned int count;

	session->polling++;
	ini_session_turn(session);
	count = ini_complete_deliver(session, max);
	ini_tell_losses(session);
	count += ini_tell_deliver(session);
	/* A caller that sleeps on 0 must be told everything that it may wait for. */
	count += session->events.told;
	session->events.told = 0;
	/* Commands that the callbacks started, and actions that follow from them, go out now,
	 * not in the next turn. */
	ini_drive(session);
	ini_session_doorbells(session);
	session->polling--;
	if (!count && session->ended && !session->done.head && !session->parking.done)
		return session->failure.final;
	return (int)count;
}

const char *rblk_version(void)
{
	return RBLK_VERSION;
}
