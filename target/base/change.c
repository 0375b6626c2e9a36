/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The memory of a change. */
#include "target/base/change.h"

#include <stdlib.h>

void tgt_change_fini(struct tgt_change *change)
{
	for (unsigned int i = 0; i < change->edit_count; i++) {
		free(change->edits[i].section);
		free(change->edits[i].key);
		free(change->edits[i].value);
	}
	free(change->edits);
	change->edits = NULL;
	change->edit_count = 0;
}
