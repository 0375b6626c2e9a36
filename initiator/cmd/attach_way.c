/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns by which way a disk is attached, by the kernel module or by ublk, and why. Called by attach.c. */
#include "initiator/cmd/attach.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "initiator/ublk/kernel.h"

enum attach_way attach_way_choose(bool rdma, const char *missing, bool ublk, char why[ATTACH_REASON_BYTES])
{
	why[0] = '\0';
	if ((rdma && !missing) || !ublk)
		return ATTACH_BY_MODULE;
	snprintf(why, ATTACH_REASON_BYTES, "by ublk: the kernel module rblk %s", rdma ? missing : "supports only RDMA");
	return ATTACH_BY_UBLK;
}

const char *attach_way_words(const char *told)
{
	static const struct {
		const char *error, *words;
	} table[] = {
		{ "not found", "is not here: it is not built for this kernel" },
		{ "Key was rejected", "is refused: it is not signed, and this kernel loads signed modules only (Secure Boot)" },
		{ "Operation not permitted", "is refused: this kernel is locked down and loads signed modules only (Secure Boot)" },
		{ "Required key not available", "is refused: this kernel does not know the key that has signed it (Secure Boot)" },
		{ "Exec format error", "is refused: it is built for another kernel" },
		{ "Invalid argument", "is refused: it is built for another kernel" },
		{ "Unknown symbol", "is refused: it is built for another kernel, or one without RDMA" },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strstr(told, table[i].error))
			return table[i].words;
	return "is not here: it cannot be loaded";
}

const char *attach_way_missing(const char *node, const char *module)
{
	char command[64], told[1024];
	size_t length = 0;
	FILE *modprobe;

	if (!access(node, F_OK))
		return NULL;
	if (geteuid())
		return "is not loaded, and only root can load it";
	/* By its full name: the PATH of a user who became root may lack it. */
	snprintf(command, sizeof(command), "LC_ALL=C /sbin/modprobe %s 2>&1", module);
	modprobe = popen(command, "re");
	if (modprobe) {
		length = fread(told, 1, sizeof(told) - 1, modprobe);
		pclose(modprobe);
	}
	told[length] = '\0';
	return access(node, F_OK) ? attach_way_words(told) : NULL;
}

bool attach_way_rdma(const struct ini_uri *uri)
{
	bool rdma = true;

	for (u16 i = 0; i < uri->host_count; i++)
		rdma &= uri->hosts[i].kind == FAB_VERBS;
	return rdma;
}

enum attach_way attach_way_here(const struct ini_uri *uri, char why[ATTACH_REASON_BYTES])
{
	bool rdma = attach_way_rdma(uri);
	const char *missing = rdma ? attach_way_missing(ATTACH_CONTROL, "rblk") : NULL;

	return attach_way_choose(rdma, missing, (!rdma || missing) && !attach_way_missing(UBLK_CONTROL_PATH, "ublk_drv"), why);
}
