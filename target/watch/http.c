/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Clients are libmicrohttpd's, with its limits in number and memory. It limits only their silence,
 * so the time that each has in all is kept here, and whose place another gets: its socket is shut
 * down.
 */
#include "target/watch/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include "proto/core/env.h"
#include "proto/fabric/fabric.h"
#include "target/base/error.h"
#include "target/base/http_address.h"
#include "target/watch/paths.h"

/* The memory for one client: its request's head. */
#define CLIENT_MEMORY_BYTES 16384

TAILQ_HEAD(http_clients, http_client);

struct http_client {
	TAILQ_ENTRY(http_client) link;
	struct http_clients *in; /* NULL: it was shut down */
	uint64_t due_ns;
	uint8_t network[FAB_NETWORK_BYTES];
	int fd;
};

struct http_sent {
	struct tgt_http *http;
	char *text;
	size_t bytes;
};

struct tgt_http {
	struct MHD_Daemon *daemon;
	struct tgt_methods *methods;
	/* By due_ns, oldest first: those without a whole head, and those that get an answer. */
	struct http_clients asking, answered;
	size_t answer_bytes; /* of all that are being sent */
	bool loopback;
	int fd;
	char url[80];
};

/* -- answers ----------------------------------------------------------------------------------- */

static void http_sent_free(void *context)
{
	struct http_sent *sent = context;

	sent->http->answer_bytes -= sent->bytes;
	free(sent->text);
	free(sent);
}

/* NULL: no memory. Takes over the text. */
static struct MHD_Response *http_response(struct tgt_http *http, const struct tgt_http_answer *answer)
{
	struct http_sent *sent = malloc(sizeof(*sent));
	struct MHD_Response *response;

	if (!sent) {
		free(answer->text);
		return NULL;
	}
	*sent = (struct http_sent){.http = http, .text = answer->text, .bytes = answer->bytes};
	http->answer_bytes += sent->bytes;
	response = MHD_create_response_from_buffer_with_free_callback_cls(sent->bytes, sent->text,
									  http_sent_free, sent);
	if (!response)
		http_sent_free(sent);
	return response;
}

static enum MHD_Result http_send(struct tgt_http *http, struct MHD_Connection *connection,
				 const struct tgt_http_answer *answer)
{
	struct MHD_Response *response = answer->text ? http_response(http, answer) : NULL;
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, "Content-Type", answer->type);
	MHD_add_response_header(response, "Cache-Control", "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Content-Security-Policy", answer->policy);
	MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
	MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(response, "Connection", "close");
	result = MHD_queue_response(connection, answer->status, response);
	MHD_destroy_response(response);
	return result;
}

/*
 * A name that resolves to this machine's loopback address today may be a foreign page's own, which
 * would read here what only this machine's users may: then only names that mean this machine are
 * answered.
 */
static bool http_host_fits(const struct tgt_http *http, struct MHD_Connection *connection)
{
	const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");

	return !http->loopback || !host || tgt_paths_host_is_local(host);
}

/* NULL: not in the query. */
static const char *http_argument(struct MHD_Connection *connection, const char *key)
{
	const char *value = NULL;
	size_t bytes = 0;

	if (MHD_lookup_connection_value_n(connection, MHD_GET_ARGUMENT_KIND, key,
					  strlen(key), &value, &bytes) != MHD_YES)
		return NULL;
	/* Without a value, or with a zero byte in it, it is no number, and no name. */
	return value && strlen(value) == bytes ? value : "";
}

static void http_client_asked(struct tgt_http *http, struct MHD_Connection *connection);

static enum MHD_Result http_request(void *context, struct MHD_Connection *connection,
				    const char *path, const char *method, const char *version,
				    const char *upload, size_t *upload_bytes, void **state)
{
	struct tgt_http *http = context;
	struct tgt_http_answer answer;

	(void)version;
	(void)upload;
	(void)state;
	http_client_asked(http, connection);
	if (*upload_bytes)
		return MHD_NO;
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		tgt_answer_words(&answer, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
	else if (!http_host_fits(http, connection))
		tgt_answer_words(&answer, MHD_HTTP_FORBIDDEN,
				 "ask for localhost, or for an address of this machine\n");
	else if (http->answer_bytes > TGT_HTTP_ANSWERS_BYTES)
		tgt_answer_words(&answer, MHD_HTTP_SERVICE_UNAVAILABLE,
				 "too many answers have not been taken\n");
	else
		tgt_paths_answer(http->methods, path,
				 &(struct tgt_http_query){.after = http_argument(connection, "after"),
							  .volume = http_argument(connection, "volume"),
							  .initiator = http_argument(connection, "initiator"),
							  .proven = http_argument(connection, "proven")},
				 &answer);
	return http_send(http, connection, &answer);
}

/* -- clients ----------------------------------------------------------------------------------- */

static void http_client_join(struct http_client *client, struct http_clients *clients, unsigned int seconds)
{
	client->in = clients;
	client->due_ns = env_now_ns() + seconds * 1000000000ull;
	TAILQ_INSERT_TAIL(clients, client, link);
}

static void http_client_leave(struct http_client *client)
{
	if (client->in)
		TAILQ_REMOVE(client->in, client, link);
	client->in = NULL;
}

/* Libmicrohttpd closes it when it sees that nothing comes or goes any more. */
static void http_client_expire(struct http_client *client)
{
	http_client_leave(client);
	shutdown(client->fd, SHUT_RDWR);
}

/* Its request's head is whole. */
static void http_client_asked(struct tgt_http *http, struct MHD_Connection *connection)
{
	struct http_client *client =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;

	if (!client || client->in != &http->asking)
		return;
	http_client_leave(client);
	http_client_join(client, &http->answered, TGT_HTTP_ANSWER_S);
}

/* How many there are of one network, or in all (NULL); *first is the oldest of these. */
static unsigned int http_clients_count(struct http_clients *clients, const uint8_t *network, struct http_client **first)
{
	struct http_client *client;
	unsigned int count = 0;

	*first = NULL;
	TAILQ_FOREACH(client, clients, link) {
		if (network && memcmp(client->network, network, sizeof(client->network)))
			continue;
		*first = *first ? *first : client;
		count++;
	}
	return count;
}

/*
 * More than `most` of this network, or of all (NULL), the new one included: the oldest ends whose request has no whole head. That is
 * the new one if all others have asked.
 */
static void http_clients_bound(struct tgt_http *http, const uint8_t *network, unsigned int most)
{
	struct http_client *asking, *answered;

	if (http_clients_count(&http->asking, network, &asking) + http_clients_count(&http->answered, network, &answered) > most)
		http_client_expire(asking);
}

static void http_client_begin(struct tgt_http *http, struct MHD_Connection *connection,
			      void **state)
{
	struct http_client *client = calloc(1, sizeof(*client));
	const union MHD_ConnectionInfo *info;

	if (!client)
		return; /* libmicrohttpd's limit of its silence is left */
	client->fd =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	fab_network_of(info->client_addr, client->network);
	http_client_join(client, &http->asking, TGT_HTTP_HEAD_S);
	*state = client;
	http_clients_bound(http, client->network, TGT_HTTP_CLIENTS_OF_ADDRESS);
	http_clients_bound(http, NULL, TGT_HTTP_CLIENTS_MAX);
}

static void http_client_changed(void *context, struct MHD_Connection *connection, void **state,
				enum MHD_ConnectionNotificationCode code)
{
	struct tgt_http *http = context;
	struct http_client *client = *state;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		http_client_begin(http, connection, state);
	} else if (client) {
		http_client_leave(client);
		free(client);
		*state = NULL;
	}
}

/* -- the socket -------------------------------------------------------------------------------- */

union http_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage storage;
};

static bool address_is_loopback(const union http_address *address)
{
	if (address->any.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
	return ntohl(address->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* The URL of the socket that listens, with the port that it has. */
static void http_url_make(struct tgt_http *http)
{
	union http_address address;
	socklen_t bytes = sizeof(address);
	char host[INET6_ADDRSTRLEN] = "";
	int fd = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_LISTEN_FD)->listen_fd;

	memset(&address, 0, sizeof(address));
	getsockname(fd, &address.any, &bytes);
	if (address.any.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &address.v6.sin6_addr, host, sizeof(host));
		snprintf(http->url, sizeof(http->url), "http://[%s]:%u/", host,
			 ntohs(address.v6.sin6_port));
	} else {
		inet_ntop(AF_INET, &address.v4.sin_addr, host, sizeof(host));
		snprintf(http->url, sizeof(http->url), "http://%s:%u/", host,
			 ntohs(address.v4.sin_port));
	}
}

static int http_listen(struct tgt_http *http, const union http_address *address)
{
	unsigned int flags = MHD_USE_EPOLL;

	/* [::] is all addresses, those of IPv4, too. */
	if (address->any.sa_family == AF_INET6)
		flags |= IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr) ? MHD_USE_DUAL_STACK
									 : MHD_USE_IPv6;
	errno = 0;
	http->daemon =
		MHD_start_daemon(flags, 0, NULL, NULL, http_request, http, MHD_OPTION_SOCK_ADDR,
				 /* Libmicrohttpd accepts nobody while it has all: one place is for who makes another one go. */
				 &address->any, MHD_OPTION_CONNECTION_LIMIT, TGT_HTTP_CLIENTS_MAX + 1,
				 MHD_OPTION_CONNECTION_TIMEOUT, TGT_HTTP_ANSWER_S,
				 MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CLIENT_MEMORY_BYTES,
				 MHD_OPTION_NOTIFY_CONNECTION, http_client_changed, http,
				 MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	return http->daemon ? 0 : errno ? -errno : -EADDRNOTAVAIL;
}

int tgt_http_create(const char *text, struct tgt_methods *methods, struct tgt_http **out,
		    char *error)
{
	struct tgt_http *http = calloc(1, sizeof(*http));
	union http_address address;
	char why[TGT_ERROR_BYTES];
	int status;

	if (!http)
		return tgt_error(error, -ENOMEM, "http: out of memory");
	TAILQ_INIT(&http->asking);
	TAILQ_INIT(&http->answered);
	http->methods = methods;
	status = tgt_http_address_parse(text, &address.storage, why);
	if (status) {
		free(http);
		return tgt_error(error, status, "http: %s", why);
	}
	http->loopback = address_is_loopback(&address);
	status = http_listen(http, &address);
	if (status) {
		free(http);
		return tgt_error(error, status, "http: %s: %s", text, strerror(-status));
	}
	http->fd = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	http_url_make(http);
	*out = http;
	return 0;
}

const char *tgt_http_url(const struct tgt_http *http)
{
	return http->url;
}

int tgt_http_fd(const struct tgt_http *http)
{
	return http ? http->fd : -1;
}

/* Until the first is due, but no longer than ms, or -1. */
static int http_clients_ms(const struct http_clients *clients, int ms)
{
	const struct http_client *first = TAILQ_FIRST(clients);
	uint64_t now_ns = env_now_ns();
	int left_ms;

	if (!first)
		return ms;
	left_ms = first->due_ns > now_ns ? (int)((first->due_ns - now_ns) / 1000000) + 1 : 0;
	return ms < 0 || left_ms < ms ? left_ms : ms;
}

int tgt_http_timeout_ms(const struct tgt_http *http)
{
	MHD_UNSIGNED_LONG_LONG most;
	int ms = -1;

	if (!http)
		return -1;
	if (MHD_get_timeout(http->daemon, &most) == MHD_YES)
		ms = most > INT_MAX ? INT_MAX : (int)most;
	return http_clients_ms(&http->answered, http_clients_ms(&http->asking, ms));
}

static void http_clients_expire(struct http_clients *clients)
{
	struct http_client *first;
	uint64_t now_ns = env_now_ns();

	while ((first = TAILQ_FIRST(clients)) && first->due_ns <= now_ns)
		http_client_expire(first);
}

void tgt_http_step(struct tgt_http *http)
{
	if (!http)
		return;
	http_clients_expire(&http->asking);
	http_clients_expire(&http->answered);
	MHD_run(http->daemon);
}

void tgt_http_destroy(struct tgt_http *http)
{
	if (!http)
		return;
	MHD_stop_daemon(http->daemon);
	free(http);
}
