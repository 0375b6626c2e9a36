/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblkd: start, serve, drain. This is the control thread: it opens volumes, makes reactors, the
 * listener and the reloader, and then sleeps until a signal, a connection request, the end of a
 * reload or systemd's watchdog needs it. From then on it waits for nothing else: other threads do
 * what may block. The data path does not pass here.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "proto/program/program.h"
#include "proto/secret/secret.h"
#include "proto/wire/login.h"
#include "proto/words/units.h"
#include "target/base/affinity.h"
#include "target/base/daemon_event.h"
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/base/log_writer.h"
#include "target/base/poll.h"
#include "target/base/text.h"
#include "target/base/unserved.h"
#include "target/control/check.h"
#include "target/control/config.h"
#include "target/control/cpus.h"
#include "target/control/document.h"
#include "target/control/faults.h"
#include "target/control/listener.h"
#include "target/control/notify.h"
#include "target/control/options.h"
#include "target/control/process.h"
#include "target/control/reloader.h"
#include "target/control/say.h"
#include "target/control/watchdog.h"
#include "target/nvme/fabric.h"
#include "target/serve/calls.h"
#include "target/serve/names.h"
#include "target/serve/peers.h"
#include "target/serve/reactor.h"
#include "target/serve/rules.h"
#include "target/store/volume.h"
#include "target/watch/discovery.h"
#include "target/watch/journal.h"
#include "target/watch/users.h"
#include "target/watch/watch.h"
#ifdef RBLK_FAULTS
#include "target/fault/fault.h"
#endif

#define DRAIN_LOOK_MS 10    /* how often the reactors are asked whether they have drained */
#define DRAIN_SPARE_MS 5000 /* beyond drain_time, for the connections' own ends */
#define STATUS_BYTES 3072

/* The control thread's everything. Made and undone by main(), in this order. */
struct daemon {
	struct tgt_watchdog watchdog;
	int argc;
	char **argv;
	int signals;		  /* signalfd */
	struct tgt_config config; /* in force; its volumes are the reloader's while there is one */
	struct tgt_document document; /* what it was read from, at the start */
	struct tgt_registry *registry;
	struct tgt_unserved *unserved; /* what is missing; any thread */
	struct tgt_peers peers; /* the reactors */
	struct tgt_reactor *reactors[TGT_REACTORS_MAX];
	unsigned int reactor_count;
	struct tgt_listener *listener;
	_Atomic uint64_t tls_failures; /* that the listener has seen */
	struct tgt_reloader *reloader;
	struct tgt_faults *faults; /* NULL: accepts none */
	struct tgt_watch_source source; /* what the watch looks at */
	struct tgt_watch *watch;
	struct tgt_discovery *discovery; /* NULL: not found by anyone */
	uint64_t end_by_ns; /* stopping: nothing is waited for any longer */
};

/* -- start ------------------------------------------------------------------------------------ */

/*
 * How many of `all` may be missing at the start: what is missing does not keep the rest from being served. One of those
 * that the command line names has to be there, because somebody reads the error; a service with a configuration file
 * goes on trying.
 */
static unsigned int may_lack(const struct daemon *daemon, unsigned int all)
{
	if (daemon->config.require_all || !all)
		return 0;
	return daemon->document.count ? all : all - 1;
}

static int volumes_open(struct daemon *daemon, char *error)
{
	struct tgt_reload reload;
	int status;

	status = tgt_registry_create(&daemon->registry);
	daemon->unserved = tgt_unserved_create();
	if (status < 0 || !daemon->unserved)
		return tgt_error(error, -ENOMEM, "%s", strerror(ENOMEM));
	tgt_registry_use_threads(daemon->registry);
	tgt_registry_remember(daemon->registry, daemon->config.state_dir);
	tgt_registry_keep(daemon->registry, daemon->config.reservations_dir);
	reload = (struct tgt_reload){.registry = daemon->registry, .unserved = daemon->unserved};
	return tgt_reload_begin(&reload, &daemon->config, may_lack(daemon, daemon->config.volume_count), error);
}

static void volumes_remove(struct daemon *daemon)
{
	unsigned int i;

	for (i = 0; daemon->registry && i < daemon->config.volume_count; i++) {
		struct tgt_volume *volume =
			tgt_volume_remove(daemon->registry, daemon->config.volumes[i].name);

		if (volume)
			tgt_volume_put(volume);
	}
}

static int peers_make(struct daemon *daemon, char *error)
{
	daemon->peers.rules = tgt_rulebook_create(tgt_rules_create(&daemon->config));
	daemon->peers.names = tgt_names_create();
	daemon->peers.unserved = daemon->unserved;
	if (daemon->peers.rules && daemon->peers.names)
		return 0;
	return tgt_error(error, -ENOMEM, "access rules and names of initiators: out of memory");
}

static int reactor_start(struct daemon *daemon, unsigned int index, char *error)
{
	int status = tgt_reactor_create(&daemon->config, index, daemon->registry, &daemon->peers,
					&daemon->reactors[index], error);

	if (status < 0)
		return status;
	daemon->reactor_count++;
	status = tgt_reactor_start(daemon->reactors[index]);
	if (status < 0)
		return tgt_error(error, status, "reactor %u: %s", index, strerror(-status));
	return 0;
}

static int reactors_start(struct daemon *daemon, char *error)
{
	const struct tgt_cpus *cpus = &daemon->config.cpus;
	cpu_set_t before;
	unsigned int i;
	int status = 0;

	if (cpus->count)
		tgt_affinity_keep();
	/* Measured now: later this thread has one reactor's CPU alone. */
	if (daemon->config.polling == TGT_POLL_ADAPTIVE && daemon->config.poll_us_max == TGT_POLL_TIME_AUTO)
		env_wake_ns();
	for (i = 0; i < daemon->config.reactors && !status; i++) {
		status = tgt_cpus_enter(cpus, i, &before, error);
		if (status)
			break;
		status = reactor_start(daemon, i, error);
		tgt_cpus_leave(cpus, &before);
	}
	return status;
}

/* The fabric reports what is missing for RDMA; mention the alternative without RDMA. */
static void suggest_tcp(const struct daemon *daemon, int status, char *error)
{
	char cause[TGT_ERROR_BYTES];

	if (status != -ENODEV && status != -ENOENT && status != -ENOSYS)
		return;
	if (!fab_kind_is_rdma(daemon->config.listen[0].kind))
		return;
	memcpy(cause, error, sizeof(cause));
	tgt_error(error, status, "%s; or serve over TCP: --listen %s+tcp://127.0.0.1", cause,
		  daemon->config.listen[0].kind == FAB_VERBS ? "rblk" : "nvme");
}

static unsigned int volume_used(const void *context, const char *volume, bool connected, char *words)
{
	return tgt_watch_users(context, volume, connected, words);
}

static int listener_start(struct daemon *daemon, char *error)
{
	const struct tgt_listener_options options = {
		.config = &daemon->config,
		.reactors = daemon->reactors,
		.rules = daemon->peers.rules,
		.unserved = daemon->unserved,
		.none_will_do = daemon->document.count > 0,
		.tls_failures = &daemon->tls_failures,
	};

	return tgt_listener_create(&options, &daemon->listener, error);
}

static int reloader_start(struct daemon *daemon, char *error)
{
	const struct tgt_reloader_options options = {
		.argc = daemon->argc,
		.argv = daemon->argv,
		.config = &daemon->config,
		.document = &daemon->document,
		.registry = daemon->registry,
		.reactors = daemon->reactors,
		.rules = daemon->peers.rules,
		.unserved = daemon->unserved,
		.used = volume_used,
		.used_context = &daemon->source,
	};

	daemon->source = (struct tgt_watch_source){.registry = daemon->registry,
						   .reactors = daemon->reactors,
						   .reactor_count = daemon->reactor_count,
						   .unserved = daemon->unserved,
						   .config = &daemon->config,
						   .rules = daemon->peers.rules,
						   .tls_failures = &daemon->tls_failures};
	return tgt_reloader_create(&options, &daemon->reloader, error);
}

static const char *watch_address(const void *context, unsigned int n)
{
	return tgt_listener_address(context, n);
}

static int watch_start(struct daemon *daemon, char *error)
{
	const struct tgt_watch_options options = {
		.source = daemon->source,
		.changer = tgt_reloader_changer(daemon->reloader),
		.control_socket = daemon->config.control_socket,
		.journal = daemon->config.journal,
		.http = daemon->config.http,
		.require_http = daemon->config.require_all,
		.address = watch_address,
		.context = daemon->listener,
	};

	return tgt_watch_create(&options, &daemon->watch, error);
}

static bool discovery_listened(const void *context, unsigned int n, struct tgt_discovery_listen *listen)
{
	return tgt_listener_bound(context, n, &listen->kind, &listen->address);
}

static int discovery_start(struct daemon *daemon, char *error)
{
	const struct tgt_discovery_options options = {
		.interfaces = daemon->config.discovery,
		.name = daemon->config.name,
		.port = (uint16_t)daemon->config.discovery_port,
		.listened = discovery_listened,
		.context = daemon->listener,
	};

	return tgt_discovery_create(&options, &daemon->discovery, error);
}

static int daemon_start(struct daemon *daemon, char *error)
{
	int status;

	tgt_process_raise_limits();
	/* Each is a line of the journal by itself, and not once more in the log that goes there, too. */
	tgt_daemon_events_journaled(tgt_log_is_journal() && strcmp(daemon->config.journal, "none"));
	status = volumes_open(daemon, error);
	if (status < 0)
		return status;
	status = peers_make(daemon, error);
	if (status == 0)
		status = reactors_start(daemon, error);
	if (status == 0)
		status = listener_start(daemon, error);
	if (status < 0) {
		suggest_tcp(daemon, status, error);
		return status;
	}
	status = reloader_start(daemon, error);
	if (status == 0 && daemon->config.fault_socket[0])
		status = tgt_faults_create(daemon->config.fault_socket, daemon->registry,
					   daemon->reactors, daemon->reactor_count,
					   &daemon->faults, error);
	if (status == 0)
		status = watch_start(daemon, error);
	if (status == 0)
		status = discovery_start(daemon, error);
	return status;
}

/* -- serving ---------------------------------------------------------------------------------- */

/* "serving 2 volumes on rblk+tcp://127.0.0.1:40123, ..."; "serving 1 volume (missing: 1 volume, 0 addresses) on ..." */
static void status_words(const struct daemon *daemon, char words[STATUS_BYTES])
{
	unsigned int volumes = tgt_unserved_count(daemon->unserved, TGT_UNSERVED_VOLUME);
	unsigned int addresses = tgt_unserved_count(daemon->unserved, TGT_UNSERVED_ADDRESS);
	const char *address;
	unsigned int n, total;
	size_t length;

	tgt_volume_list(daemon->registry, 0, NULL, 0, &total);
	length = (size_t)snprintf(words, STATUS_BYTES, "serving %u volume%s ", total, TGT_S(total));
	if (volumes || addresses)
		length += (size_t)snprintf(words + length, STATUS_BYTES - length,
					   "(missing: %u volume%s, %u address%s) ", volumes, TGT_S(volumes),
					   addresses, addresses == 1 ? "" : "es");
	length += (size_t)snprintf(words + length, STATUS_BYTES - length, "on %s",
				   tgt_listener_address(daemon->listener, 0) ? "" : "no address");
	for (n = 0; (address = tgt_listener_address(daemon->listener, n)); n++)
		if (length < STATUS_BYTES)
			length += (size_t)snprintf(words + length, STATUS_BYTES - length, "%s%s",
						   n ? ", " : "", address);
}

/* SIGHUP. */
static void reload(struct daemon *daemon)
{
	tgt_notify_reloading();
	tgt_reloader_request(daemon->reloader);
}

static void reload_ended(const struct daemon *daemon)
{
	char words[STATUS_BYTES];

	status_words(daemon, words);
	tgt_notify_ready(words);
}

/*
 * Sleeps until there is a signal, something for the listener, a reload has ended, or timeout_ms are over (-1:
 * never).
 */
static void daemon_wait(struct daemon *daemon, int timeout_ms)
{
	struct pollfd polled[3 + TGT_LISTEN_FDS];
	int fds[TGT_LISTEN_FDS];
	unsigned int i, count = tgt_listener_fds(daemon->listener, fds);
	int listener_ms = tgt_listener_timeout_ms(daemon->listener);

	/* Silent new connections, and those that wait for a descriptor, have timeouts. */
	if (listener_ms >= 0 && (timeout_ms < 0 || listener_ms < timeout_ms))
		timeout_ms = listener_ms;

	polled[0] = (struct pollfd){.fd = daemon->signals, .events = POLLIN};
	polled[1] = (struct pollfd){.fd = tgt_reloader_fd(daemon->reloader), .events = POLLIN};
	polled[2] = (struct pollfd){.fd = tgt_faults_fd(daemon->faults), .events = POLLIN};
	for (i = 0; i < count; i++)
		polled[3 + i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	tgt_poll(polled, 3 + count, timeout_ms);
	tgt_faults_step(daemon->faults);
	tgt_listener_step(daemon->listener);
}

/* SIGUSR1: the reactors add what they have. */
static void status_log(const struct daemon *daemon)
{
	char words[STATUS_BYTES];

	status_words(daemon, words);
	tgt_log(TGT_LOG_INFO, "status: %s", words);
	tgt_reactors_call(daemon->reactors, daemon->reactor_count, tgt_status_log, NULL);
	tgt_discovery_log_status(daemon->discovery);
}

/* Until SIGTERM or SIGINT. */
static void serve(struct daemon *daemon)
{
	int taken;

	tgt_watchdog_init(&daemon->watchdog, daemon->reactors, daemon->reactor_count);
	for (;;) {
		daemon_wait(daemon, tgt_watchdog_timeout_ms(&daemon->watchdog));
		tgt_watchdog_step(&daemon->watchdog);
		if (tgt_reloader_ended(daemon->reloader))
			reload_ended(daemon);
		while ((taken = tgt_process_take_signal(daemon->signals))) {
			if (taken == SIGHUP)
				reload(daemon);
			else if (taken == SIGUSR1)
				status_log(daemon);
			else
				return;
		}
	}
}

/* -- end --------------------------------------------------------------------------------------- */

static bool all_drained(const struct daemon *daemon)
{
	unsigned int i;

	for (i = 0; i < daemon->reactor_count; i++)
		if (!tgt_reactor_drained(daemon->reactors[i]))
			return false;
	return true;
}

static void end_within(struct daemon *daemon)
{
	daemon->end_by_ns = env_now_ns() + (daemon->config.drain_ms + (uint64_t)DRAIN_SPARE_MS) * 1000000u;
}

/* False: stop waiting for this, the time is over or a second signal came. */
static bool may_wait(struct daemon *daemon, const char *what)
{
	int taken = tgt_process_take_signal(daemon->signals);

	if (taken == SIGTERM || taken == SIGINT) {
		tgt_log(TGT_LOG_WARNING, "stopping immediately: received a second signal");
		return false;
	}
	if (env_now_ns() < daemon->end_by_ns)
		return true;
	tgt_log(TGT_LOG_ERROR, "stopping: %s did not end in time", what);
	return false;
}

/*
 * Lets what is in flight end. False if that took too long or a second signal came: then the
 * process ends with its threads still running, and the kernel holds our locks until the last
 * I/O has ended (F6).
 */
static bool drain(struct daemon *daemon)
{
	char text[UNITS_TEXT_BYTES];

	tgt_notify_stopping("draining");
	tgt_watch_draining(daemon->watch);
	tgt_nvme_drain();
	tgt_discovery_destroy(daemon->discovery);
	daemon->discovery = NULL;
	tgt_faults_destroy(daemon->faults);
	daemon->faults = NULL;
	/* It may wait for a lock, and add volumes that are not needed any more. */
	tgt_reloader_interrupt(daemon->reloader);
	tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_DRAINING}, NULL, TGT_LOG_INFO,
			 "stopping: waiting up to %s for commands in flight",
			 units_text(UNITS_TIME_MS, daemon->config.drain_ms, text));
	tgt_reactors_call(daemon->reactors, daemon->reactor_count, tgt_reactor_drain, NULL);
	while (!all_drained(daemon)) {
		daemon_wait(daemon, DRAIN_LOOK_MS);
		tgt_reloader_ended(daemon->reloader);
		if (!may_wait(daemon, "commands in flight"))
			return false;
	}
	if (tgt_reloader_stop(daemon->reloader, daemon->end_by_ns))
		return true;
	tgt_log(TGT_LOG_ERROR, "stopping: a reload is still blocked while it opens a volume");
	return false;
}

/* Undoes daemon_start(), however far it came; every reactor has drained or never served. False as for
 * drain(): a store does not close. */
static bool daemon_end(struct daemon *daemon)
{
	struct pollfd signals = {.fd = daemon->signals, .events = POLLIN};
	char name[RBLK_NAME_BYTES], what[RBLK_NAME_BYTES + 32];

	tgt_watch_stop(daemon->watch);
	tgt_discovery_destroy(daemon->discovery);
	if (!tgt_reloader_stop(daemon->reloader, daemon->end_by_ns))
		return false;
	tgt_reloader_destroy(daemon->reloader);
	while (daemon->reactor_count)
		tgt_reactor_destroy(daemon->reactors[--daemon->reactor_count]);
	tgt_rulebook_destroy(daemon->peers.rules);
	tgt_names_destroy(daemon->peers.names);
	/* Late logins were refused just now, with leases of the listener. */
	tgt_listener_destroy(daemon->listener);
	volumes_remove(daemon);
	/* The steps before may have used up the time limit, on a slow machine even without a
	 * fault. */
	if (daemon->end_by_ns < env_now_ns() + DRAIN_SPARE_MS * 1000000ull)
		daemon->end_by_ns = env_now_ns() + DRAIN_SPARE_MS * 1000000ull;
	while (daemon->registry && tgt_registry_closing(daemon->registry, name)) {
		poll(&signals, 1, DRAIN_LOOK_MS); /* nothing else is left to be served */
		snprintf(what, sizeof(what), "closing volume %s", name);
		if (!may_wait(daemon, what))
			return false;
	}
	tgt_registry_destroy(daemon->registry);
	tgt_watch_destroy(daemon->watch);
	tgt_unserved_destroy(daemon->unserved);
	return true;
}

/* Ends with threads that still run. */
static void end_now(void) __attribute__((noreturn));
static void end_now(void)
{
	fflush(NULL);
	tgt_log_stop();
	_exit(EXIT_FAILURE);
}

/* A start that failed has no watch, which sends events to the journal. */
static void events_flush(const struct daemon *daemon)
{
	struct tgt_journal journal;

	tgt_daemon_events_journaled(false);
	if (!daemon->watch && tgt_journal_init(&journal, daemon->config.journal)) {
		tgt_journal_step(&journal);
		tgt_journal_fini(&journal);
	}
}

static int daemon_run(struct daemon *daemon)
{
	char error[TGT_ERROR_BYTES], words[STATUS_BYTES];

	if (daemon_start(daemon, error) < 0) {
		events_flush(daemon);
		tgt_log(TGT_LOG_ERROR, "%s", error);
		tgt_reactors_call(daemon->reactors, daemon->reactor_count, tgt_reactor_drain, NULL);
		end_within(daemon);
		if (!daemon_end(daemon))
			end_now();
		return EXIT_FAILURE;
	}
	tgt_say(&daemon->config);
	status_words(daemon, words);
	tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_READY}, NULL, TGT_LOG_INFO,
			 "ready: %s", words);
	tgt_notify_ready(words);
	serve(daemon);
	end_within(daemon);
	if (!drain(daemon) || !daemon_end(daemon))
		end_now();
	tgt_log(TGT_LOG_INFO, "stopped");
	return EXIT_SUCCESS;
}

static int daemon_main(int argc, char **argv)
{
	struct daemon daemon = {.argc = argc, .argv = argv, .signals = -1};
	char error[TGT_ERROR_BYTES];
	enum tgt_run_mode mode;
	int status = EXIT_SUCCESS;

	if (tgt_options_parse_document(argc, argv, &daemon.document, &daemon.config, &mode, error) < 0) {
		tgt_document_fini(&daemon.document);
		tgt_log(TGT_LOG_ERROR, "%s", error);
		return TGT_EXIT_USAGE;
	}
	tgt_log_set_level((enum tgt_log_level)daemon.config.log_level);
	tgt_nvme_init((uint16_t)daemon.config.queues_max);
	switch (mode) {
	case TGT_RUN_HELP:
		tgt_options_help(stdout);
		break;
	case TGT_RUN_VERSION:
		printf("rblkd %s, protocol %d\n", RBLK_VERSION, RBLK_PROTOCOL_VERSION);
		break;
	case TGT_RUN_CHECK:
		status = tgt_check_run(argc, argv, &daemon.document, &daemon.config);
		break;
	case TGT_RUN_SERVE:
		daemon.signals = tgt_process_open_signals(error);
		if (daemon.signals < 0) {
			tgt_log(TGT_LOG_ERROR, "%s", error);
			status = EXIT_FAILURE;
			break;
		}
		status = tgt_log_start();
		if (status < 0) {
			tgt_log(TGT_LOG_ERROR, "log: cannot create a thread: %s", strerror(-status));
			status = EXIT_FAILURE;
		} else {
			status = daemon_run(&daemon);
			tgt_nvme_end();
		}
		tgt_log_stop();
		close(daemon.signals);
		break;
	}
	tgt_document_fini(&daemon.document);
	tgt_config_fini(&daemon.config);
	return status;
}

int main(int argc, char **argv)
{
#ifdef RBLK_FAULTS
	tgt_store_faults = &tgt_fault_store;
#endif
	rblk_program_begin();
	tgt_process_defer_signals();
	return rblk_program_end("rblkd", daemon_main(argc, argv));
}
