/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns one attach from beginning to end, by either way; by the module, over all addresses of its hosts. */
#include "initiator/cmd/attach.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>
#include "initiator/cmd/discover.h"
#include "initiator/source.h"

/* -- hosts ------------------------------------------------------------------------------------- */

/*
 * The hosts of an attach: the module takes numeric addresses, one of each host, and has no resolver. Their addresses are tried
 * one after the other until the module reaches the target at one.
 */

#define HOSTS_ADDRESSES_MAX 16u /* of one host, that are tried */

/* Those of the URI that have an address. */
struct hosts {
	struct ini_uri uri;
	struct addrinfo *lists[INI_URI_HOSTS];
	unsigned int most; /* addresses of one */
	char sources[ATTACH_LINE_BYTES]; /* of each of these hosts, by commas; "": as the routes say */
};

/* The module's answer to each attempt; printed only if none worked. */
struct refusals {
	char lines[HOSTS_ADDRESSES_MAX][ATTACH_ANSWER_BYTES];
};

/* Nothing is sent. False: as for an address of IPv6 on a machine that has none beyond its link. */
static bool has_route(const struct addrinfo *address)
{
	int fd = socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool has = fd >= 0 && !connect(fd, address->ai_addr, address->ai_addrlen);

	if (fd >= 0)
		close(fd);
	return has;
}

/* Address `n` of a host, or its last. Those without a route come last. */
static const struct addrinfo *address_pick(const struct addrinfo *list, unsigned int n)
{
	const struct addrinfo *address, *last = list;

	for (int routed = 1; routed >= 0; routed--)
		for (address = list; address; address = address->ai_next) {
			if (has_route(address) != routed)
				continue;
			last = address;
			if (!n--)
				return last;
		}
	return last;
}

/* The source of a host that is kept. One list that is too long makes a line that is. */
static void sources_add(struct hosts *hosts, const struct sockaddr *source)
{
	size_t length = strlen(hosts->sources);
	char text[NI_MAXHOST];

	if (!source || getnameinfo(source, sizeof(struct sockaddr_storage), text, sizeof(text), NULL, 0, NI_NUMERICHOST))
		return;
	snprintf(hosts->sources + length, sizeof(hosts->sources) - length, "%s%s", length ? "," : "", text);
}

/*
 * A name that cannot be resolved now is left out until the next attach. An address of another family than the host's
 * source is not tried.
 */
static void hosts_resolve(struct hosts *hosts, const struct ini_uri *uri, const char *source, const char *prefix)
{
	struct ini_addresses sources = { .count = 0 };

	/* A wrong one is left for the line to say. */
	if (source && ini_source_parse(source, uri->host_count, &sources))
		sources.count = 0;
	hosts->uri = *uri;
	hosts->uri.host_count = 0;
	hosts->most = 0;
	hosts->sources[0] = '\0';
	for (unsigned int i = 0; i < uri->host_count; i++) {
		const struct sockaddr *from = ini_source_of(&sources, (u16)i);
		const struct addrinfo hints = { .ai_family = from ? from->sa_family : AF_UNSPEC,
						.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
		struct addrinfo **list = &hosts->lists[hosts->uri.host_count];
		unsigned int count = 0;
		int err = getaddrinfo(uri->hosts[i].name, uri->hosts[i].port, &hints, list);

		if (err) {
			cmd_error("%s%s: %s", prefix, uri->hosts[i].name,
				  err == EAI_SYSTEM ? strerror(errno) : gai_strerror(err));
			continue;
		}
		hosts->uri.hosts[hosts->uri.host_count++] = uri->hosts[i];
		sources_add(hosts, from);
		for (const struct addrinfo *address = *list; address; address = address->ai_next)
			count++;
		if (count > hosts->most)
			hosts->most = count;
	}
}

static const char *addresses_delimiter(const struct hosts *hosts, unsigned int i)
{
	return !i ? "" : hosts->uri.hosts[i].group != hosts->uri.hosts[i - 1].group ? ";" : ",";
}

/* "A,B;C": address `n` of each. 0, or -EINVAL and the reason. */
static int addresses_compose(const struct hosts *hosts, unsigned int n, char text[ATTACH_LINE_BYTES],
			     char reason[ATTACH_REASON_BYTES])
{
	size_t length = 0;

	for (unsigned int i = 0; i < hosts->uri.host_count; i++) {
		const struct addrinfo *address = address_pick(hosts->lists[i], n);
		char host[NI_MAXHOST];
		int err = getnameinfo(address->ai_addr, address->ai_addrlen, host, sizeof(host), NULL, 0, NI_NUMERICHOST);

		if (err) {
			snprintf(reason, ATTACH_REASON_BYTES, "%s: %s", hosts->uri.hosts[i].name, gai_strerror(err));
			return -EINVAL;
		}
		length += (size_t)snprintf(text + length, ATTACH_LINE_BYTES - length, "%s%s",
					   addresses_delimiter(hosts, i), host);
		if (length >= ATTACH_LINE_BYTES) {
			snprintf(reason, ATTACH_REASON_BYTES, "%s: its hosts' addresses are too long", hosts->uri.hosts[i].name);
			return -EINVAL;
		}
	}
	return 0;
}

/* 0 and what the module answers, the device's name; or -errno and its refusal. */
static int hosts_attempt(const struct hosts *hosts, unsigned int n, int control, const struct attach_options *options,
			 char answer[ATTACH_ANSWER_BYTES])
{
	char addresses[ATTACH_LINE_BYTES], line[ATTACH_LINE_BYTES], reason[ATTACH_REASON_BYTES];
	struct attach_options own = *options;
	int err = addresses_compose(hosts, n, addresses, reason);

	if (hosts->sources[0])
		own.source = hosts->sources;
	if (!err)
		err = attach_line_compose(&hosts->uri, addresses, &own, line, reason);
	if (!err)
		return attach_control_send(control, line, answer);
	snprintf(answer, ATTACH_ANSWER_BYTES, "%.*s", ATTACH_ANSWER_BYTES - 1, reason);
	return err;
}

int attach_hosts(const char *name, const struct ini_uri *uri, int control, const struct attach_options *options,
		 char *device, size_t bytes)
{
	char prefix[ATTACH_NAME_BYTES + 4], hint[CMD_HINT_BYTES];
	const char *key = options->key && options->key[0] == '/' ? options->key : NULL;
	struct refusals refusals;
	unsigned int tries = 0;
	struct hosts hosts;
	int err = -EHOSTUNREACH;

	snprintf(prefix, sizeof(prefix), "%s%s", name, name[0] ? ": " : "");
	hosts_resolve(&hosts, uri, options->source, prefix);
	while (tries < hosts.most && tries < HOSTS_ADDRESSES_MAX) {
		err = hosts_attempt(&hosts, tries, control, options, refusals.lines[tries]);
		if (!err)
			snprintf(device, bytes, "%.*s", (int)bytes - 1, refusals.lines[tries]);
		tries++;
		/* A wrong line is wrong for every address, and a name that is taken is. */
		if (!err || err == -EINVAL || err == -ERANGE || err == -E2BIG || err == -EEXIST)
			break;
	}
	for (unsigned int i = 0; err && i < tries; i++)
		cmd_error("%s%s", prefix, refusals.lines[i]);
	if (err && tries && cmd_key_hint(refusals.lines[tries - 1], key, hint))
		cmd_note("%s%s", prefix, hint);
	for (unsigned int i = 0; i < hosts.uri.host_count; i++)
		freeaddrinfo(hosts.lists[i]);
	return err;
}

/* -- one attach -------------------------------------------------------------------------------- */

#define RUN_NODE_MS 10000        /* devtmpfs makes nodes at once, udev soon */
#define RUN_POLL_MS 20

/* The node in /dev that is this very device. */
static bool run_node_there(const char *device)
{
	char path[PATH_MAX], number[32] = "";
	unsigned int high, low;
	struct stat st;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/block/%s/dev", device);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(number, sizeof(number), file))
		number[0] = '\0';
	fclose(file);
	snprintf(path, sizeof(path), "/dev/%s", device);
	return sscanf(number, "%u:%u", &high, &low) == 2 && !stat(path, &st) &&
	       S_ISBLK(st.st_mode) && major(st.st_rdev) == high &&
	       minor(st.st_rdev) == low;
}

/* udev or devtmpfs makes the node of this very device. */
static bool run_node_wait(const char *device)
{
	const struct timespec pause = { .tv_nsec = RUN_POLL_MS * 1000000L };

	for (int tries = 0; tries < RUN_NODE_MS / RUN_POLL_MS; tries++) {
		if (run_node_there(device))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

/* udev links the disk by its name, if it has one; where no udev runs, nobody does. */
static void run_link_wait(const char *name)
{
	char link[128];
	const char *const settle[] = { "udevadm", "settle", "--timeout=10", link, NULL };

	snprintf(link, sizeof(link), "--exit-if-exists=/dev/rblk/by-name/%s", name);
	/* Its failure does not fail the attach: without rules there is no link to wait for. */
	if (name[0] && !access("/run/udev/control", F_OK))
		attach_program_run(settle);
}

/* By the module. 0 and the device's name, or an error after a message. */
static int run_module(const char *name, const struct attach_options *options, struct ini_uri *uri, char device[16])
{
	char reason[ATTACH_REASON_BYTES], found[RBLK_URI_BYTES];
	int err = 0, control = attach_control_open();

	if (control < 0)
		return control;
	/* Only now: asking takes a second. The module shows the name that was given. */
	if (discover_uri_is(options->uri)) {
		err = discover_uri_resolve(options->uri, DISCOVER_RDMA, found);
		if (!err && attach_uri_parse(found, uri, reason))
			err = cmd_error("%s: %s", name[0] ? name : options->uri, reason);
	}
	if (!err)
		err = attach_key_prepare(control, options->key);
	if (!err)
		err = attach_hosts(name, uri, control, options, device, 16);
	close(control);
	return err;
}

int attach_run(enum attach_way way, const char *name, const char *uri, const struct attach_options *options,
	       struct attached *attached)
{
	const bool ublk = way == ATTACH_BY_UBLK;
	int err = -1, lock = ublk ? attach_ublk_lock(name) : -1;
	char reason[ATTACH_REASON_BYTES], line[ATTACH_LINE_BYTES], device[16];
	struct attach_options own = *options;
	struct ini_uri parsed;

	own.disk_name = name;
	own.uri = uri;
	/* The line's words are also those of ublk's record, and of udev's links. */
	if ((ublk ? attach_uri_read : attach_uri_parse)(uri, &parsed, reason) ||
	    attach_line_compose(&parsed, "::", &own, line, reason))
		cmd_error("%s%s%s", name, name[0] ? ": " : "", reason);
	else if (attached_named("", name, device))
		cmd_error("%s: is attached already, as /dev/%s", name, device);
	else
		err = ublk ? attach_ublk_start(name, uri, options, device) : run_module(name, &own, &parsed, device);
	if (!err && (!run_node_wait(device) || attached_read("", device, attached))) {
		cmd_error("%s: attached as /dev/%s, but the device does not appear", name[0] ? name : uri, device);
		err = -1;
	}
	if (!err)
		run_link_wait(name);
	if (lock >= 0)
		close(lock);
	return err;
}
