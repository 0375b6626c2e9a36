/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Binds each for a moment. One that is in use is no mistake: the running service has it, usually. */
#include "target/control/check_addresses.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "target/base/error.h"
#include "target/base/http_address.h"
#include "target/base/log.h"
#include "target/control/address.h"
#include "target/control/listener.h"

/* -- together ---------------------------------------------------------------------------------- */

/* The addresses and port that one option takes. */
struct taken {
	char words[TGT_ADDRESS_BYTES + 16];
	enum fab_kind kind;
	struct sockaddr_storage at[TGT_ADDRESS_CANDIDATES];
	int count; /* in `at`; at most 0: it is not known now */
};

static void take_listen(const struct tgt_address *address, struct taken *taken)
{
	char text[TGT_ADDRESS_BYTES], error[TGT_ERROR_BYTES];

	tgt_address_format(address, text);
	snprintf(taken->words, sizeof(taken->words), "listen = %s", text);
	taken->kind = address->kind;
	taken->count = tgt_address_resolve(address, taken->at, error);
}

static void take_http(const struct tgt_config *config, struct taken *taken)
{
	char error[TGT_ERROR_BYTES];

	snprintf(taken->words, sizeof(taken->words), "http = %s", config->http);
	taken->kind = FAB_TCP;
	taken->count = !tgt_http_address_parse(config->http, &taken->at[0], error);
}

static bool collide(const struct taken *one, const struct taken *other)
{
	for (int i = 0; i < one->count && tgt_kinds_share_ports(one->kind, other->kind); i++)
		for (int j = 0; j < other->count; j++)
			if (tgt_sockets_collide(&one->at[i], &other->at[j]))
				return true;
	return false;
}

static unsigned int collisions_check(const struct tgt_config *config)
{
	static struct taken all[TGT_LISTEN_MAX + 1];
	unsigned int count = 0, wrong = 0;

	for (; count < config->listen_count; count++)
		take_listen(&config->listen[count], &all[count]);
	if (config->http[0])
		take_http(config, &all[count++]);
	for (unsigned int i = 0; i < count; i++)
		for (unsigned int j = 0; j < i; j++)
			if (collide(&all[i], &all[j])) {
				tgt_log(TGT_LOG_ERROR,
					"%s and %s take the same port: only one of them can be listened on",
					all[i].words, all[j].words);
				wrong++;
				break;
			}
	return wrong;
}

/* -- each by itself ---------------------------------------------------------------------------- */

static int listen_check(const struct tgt_config *config, unsigned int n, char *error)
{
	static struct tgt_config one;
	const struct tgt_listener_options options = {.config = &one};
	struct tgt_listener *listener = NULL;
	int status;

	one = *config;
	one.listen[0] = config->listen[n];
	one.listen_count = 1;
	one.listen_wait_ms = 0;
	one.reactors = 0;
	one.require_all = true;
	status = tgt_listener_create(&options, &listener, error);
	tgt_listener_destroy(listener);
	return status == -EADDRINUSE ? 0 : status;
}

/* 0 or negative errno. */
static int bind_try(int type, const struct sockaddr_storage *address)
{
	socklen_t bytes = address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	int fd = socket(address->ss_family, type | SOCK_CLOEXEC, 0), one = 1, err = 0;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    (address->ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) < 0) ||
	    bind(fd, (const struct sockaddr *)address, bytes) < 0)
		err = -errno;
	close(fd);
	return err;
}

static int http_check(const struct tgt_config *config, char *error)
{
	struct sockaddr_storage address;
	int status;

	if (!config->http[0] || tgt_http_address_parse(config->http, &address, error))
		return 0;
	status = bind_try(SOCK_STREAM, &address);
	return !status || status == -EADDRINUSE
		       ? 0
		       : tgt_error(error, status, "http: %s: %s", config->http, strerror(-status));
}

/* One family is enough. Daemons share the port: it is not in use by one of them. */
static int discovery_check(const struct tgt_config *config, char *error)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)config->discovery_port)};
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = v6.sin6_port};
	struct sockaddr_storage address = {0};
	int status;

	if (!strcmp(config->discovery, "none"))
		return 0;
	memcpy(&address, &v4, sizeof(v4));
	status = bind_try(SOCK_DGRAM, &address);
	memcpy(&address, &v6, sizeof(v6));
	if (!status || !bind_try(SOCK_DGRAM, &address))
		return 0;
	return tgt_error(error, status, "discovery: UDP port %u: %s", config->discovery_port, strerror(-status));
}

unsigned int tgt_check_addresses(const struct tgt_config *config)
{
	unsigned int wrong = collisions_check(config);
	char error[TGT_ERROR_BYTES];

	for (unsigned int i = 0; i < config->listen_count; i++)
		if (listen_check(config, i, error) < 0) {
			tgt_log(TGT_LOG_ERROR, "%s", error);
			wrong++;
		}
	if (http_check(config, error) < 0) {
		tgt_log(TGT_LOG_ERROR, "%s", error);
		wrong++;
	}
	if (discovery_check(config, error) < 0) {
		tgt_log(TGT_LOG_ERROR, "%s", error);
		wrong++;
	}
	return wrong;
}
