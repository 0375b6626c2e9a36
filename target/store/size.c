/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the size of a volume: a reload, and an OPEN of a device that has grown, change it. The
 * number itself is volume->blocks, which commands are checked against.
 */
#include "target/store/volume.h"

uint64_t tgt_volume_blocks_now(struct tgt_volume *volume)
{
	struct tgt_store *store = volume->store;

	if (!store->ops->refresh || store->ops->refresh(store) < 0)
		return atomic_load(&volume->blocks);
	/* A size that is not a whole number of blocks is served up to the last whole one. */
	return store->info.bytes / volume->block_bytes;
}

bool tgt_volume_refresh(struct tgt_volume *volume)
{
	uint64_t blocks = tgt_volume_blocks_now(volume);

	if (!blocks || blocks == atomic_load(&volume->blocks))
		return false;
	atomic_store(&volume->blocks, blocks);
	return true;
}

bool tgt_volume_grow(struct tgt_volume *volume)
{
	struct tgt_store *store = volume->store;
	uint64_t served = atomic_load(&volume->blocks), bytes;

	if (!store->ops->device_bytes || store->ops->device_bytes(store, &bytes) < 0)
		return false;
	/* Other threads may grow it, too; only a reload may shrink it, if that is allowed. */
	while (bytes / volume->block_bytes > served)
		if (atomic_compare_exchange_weak(&volume->blocks, &served,
						 bytes / volume->block_bytes))
			return true;
	return false;
}
