/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * nbdkit's plugin "rblk": an rblk volume as an NBD export, for qemu, nbd-client, nbdcopy and every
 * other NBD client. nbdkit calls these functions, several of a connection at a time; each
 * connection has a link (link.c) of its own. This file has the settings, and what an NBD client
 * gets to know about a volume.
 *
 *	nbdkit rblk rblk+tcp://10.0.0.2/disk
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "initiator/nbdkit/link.h"
#include "proto/secret/secret.h"
#include "proto/words/units.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

/* The longest request that NBD clients send by default. */
#define PLUGIN_MAX_BYTES (32u << 20)
#define PLUGIN_EXTENTS_MAX 256u
#define PLUGIN_GIVE_UP_MAX 86400000u /* ms */
/* nbdkit's bounds for the preferred size. */
#define PLUGIN_PREFERRED_MIN 512u
#define PLUGIN_PREFERRED_MAX (2u << 20)

static struct {
	char *uri, *name, *key_file, *device, *source;
	enum rblk_tls_use tls;
	bool digest;
	uint64_t tos, ack_timeout;
	uint64_t queues;
	uint64_t give_up_ms; /* 0: the library's default */
	bool polling;
} settings;

/* -- settings ---------------------------------------------------------------------------------- */

static void plugin_unload(void)
{
	free(settings.uri);
	free(settings.name);
	free(settings.key_file);
	free(settings.device);
	free(settings.source);
}

static int config_text(char **text, const char *value)
{
	free(*text);
	*text = strdup(value);
	return *text ? 0 : -1;
}

static int config_tls(const char *value)
{
	static const char *const words[] = {
		[RBLK_TLS_AUTO] = "auto", [RBLK_TLS_ALWAYS] = "always", [RBLK_TLS_NEVER] = "never"};

	for (unsigned int i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(value, words[i]) == 0) {
			settings.tls = (enum rblk_tls_use)i;
			return 0;
		}
	nbdkit_error("tls=%s: none of \"auto\", \"always\" and \"never\"", value);
	return -1;
}

static int config_digest(const char *value)
{
	int digest = nbdkit_parse_bool(value);

	settings.digest = digest == 1;
	return digest < 0 ? -1 : 0;
}

static int config_polling(const char *value)
{
	settings.polling = strcmp(value, "always") == 0;
	if (settings.polling || strcmp(value, "never") == 0)
		return 0;
	nbdkit_error("polling=%s: neither \"always\" nor \"never\"", value);
	return -1;
}

static const struct {
	const char *key;
	enum units_kind kind;
	uint64_t *number, min, max;
} numbers[] = {
	{"queues", UNITS_COUNT, &settings.queues, 1, 16},
	{"give-up", UNITS_TIME_MS, &settings.give_up_ms, 1, PLUGIN_GIVE_UP_MAX},
	{"tos", UNITS_COUNT, &settings.tos, 0, 255},
	{"ack-timeout", UNITS_COUNT, &settings.ack_timeout, 0, 31},
};

static int config_number(const char *key, const char *value)
{
	char why[UNITS_WHY_BYTES];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (strcmp(key, numbers[i].key) != 0)
			continue;
		if (units_read(numbers[i].kind, value, numbers[i].min, numbers[i].max, numbers[i].number, why) == 0)
			return 0;
		nbdkit_error("%s: %s", key, why);
		return -1;
	}
	nbdkit_error("unknown parameter \"%s\"", key);
	return -1;
}

static int plugin_config(const char *key, const char *value)
{
	if (strcmp(key, "uri") == 0)
		return config_text(&settings.uri, value);
	if (strcmp(key, "name") == 0)
		return config_text(&settings.name, value);
	if (strcmp(key, "key") == 0) {
		/* nbdkit may change its folder before it connects. */
		free(settings.key_file);
		settings.key_file = nbdkit_absolute_path(value);
		return settings.key_file ? 0 : -1;
	}
	if (strcmp(key, "tls") == 0)
		return config_tls(value);
	if (strcmp(key, "digest") == 0)
		return config_digest(value);
	if (strcmp(key, "polling") == 0)
		return config_polling(value);
	if (strcmp(key, "device") == 0)
		return config_text(&settings.device, value);
	if (strcmp(key, "source") == 0)
		return config_text(&settings.source, value);
	return config_number(key, value);
}

/* Each connection reads it again; a wrong one is told here, and not to the first client, hours later. */
static int config_secrets(void)
{
	char words[RBLK_SECRET_ERROR_BYTES];
	struct rblk_secrets *secrets;

	if (settings.tls == RBLK_TLS_ALWAYS && (!settings.key_file || strstr(settings.uri, "rblk://"))) {
		nbdkit_error(settings.key_file ? "tls=always: is for rblk+tcp:// only: over RDMA nothing is encrypted"
					       : "tls=always: needs key=FILE");
		return -1;
	}
	if (!settings.key_file)
		return 0;
	secrets = rblk_secrets_read(settings.key_file, words);
	if (!secrets)
		nbdkit_error("key=%s: %s", settings.key_file, words);
	rblk_secrets_put(secrets);
	return secrets ? 0 : -1;
}

static int plugin_config_complete(void)
{
	if (!settings.uri) {
		nbdkit_error("uri is missing: rblk://host[:port]/volume or "
			     "rblk+tcp://host[:port]/volume");
		return -1;
	}
	if (strncmp(settings.uri, "rblk://", 7) != 0 &&
	    strncmp(settings.uri, "rblk+tcp://", 11) != 0) {
		nbdkit_error("uri=%s: begins with neither rblk:// nor rblk+tcp://", settings.uri);
		return -1;
	}
	return config_secrets();
}

#define PLUGIN_HELP                                                                                \
	"[uri=]URI        rblk://host[:port][/volume] or rblk+tcp://host[:port][/volume]\n"       \
	"name=NAME        the initiator's name, for the target's log and access rules\n"           \
	"key=FILE         file with the secret that proves the name, and the target\n"            \
	"tls=WHEN         encrypt TCP with the key: auto (default: to other machines), always, never\n" \
	"digest=BOOL      check all data by CRC32C (default false)\n"                             \
	"device=NAME      RDMA device to use (default: the one that the routes lead to)\n"        \
	"source=ADDRESS   connect from this address of this machine; several by commas: one for each host\n" \
	"tos=NUMBER       TOS or traffic class of packets to the target: DSCP * 4\n"             \
	"ack-timeout=NUMBER  RDMA: repeat unacknowledged packets after 4.096 us * 2^NUMBER\n"    \
	"queues=COUNT     connections to the target for each NBD connection (default 1)\n"        \
	"give-up=TIME     after so long without a connection, requests fail (default 1min)\n"        \
	"polling=HOW      never (default): sleep until the target answers; always: spin"

static void plugin_dump(void)
{
	printf("librblk_version=%s\n", rblk_version());
}

/* -- exports ----------------------------------------------------------------------------------- */

/* A URI with a volume has one export, whatever name is asked for; one without has all volumes. */
static bool uri_has_volume(void)
{
	const char *host = settings.uri, *scheme, *slash;

	/* The volume follows the last host, and a host may have a scheme of its own. */
	while ((scheme = strstr(host, "://")))
		host = scheme + 3;
	slash = strchr(host, '/');
	return slash && slash[1];
}

static int plugin_list_exports(int readonly, int is_tls, struct nbdkit_exports *exports)
{
	struct rblk_volume_info *list = NULL;
	char error[RBLK_ERROR_BYTES];
	const struct rblk_options options = {
		.size = sizeof(options),
		.initiator_name = settings.name,
		.key_file = settings.key_file,
		.device = settings.device,
		.source = settings.source,
		.tos = (unsigned int)settings.tos,
		.ack_timeout = (unsigned int)settings.ack_timeout,
		.tls = settings.tls,
		.digest = settings.digest,
	};
	struct rblk_session *session;
	int count, err = 0;

	if (uri_has_volume())
		return nbdkit_use_default_export(exports);
	session = rblk_session_open(settings.uri, &options, error);
	if (!session) {
		nbdkit_error("%s", error);
		return -1;
	}
	count = rblk_list(session, &list, sizeof(*list));
	if (count < 0)
		nbdkit_error("%s: %s", settings.uri, rblk_session_error(session));
	for (int i = 0; i < count && !err; i++)
		err = nbdkit_add_export(exports, list[i].name, NULL);
	free(list);
	rblk_session_close(session);
	return count < 0 ? -1 : err;
}

static const char *plugin_default_export(int readonly, int is_tls)
{
	/* A URI without a volume has no default export. */
	return uri_has_volume() ? "" : NULL;
}

static void *plugin_open(int readonly)
{
	const char *name = nbdkit_export_name();
	struct nbd_link_options options = {
		.uri = settings.uri,
		.name = settings.name,
		.key_file = settings.key_file,
		.device = settings.device,
		.source = settings.source,
		.tos = (unsigned int)settings.tos,
		.ack_timeout = (unsigned int)settings.ack_timeout,
		.tls = settings.tls,
		.digest = settings.digest,
		.volume = uri_has_volume() ? NULL : name,
		.queues = (unsigned int)settings.queues,
		.give_up_ms = (unsigned int)settings.give_up_ms,
		.polling = settings.polling,
		.read_only = readonly,
	};
	char error[RBLK_ERROR_BYTES];
	struct nbd_link *link;

	if (options.volume && !options.volume[0]) {
		nbdkit_error("%s: names no volume, and the client names none either", settings.uri);
		return NULL;
	}
	link = nbd_link_open(&options, error);
	if (!link)
		nbdkit_error("%s", error);
	return link;
}

static void plugin_close(void *handle)
{
	nbd_link_close(handle);
}

/* -- what a client gets to know ---------------------------------------------------------------- */

static int64_t plugin_get_size(void *handle)
{
	return (int64_t)nbd_link_info(handle)->bytes;
}

static int plugin_block_size(void *handle, uint32_t *minimum, uint32_t *preferred,
			     uint32_t *maximum)
{
	const struct rblk_volume_info *info = nbd_link_info(handle);
	uint32_t size = info->optimal_bytes;

	/* A power of two, or the size that the disk writes without reading first. */
	if (!size || size & (size - 1) || size > PLUGIN_PREFERRED_MAX)
		size = info->physical_bytes;
	if (size < info->block_bytes)
		size = info->block_bytes;
	*minimum = info->block_bytes;
	*preferred = size < PLUGIN_PREFERRED_MIN ? PLUGIN_PREFERRED_MIN : size;
	*maximum = PLUGIN_MAX_BYTES;
	return 0;
}

static int plugin_can_write(void *handle)
{
	return !nbd_link_info(handle)->read_only;
}

static int plugin_can_flush(void *handle)
{
	return nbd_link_info(handle)->can_flush;
}

static int plugin_is_rotational(void *handle)
{
	return nbd_link_info(handle)->rotational;
}

static int plugin_can_trim(void *handle)
{
	return nbd_link_info(handle)->can_discard;
}

/* nbdkit emulates by writes what the target cannot do. */
static int plugin_can_zero(void *handle)
{
	return nbd_link_info(handle)->can_write_zeroes;
}

static int plugin_can_fua(void *handle)
{
	const struct rblk_volume_info *info = nbd_link_info(handle);

	if (info->can_fua)
		return NBDKIT_FUA_NATIVE;
	return info->can_flush ? NBDKIT_FUA_EMULATE : NBDKIT_FUA_NONE;
}

static int plugin_can_extents(void *handle)
{
	return nbd_link_info(handle)->can_extents;
}

/*
 * A flush covers what was answered on every connection: the protocol's FLUSH is the volume's, and the library knows for
 * the whole process whether such a write may be lost (link.h).
 */
static int plugin_can_multi_conn(void *handle)
{
	return 1;
}

/* There is no cache between a client and the target to read ahead into. */
static int plugin_can_cache(void *handle)
{
	return NBDKIT_CACHE_NONE;
}

/* -- requests ---------------------------------------------------------------------------------- */

/* NBD has few errors, and nbdkit reports unknown ones as EINVAL. */
static int nbd_errno(int error)
{
	switch (error) {
	case EPERM:
	case EINVAL:
	case ENOMEM:
	case ENOSPC:
	case EROFS:
	case EOPNOTSUPP:
	case ESHUTDOWN:
		return error;
	case EACCES:
		return EPERM;
	case ERANGE:
		return EINVAL;
	default:
		return EIO;
	}
}

static int plugin_answer(struct nbd_link *link, const char *what, uint64_t offset, int result)
{
	char error[RBLK_ERROR_BYTES];

	if (!result)
		return 0;
	nbd_link_error(link, error);
	nbdkit_error("%s: %s at %llu: %s%s%s", nbd_link_info(link)->name, what,
		     (unsigned long long)offset, strerror(-result), error[0] ? ": " : "", error);
	nbdkit_set_error(nbd_errno(-result));
	return -1;
}

static uint32_t plugin_io_flags(uint32_t flags)
{
	return flags & NBDKIT_FLAG_FUA ? RBLK_IO_FUA : 0;
}

static int plugin_pread(void *handle, void *data, uint32_t bytes, uint64_t offset, uint32_t flags)
{
	return plugin_answer(handle, "read", offset, nbd_link_read(handle, data, bytes, offset));
}

static int plugin_pwrite(void *handle, const void *data, uint32_t bytes, uint64_t offset,
			 uint32_t flags)
{
	return plugin_answer(handle, "write", offset,
			     nbd_link_write(handle, data, bytes, offset, plugin_io_flags(flags)));
}

static int plugin_flush(void *handle, uint32_t flags)
{
	return plugin_answer(handle, "flush", 0, nbd_link_flush(handle));
}

static int plugin_trim(void *handle, uint32_t bytes, uint64_t offset, uint32_t flags)
{
	int result = nbd_link_discard(handle, bytes, offset);

	/* DISCARD has no FUA of its own; a flush behind it is as durable. */
	if (!result && flags & NBDKIT_FLAG_FUA)
		result = nbd_link_flush(handle);
	return plugin_answer(handle, "trim", offset, result);
}

static int plugin_zero(void *handle, uint32_t bytes, uint64_t offset, uint32_t flags)
{
	uint32_t io_flags = plugin_io_flags(flags);

	if (!(flags & NBDKIT_FLAG_MAY_TRIM))
		io_flags |= RBLK_IO_NO_UNMAP;
	return plugin_answer(handle, "zero", offset, nbd_link_zero(handle, bytes, offset, io_flags));
}

/* As many as one answer has: the client continues from there. */
static int plugin_extents(void *handle, uint32_t bytes, uint64_t offset, uint32_t flags,
			  struct nbdkit_extents *extents)
{
	struct rblk_extent list[PLUGIN_EXTENTS_MAX];
	unsigned int max = flags & NBDKIT_FLAG_REQ_ONE ? 1 : PLUGIN_EXTENTS_MAX;
	int count = nbd_link_extents(handle, bytes, offset, list, max);

	if (count < 0)
		return plugin_answer(handle, "extents", offset, count);
	for (int i = 0; i < count; i++) {
		uint32_t type = (list[i].flags & RBLK_EXTENT_IS_HOLE ? NBDKIT_EXTENT_HOLE : 0) |
				(list[i].flags & RBLK_EXTENT_IS_ZERO ? NBDKIT_EXTENT_ZERO : 0);

		if (nbdkit_add_extent(extents, list[i].offset, list[i].bytes, type))
			return -1;
	}
	return 0;
}

static struct nbdkit_plugin plugin = {
	.name = "rblk",
	.longname = "rblk block volumes",
	.version = RBLK_VERSION,
	.description = "A volume that rblkd serves over RDMA or TCP",
	.unload = plugin_unload,
	.config = plugin_config,
	.config_complete = plugin_config_complete,
	.config_help = PLUGIN_HELP,
	.magic_config_key = "uri",
	.dump_plugin = plugin_dump,
	.list_exports = plugin_list_exports,
	.default_export = plugin_default_export,
	.open = plugin_open,
	.close = plugin_close,
	.get_size = plugin_get_size,
	.block_size = plugin_block_size,
	.can_write = plugin_can_write,
	.can_flush = plugin_can_flush,
	.is_rotational = plugin_is_rotational,
	.can_trim = plugin_can_trim,
	.can_zero = plugin_can_zero,
	.can_fua = plugin_can_fua,
	.can_multi_conn = plugin_can_multi_conn,
	.can_extents = plugin_can_extents,
	.can_cache = plugin_can_cache,
	.pread = plugin_pread,
	.pwrite = plugin_pwrite,
	.flush = plugin_flush,
	.trim = plugin_trim,
	.zero = plugin_zero,
	.extents = plugin_extents,
};

NBDKIT_REGISTER_PLUGIN(plugin)
