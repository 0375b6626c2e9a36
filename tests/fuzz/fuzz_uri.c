/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no text breaks the parser of URIs, what it accepts has the bounds that librblk relies on,
 * and a refusal has words. Method: the input is the text; what was understood is written down again
 * and must be understood the same.
 */
#include "tests/fuzz/fuzz.h"

#include "initiator/rblk.h"
#include "initiator/uri.h"
#include "proto/wire/wire_check.h"

static const char *scheme_of(enum fab_kind kind)
{
	switch (kind) {
	case FAB_VERBS:
		return "rblk://";
	case FAB_TCP:
		return "rblk+tcp://";
	case FAB_SIM:
		return "rblk+sim://";
	case FAB_SIM2:
		return "rblk+sim2://";
	case FAB_NVME: /* a target's alone */
	case FAB_NVME_RDMA:
		break;
	}
	abort();
}

static void check_host(const struct ini_uri *uri, const struct ini_uri_host *host)
{
	char text[INI_URI_HOST_TEXT];
	int port = atoi(host->port);

	FUZZ_ASSERT(host->name[0] && memchr(host->name, '\0', sizeof(host->name)));
	FUZZ_ASSERT(!strpbrk(host->name, ",/"));
	FUZZ_ASSERT(port >= 1 && port <= 65535);
	ini_uri_format_host(uri, host, text, sizeof(text));
	FUZZ_ASSERT(strstr(text, host->name) && strlen(text) < sizeof(text) - 1);
	FUZZ_ASSERT(!strncmp(text, scheme_of(host->kind), strlen(scheme_of(host->kind))) ==
		    ini_uri_mixed(uri));
}

/* With %25 for each %, but in brackets for the first alone: a zone is taken as it is, and an empty one has no 25. Three times as long at most. */
static const char *encoded(const char *name, char *to)
{
	bool bracketed = strchr(name, ':'), zone = false;
	char *at = to;

	for (; *name; name++) {
		bool percent = *name == '%';

		at += percent && !zone && (name[1] || !bracketed) ? sprintf(at, "%%25") : sprintf(at, "%c", *name);
		zone |= percent && bracketed;
	}
	*at = '\0';
	return to;
}

/* Every host with its scheme and its port. */
static void check_again(const struct ini_uri *uri)
{
	char text[3 * (INI_URI_HOSTS * (INI_URI_HOST_TEXT + 1) + RBLK_NAME_BYTES + 1)];
	char name[3 * sizeof(uri->hosts[0].name) + 3 * sizeof(uri->volume)];
	char error[RBLK_ERROR_BYTES];
	struct ini_uri again;
	size_t used = 0;

	for (u16 i = 0; i < uri->host_count; i++)
		used += (size_t)snprintf(
			text + used, sizeof(text) - used,
			strchr(uri->hosts[i].name, ':') ? "%s%s[%s]:%s" : "%s%s%s:%s",
			!i ? "" : uri->hosts[i].group != uri->hosts[i - 1].group ? ";" : ",",
			scheme_of(uri->hosts[i].kind), encoded(uri->hosts[i].name, name), uri->hosts[i].port);
	snprintf(text + used, sizeof(text) - used, "/%s", encoded(uri->volume, name));
	/* Schemes and ports that were left out may make it too long. A bracket within a name is
	 * odd, and no name server knows one. */
	if (strlen(text) >= RBLK_URI_BYTES)
		return;
	for (u16 i = 0; i < uri->host_count; i++)
		if (uri->hosts[i].name[0] == '[')
			return;
	FUZZ_ASSERT(!ini_uri_parse(text, &again, error));
	FUZZ_ASSERT(!memcmp(uri, &again, sizeof(again)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), error[RBLK_ERROR_BYTES] = "";
	struct ini_uri uri;

	FUZZ_ASSERT(text);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	if (ini_uri_parse(text, &uri, error)) {
		FUZZ_ASSERT(error[0]);
	} else {
		FUZZ_ASSERT(uri.host_count >= 1 && uri.host_count <= INI_URI_HOSTS);
		for (u16 i = 0; i < uri.host_count; i++)
			check_host(&uri, &uri.hosts[i]);
		FUZZ_ASSERT(!uri.volume[0] || rblk_name_valid(uri.volume));
		check_again(&uri);
	}
	free(text);
	return 0;
}
