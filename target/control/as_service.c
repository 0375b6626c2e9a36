/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Asks systemd for the unit as it is, with what an administrator has changed, and does the same to this process in a mount
 * namespace of its own. Limits and system calls are not looked at.
 */
#include "target/control/as_service.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "target/base/log.h"
#include "target/control/service_devices.h"

#define VALUE_BYTES 512
#define GROUPS_MAX 64

enum property { LOADED, USER, GROUP, MORE_GROUPS, HOME, SYSTEM, PRIVATE_TMP, BINDS, WRITABLE, STATE, RUNTIME, PROPERTIES };

static const char *const names[PROPERTIES] = {"LoadState",     "User",	     "Group",	  "SupplementaryGroups",
					      "ProtectHome",   "ProtectSystem", "PrivateTmp", "BindPaths",
					      "ReadWritePaths", "StateDirectory", "RuntimeDirectory"};

static const char ask[] = "systemctl show rblkd.service --property=LoadState,User,Group,SupplementaryGroups,ProtectHome,"
			  "ProtectSystem,PrivateTmp,BindPaths,ReadWritePaths,StateDirectory,RuntimeDirectory,"
			  "DevicePolicy,DeviceAllow,PrivateDevices 2> /dev/null";

/* False: there is no systemd, or it does not know the unit. */
static bool unit_ask(char values[PROPERTIES][VALUE_BYTES])
{
	char line[VALUE_BYTES];
	FILE *answer = popen(ask, "re");

	if (!answer)
		return false;
	while (fgets(line, sizeof(line), answer)) {
		char *value = line + strcspn(line, "=");

		line[strcspn(line, "\n")] = 0;
		if (*value == '=') {
			*value = 0;
			tgt_service_devices_take(line, value + 1);
			*value = '=';
		}
		for (int i = 0; i < PROPERTIES; i++) {
			size_t length = strlen(names[i]);

			if (!strncmp(line, names[i], length) && line[length] == '=')
				snprintf(values[i], VALUE_BYTES, "%s", line + length + 1);
		}
	}
	return pclose(answer) == 0 && !strcmp(values[LOADED], "loaded");
}

/* -- the file system --------------------------------------------------------------------------- */

/*
 * In place of the folder, one that is empty; closed: nobody may enter it. Folders that the unit binds into it are not
 * hidden.
 */
static int folder_hide(const char *folder, bool closed, const char *binds)
{
	if (access(folder, F_OK) || strstr(binds, folder))
		return 0;
	return mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, closed ? "mode=000" : "mode=1777") ? -errno : 0;
}

static int folder_protect(const char *folder)
{
	if (access(folder, F_OK))
		return 0;
	if (mount(folder, folder, NULL, MS_BIND | MS_REC, NULL) ||
	    mount(NULL, folder, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL))
		return -errno;
	return 0;
}

/* read_only: all that is mounted there and below; or what had been so made writable again. */
static int mounts_set(const char *path, bool read_only)
{
	struct mount_attr attr = {0};

	if (read_only)
		attr.attr_set = MOUNT_ATTR_RDONLY;
	else
		attr.attr_clr = MOUNT_ATTR_RDONLY;
	return mount_setattr(AT_FDCWD, path, AT_RECURSIVE, &attr, sizeof(attr)) ? -errno : 0;
}

#define KEPT_MAX 64

/* ProtectSystem=strict leaves these as they are: mounts of their own from here on. */
struct kept {
	char paths[KEPT_MAX][VALUE_BYTES];
	int count;
};

static void kept_add(struct kept *kept, const char *folder, const char *name)
{
	char *path = kept->paths[kept->count];
	struct statvfs fs;

	if (kept->count == KEPT_MAX)
		return;
	snprintf(path, VALUE_BYTES, "%s%.400s", folder, name);
	if (!statvfs(path, &fs) && !(fs.f_flag & ST_RDONLY) && !mount(path, path, NULL, MS_BIND | MS_REC, NULL))
		kept->count++;
}

/* Words as the unit has them: "-/srv +/data", "rblkd", of BindPaths "/from:/to:rbind". */
static void kept_words(struct kept *kept, const char *folder, const char *value)
{
	char words[VALUE_BYTES], *left = words, *word;

	snprintf(words, sizeof(words), "%s", value);
	while ((word = strsep(&left, " "))) {
		char *end = word + strspn(word, "-+");

		word = end;
		if (*word == '/' && strchr(word, ':'))
			word = strchr(word, ':') + 1;
		word[strcspn(word, ":")] = 0;
		if (*word)
			kept_add(kept, folder, word);
	}
}

/* ProtectSystem=strict: the unit lists what is not read-only. */
static int system_protect(char values[PROPERTIES][VALUE_BYTES])
{
	static const char *const never[] = {"/dev", "/proc", "/sys", "/tmp", "/var/tmp"};
	int count = strcmp(values[PRIVATE_TMP], "yes") ? 3 : 5, err;
	static struct kept kept;

	for (int i = 0; i < count; i++)
		kept_add(&kept, never[i], "");
	kept_words(&kept, "", values[WRITABLE]);
	kept_words(&kept, "", values[BINDS]);
	kept_words(&kept, "/var/lib/", values[STATE]);
	kept_words(&kept, "/run/", values[RUNTIME]);
	err = mounts_set("/", true);
	for (int i = 0; i < kept.count && !err; i++)
		err = mounts_set(kept.paths[i], false);
	return err;
}

static int folders_hide(char values[PROPERTIES][VALUE_BYTES])
{
	static const char *const homes[] = {"/home", "/root", "/run/user"}, *const own[] = {"/tmp", "/var/tmp"};
	static const char *const system[] = {"/usr", "/boot", "/efi", "/etc"};
	bool hides_homes = !strcmp(values[HOME], "yes") || !strcmp(values[HOME], "tmpfs");
	bool homes_read_only = !strcmp(values[HOME], "read-only"), strict = !strcmp(values[SYSTEM], "strict");
	int count = !strcmp(values[SYSTEM], "full") ? 4 : !strcmp(values[SYSTEM], "yes") ? 3 : 0, err = 0;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -errno;
	for (int i = 0; i < 3 && hides_homes && !err; i++)
		err = folder_hide(homes[i], true, values[BINDS]);
	for (int i = 0; i < 2 && !strcmp(values[PRIVATE_TMP], "yes") && !err; i++)
		err = folder_hide(own[i], false, values[BINDS]);
	for (int i = 0; i < count && !err; i++)
		err = folder_protect(system[i]);
	if (strict && !err)
		err = system_protect(values);
	for (int i = 0; i < 3 && homes_read_only && !err; i++)
		err = folder_protect(homes[i]);
	return err;
}

/* -- the user ---------------------------------------------------------------------------------- */

/* The user's groups and the unit's. */
static int groups_take(const struct passwd *user, gid_t own, char *more)
{
	gid_t all[GROUPS_MAX] = {0};
	int count = GROUPS_MAX / 2;

	if (getgrouplist(user->pw_name, own, all, &count) < 0)
		return -E2BIG;
	for (char *name = strtok(more, " "); name && count < GROUPS_MAX; name = strtok(NULL, " ")) {
		const struct group *group = getgrnam(name);

		if (!group)
			return -ESRCH;
		all[count++] = group->gr_gid;
	}
	return setgroups((size_t)count, all) ? -errno : 0;
}

static int user_become(char values[PROPERTIES][VALUE_BYTES])
{
	const struct passwd *user = getpwnam(values[USER]);
	const struct group *group = values[GROUP][0] ? getgrnam(values[GROUP]) : NULL;
	gid_t own;
	int err;

	if (!user || (values[GROUP][0] && !group))
		return -ESRCH;
	own = group ? group->gr_gid : user->pw_gid;
	err = groups_take(user, own, values[MORE_GROUPS]);
	if (err)
		return err;
	return setgid(own) || setuid(user->pw_uid) ? -errno : 0;
}

bool tgt_as_service(const char *path, char user[64])
{
	char values[PROPERTIES][VALUE_BYTES] = {{0}};
	int err;

	if (geteuid() || strcmp(path, TGT_SERVICE_CONFIG) || !unit_ask(values))
		return false;
	snprintf(user, 64, "%.63s", values[USER][0] ? values[USER] : "root");
	err = folders_hide(values);
	if (!err && values[USER][0])
		err = user_become(values);
	if (err)
		tgt_log(TGT_LOG_WARNING, "checked as root: rblkd.service runs as user %s, which root cannot become here: %s", user,
			err == -ESRCH ? "there is no such user or group" : strerror(-err));
	return !err;
}
