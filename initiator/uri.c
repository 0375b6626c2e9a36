/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the grammar of URIs, see uri.h, and its error messages. Pure. */
#include "initiator/uri.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "initiator/rblk.h"
#include "proto/wire/login.h"
#include "proto/wire/wire_check.h"

static int uri_fail(char *error, const char *text, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int uri_fail(char *error, const char *text, const char *format, ...)
{
	char reason[160];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	snprintf(error, RBLK_ERROR_BYTES, "%.80s: %s", text, reason);
	return -EINVAL;
}

static const struct {
	const char *prefix;
	enum fab_kind kind;
} schemes[] = {
	{"rblk://", FAB_VERBS},
	{"rblk+tcp://", FAB_TCP},
	/* fab_open() refuses these outside of tests. */
	{"rblk+sim://", FAB_SIM},
	{"rblk+sim2://", FAB_SIM2},
};

/* The text behind the scheme, or NULL. */
static const char *uri_scheme(const char *text, enum fab_kind *kind)
{
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		size_t length = strlen(schemes[i].prefix);

		if (!strncasecmp(text, schemes[i].prefix, length)) {
			*kind = schemes[i].kind;
			return text + length;
		}
	}
	return NULL;
}

static int uri_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In a host's name they would end or divide it wherever it is written down. */
#define URI_DELIMITERS ",;/:[]"

/* [from, end) as a string, with %XX as what it stands for, which is none of `never`. NULL, or what is wrong. */
static const char *uri_decode(char *to, size_t bytes, const char *from, const char *end, const char *never)
{
	size_t length = 0;

	memset(to, 0, bytes);
	while (from < end && length < bytes - 1) {
		char c = *from++;

		if (c == '%') {
			int high = end - from < 2 ? -1 : uri_digit(from[0]);
			int low = high < 0 ? -1 : uri_digit(from[1]);

			if (low < 0 || high + low == 0)
				return "a % has two hexadecimal digits, not 00, behind it";
			c = (char)(high << 4 | low);
			if (strchr(never, c))
				return "a % stands for one of " URI_DELIMITERS;
			from += 2;
		}
		to[length++] = c;
	}
	return from < end ? "is too long" : NULL;
}

/* In brackets only a zone has a %, which is %25 by RFC 6874; the plain one is taken, too. */
static const char *uri_decode_ipv6(char *to, size_t bytes, const char *from, const char *end)
{
	const char *zone = memchr(from, '%', (size_t)(end - from));
	size_t length = zone ? (size_t)(zone - from) + 1 : 0, zone_length;

	if (!zone)
		return uri_decode(to, bytes, from, end, URI_DELIMITERS);
	zone += end - zone > 3 && !strncmp(zone, "%25", 3) ? 3 : 1;
	zone_length = (size_t)(end - zone);
	if (length + zone_length >= bytes)
		return "is too long";
	memset(to, 0, bytes);
	memcpy(to, from, length);
	memcpy(to + length, zone, zone_length);
	return NULL;
}

static int uri_port(const char *text, const char *from, const char *end, struct ini_uri_host *to,
		    char *error)
{
	unsigned long port = 0;

	for (const char *c = from; c < end; c++) {
		if (*c < '0' || *c > '9' || c - from >= 5)
			port = 65536;
		else
			port = port * 10 + (unsigned long)(*c - '0');
		if (port > 65535)
			break;
	}
	if (port == 0 || port > 65535)
		return uri_fail(error, text, "the port must be a number from 1 to 65535");
	snprintf(to->port, sizeof(to->port), "%lu", port);
	return 0;
}

/* host[:port] in [from, end). */
static int uri_host(const char *text, const char *from, const char *end, struct ini_uri_host *to,
		    char *error)
{
	const char *host = from, *host_end, *rest, *wrong;
	bool bracket = from < end && *from == '[';

	if (bracket) {
		host = from + 1;
		host_end = memchr(host, ']', (size_t)(end - host));
		if (!host_end)
			return uri_fail(error, text, "the bracket of the IPv6 address is not closed");
		rest = host_end + 1;
		if (rest < end && *rest != ':')
			return uri_fail(error, text, "only \":port\" may follow the bracket");
	} else {
		for (host_end = host; host_end < end && *host_end != ':';)
			host_end++;
		rest = host_end;
		/* A second colon: the brackets are missing. */
		if (rest < end && memrchr(rest, ':', (size_t)(end - rest)) != rest)
			return uri_fail(error, text,
					"an IPv6 address must be in brackets, as in [::1]");
	}
	if (host_end == host)
		return uri_fail(error, text, "the host is missing");
	wrong = bracket ? uri_decode_ipv6(to->name, sizeof(to->name), host, host_end) :
			  uri_decode(to->name, sizeof(to->name), host, host_end, URI_DELIMITERS);
	if (wrong)
		return uri_fail(error, text, "the host's name: %s", wrong);
	if (rest < end)
		return uri_port(text, rest + 1, end, to, error);
	snprintf(to->port, sizeof(to->port), "%u", RBLK_DEFAULT_PORT);
	return 0;
}

/*
 * [scheme]host[:port],...;... from behind the first scheme. Returns where the hosts end, at a '/' or
 * the end of the text; NULL: `error` says what is wrong.
 */
static const char *uri_hosts(const char *text, const char *from, enum fab_kind kind,
			     struct ini_uri *uri, char *error)
{
	for (u16 group = 0;;) {
		const char *end = from + strcspn(from, ",;/");

		if (end > from && !strncmp(end - 1, "://", 3)) {
			uri_fail(error, text,
				 "\"%.*s//\" is no host; one rblk:// or rblk+tcp:// may precede "
				 "each",
				 (int)(end - from), from);
			return NULL;
		}
		if (uri->host_count == INI_URI_HOSTS) {
			uri_fail(error, text, "there are more than %d hosts", INI_URI_HOSTS);
			return NULL;
		}
		uri->hosts[uri->host_count].kind = kind;
		uri->hosts[uri->host_count].group = group;
		if (uri_host(text, from, end, &uri->hosts[uri->host_count++], error))
			return NULL;
		if (*end != ',' && *end != ';')
			return end;
		group += *end == ';';
		from = uri_scheme(end + 1, &kind);
		if (!from)
			from = end + 1;
	}
}

bool ini_uri_mixed(const struct ini_uri *uri)
{
	for (u16 i = 1; i < uri->host_count; i++)
		if (uri->hosts[i].kind != uri->hosts[0].kind)
			return true;
	return false;
}

void ini_uri_format_host(const struct ini_uri *uri, const struct ini_uri_host *host, char *text,
			 size_t bytes)
{
	const char *scheme = "";

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]) && ini_uri_mixed(uri); i++)
		if (schemes[i].kind == host->kind)
			scheme = schemes[i].prefix;
	snprintf(text, bytes, strchr(host->name, ':') ? "%s[%s]:%s" : "%s%s:%s", scheme, host->name,
		 host->port);
}

int ini_uri_parse(const char *text, struct ini_uri *uri, char *error)
{
	const char *from, *end, *volume, *wrong;
	enum fab_kind kind;

	memset(uri, 0, sizeof(*uri));
	if (!text || strnlen(text, RBLK_URI_BYTES) == RBLK_URI_BYTES)
		return uri_fail(error, text ? text : "(none)", "not a URI of at most %d bytes",
				RBLK_URI_BYTES - 1);
	from = uri_scheme(text, &kind);
	if (!from)
		return uri_fail(error, text, "a URI begins with rblk:// or rblk+tcp://");
	end = uri_hosts(text, from, kind, uri, error);
	if (!end)
		return -EINVAL;
	volume = *end ? end + 1 : "";
	if (!*volume)
		return 0;
	wrong = uri_decode(uri->volume, sizeof(uri->volume), volume, volume + strlen(volume), "");
	if (wrong)
		return uri_fail(error, text, "the volume's name, which has at most %d characters: %s",
				RBLK_NAME_BYTES - 1, wrong);
	if (!rblk_name_valid(uri->volume))
		return uri_fail(error, text,
				"a volume's name consists of letters, digits and . _ : + -");
	return 0;
}
