/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shuts a client out of the cluster, by its address. The cluster commits that to a map; an OSD that has the map carries
 * out no operation of the client any more.
 */
#include "target/rbd/rbd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * An entry of the blocklist ends, and then whatever the machine of a dead gateway still delivers is carried out. By
 * then the machine has to have been restarted.
 */
#define FENCE_S (30u * 24 * 3600)
#define ADDRESS_BYTES 128

/* Length of the messenger's version before an address: "v1:", "v2:", "any:", or nothing. */
static size_t address_type(const char *text)
{
	if (!strncmp(text, "any:", 4))
		return 4;
	return !strncmp(text, "v1:", 3) || !strncmp(text, "v2:", 3) ? 3 : 0;
}

/*
 * Takes "1.2.3.4:0/5678" from an address that may be "[v2:1.2.3.4:0/5678,v1:...]": an entry of the blocklist is for
 * both. An IPv6 address has brackets of its own. -EBADMSG: the address has no nonce, or 0; an entry without a nonce
 * would shut out the whole machine.
 */
static int address_plain(const char *text, char plain[ADDRESS_BYTES])
{
	const char *from = text + (text[0] == '[' && address_type(text + 1)), *slash, *end;
	unsigned long long nonce;

	from += address_type(from);
	slash = strchr(from, '/');
	end = slash ? slash + 1 + strspn(slash + 1, "0123456789") : from;
	nonce = end > from ? strtoull(slash + 1, NULL, 10) : 0;
	if (!nonce || nonce > UINT32_MAX || (*end && *end != ',' && *end != ']') ||
	    end - from >= ADDRESS_BYTES || (size_t)(slash - from) != strcspn(from, ",/"))
		return -EBADMSG;
	snprintf(plain, ADDRESS_BYTES, "%.*s", (int)(end - from), from);
	return 0;
}

int tgt_rbd_shoot(rados_t cluster, const char *name, const char *where, const char *why, char *error)
{
	char address[ADDRESS_BYTES];
	int err = address_plain(where, address);

	if (err)
		return tgt_rbd_host->error(
			error, err,
			"rbd: gateway %s (%s) %s, and its address does not say which client it is: it is not shut out",
			name, where, why);
	tgt_rbd_reach_begin();
	err = rados_blocklist_add(cluster, address, FENCE_S);
	tgt_rbd_reach_end(err != -ETIMEDOUT);
	if (err)
		return tgt_rbd_host->error(
			error, err,
			"rbd: gateway %s (%s) %s and cannot be shut out of the cluster: %s (rblkd's user needs mon "
			"'profile rbd')",
			name, address, why, strerror(-err));
	tgt_rbd_host->log(TGT_LOG_WARNING,
			  "rbd: gateway %s (%s) %s: shut out of the cluster for %u days; leave that entry of the "
			  "blocklist until its machine has been started anew",
			  name, address, why, FENCE_S / 24 / 3600);
	return 0;
}
