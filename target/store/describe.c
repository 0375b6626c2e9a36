/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A volume as initiators are told of it: what it can do, its epoch (F7) and its fence domain (F10); and in words.
 * Declared in volume.h.
 */
#include "target/store/volume.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <uuid/uuid.h>
#include "proto/wire/login.h"
#include "proto/words/units.h"
#include "target/base/error.h"
#include "target/store/epoch.h"

static uint32_t volume_flags(const struct tgt_volume *volume)
{
	const struct tgt_store_info *info = &volume->store->info;
	bool writable = !info->read_only && !volume->config.read_only;
	uint32_t flags = RBLK_VOLUME_CHECKSUM | RBLK_VOLUME_RESERVATIONS;

	if (!writable)
		flags |= RBLK_VOLUME_READ_ONLY;
	if (info->can_flush)
		flags |= RBLK_VOLUME_FLUSH;
	if (info->can_fua)
		flags |= RBLK_VOLUME_FUA;
	if (info->volatile_cache)
		flags |= RBLK_VOLUME_VOLATILE_CACHE;
	if (info->can_discard && writable)
		flags |= RBLK_VOLUME_DISCARD;
	if (info->can_write_zeroes && writable)
		flags |= RBLK_VOLUME_WRITE_ZEROES;
	if (info->can_compare && writable && (!info->compare_bytes || info->compare_bytes >= volume->block_bytes))
		flags |= RBLK_VOLUME_COMPARE_AND_WRITE;
	if (info->rotational)
		flags |= RBLK_VOLUME_ROTATIONAL;
	if (volume->reservations.folder || volume->reservations.shared)
		flags |= RBLK_VOLUME_RESERVATIONS_PERSIST;
	return flags;
}

void tgt_volume_fence_domain(const struct tgt_volume *volume, uint8_t domain[16])
{
	uint64_t halves[2] = {atomic_load(&volume->fence_domain[0]), atomic_load(&volume->fence_domain[1])};

	memcpy(domain, halves, sizeof(halves));
}

bool tgt_volume_set_fence_domain(struct tgt_volume *volume, const uint8_t configured[16])
{
	const uint8_t *domain = uuid_is_null(configured) ? volume->store->info.fence_domain : configured;
	uint64_t halves[2];
	bool changes;

	memcpy(halves, domain, sizeof(halves));
	changes = atomic_exchange(&volume->fence_domain[0], halves[0]) != halves[0];
	changes |= atomic_exchange(&volume->fence_domain[1], halves[1]) != halves[1];
	return changes;
}

static uint32_t power_of_two_below(uint32_t bytes)
{
	return bytes ? 1u << (31 - __builtin_clz(bytes)) : 0;
}

void tgt_volume_untorn(const struct tgt_volume *volume, uint32_t max_io_bytes, uint32_t *min, uint32_t *max)
{
	const struct tgt_store_info *info = &volume->store->info;
	uint32_t most = power_of_two_below(max_io_bytes);

	*min = info->untorn_min_bytes > volume->block_bytes ? info->untorn_min_bytes : volume->block_bytes;
	*max = info->untorn_max_bytes < most ? info->untorn_max_bytes : most;
	if (*min > *max)
		*min = *max = 0;
}

void tgt_volume_describe(const struct tgt_volume *volume, uint32_t features, uint32_t max_io_bytes,
			 uint32_t max_capsule_bytes, struct rblk_wire_volume *out)
{
	const struct tgt_store_info *info = &volume->store->info;
	uint32_t flags = volume_flags(volume);
	uint32_t granularity = 0, untorn_min_bytes = 0, untorn_max_bytes = 0;
	uint64_t discard_blocks = 0;

	if (flags & RBLK_VOLUME_DISCARD)
		granularity =
			info->discard_granularity ? info->discard_granularity : volume->block_bytes;
	if (flags & (RBLK_VOLUME_DISCARD | RBLK_VOLUME_WRITE_ZEROES))
		discard_blocks = info->max_discard_bytes / volume->block_bytes;
	if (discard_blocks > UINT32_MAX)
		discard_blocks = UINT32_MAX;
	if (features & RBLK_FEATURE_UNTORN)
		tgt_volume_untorn(volume, max_io_bytes, &untorn_min_bytes, &untorn_max_bytes);
	memset(out, 0, sizeof(*out));
	memcpy(out->name, volume->config.name, sizeof(out->name));
	memcpy(out->uuid, volume->config.uuid, sizeof(out->uuid));
	tgt_epoch_get(volume, out->cache_epoch);
	out->blocks = rblk_to_le64(atomic_load(&volume->blocks));
	out->block_bytes = rblk_to_le32(volume->block_bytes);
	out->physical_bytes = rblk_to_le32(info->physical_bytes);
	out->optimal_bytes = rblk_to_le32(info->optimal_bytes);
	out->flags = rblk_to_le32(flags);
	out->max_io_bytes = rblk_to_le32(max_io_bytes - max_io_bytes % volume->block_bytes);
	out->max_capsule_bytes = rblk_to_le32(max_capsule_bytes);
	out->discard_granularity_bytes = rblk_to_le32(granularity);
	out->max_discard_blocks = rblk_to_le32((uint32_t)discard_blocks);
	out->untorn_min_bytes = rblk_to_le32(untorn_min_bytes);
	out->untorn_max_bytes = rblk_to_le32(untorn_max_bytes);
}

const char *tgt_volume_size_words(const struct tgt_volume *volume, char words[TGT_VOLUME_SIZE_BYTES])
{
	char bytes[UNITS_TEXT_BYTES];

	snprintf(words, TGT_VOLUME_SIZE_BYTES, "%s in blocks of %u bytes",
		 units_format_bytes(atomic_load(&volume->blocks) * volume->block_bytes, bytes), volume->block_bytes);
	return words;
}

int tgt_volume_taken(const struct tgt_volume_config *config, const struct tgt_volume_config *other,
		     bool same_node, char *error)
{
	return tgt_error(error, -EALREADY, "volume %s: %s: already served as volume %s (%s)%s",
			 config->name, config->path, other->name, other->path,
			 same_node ? ""
				   : ": two paths to one disk: serve it once, through multipath");
}
