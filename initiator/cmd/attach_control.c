/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns what the kernel module is given besides its lines: how they reach it, and secrets, which are not in them. */
#include "initiator/cmd/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "initiator/ublk/kernel.h"
#include "proto/secret/secret.h"

/* -- the device -------------------------------------------------------------------------------- */

/*
 * The kernel module's control device: a line is written, an errno answers, and a line of text is
 * read back. Loads the module if it is missing; reports what to do if that fails.
 */

extern char **environ;

int attach_program_run(const char *const argv[])
{
	int status, err;
	pid_t pid;

	err = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);
	if (err)
		return -err;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

int attach_control_open(void)
{
	int control = open(ATTACH_CONTROL, O_RDWR | O_CLOEXEC);
	const char *missing = NULL;

	if (control < 0 && errno == ENOENT && !geteuid()) {
		missing = attach_way_missing(ATTACH_CONTROL, "rblk");
		control = open(ATTACH_CONTROL, O_RDWR | O_CLOEXEC);
	}
	if (control >= 0)
		return control;
	if (errno == EACCES || errno == EPERM)
		cmd_error("%s: %s: only root can attach and detach", ATTACH_CONTROL,
			  strerror(errno));
	else if (errno == ENOENT && geteuid())
		cmd_error("%s: does not exist: the kernel module is not loaded; as root: modprobe rblk",
			  ATTACH_CONTROL);
	else if (missing)
		cmd_error("%s: does not exist, and the kernel module cannot be loaded: rblk %s; %s", ATTACH_CONTROL, missing,
			  attach_way_missing(UBLK_CONTROL_PATH, "ublk_drv") ? "see rblk doctor" : "rblk attach --ublk needs none");
	else
		cmd_error("%s: %s", ATTACH_CONTROL, strerror(errno));
	return -1;
}

int attach_control_send(int control, const char *line, char *answer)
{
	int err = write(control, line, strlen(line)) < 0 ? -errno : 0;
	/* From the beginning: a refused write leaves the position where the last answer ended. */
	ssize_t length = pread(control, answer, ATTACH_ANSWER_BYTES - 1, 0);

	if (length < 0)
		length = 0;
	answer[length] = '\0';
	answer[strcspn(answer, "\n")] = '\0';
	/* It refuses without a text what is not a line at all. */
	if (err && !answer[0])
		snprintf(answer, ATTACH_ANSWER_BYTES, "%s: %s", ATTACH_CONTROL, strerror(-err));
	return err;
}

/* -- secrets ----------------------------------------------------------------------------------- */

/*
 * Secrets in the kernel module's keyring, as keys of type "logon", which nobody can read back. A secret goes from
 * its file to the kernel by memory that is not dumped.
 */

/* The module's bytes are the library's. */
_Static_assert(RBLK_KEY_BYTES == RBLK_SECRET_BYTES, "a key has room for a secret");

/* The keyring's number, or -1 after an error message. */
static long key_ring(int control)
{
	char answer[ATTACH_ANSWER_BYTES], *end;
	long serial;

	if (attach_control_send(control, "keyring", answer)) {
		cmd_error("%s: the kernel module knows no keys: %s", ATTACH_CONTROL, answer);
		return -1;
	}
	serial = strtol(answer, &end, 10);
	if (*end || serial <= 0) {
		cmd_error("%s: \"%s\" is no keyring", ATTACH_CONTROL, answer);
		return -1;
	}
	/* Who has it, until the process ends, may search it and replace its keys. */
	if (syscall(SYS_keyctl, KEYCTL_LINK, serial, KEY_SPEC_PROCESS_KEYRING) < 0) {
		cmd_error("the kernel module's keyring: %s", strerror(errno));
		return -1;
	}
	return serial;
}

static void key_describe(const char *name, char *description, size_t bytes)
{
	snprintf(description, bytes, "%s%s", RBLK_KEY_PREFIX, name);
}

int attach_key_install(int control, const char *path, const char *name)
{
	char error[RBLK_SECRET_ERROR_BYTES], description[RBLK_KEY_NAME_BYTES + sizeof(RBLK_KEY_PREFIX)];
	struct rblk_secrets *secrets = rblk_secrets_read(path, error);
	long ring, key = -1;

	if (!secrets)
		return cmd_error("key file %s: %s", path, error);
	key_describe(name, description, sizeof(description));
	ring = key_ring(control);
	/* One of this name gets the new content. */
	if (ring > 0) {
		key = syscall(SYS_add_key, "logon", description, rblk_secrets_bytes(secrets, 0),
			      (size_t)RBLK_SECRET_BYTES, ring);
		if (key < 0)
			cmd_error("key %s: the kernel does not take it: %s", name, strerror(errno));
	}
	rblk_secrets_put(secrets);
	return key < 0 ? CMD_FAILED : CMD_OK;
}

int attach_key_remove(int control, const char *name)
{
	char description[RBLK_KEY_NAME_BYTES + sizeof(RBLK_KEY_PREFIX)];
	long ring = key_ring(control), key;

	if (ring < 0)
		return CMD_FAILED;
	key_describe(name, description, sizeof(description));
	key = syscall(SYS_keyctl, KEYCTL_SEARCH, ring, "logon", description, 0);
	if (key < 0 && errno == ENOKEY)
		return cmd_error("key %s: the kernel does not have it", name);
	if (key < 0 || syscall(SYS_keyctl, KEYCTL_UNLINK, key, ring) < 0)
		return cmd_error("key %s: %s", name, strerror(errno));
	return CMD_OK;
}

int attach_key_prepare(int control, const char *name)
{
	return name && name[0] == '/' ? attach_key_install(control, name, name) : CMD_OK;
}
