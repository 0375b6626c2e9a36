/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk key: makes files with secrets, shows what is in one without showing a secret, prints one for an NVMe host, and
 * gives one to the kernel module. The library and rblkd read the files.
 */
#include "initiator/cmd/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "proto/secret/secret.h"

static struct key_values {
	bool add, target, tls;
} values;

static const struct cmd_option options[] = {
	{ "add", 'a', CMD_OPTION_FLAG, offsetof(struct key_values, add), 0, 0, NULL,
	  "new: add a secret at the end of a file that exists" },
	{ "target", 't', CMD_OPTION_FLAG, offsetof(struct key_values, target), 0, 0, NULL,
	  "nvme: the secret with which the target proves itself to that host" },
	{ "tls", 0, CMD_OPTION_FLAG, offsetof(struct key_values, tls), 0, 0, NULL,
	  "nvme: the secret as it is for TLS" },
	CMD_OPTION_HELP,
	CMD_OPTIONS_END,
};

static const char *key_fingerprint(const struct rblk_secrets *secrets, unsigned int n,
				   char text[2 * RBLK_SECRET_FINGERPRINT + 1])
{
	u8 bytes[RBLK_SECRET_FINGERPRINT];

	rblk_secrets_fingerprint(secrets, n, bytes);
	for (unsigned int i = 0; i < sizeof(bytes); i++)
		sprintf(text + 2 * i, "%02x", bytes[i]);
	return text;
}

/* A target tells nobody whose key it is: that is looked up there. */
const char *cmd_key_hint(const char *error, const char *path, char text[CMD_HINT_BYTES])
{
	char fingerprint[2 * RBLK_SECRET_FINGERPRINT + 1], words[RBLK_SECRET_ERROR_BYTES];
	struct rblk_secrets *secrets;
	int length;

	if (!strstr(error, "has another secret for"))
		return NULL;
	length = snprintf(text, CMD_HINT_BYTES,
			  "is it the key of another name? On the target, rblkctl show has the file of each name's "
			  "secret, and rblk key show FILE prints its fingerprint");
	secrets = path ? rblk_secrets_read(path, words) : NULL;
	if (secrets)
		snprintf(text + length, (size_t)(CMD_HINT_BYTES - length), "; %.100s has %s", path,
			 key_fingerprint(secrets, 0, fingerprint));
	rblk_secrets_put(secrets);
	return text;
}

static int key_show(const char *path)
{
	char error[RBLK_SECRET_ERROR_BYTES], text[2 * RBLK_SECRET_FINGERPRINT + 1];
	struct rblk_secrets *secrets = rblk_secrets_read(path, error);

	if (!secrets)
		return cmd_error("%s: %s", path, error);
	for (unsigned int i = 0; i < rblk_secrets_count(secrets); i++)
		printf("%u: %s%s\n", i + 1, key_fingerprint(secrets, i, text),
		       i ? "" : ", which initiators use");
	rblk_secrets_put(secrets);
	return CMD_OK;
}

/* A secret is printed here alone: nvme-cli takes it as an argument. */
static int key_nvme(const char *path)
{
	enum rblk_nvme_use use = values.tls ? RBLK_NVME_TLS : values.target ? RBLK_NVME_TARGET : RBLK_NVME_HOST;
	char error[RBLK_SECRET_ERROR_BYTES], text[RBLK_NVME_TEXT_BYTES];
	struct rblk_secrets *secrets = rblk_secrets_read(path, error);

	if (!secrets)
		return cmd_error("%s: %s", path, error);
	rblk_nvme_text(secrets, use, text);
	puts(text);
	explicit_bzero(text, sizeof(text));
	rblk_secrets_put(secrets);
	return CMD_OK;
}

/* The file is there, is secret, and has room for one more. CMD_OK or an error message. */
static int key_may_add(const char *path)
{
	char error[RBLK_SECRET_ERROR_BYTES];
	struct rblk_secrets *secrets = rblk_secrets_read(path, error);
	unsigned int count = rblk_secrets_count(secrets);

	rblk_secrets_put(secrets);
	if (!secrets)
		return cmd_error("%s: %s", path, error);
	if (count == RBLK_SECRETS_MAX)
		return cmd_error("%s: has %u secrets already, which is the maximum", path, count);
	return CMD_OK;
}

static int key_new(const char *path)
{
	int flags = values.add ? O_APPEND : O_CREAT | O_EXCL;
	FILE *file;
	int fd, err;

	if (values.add && key_may_add(path))
		return CMD_FAILED;
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	if (fd < 0 && errno == EEXIST)
		return cmd_error("%s: exists; --add adds a secret to it", path);
	if (fd < 0)
		return cmd_error("%s: %s", path, strerror(errno));
	file = fdopen(fd, "w");
	if (!file) {
		close(fd);
		return cmd_error("%s: out of memory", path);
	}
	setvbuf(file, NULL, _IOLBF, 256);
	err = rblk_secret_write_new(file);
	if (!err && fsync(fd))
		err = -errno;
	if (fclose(file) && !err)
		err = -errno;
	if (err)
		return cmd_error("%s: %s", path, strerror(-err));
	return key_show(path);
}

/* Under its whole path, if it has no name. */
static int key_install(const char *path, const char *name)
{
	char whole[PATH_MAX];
	int control, status;

	if (!name && !realpath(path, whole))
		return cmd_error("%s: %s", path, strerror(errno));
	if (!name)
		name = whole;
	if (!attach_key_valid(name)) {
		cmd_error("key \"%.64s\": 1 to %d letters, digits and . _ : + -; or a whole path without blanks",
			  name, RBLK_NAME_BYTES - 1);
		return CMD_USAGE;
	}
	control = attach_control_open();
	if (control < 0)
		return CMD_FAILED;
	status = attach_key_install(control, path, name);
	close(control);
	if (status == CMD_OK)
		printf("%s\n", name);
	return status;
}

static int key_remove(const char *name)
{
	int control = attach_control_open(), status;

	if (control < 0)
		return CMD_FAILED;
	status = attach_key_remove(control, name);
	close(control);
	return status;
}

static int key_run(char **operands, int count)
{
	const char *operation = operands[0];
	bool install = !strcmp(operation, "install");

	if (values.add && strcmp(operation, "new")) {
		cmd_error("--add: only for rblk key new");
		return CMD_USAGE;
	}
	if ((values.target || values.tls) && strcmp(operation, "nvme")) {
		cmd_error("--%s: only for rblk key nvme", values.target ? "target" : "tls");
		return CMD_USAGE;
	}
	if (values.target && values.tls) {
		cmd_error("--target, --tls: by TLS both ends prove themselves with one secret");
		return CMD_USAGE;
	}
	if (count > 2 && !install) {
		cmd_error("usage: rblk key %s", "new|show|nvme|install|remove FILE|NAME");
		return CMD_USAGE;
	}
	if (!strcmp(operation, "new"))
		return key_new(operands[1]);
	if (!strcmp(operation, "show"))
		return key_show(operands[1]);
	if (!strcmp(operation, "nvme"))
		return key_nvme(operands[1]);
	if (install)
		return key_install(operands[1], count > 2 ? operands[2] : NULL);
	if (!strcmp(operation, "remove"))
		return key_remove(operands[1]);
	cmd_error("unknown operation \"%s\"; there are new, show, nvme, install and remove", operation);
	return CMD_USAGE;
}

const struct cmd_verb cmd_verb_key = {
	.name = "key",
	.operands = "new|show|nvme|install|remove FILE|NAME [NAME]",
	.summary = "make a secret that proves an initiator's name, show which a file has, or give one to the kernel",
	.options = options,
	.values = &values,
	.operands_least = 2,
	.operands_most = 3,
	.run = key_run,
};
