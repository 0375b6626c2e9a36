/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* rblk info: prints everything that the target reports when a volume is opened. */
#include "initiator/cmd/cmd.h"

#include <ifaddrs.h>
#include <inttypes.h>
#include <jansson.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static struct info_values {
	struct cmd_connect connect;
	bool json;
} values = { .connect = CMD_CONNECT_DEFAULTS };

static const struct cmd_option options[] = {
	CMD_OPTION_JSON(struct info_values),
	CMD_CONNECT_OPTIONS(struct info_values),
	CMD_OPTION_HELP,
	CMD_OPTIONS_END,
};

static void info_size(const char *what, uint64_t bytes)
{
	char text[CMD_TEXT_BYTES];

	if (bytes)
		printf("%-20s %s (%" PRIu64 " bytes)\n", what, units_format_bytes(bytes, text),
		       bytes);
	else
		printf("%-20s -\n", what);
}

static void info_can(const char *what, bool can, const char *yes, const char *no)
{
	printf("%-20s %s\n", what, can ? yes : no);
}

/*
 * Is the target on this machine? It tells that by the address, and lets its own machine do what nobody else may
 * (rblkd.conf(5)). peer: "10.0.0.2:4430", "[fe80::1%eth0]:4430"
 */
static bool peer_is_own(const char *peer)
{
	size_t length = strcspn(peer + (*peer == '['), *peer == '[' ? "]" : ":");
	const char *address = peer + (*peer == '[');
	char host[NI_MAXHOST];
	struct ifaddrs *list;
	bool own = !strncmp(address, "127.", 4);

	if (getifaddrs(&list))
		return own;
	for (const struct ifaddrs *one = list; one && !own; one = one->ifa_next) {
		int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;

		if ((family == AF_INET || family == AF_INET6) &&
		    !getnameinfo(one->ifa_addr,
				 family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6), host,
				 sizeof(host), NULL, 0, NI_NUMERICHOST))
			own = strlen(host) == length && !strncmp(host, address, length);
	}
	freeifaddrs(list);
	return own;
}

/* Whose rights these are: another name, or another machine, may have others. */
static void info_asked(const struct rblk_session_info *connection)
{
	printf("%-20s %s%s\n", "initiator", connection->initiator,
	       values.connect.name ? "" : " (this machine's name; --name asks as another)");
	if (peer_is_own(connection->peer))
		printf("%-20s %s\n", "asked from",
		       "the target's own machine, which may do more than others: ACCESS in rblkd.conf(5)");
}

static int info_print(const char *uri, struct rblk_session *session,
		      const struct rblk_volume_info *info)
{
	struct rblk_session_info connection;
	struct cmd_paths paths;
	char text[CMD_TEXT_BYTES];

	rblk_session_info(session, &connection, sizeof(connection));
	printf("%-20s %s\n", "volume", info->name);
	printf("%-20s %s\n", "target", uri);
	printf("%-20s %s\n", "uuid", cmd_format_uuid(info->uuid, text));
	printf("%-20s %s\n", "cache epoch", cmd_format_uuid(info->cache_epoch, text));
	info_size("size", info->bytes);
	info_size("block", info->block_bytes);
	info_size("physical block", info->physical_bytes);
	info_size("optimal I/O", info->optimal_bytes);
	info_size("largest I/O", info->max_io_bytes);
	info_size("in capsule", info->max_capsule_bytes);
	info_can("access", info->read_only, "read only", "read and write");
	info_can("cache", info->volatile_cache,
		 "volatile: a write is durable after a flush or with FUA",
		 "none that a crash could lose");
	info_can("flush", info->can_flush, "yes", "no: the store cannot");
	info_can("FUA", info->can_fua, "yes", "no: the store cannot");
	info_can("discard", info->can_discard, "yes", "no: the store cannot");
	if (info->can_discard)
		info_size("discard granularity", info->discard_granularity_bytes);
	info_can("write zeroes", info->can_write_zeroes, "yes", "no: the store cannot");
	if (info->can_discard || info->can_write_zeroes)
		info_size("largest discard", info->max_discard_bytes);
	if (info->untorn_max_bytes) {
		info_size("least untorn write", info->untorn_min_bytes);
		info_size("largest untorn write", info->untorn_max_bytes);
	} else {
		info_can("untorn writes", false, "", "no: a loss of power may tear any");
	}
	info_can("checksum", info->can_checksum, "CRC32C, computed by the target", "no");
	info_can("compare and write", info->can_compare_and_write, "yes", "no");
	info_can("extents", info->can_extents, "known: holes are not copied", "unknown");
	info_can("rotational", info->rotational, "yes", "no");
	printf("%-20s %s through %s\n", "connection", connection.peer, connection.device);
	info_asked(&connection);
	printf("%-20s %s\n", "encrypted", connection.tls ? "yes: TLS 1.3" : "no");
	printf("%-20s %s\n", "proven", connection.proven ? "yes: both ends have the secret" : "no");
	info_can("digest", strstr(connection.features, "digest"), "yes: CRC32C of all data", "no");
	cmd_paths_read(session, &paths);
	cmd_paths_print(&paths, "", 20);
	printf("%-20s %s\n", "age", cmd_paths_format_age(&paths, text));
	printf("%-20s %u commands outstanding\n", "credits", cmd_paths_credits(session, &paths));
	printf("%-20s %s\n", "features", connection.features[0] ? connection.features : "none");
	return CMD_OK;
}

static int info_print_json(const char *uri, struct rblk_session *session,
			   const struct rblk_volume_info *info)
{
	json_t *root = cmd_json_volume(info);
	struct rblk_session_info connection;
	struct cmd_paths paths;

	if (!root)
		return cmd_error("out of memory");
	rblk_session_info(session, &connection, sizeof(connection));
	json_object_set_new(root, "uri", cmd_json_text(uri));
	cmd_paths_read(session, &paths);
	json_object_set_new(root, "credits", json_integer(cmd_paths_credits(session, &paths)));
	json_object_set_new(root, "paths", cmd_paths_json(&paths));
	json_object_set_new(root, "age_ns", cmd_paths_json_age(&paths));
	json_object_set_new(root, "peer", cmd_json_text(connection.peer));
	json_object_set_new(root, "fabric_device", cmd_json_text(connection.device));
	json_object_set_new(root, "features", cmd_json_features(connection.features));
	json_object_set_new(root, "initiator", cmd_json_text(connection.initiator));
	json_object_set_new(root, "tls", json_boolean(connection.tls));
	json_object_set_new(root, "proven", json_boolean(connection.proven));
	return cmd_json_print(root);
}

static int info_run(char **operands, int count)
{
	struct rblk_options session_options = { .no_reconnect = true };
	struct rblk_session *session;
	struct rblk_volume *volume;
	int status = CMD_FAILED;

	if (cmd_uri_check(operands[0], true))
		return CMD_USAGE;
	session_options.queues = cmd_paths_hosts(operands[0]);
	session = cmd_session_open(operands[0], &values.connect, &session_options);
	if (!session)
		return CMD_FAILED;
	volume = cmd_volume_open(session, 0);
	if (volume && values.json)
		status = info_print_json(operands[0], session, rblk_volume_info(volume));
	else if (volume)
		status = info_print(operands[0], session, rblk_volume_info(volume));
	rblk_session_close(session);
	return status;
}

const struct cmd_verb cmd_verb_info = {
	.name = "info",
	.operands = "VOLUME",
	.summary = "print the properties of a volume",
	.options = options,
	.values = &values,
	.connects = true,
	.operands_least = 1,
	.operands_most = 1,
	.run = info_run,
};
