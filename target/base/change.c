/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The memory of a change. */
#include "target/base/change.h"

#include <stdlib.h>

void tgt_settings_free(struct tgt_settings *settings)
{
	if (!settings)
		return;
	for (unsigned int i = 0; i < settings->count; i++) {
		free(settings->list[i].section);
		free(settings->list[i].key);
		free(settings->list[i].value);
		free(settings->list[i].filed);
	}
	free(settings->list);
	free(settings->unreadable);
	free(settings);
}

void tgt_change_fini(struct tgt_change *change)
{
	for (unsigned int i = 0; i < change->edit_count; i++) {
		free(change->edits[i].section);
		free(change->edits[i].key);
		free(change->edits[i].value);
	}
	free(change->edits);
	free(change->volume);
	change->volume = NULL;
	change->edits = NULL;
	change->edit_count = 0;
}
