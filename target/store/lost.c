/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Volumes that are lost: their store still has what was begun, and will never have anything again, although what it
 * serves is as good as before (a gateway that its cluster has shut out). The configuring thread takes such a volume out
 * of the list and opens it again, as one that could not be served before (control/reload_late.c).
 */
#include "target/store/volume.h"

void tgt_volume_lost(struct tgt_store *store, const char *why)
{
	struct tgt_volume *volume;

	/* In this order: one that is being opened has no volume yet, and looks when it has. */
	atomic_store(&store->lost, why);
	volume = atomic_load(&store->volume);
	if (volume)
		tgt_registry_lost(volume->registry);
}

const char *tgt_volume_why_lost(const struct tgt_volume *volume)
{
	const char *why = NULL;

	for (const struct tgt_store *store = volume->store; store && !why; store = store->inner)
		why = atomic_load(&store->lost);
	return why;
}
