/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The words of denied.h: the path is looked at again, for the first thing that is in the way. */
#include "target/base/denied.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES 64
#define SERVICE_USER "rblk"

static void user_name(char name[NAME_BYTES])
{
	struct passwd entry, *found = NULL;
	char buffer[1024];

	if (getpwuid_r(geteuid(), &entry, buffer, sizeof(buffer), &found) || !found)
		snprintf(name, NAME_BYTES, "%u", (unsigned int)geteuid());
	else
		snprintf(name, NAME_BYTES, "%s", found->pw_name);
}

static void group_name(gid_t group, char name[NAME_BYTES])
{
	struct group entry, *found = NULL;
	char buffer[4096];

	if (getgrgid_r(group, &entry, buffer, sizeof(buffer), &found) || !found)
		snprintf(name, NAME_BYTES, "%u", (unsigned int)group);
	else
		snprintf(name, NAME_BYTES, "%s", found->gr_name);
}

/* The length, in `path`, of the first folder on the way that may not be entered; 0: all may be. */
static int closed_folder(const char *path)
{
	char folder[PATH_MAX];

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
		if (access(folder, X_OK) < 0 && errno == EACCES)
			return (int)(slash - path);
	}
	return 0;
}

/* The device's rights are udev's business, or the unit's: EPERM is the word of its control group. */
static void device_words(const struct stat *st, int error, char *words)
{
	char group[NAME_BYTES];

	group_name(st->st_gid, group);
	if (error == EPERM)
		snprintf(words, TGT_DENIED_BYTES, "DeviceAllow= in its unit does not have this device");
	else if (st->st_gid && (st->st_mode & 060) == 060)
		snprintf(words, TGT_DENIED_BYTES, "the device is for group %s (SupplementaryGroups=%s in its unit)", group, group);
	else
		snprintf(words, TGT_DENIED_BYTES, "a rule of udev can give the device to that user's group");
}

static void file_words(const char *path, const struct stat *st, const char *user, char *words)
{
	if (st->st_uid != geteuid())
		snprintf(words, TGT_DENIED_BYTES, "chown %s %s", user, path);
	else if ((st->st_mode & 0600) != 0600)
		snprintf(words, TGT_DENIED_BYTES, "chmod u+rw %s", path);
	else
		snprintf(words, TGT_DENIED_BYTES, "the file system or a security module refuses");
}

/* The unit hides these folders from the service. */
static bool hidden_home(const char *path, int length)
{
	static const char *const homes[] = {"/home", "/root", "/run/user"};

	for (unsigned int i = 0; i < sizeof(homes) / sizeof(homes[0]); i++)
		if ((int)strlen(homes[i]) == length && !strncmp(path, homes[i], (size_t)length))
			return true;
	return false;
}

/* For who runs it by hand, a file that is not there is just missing. */
static void private_words(const char *path, const char *user, char words[TGT_DENIED_BYTES])
{
	static const char *const folders[] = {"/tmp", "/var/tmp"};

	for (unsigned int i = 0; i < 2 && !strcmp(user, SERVICE_USER); i++)
		if (!strncmp(path, folders[i], strlen(folders[i])) && path[strlen(folders[i])] == '/')
			snprintf(words, TGT_DENIED_BYTES, "; user %s's service has a %s of its own (PrivateTmp= in its unit)", user,
				 folders[i]);
}

/* Images that only root makes the service's. */
static const char *images_words(const char *path, const char *user)
{
	static const char folder[] = TGT_SERVICE_IMAGES "/";

	if (strcmp(user, SERVICE_USER) || strncmp(path, folder, strlen(folder)) || strchr(path + strlen(folder), '/'))
		return "";
	return "; systemctl reload rblkd gives it what is in " TGT_SERVICE_IMAGES;
}

/* An empty string: nothing that this file knows of. */
static void advice(const char *path, int error, const char *user, char *words)
{
	int closed = closed_folder(path);
	struct stat st;

	words[0] = '\0';
	if (closed)
		snprintf(words, TGT_DENIED_BYTES, "it may not enter %.*s%s", closed, path,
			 hidden_home(path, closed) ? " (ProtectHome= in its unit)" : "");
	else if (stat(path, &st) < 0)
		return;
	else if (S_ISBLK(st.st_mode) || S_ISCHR(st.st_mode))
		device_words(&st, error, words);
	else if (error == EACCES)
		file_words(path, &st, user, words);
}

const char *tgt_denied(const char *path, int error, char words[TGT_DENIED_BYTES])
{
	char user[NAME_BYTES], what[TGT_DENIED_BYTES];
	int saved = errno;

	error = abs(error);
	words[0] = '\0';
	if (!path[0] || (error != EACCES && error != EPERM && error != ENOENT))
		return words;
	user_name(user);
	if (error == ENOENT) {
		private_words(path, user, words);
		errno = saved;
		return words;
	}
	advice(path, error, user, what);
	if (what[0])
		snprintf(words, TGT_DENIED_BYTES, "; rblkd runs as user %s: %.*s%s", user,
			 (int)(TGT_DENIED_BYTES - NAME_BYTES - 96), what, images_words(path, user));
	errno = saved;
	return words;
}
