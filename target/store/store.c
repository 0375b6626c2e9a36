/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kinds of store that there are (TGT_STORE_KINDS), by name; and the faults in front of one. */
#include "target/store/store.h"

#include <stdio.h>
#include <string.h>
#include "target/base/settings.h"

#define KIND(name) &tgt_store_##name,
const struct tgt_store_faults *tgt_store_faults;

static const struct tgt_store_ops *const kinds[] = {TGT_STORE_KINDS(KIND)};
#define COUNT (sizeof(kinds) / sizeof(kinds[0]))

const struct tgt_store_ops *tgt_store_find(const char *kind)
{
	for (size_t i = 0; i < COUNT; i++)
		if (strcmp(kinds[i]->kind, kind) == 0)
			return kinds[i];
	return NULL;
}

bool tgt_store_silent(void)
{
	for (size_t i = 0; i < COUNT; i++)
		if (kinds[i]->silent && kinds[i]->silent())
			return true;
	return false;
}

const char *tgt_store_file(const struct tgt_volume_config *config)
{
	const struct tgt_store_ops *ops = tgt_store_find(config->store);

	return ops && ops->on_path && !ops->elsewhere && config->path[0] ? config->path : NULL;
}

const char *tgt_store_names(char *text, size_t bytes)
{
	size_t length = 0;

	text[0] = '\0';
	for (size_t i = 0; i < COUNT && length < bytes; i++)
		length += (size_t)snprintf(text + length, bytes - length, "%s%s", length ? ", " : "", kinds[i]->kind);
	return text;
}
