/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The checks of check.h. Locks are not taken: the daemon may serve the same, while its next configuration is checked. */
#include "target/control/check.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uuid/uuid.h>
#include "proto/words/units.h"
#include "target/base/denied.h"
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/base/text.h"
#include "target/control/as_service.h"
#include "target/control/check_addresses.h"
#include "target/control/config.h"
#include "target/control/cpus.h"
#include "target/control/options.h"
#include "target/control/say.h"
#include "target/control/service_devices.h"
#include "target/serve/reactor.h"
#include "target/store/identity.h"
#include "target/store/nvme_path.h"
#include "target/store/path.h"
#include "target/store/volume.h"

/* The unit makes them: RuntimeDirectory=, StateDirectory=. */
#define SERVICE_RUNTIME "/run/rblkd"
#define SERVICE_STATE "/var/lib/rblkd"

static int denied(const struct tgt_volume_config *volume, const char *path, char *error)
{
	char advice[TGT_DENIED_BYTES];

	return tgt_error(error, -errno, "volume %s: %s: %s%s", volume->name, path, strerror(errno),
			 tgt_denied(path, errno, advice));
}

static bool may_use(const struct tgt_volume_config *volume, const char *path)
{
	if (!tgt_service_devices_allow(path, !volume->read_only)) {
		errno = EPERM;
		return false;
	}
	return access(path, volume->read_only ? R_OK : R_OK | W_OK) == 0;
}

/* rblkd must be able to open the block device. If it cannot open the generic one, it serves the volume with a warning. */
static int namespace_check(const struct tgt_volume_config *volume, char *error)
{
	struct tgt_namespace namespace;
	char reason[TGT_ERROR_BYTES];
	int err = tgt_namespace_find(volume->path, &namespace, reason);

	if (err)
		return tgt_error(error, err, "volume %s: %s", volume->name, reason);
	return may_use(volume, namespace.block) ? 0 : denied(volume, namespace.block, error);
}

/* The service's start makes it the service's. */
static bool becomes_its_own(const char *path)
{
	static const char folder[] = TGT_SERVICE_IMAGES "/";

	return !strncmp(path, folder, strlen(folder)) && !strchr(path + strlen(folder), '/');
}

static int path_check(const struct tgt_volume_config *volume, bool as_service, char *error)
{
	const struct tgt_store_ops *ops = tgt_store_find(volume->store);
	char reason[TGT_ERROR_BYTES];
	struct stat st;
	int status;

	if (stat(volume->path, &st) < 0)
		return denied(volume, volume->path, error);
	if (ops->is_namespace && ops->is_namespace(volume))
		return namespace_check(volume, error);
	if (!may_use(volume, volume->path) && !(as_service && becomes_its_own(volume->path)))
		return denied(volume, volume->path, error);
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return tgt_error(error, -EINVAL, "volume %s: %s: neither a file nor a block device",
				 volume->name, volume->path);
	if (S_ISREG(st.st_mode) && !st.st_size)
		return tgt_error(error, -EINVAL, "volume %s: %s: size is 0", volume->name,
				 volume->path);
	if (!may_use(volume, volume->path))
		return 0;
	status = tgt_path_look(volume, reason);
	return status ? tgt_error(error, status, "volume %s: %.450s", volume->name, reason) : 0;
}

/* -EALREADY: an earlier volume has this file or device, by another name. Readers may share (F6). */
static int path_check_twice(const struct tgt_config *config, unsigned int n, char *error)
{
	const struct tgt_volume_config *volume = &config->volumes[n];
	struct tgt_store_id id, other;

	if (tgt_path_identify(tgt_store_file(volume), &id) < 0)
		return 0; /* it was removed just now */
	for (unsigned int i = 0; i < n; i++) {
		const struct tgt_volume_config *earlier = &config->volumes[i];

		if (!tgt_store_file(earlier) || tgt_path_identify(earlier->path, &other) < 0 ||
		    !tgt_store_id_shared(&id, &other) || (earlier->read_only && volume->read_only))
			continue;
		return tgt_volume_taken(volume, earlier, tgt_store_id_same(&id, &other), error);
	}
	return 0;
}

/* -EEXIST: an earlier volume would have the same UUID. `uuids`: theirs; this one's is added. */
static int identity_check(const struct tgt_config *config, unsigned int n, uint8_t (*uuids)[16], char *error)
{
	const struct tgt_volume_config *volume = &config->volumes[n];
	struct tgt_identity identity;
	char text[UUID_STR_LEN];
	/* A start goes on without it, too. */
	const char *folder = access(config->reservations_dir, R_OK | W_OK | X_OK) ? NULL : config->reservations_dir;
	int status = tgt_identity_find(volume, folder, &identity, error);

	if (status)
		return status; /* uuids[n] stays zero, which no volume has */
	memcpy(uuids[n], identity.uuid, sizeof(uuids[n]));
	uuid_unparse_lower(identity.uuid, text);
	for (unsigned int i = 0; i < n; i++)
		if (!memcmp(uuids[i], uuids[n], sizeof(uuids[n])))
			return tgt_error(error, -EEXIST,
					 "volume %s: its uuid %s is that of volume %s (%s), of which it may be a copy: "
					 "give one of them another uuid",
					 volume->name, text, config->volumes[i].name,
					 config->volumes[i].path[0] ? config->volumes[i].path : config->volumes[i].store);
	return 0;
}

/* `uuids`: of the earlier volumes. */
static int volume_check(const struct tgt_config *config, unsigned int n, uint8_t (*uuids)[16], bool as_service, char *error)
{
	const struct tgt_volume_config *volume = &config->volumes[n];
	int status = 0;

	if (tgt_store_file(volume))
		status = path_check(volume, as_service, error);
	if (status == 0 && tgt_store_file(volume))
		status = path_check_twice(config, n, error);
	return status ? status : identity_check(config, n, uuids, error);
}

/* Without these a reactor does not start. */
static int ring_check(const struct tgt_config *config, char *error)
{
	int status = tgt_reactor_check_ring(error);

	(void)config;
	return status == -ENOMEM ? 0 : status; /* the unit's limits are not known here */
}

static int cpus_check(const struct tgt_config *config, char *error)
{
	cpu_set_t before;
	int status = 0;

	for (unsigned int i = 0; i < config->reactors && !status; i++) {
		status = tgt_cpus_enter(&config->cpus, i, &before, error);
		if (!status)
			tgt_cpus_leave(&config->cpus, &before);
	}
	return status;
}

/* This memory is resident from the start, see pool_size in rblkd.conf(5). What others use of the machine's is not known. */
static int memory_check(const struct tgt_config *config, char *error)
{
	uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t bytes = config->reactors * config->pool_bytes;
	char needed[UNITS_TEXT_BYTES], there[UNITS_TEXT_BYTES];

	for (unsigned int i = 0; i < config->volume_count; i++)
		if (!strcmp(config->volumes[i].store, "memory"))
			bytes += config->volumes[i].bytes;
	if (bytes <= machine)
		return 0;
	return tgt_error(error, -ENOMEM,
			 "memory: the buffers (pool_size) of %u reactor%s and the volumes in memory are %s, and this machine has %s",
			 config->reactors, TGT_S(config->reactors), units_format_bytes(bytes, needed),
			 units_format_bytes(machine, there));
}

/* A start replaces the socket of the one before, and no other file. */
static int fault_socket_check(const struct tgt_config *config, char *error)
{
	const char *path = config->fault_socket;
	char folder[PATH_MAX];
	struct stat st;
	char *slash;

	if (!path[0])
		return 0;
	if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return tgt_error(error, -EEXIST, "fault_socket: %s: exists, and is not a socket of rblkd", path);
	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = '\0';
	if (access(slash ? folder : ".", W_OK | X_OK) == 0)
		return 0;
	return tgt_error(error, -errno, "fault_socket: %s: %s", path, strerror(errno));
}

/* The daemon makes the folder if its parent is there. */
static void folder_say(const char *key, const char *path, const char *otherwise)
{
	char parent[PATH_MAX];
	char *slash;
	int err;

	if (access(path, R_OK | W_OK | X_OK) == 0)
		return;
	err = errno;
	snprintf(parent, sizeof(parent), "%s", path);
	slash = strrchr(parent, '/');
	if (err == ENOENT && slash) {
		slash[slash == parent] = '\0';
		if (access(parent, W_OK | X_OK) == 0)
			return;
	}
	tgt_log(TGT_LOG_WARNING, "%s: %s: %s: %s", key, path, strerror(err), otherwise);
}

/* The daemon serves without these, and its start warns. The usual folders are those of the unit, which makes them. */
static void folders_say(const struct tgt_config *config)
{
	char folder[PATH_MAX];
	char *slash;

	if (strcmp(config->state_dir, SERVICE_RUNTIME))
		folder_say("state_dir", config->state_dir,
			   "after the next start initiators are told that writes which they did not flush may be lost");
	if (strcmp(config->reservations_dir, SERVICE_STATE))
		folder_say("reservations_dir", config->reservations_dir, "reservations end with rblkd");
	snprintf(folder, sizeof(folder), "%s", config->control_socket);
	slash = strrchr(folder, '/');
	if (!slash || slash == folder)
		return; /* "none" */
	*slash = '\0';
	if (strcmp(folder, SERVICE_RUNTIME) && access(folder, W_OK | X_OK) < 0)
		tgt_log(TGT_LOG_WARNING, "control_socket: %s: %s: rblkctl does not reach this daemon", config->control_socket,
			strerror(errno));
}

unsigned int tgt_check(const struct tgt_config *config, bool as_service)
{
	static int (*const others[])(const struct tgt_config *config, char *error) = {ring_check, cpus_check,
										      memory_check, fault_socket_check};
	static uint8_t uuids[RBLK_VOLUMES_MAX][16];
	char error[TGT_ERROR_BYTES];
	unsigned int wrong = 0;

	for (unsigned int i = 0; i < config->volume_count; i++) {
		if (volume_check(config, i, uuids, as_service, error) == 0)
			continue;
		tgt_log(TGT_LOG_ERROR, "%s", error);
		wrong++;
	}
	wrong += tgt_check_addresses(config);
	for (unsigned int i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (others[i](config, error) == 0)
			continue;
		tgt_log(TGT_LOG_ERROR, "%s", error);
		wrong++;
	}
	return wrong;
}

int tgt_check_run(int argc, char **argv, struct tgt_document *document, struct tgt_config *config)
{
	const char *path = document->count ? document->files[0].path : "";
	char error[TGT_ERROR_BYTES], user[64] = "";
	bool as_service = tgt_as_service(path, user);
	enum tgt_run_mode mode;

	/* Secrets are read again, which the service may not be allowed to. */
	if (as_service) {
		tgt_config_fini(config);
		if (tgt_options_parse_document(argc, argv, document, config, &mode, error) < 0) {
			tgt_config_init(config);
			tgt_log(TGT_LOG_ERROR, "%s", error);
			return TGT_EXIT_USAGE;
		}
	}
	/* Prints the warnings of a start, but not what it would only say. */
	if (tgt_log_get_level() > TGT_LOG_WARNING)
		tgt_log_set_level(TGT_LOG_WARNING);
	tgt_say(config);
	folders_say(config);
	if (tgt_check(config, as_service) > 0)
		return EXIT_FAILURE;
	printf("rblkd: the configuration is valid%s%s: %u volume%s, %u address%s\n", as_service ? " for the service's user " : "",
	       user, config->volume_count, TGT_S(config->volume_count), config->listen_count,
	       config->listen_count == 1 ? "" : "es");
	return EXIT_SUCCESS;
}
