/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The functions of address.h. Knows nothing of sockets that exist; listener.c has those. */
#include "target/control/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include "proto/wire/login.h"
#include "proto/words/units.h"
#include "target/base/error.h"
#include "target/nvme/wire.h"

/* The first scheme of a kind is the one that is written. */
static const struct {
	const char *text;
	enum fab_kind kind;
} schemes[] = {
	{"rblk://", FAB_VERBS}, {"rblk+tcp://", FAB_TCP}, {"rdma://", FAB_VERBS},
	{"tcp://", FAB_TCP},	{"nvme+tcp://", FAB_NVME}, {"nvme+rdma://", FAB_NVME_RDMA},
	{"sim://", FAB_SIM},
};

#define SCHEMES (sizeof(schemes) / sizeof(schemes[0]))

static const char *scheme_of(enum fab_kind kind)
{
	for (unsigned int i = 0; i < SCHEMES; i++)
		if (schemes[i].kind == kind)
			return schemes[i].text;
	return "";
}

/* The text behind the scheme; NULL: no known scheme. */
static const char *scheme_skip(const char *text, enum fab_kind *kind)
{
	for (unsigned int i = 0; i < SCHEMES; i++) {
		size_t length = strlen(schemes[i].text);

		if (strncmp(text, schemes[i].text, length))
			continue;
		*kind = schemes[i].kind;
		return text + length;
	}
	return NULL;
}

/* The error in ":PORT" or "", or NULL. *port: the default. */
static const char *port_parse(const char *text, uint16_t *port)
{
	uint64_t number = *port;

	if (*text && (units_count(text + 1, &number) < 0 || number > UINT16_MAX))
		return "the port must be a number from 0 to 65535";
	*port = (uint16_t)number;
	return NULL;
}

/* The error in "HOST[:PORT]", or NULL; *end: of the host. */
static const char *host_parse(const char **text, const char **end)
{
	const char *host = *text;

	if (*host != '[') {
		*end = host + strcspn(host, ":");
		if (**end && strchr(*end + 1, ':'))
			return "an IPv6 address must be in brackets, as in [::1]";
		return NULL;
	}
	*text = ++host;
	*end = strchr(host, ']');
	if (!*end)
		return "the bracket of the IPv6 address is not closed";
	if (*end == host)
		return "the host is missing";
	if ((*end)[1] && (*end)[1] != ':')
		return "only \":PORT\" may follow the bracket";
	return NULL;
}

const char *tgt_address_parse(const char *text, struct tgt_address *address)
{
	const char *host, *end, *wrong;
	size_t length;

	memset(address, 0, sizeof(*address));
	host = scheme_skip(text, &address->kind);
	if (!host)
		return TGT_ADDRESS_UNKNOWN;
	wrong = host_parse(&host, &end);
	if (wrong)
		return wrong;
	length = (size_t)(end - host);
	if (length >= sizeof(address->host))
		return "it is too long";
	if (memchr(host, '/', length))
		return "a host has no \"/\"";
	if (length && strspn(host, "0123456789") == length)
		return "a number alone is no host; a port is written :PORT";
	memcpy(address->host, host, length);
	address->port = RBLK_DEFAULT_PORT;
	if (address->kind == FAB_NVME || address->kind == FAB_NVME_RDMA)
		address->port = NVME_DEFAULT_PORT;
	return port_parse(end + (*end == ']'), &address->port);
}

void tgt_address_format(const struct tgt_address *address, char text[TGT_ADDRESS_BYTES])
{
	bool brackets = strchr(address->host, ':') != NULL;

	snprintf(text, TGT_ADDRESS_BYTES, "%s%s%s%s:%u", scheme_of(address->kind),
		 brackets ? "[" : "", address->host, brackets ? "]" : "", address->port);
}

void tgt_address_format_bound(enum fab_kind kind, const struct sockaddr_storage *bound,
			      char text[TGT_ADDRESS_BYTES])
{
	char numbers[TGT_ADDRESS_BYTES - 16];

	fab_format_address((const struct sockaddr *)bound, numbers, sizeof(numbers));
	snprintf(text, TGT_ADDRESS_BYTES, "%s%s", scheme_of(kind), numbers);
}

bool tgt_address_loopback(const struct tgt_address *address)
{
	struct in_addr in;

	if (inet_pton(AF_INET, address->host, &in) == 1)
		return ntohl(in.s_addr) >> 24 == IN_LOOPBACKNET;
	return strcmp(address->host, "::1") == 0 || strcmp(address->host, "localhost") == 0;
}

/* -- socket addresses -------------------------------------------------------------------------- */

static void resolve_any(uint16_t port, struct sockaddr_storage found[TGT_ADDRESS_CANDIDATES])
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&found[0];
	struct sockaddr_in *in = (struct sockaddr_in *)&found[1];

	in6->sin6_family = AF_INET6;
	in6->sin6_addr = in6addr_any;
	in6->sin6_port = htons(port);
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_ANY);
	in->sin_port = htons(port);
}

int tgt_address_resolve(const struct tgt_address *address,
			struct sockaddr_storage found[TGT_ADDRESS_CANDIDATES], char *error)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
				 .ai_socktype = SOCK_STREAM};
	char text[TGT_ADDRESS_BYTES], port[8];
	struct addrinfo *list;
	int err, count = 0;

	memset(found, 0, TGT_ADDRESS_CANDIDATES * sizeof(found[0]));
	if (!address->host[0]) {
		resolve_any(address->port, found);
		return 2;
	}
	snprintf(port, sizeof(port), "%u", address->port);
	err = getaddrinfo(address->host, port, &hints, &list);
	if (err) {
		tgt_address_format(address, text);
		return tgt_error(error, -EINVAL, "%s: %s", text, gai_strerror(err));
	}
	for (const struct addrinfo *one = list; one && count < TGT_ADDRESS_CANDIDATES; one = one->ai_next)
		memcpy(&found[count++], one->ai_addr, one->ai_addrlen);
	freeaddrinfo(list);
	return count;
}

bool tgt_kinds_share_ports(enum fab_kind one, enum fab_kind other)
{
	if (one == FAB_SIM || other == FAB_SIM)
		return one == other;
	return fab_kind_is_rdma(one) == fab_kind_is_rdma(other); /* those of rdma_cm are its own, all others' are TCP's */
}

static bool is_any(const struct sockaddr_storage *address)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
	const struct sockaddr_in *in = (const struct sockaddr_in *)address;

	return address->ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr)
					      : in->sin_addr.s_addr == htonl(INADDR_ANY);
}

/* [::] is of both families. */
static bool takes(const struct sockaddr_storage *one, const struct sockaddr_storage *other)
{
	return is_any(one) && (one->ss_family == AF_INET6 || other->ss_family == AF_INET);
}

bool tgt_sockets_collide(const struct sockaddr_storage *one, const struct sockaddr_storage *other)
{
	const struct sockaddr_in *a = (const struct sockaddr_in *)one, *b = (const struct sockaddr_in *)other;
	const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)one, *b6 = (const struct sockaddr_in6 *)other;

	/* The port is in the same place in both families' addresses; 0: the kernel chooses a free one. */
	if (!a->sin_port || a->sin_port != b->sin_port)
		return false;
	if (takes(one, other) || takes(other, one))
		return true;
	if (one->ss_family != other->ss_family)
		return false;
	return one->ss_family == AF_INET6 ? !memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) &&
						    a6->sin6_scope_id == b6->sin6_scope_id
					  : a->sin_addr.s_addr == b->sin_addr.s_addr;
}
