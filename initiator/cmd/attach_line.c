/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The line that makes the kernel module attach a volume, composed from a URI, a numeric address
 * of each of its hosts, and options. Pure. The module checks everything again; this file checks what the
 * module cannot see: a value that would be two words, and a URI that is not for it.
 */
#include "initiator/cmd/attach.h"
#include "initiator/cmd/discover.h"
#include "initiator/own_name.h"
#include "initiator/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "proto/wire/wire_check.h"

/* A line under construction; the length keeps counting when it does not fit. */
struct attach_line {
	char *text;
	size_t length;
};

static void line_add(struct attach_line *line, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void line_add(struct attach_line *line, const char *format, ...)
{
	size_t room = line->length < ATTACH_LINE_BYTES ? ATTACH_LINE_BYTES - line->length : 0;
	va_list args;

	va_start(args, format);
	line->length += (size_t)vsnprintf(room ? line->text + line->length : NULL, room, format,
					  args);
	va_end(args);
}

/* The target's name stands for a host until it is found. */
static int line_discover(const char *text, struct ini_uri *uri, char *reason)
{
	struct ini_uri_host *host = &uri->hosts[0];

	memset(uri, 0, sizeof(*uri));
	host->kind = FAB_VERBS;
	snprintf(host->port, sizeof(host->port), "%u", RBLK_DEFAULT_PORT);
	uri->host_count = 1;
	return discover_uri_parse(text, host->name, uri->volume, reason);
}

int attach_uri_read(const char *text, struct ini_uri *uri, char *reason)
{
	char error[RBLK_ERROR_BYTES];

	if (discover_uri_is(text)) {
		if (line_discover(text, uri, reason))
			return -EINVAL;
	} else if (ini_uri_parse(text, uri, error)) {
		snprintf(reason, ATTACH_REASON_BYTES, "%s", error);
		return -EINVAL;
	}
	if (!uri->volume[0]) {
		snprintf(reason, ATTACH_REASON_BYTES,
			 "%.80s: the volume is missing, as in %.80s/NAME", text, text);
		return -EINVAL;
	}
	return 0;
}

int attach_uri_parse(const char *text, struct ini_uri *uri, char *reason)
{
	if (attach_uri_read(text, uri, reason))
		return -EINVAL;
	for (u16 i = 0; i < uri->host_count; i++) {
		if (uri->hosts[i].kind == FAB_VERBS)
			continue;
		snprintf(reason, ATTACH_REASON_BYTES,
			 "%.80s: the kernel module supports only RDMA (rblk://)%s%.80s; for a disk "
			 "over TCP see rblk-ublk(7), nbdkit-rblk-plugin(1)",
			 text, uri->host_count > 1 ? ", not host " : "",
			 uri->host_count > 1 ? uri->hosts[i].name : "");
		return -EINVAL;
	}
	return 0;
}

static bool line_name_valid(const char *name)
{
	char padded[RBLK_NAME_BYTES] = "";
	size_t length = strlen(name);

	if (length >= sizeof(padded))
		return false;
	memcpy(padded, name, length);
	return rblk_name_valid(padded);
}

/* The module's bytes are the command's. */
_Static_assert(ATTACH_NAME_BYTES == RBLK_NAME_BYTES && RBLK_ATTACH_URI_BYTES == RBLK_URI_BYTES, "both have room");

/* Printable, without blanks. */
static bool line_word_valid(const char *word, size_t most)
{
	size_t length = strlen(word);

	for (size_t i = 0; i < length; i++)
		if (word[i] <= ' ' || word[i] >= 0x7f)
			return false;
	return length <= most;
}

bool attach_key_valid(const char *name)
{
	return name[0] == '/' ? line_word_valid(name, RBLK_KEY_NAME_BYTES - 1) : line_name_valid(name);
}

static int line_check_names(const struct attach_options *o, u16 hosts, char *reason)
{
	struct ini_addresses sources;
	const char *fault;

	if (o->initiator && !line_name_valid(o->initiator)) {
		snprintf(reason, ATTACH_REASON_BYTES,
			 "name \"%.64s\": 1 to %d letters, digits and . _ : + -", o->initiator,
			 RBLK_NAME_BYTES - 1);
		return -EINVAL;
	}
	if (o->key && !attach_key_valid(o->key)) {
		snprintf(reason, ATTACH_REASON_BYTES,
			 "key \"%.64s\": 1 to %d letters, digits and . _ : + -, or the whole path of a file, "
			 "without blanks", o->key, RBLK_NAME_BYTES - 1);
		return -EINVAL;
	}
	if (o->uri && !line_word_valid(o->uri, RBLK_ATTACH_URI_BYTES - 1)) {
		snprintf(reason, ATTACH_REASON_BYTES, "%.80s: blanks, and characters that are not printable, are written as %%XX", o->uri);
		return -EINVAL;
	}
	fault = o->source ? ini_source_parse(o->source, hosts, &sources) : NULL;
	if (fault) {
		snprintf(reason, ATTACH_REASON_BYTES, "source \"%.64s\" %s", o->source, fault);
		return -EINVAL;
	}
	return 0;
}

/* A key that is left out has the module's default, which knows the host's name, but not the machine's id. */
static void line_add_options(struct attach_line *line, const struct attach_options *o)
{
	char name[RBLK_NAME_BYTES];

	if (o->queues)
		line_add(line, " queues=%" PRIu64, o->queues);
	if (o->poll_queues)
		line_add(line, " poll_queues=%" PRIu64, o->poll_queues);
	if (o->credits)
		line_add(line, " credits=%" PRIu64, o->credits);
	if (o->initiator)
		line_add(line, " initiator=%s", o->initiator);
	else if (!ini_own_name(name) && strcmp(name, RBLK_NAME_UNNAMED) != 0)
		line_add(line, " initiator=%s", name);
	if (o->key)
		line_add(line, " key=%s", o->key);
	if (o->connect_ms)
		line_add(line, " connect_ms=%" PRIu64, o->connect_ms);
	if (o->command_ms)
		line_add(line, " command_ms=%" PRIu64, o->command_ms);
	if (o->reconnect_ms)
		line_add(line, " reconnect_ms=%" PRIu64, o->reconnect_ms);
	if (o->fail_fast_ms != ATTACH_UNSAID)
		line_add(line, " fail_fast_ms=%" PRIu64, o->fail_fast_ms);
	if (o->give_up_ms != ATTACH_UNSAID)
		line_add(line, " give_up_ms=%" PRIu64, o->give_up_ms);
	if (o->source)
		line_add(line, " source=%s", o->source);
	if (o->tos)
		line_add(line, " tos=%" PRIu64, o->tos);
	if (o->ack_timeout)
		line_add(line, " ack_timeout=%" PRIu64, o->ack_timeout);
	if (o->read_only)
		line_add(line, " read_only");
	if (o->accept_volatile)
		line_add(line, " volatile");
	if (o->own_session)
		line_add(line, " own_session");
	if (o->priority)
		line_add(line, " priority");
	if (o->digest)
		line_add(line, " digest");
	if (o->disk_name && o->disk_name[0])
		line_add(line, " name=%s", o->disk_name);
	if (o->uri)
		line_add(line, " uri=%s", o->uri);
}

int attach_line_compose(const struct ini_uri *uri, const char *address,
			const struct attach_options *o, char *text, char *reason)
{
	struct attach_line line = { text, 0 };
	int error = line_check_names(o, (u16)uri->host_count, reason);

	if (error)
		return error;
	line_add(&line, "attach address=%s port=%s", address, uri->hosts[0].port);
	for (unsigned int i = 1; i < uri->host_count; i++)
		line_add(&line, ",%s", uri->hosts[i].port);
	line_add(&line, " volume=%s", uri->volume);
	line_add_options(&line, o);
	if (line.length >= ATTACH_LINE_BYTES) {
		snprintf(reason, ATTACH_REASON_BYTES, "%.80s: too long", address);
		return -EINVAL;
	}
	return 0;
}
