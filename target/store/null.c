/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The store that keeps nothing: writes are discarded, reads are zeroes. For measuring everything
 * but a disk. It offers neither FLUSH nor FUA, because it never makes data durable.
 */
#include "target/store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "target/base/settings.h"
#include "target/base/error.h"
#include "target/store/domain.h"

static int null_open(const struct tgt_volume_config *config, struct tgt_store **store, char *error)
{
	struct tgt_store *null;

	if (!config->bytes)
		return tgt_error(error, -EINVAL, "null store: no size given");
	null = calloc(1, sizeof(*null));
	if (!null)
		return tgt_error(error, -ENOMEM, "null store: out of memory");
	null->ops = &tgt_store_null;
	null->info = (struct tgt_store_info){
		.bytes = config->bytes,
		.block_bytes = 512,
		.physical_bytes = 4096,
		.alignment = 1,
		.discard_granularity = 4096,
		.max_discard_bytes = UINT32_MAX & ~(uint64_t)4095,
		.can_discard = true,
		.can_write_zeroes = true, /* what is read back are zeroes, as asked */
		.volatile_cache = true,
	};
	env_random(null->info.cache_epoch, sizeof(null->info.cache_epoch));
	tgt_domain_local(&null->info, config);
	*store = null;
	return 0;
}

static void null_close(struct tgt_store *store)
{
	free(store);
}

static int null_attach(struct tgt_store *store, struct tgt_ring *ring, struct tgt_channel **channel)
{
	*channel = calloc(1, sizeof(**channel));
	if (!*channel)
		return -ENOMEM;
	(*channel)->store = store;
	(*channel)->ring = ring;
	return 0;
}

static void null_detach(struct tgt_channel *channel)
{
	free(channel);
}

static int null_submit(struct tgt_channel *channel, struct tgt_io *io)
{
	io->channel = channel;
	if (io->flags & TGT_IO_FUA || io->kind == TGT_IO_FLUSH ||
	    io->kind == TGT_IO_EXTENTS)
		return -EOPNOTSUPP;
	if (io->kind == TGT_IO_READ)
		memset(io->buffer, 0, io->bytes);
	return 1;
}

const struct tgt_store_ops tgt_store_null = {
	.kind = "null",
	.open = null_open,
	.close = null_close,
	.attach = null_attach,
	.detach = null_detach,
	.submit = null_submit,
};
