/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which attached disk an operand means: a device or a link to it, a name, or the URI that it was attached with.
 * For the verbs that take one disk.
 */
#include "initiator/cmd/attach.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool found_hosts_equal(const struct ini_uri *a, const struct ini_uri *b)
{
	if (a->host_count != b->host_count)
		return false;
	for (unsigned int i = 0; i < a->host_count; i++)
		if (strcasecmp(a->hosts[i].name, b->hosts[i].name) ||
		    strcmp(a->hosts[i].port, b->hosts[i].port))
			return false;
	return true;
}

static bool found_uri_equal(const char *left, const char *right)
{
	char reason[ATTACH_REASON_BYTES];
	struct ini_uri a, b;

	return !attach_uri_parse(left, &a, reason) && !attach_uri_parse(right, &b, reason) &&
	       found_hosts_equal(&a, &b) && !strcmp(a.volume, b.volume);
}

/* A volume attached without this command has no URI, but sysfs shows its numeric address. */
static bool found_target_equal(const char *text, const struct attached *attached)
{
	char uri[RBLK_URI_BYTES];

	snprintf(uri, sizeof(uri), "rblk://%s/%s", attached->target, attached->volume);
	return found_uri_equal(text, uri);
}

/* Does this operand mean that device? `path`: the operand, with links resolved. */
static bool found_matches(const char *operand, const char *path, const struct attached *a)
{
	if (strstr(operand, "://"))
		return a->uri[0] ? found_uri_equal(operand, a->uri) :
				   found_target_equal(operand, a);
	if (!strncmp(path, "/dev/", 5))
		return !strcmp(path + 5, a->device);
	return !strcmp(operand, a->device) || (a->name[0] && !strcmp(operand, a->name));
}

const struct attached *attached_find(const char *operand, const struct attached *list, int count)
{
	const struct attached *found = NULL;
	char path[PATH_MAX];

	/* A link in /dev/rblk/ means its device. */
	if (operand[0] != '/' || !realpath(operand, path))
		snprintf(path, sizeof(path), "%s", operand);
	for (int i = 0; i < count; i++) {
		if (!found_matches(operand, path, &list[i]))
			continue;
		if (found) {
			cmd_error("%s: is attached as /dev/%s and as /dev/%s: name one of them",
				  operand, found->device, list[i].device);
			return NULL;
		}
		found = &list[i];
	}
	if (!found)
		cmd_error("%s: is not attached; see rblk list --attached", operand);
	return found;
}
