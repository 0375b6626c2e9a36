/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kinds of store that there are, by name. A new kind is a file of its own with its table of
 * operations, and a line here.
 */
#include "target/store/store.h"

#include <string.h>

const struct tgt_store_ops *tgt_store_find(const char *kind)
{
	static const struct tgt_store_ops *const kinds[] = {
		&tgt_store_uring,
		&tgt_store_nvme,
		&tgt_store_memory,
		&tgt_store_null,
		&tgt_store_fault,
	};
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i]->kind, kind) == 0)
			return kinds[i];
	return NULL;
}
