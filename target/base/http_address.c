/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From text to socket address, see http_address.h. No name is looked up: the daemon would wait for the answer. */
#include "target/base/http_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "target/base/error.h"

/* False: it is none. */
static bool port_read(const char *text, in_port_t *port)
{
	unsigned long number;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	number = strtoul(text, &end, 10);
	*port = htons((uint16_t)number);
	return !*end && number <= UINT16_MAX;
}

/* `host`: brackets are cut off. False: it is no number of an address. */
static bool host_read(char *host, in_port_t port, struct sockaddr_storage *address)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;
	size_t length = strlen(host);

	memset(address, 0, sizeof(*address));
	if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
		host[length - 1] = '\0';
		v6->sin6_family = AF_INET6;
		v6->sin6_port = port;
		return inet_pton(AF_INET6, host + 1, &v6->sin6_addr) == 1;
	}
	v4->sin_family = AF_INET;
	v4->sin_port = port;
	return inet_pton(AF_INET, host, &v4->sin_addr) == 1;
}

int tgt_http_address_parse(const char *text, struct sockaddr_storage *address, char *why)
{
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2] = "127.0.0.1";
	size_t length = colon ? (size_t)(colon - text) : strlen(host);
	in_port_t port;

	if (colon && length < sizeof(host))
		snprintf(host, sizeof(host), "%.*s", (int)length, text);
	if (length >= sizeof(host) || !port_read(colon ? colon + 1 : text, &port) || !host_read(host, port, address))
		return tgt_error(why, -EINVAL, "\"%s\" is not [HOST:]PORT with the number of an address", text);
	return 0;
}
