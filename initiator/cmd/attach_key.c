/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Secrets in the kernel module's keyring, as keys of type "logon", which nobody can read back. A secret goes from
 * its file to the kernel by memory that is not dumped.
 */
#include "initiator/cmd/attach.h"

#include <errno.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "proto/secret/secret.h"
#include "proto/wire/wire_check.h"

/* The module's bytes are the library's. */
_Static_assert(RBLK_KEY_BYTES == RBLK_SECRET_BYTES, "a key has room for a secret");

static bool key_is_file(const char *name)
{
	return name[0] == '/';
}

bool attach_key_valid(const char *name)
{
	char padded[RBLK_NAME_BYTES] = "";
	size_t length = strlen(name);

	if (key_is_file(name)) {
		for (const char *c = name; *c; c++)
			if (*c <= ' ' || *c >= 0x7f)
				return false;
		return length < RBLK_KEY_NAME_BYTES;
	}
	if (length >= sizeof(padded))
		return false;
	memcpy(padded, name, length);
	return rblk_name_valid(padded);
}

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
	return name && key_is_file(name) ? attach_key_install(control, name, name) : CMD_OK;
}
