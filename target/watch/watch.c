/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The thread of watch.h: it waits for the socket, for clients, and for the end. */
#include "target/watch/watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "target/base/daemon_event.h"
#include "target/base/log.h"
#include "target/base/poll.h"
#include "target/base/unserved.h"
#include "target/serve/reactor.h"
#include "target/watch/clients.h"
#include "target/watch/control_socket.h"
#include "target/watch/http.h"
#include "target/watch/journal.h"

/* How often a path is tried that could not be used. */
#define RETRY_MS TGT_UNSERVED_AGAIN_MS
/* How long clients wait when there are no descriptors. */
#define ACCEPT_RETRY_MS 100
/* And a journal that is full. */
#define JOURNAL_MS 1000

struct tgt_watch {
	struct tgt_methods methods;
	struct tgt_clients clients;
	struct tgt_control_socket control;
	uint64_t accept_ns; /* no client is accepted before */
	bool starved;	    /* that is told */
	struct tgt_journal journal;
	bool journal_waits;    /* it took no more */
	int events;	       /* eventfd: readable when there is one */
	struct tgt_http *http; /* NULL: none, or not yet: */
	const char *http_address; /* "": none is wanted */
	uint64_t http_ns; /* it is not tried before */
	bool wants_socket; /* fixed */
	bool told;	   /* that the path cannot be used, and why not: */
	char why[TGT_ERROR_BYTES];
	int stop; /* eventfd: readable at the end */
	pthread_t thread;
};

/* Says the same reason once. */
static void watch_take_place(struct tgt_watch *watch)
{
	char error[TGT_ERROR_BYTES];
	int status = tgt_control_socket_take(&watch->control, error);

	if (!status) {
		if (watch->told)
			tgt_log(TGT_LOG_INFO, "control_socket: %s: can be used now",
				watch->control.address.sun_path);
		watch->told = false;
		return;
	}
	if (watch->told && !strcmp(error, watch->why))
		return;
	/* A second daemon, and one without privileges, serve their volumes all the same. */
	tgt_log(TGT_LOG_INFO, "%s: rblkctl does not reach this daemon", error);
	strcpy(watch->why, error);
	watch->told = true;
}

/* Listens for HTTP, and remembers when to try again. 0, or negative errno and error. */
static int watch_take_http(struct tgt_watch *watch, char *error)
{
	char name[160];
	int status = tgt_http_create(watch->http_address, &watch->methods, &watch->http, error);

	snprintf(name, sizeof(name), "http: %s", watch->http_address);
	watch->http_ns = env_now_ns() + RETRY_MS * 1000000ull;
	if (status)
		return status;
	if (tgt_unserved_remove(watch->methods.source.unserved, TGT_UNSERVED_ADDRESS, name))
		tgt_daemon_event(
			&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_ADDRESS_ADDED, .address = name},
			NULL, TGT_LOG_INFO, "http: %s", tgt_http_url(watch->http));
	else
		tgt_log(TGT_LOG_INFO, "http: %s", tgt_http_url(watch->http));
	return 0;
}

static void watch_retry_http(struct tgt_watch *watch)
{
	char error[TGT_ERROR_BYTES], name[160];

	if (watch->http || !watch->http_address[0] || env_now_ns() < watch->http_ns)
		return;
	snprintf(name, sizeof(name), "http: %s", watch->http_address);
	if (watch_take_http(watch, error))
		tgt_unserved_add(watch->methods.source.unserved, TGT_UNSERVED_ADDRESS, name, error);
}

/* Also while nobody asks: who asks then is told of the last seconds, not of those to come. */
static void watch_look(struct tgt_watch *watch, uint64_t now_ns)
{
	const struct tgt_watch_source *source = &watch->methods.source;
	struct tgt_busy_look look = {.at_ns = now_ns};

	if (tgt_busy_timeout_ms(&watch->methods.busy, now_ns))
		return;
	for (unsigned int i = 0; i < source->reactor_count; i++)
		look.busy_ns[i] = tgt_reactor_busy_ns(source->reactors[i]);
	tgt_busy_add(&watch->methods.busy, &look, source->reactor_count);
}

/* For the page, also while nobody looks at it. */
static void watch_sample(struct tgt_watch *watch, uint64_t now_ns)
{
	struct tgt_history *history = watch->methods.history;
	const struct tgt_view *view;

	if (tgt_history_timeout_ms(history, now_ns))
		return;
	view = tgt_methods_view(&watch->methods);
	if (view)
		tgt_history_add(history, view);
}

static void watch_accept(struct tgt_watch *watch)
{
	int fd = accept4(watch->control.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) {
		watch->starved = false;
		tgt_clients_add(&watch->clients, fd);
		return;
	}
	if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
		return;
	/* The client stays in the socket's queue, and poll() would return at once for it. */
	watch->accept_ns = env_now_ns() + ACCEPT_RETRY_MS * 1000000ull;
	if (!watch->starved)
		tgt_log(TGT_LOG_WARNING, "control_socket: %s: a client waits: %s",
			watch->control.address.sun_path, strerror(errno));
	watch->starved = true;
}

/* `accepts`: the socket is among what is polled, as was decided before. The clock may have gone past accept_ns since. */
static int watch_timeout_ms(const struct tgt_watch *watch, bool accepts)
{
	int timeout_ms = tgt_clients_timeout_ms(&watch->clients);
	int http_ms = tgt_http_timeout_ms(watch->http);
	uint64_t now_ns = env_now_ns();
	int sample_ms = tgt_history_timeout_ms(watch->methods.history, now_ns);
	int look_ms = tgt_busy_timeout_ms(&watch->methods.busy, now_ns);

	if (((watch->wants_socket && watch->control.fd < 0) || (watch->http_address[0] && !watch->http)) &&
	    (timeout_ms < 0 || timeout_ms > RETRY_MS))
		timeout_ms = RETRY_MS;
	if (!accepts && (timeout_ms < 0 || timeout_ms > ACCEPT_RETRY_MS))
		timeout_ms = ACCEPT_RETRY_MS;
	if (http_ms >= 0 && (timeout_ms < 0 || http_ms < timeout_ms))
		timeout_ms = http_ms;
	if (sample_ms >= 0 && (timeout_ms < 0 || sample_ms < timeout_ms))
		timeout_ms = sample_ms;
	if (timeout_ms < 0 || look_ms < timeout_ms)
		timeout_ms = look_ms;
	if (watch->journal_waits && (timeout_ms < 0 || timeout_ms > JOURNAL_MS))
		timeout_ms = JOURNAL_MS;
	return timeout_ms;
}

static void *watch_thread(void *argument)
{
	struct tgt_watch *watch = argument;
	const struct tgt_changer *changer = watch->methods.changer;
	struct pollfd polled[5 + TGT_CLIENTS_MAX];
	unsigned int clients;
	uint64_t now_ns;
	eventfd_t count;
	bool accepts;

	for (;;) {
		now_ns = env_now_ns();
		watch->journal_waits = !tgt_journal_step(&watch->journal);
		if (watch->wants_socket && watch->control.fd < 0)
			watch_take_place(watch);
		watch_retry_http(watch);
		watch_look(watch, now_ns);
		watch_sample(watch, now_ns);
		polled[0] = (struct pollfd){.fd = watch->stop, .events = POLLIN};
		accepts = now_ns >= watch->accept_ns;
		polled[1] = (struct pollfd){.fd = accepts ? watch->control.fd : -1, .events = POLLIN};
		polled[2] = (struct pollfd){.fd = changer ? changer->fd : -1, .events = POLLIN};
		polled[3] = (struct pollfd){.fd = tgt_http_fd(watch->http), .events = POLLIN};
		polled[4] = (struct pollfd){.fd = watch->events, .events = POLLIN};
		clients = tgt_clients_poll(&watch->clients, polled + 5);
		if (tgt_poll(polled, 5 + clients, watch_timeout_ms(watch, accepts)) < 0)
			continue;
		if (polled[0].revents)
			break;
		if (polled[2].revents && eventfd_read(changer->fd, &count) == 0) {
			/* Whoever has changed something sees it, however young the view is. */
			tgt_methods_fini(&watch->methods);
			tgt_clients_retry(&watch->clients);
		}
		tgt_clients_step(&watch->clients, polled + 5);
		/* Its timeouts, too, so in each turn. */
		tgt_http_step(watch->http);
		if (polled[4].revents)
			eventfd_read(watch->events, &count);
		if (polled[1].revents)
			watch_accept(watch);
	}
	return NULL;
}

static void watch_free(struct tgt_watch *watch)
{
	tgt_daemon_events_wake(-1);
	tgt_journal_fini(&watch->journal);
	tgt_history_destroy(watch->methods.history);
	if (watch->events >= 0)
		close(watch->events);
	if (watch->stop >= 0)
		close(watch->stop);
	free(watch);
}

/* Opens what is opened at the start, or never. */
static int watch_open(struct tgt_watch *watch, const struct tgt_watch_options *options, char *error)
{
	int status;

	watch->http_address = options->http;
	watch->wants_socket = strcmp(options->control_socket, "none") != 0;
	if (!tgt_control_socket_init(&watch->control, options->control_socket))
		return tgt_error(error, -ENAMETOOLONG, "control_socket: %s: too long",
				 options->control_socket);
	if (!tgt_journal_init(&watch->journal, options->journal))
		return tgt_error(error, -ENAMETOOLONG, "journal: %s: too long", options->journal);
	watch->stop = eventfd(0, EFD_CLOEXEC);
	watch->events = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (watch->stop < 0 || watch->events < 0)
		return tgt_error(error, -errno, "control_socket: %s", strerror(errno));
	tgt_daemon_events_wake(watch->events);
	if (!options->http[0])
		return 0;
	watch->methods.history = tgt_history_create(watch->methods.started_ns);
	if (!watch->methods.history)
		return tgt_error(error, -ENOMEM, "http: out of memory");
	status = watch_take_http(watch, error);
	/* -EINVAL: the text is wrong, and to try again would not help. */
	if (!status || status == -EINVAL || options->require_http)
		return status;
	watch->http_ns = 0;
	watch_retry_http(watch);
	return 0;
}

int tgt_watch_create(const struct tgt_watch_options *options, struct tgt_watch **out, char *error)
{
	struct tgt_watch *watch = calloc(1, sizeof(*watch));
	struct timespec now;
	int err;

	if (!watch)
		return tgt_error(error, -ENOMEM, "control_socket: out of memory");
	watch->methods.source = options->source;
	watch->methods.changer = options->changer;
	clock_gettime(CLOCK_REALTIME, &now);
	watch->methods.started_ns = env_now_ns();
	watch->methods.started_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	watch->methods.address = options->address;
	watch->methods.address_context = options->context;
	watch->clients.methods = &watch->methods;
	watch->http_address = "";
	watch->stop = watch->events = watch->journal.fd = -1;
	err = watch_open(watch, options, error);
	if (err) {
		watch_free(watch);
		return err;
	}
	/* The first attempt is made here: the socket is there when the daemon says that it is ready. */
	if (watch->wants_socket)
		watch_take_place(watch);
	err = pthread_create(&watch->thread, NULL, watch_thread, watch);
	if (err) {
		tgt_control_socket_leave(&watch->control);
		tgt_http_destroy(watch->http);
		watch_free(watch);
		return tgt_error(error, -err, "control_socket: %s", strerror(err));
	}
	pthread_setname_np(watch->thread, "control-socket");
	*out = watch;
	return 0;
}

void tgt_watch_draining(struct tgt_watch *watch)
{
	if (watch)
		atomic_store(&watch->methods.draining, true);
}

void tgt_watch_stop(struct tgt_watch *watch)
{
	if (!watch)
		return;
	eventfd_write(watch->stop, 1);
	pthread_join(watch->thread, NULL);
	tgt_http_destroy(watch->http);
	watch->http = NULL;
	tgt_journal_step(&watch->journal);
	tgt_methods_fini(&watch->methods);
	tgt_control_socket_leave(&watch->control);
}

void tgt_watch_destroy(struct tgt_watch *watch)
{
	if (!watch)
		return;
	tgt_clients_close(&watch->clients);
	/* Sessions have ended since stop. */
	tgt_journal_step(&watch->journal);
	watch_free(watch);
}
