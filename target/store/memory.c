/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A volume in the daemon's own memory, fit for RDMA straight into it (info.direct). Its contents
 * end with the process, and no flush can change that: it has a volatile cache and nothing behind
 * it. So it refuses FLUSH and FUA instead of faking them, and a new random cache epoch each time
 * shows an initiator that its writes are lost (F7).
 */
#include "target/store/store.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "proto/core/env.h"
#include "target/base/affinity.h"
#include "target/base/settings.h"
#include "target/base/error.h"
#include "target/store/domain.h"
#include "target/store/worker.h"

#define PAGE_BYTES 4096u
/* Zeroing is done at once, on the reactor's thread: well under a millisecond of it at a time. */
#define ZERO_BYTES_MAX (1u << 20)

/* The populating thread checks this often whether it must stop. */
#define POPULATE_BYTES (64ul << 20)

enum memory_pages {
	PAGES_LAZY,	  /* made by the system as they are touched */
	PAGES_POPULATING, /* a thread touches them all */
	PAGES_THERE,	  /* it has ended */
};

/* Opened by the configuring thread, closed as volume.c says; `base` and its contents are any
 * reactor's to use. */
struct memory_store {
	struct tgt_store store; /* first: the struct tgt_store that others hold */
	unsigned char *base;
	size_t mapped_bytes;
	_Atomic int pages; /* enum memory_pages; who changes it from LAZY starts `populating` */
	_Atomic bool started, closing;
	pthread_t populating; /* if started */
	struct tgt_worker worker;
};

static struct memory_store *to_memory(struct tgt_store *store)
{
	return (struct memory_store *)store;
}

/*
 * Reactors access the contents without a lock, as initiators' commands come: their order is the
 * initiators' business, as on a disk, and ThreadSanitizer cannot see it.
 */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
void AnnotateBenignRaceSized(const char *file, int line, const volatile void *address, size_t bytes,
			     const char *description);
#define ORDERED_BY_INITIATORS(base, bytes) \
	AnnotateBenignRaceSized(__FILE__, __LINE__, base, bytes, "contents of a memory volume")
#endif
#endif
#ifndef ORDERED_BY_INITIATORS
#define ORDERED_BY_INITIATORS(base, bytes) ((void)0)
#endif

static int memory_map(struct memory_store *memory, uint64_t bytes, char *error)
{
	uint64_t mapped = (bytes + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
	void *base;

	if (mapped < bytes || mapped > SIZE_MAX)
		return tgt_error(error, -EINVAL, "memory store: size too large");
	base = mmap(NULL, (size_t)mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (base == MAP_FAILED)
		return tgt_error(error, -errno, "memory store: %llu bytes: %s",
				 (unsigned long long)bytes, strerror(errno));
	/* Fewer TLB misses and pinned entries with huge pages; optional. */
	(void)madvise(base, (size_t)mapped, MADV_HUGEPAGE);
	ORDERED_BY_INITIATORS(base, (size_t)mapped);
	memory->base = base;
	memory->mapped_bytes = (size_t)mapped;
	return 0;
}

static int memory_open(const struct tgt_volume_config *config, struct tgt_store **store,
		       char *error)
{
	struct memory_store *memory;
	int status;

	if (!config->bytes)
		return tgt_error(error, -EINVAL, "memory store: no size given");
	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return tgt_error(error, -ENOMEM, "memory store: out of memory");
	status = memory_map(memory, config->bytes, error);
	if (status < 0) {
		free(memory);
		return status;
	}
	status = tgt_worker_init(&memory->worker, "store");
	if (status < 0) {
		munmap(memory->base, memory->mapped_bytes);
		free(memory);
		return tgt_error(error, status, "memory store: out of memory");
	}
	memory->store.ops = &tgt_store_memory;
	/*
	 * No DISCARD: giving pages back (MADV_DONTNEED) would leave the RDMA device with pins on
	 * pages that are no longer the volume's. Zeroing in place is safe.
	 */
	memory->store.info = (struct tgt_store_info){
		.bytes = config->bytes,
		.block_bytes = 512,
		.physical_bytes = 512,
		.alignment = 1,
		.max_discard_bytes = ZERO_BYTES_MAX,
		.can_write_zeroes = true,
		.writes_zeroes = true,
		.can_compare = true,
		/* Nothing of it is left after a loss of power, and nothing but that cuts a copy short. */
		.untorn_min_bytes = 512,
		.untorn_max_bytes = 1u << 31,
		.volatile_cache = true,
		.direct = memory->base,
	};
	env_random(memory->store.info.cache_epoch, sizeof(memory->store.info.cache_epoch));
	tgt_domain_local(&memory->store.info, config);
	*store = &memory->store;
	return 0;
}

/* The registration will find out if the system refuses (a kernel before 5.14, no memory left). */
static void *memory_populate(void *arg)
{
	struct memory_store *memory = arg;
	size_t at = 0;

	tgt_affinity_roam();
	while (at < memory->mapped_bytes && !atomic_load(&memory->closing)) {
		size_t left = memory->mapped_bytes - at;
		size_t bytes = left < POPULATE_BYTES ? left : POPULATE_BYTES;

		if (madvise(memory->base + at, bytes, MADV_POPULATE_WRITE))
			break;
		at += bytes;
	}
	atomic_store(&memory->pages, PAGES_THERE);
	return NULL;
}

static bool memory_prepare(struct tgt_store *store)
{
	struct memory_store *memory = to_memory(store);
	int lazy = PAGES_LAZY;

	if (atomic_compare_exchange_strong(&memory->pages, &lazy, PAGES_POPULATING)) {
		bool started = !pthread_create(&memory->populating, NULL, memory_populate, memory);

		atomic_store(&memory->started, started);
		/* Without a thread whoever registers it waits for each page. */
		if (started)
			pthread_setname_np(memory->populating, "memory");
		else
			atomic_store(&memory->pages, PAGES_THERE);
	}
	return atomic_load(&memory->pages) == PAGES_THERE;
}

static void memory_close(struct tgt_store *store)
{
	struct memory_store *memory = to_memory(store);

	atomic_store(&memory->closing, true);
	if (memory->started)
		pthread_join(memory->populating, NULL);
	tgt_worker_fini(&memory->worker);
	munmap(memory->base, memory->mapped_bytes);
	free(memory);
}

static struct tgt_worker *memory_worker(struct tgt_store *store)
{
	return &to_memory(store)->worker;
}

static int memory_attach(struct tgt_store *store, struct tgt_ring *ring, struct tgt_channel **channel)
{
	*channel = calloc(1, sizeof(**channel));
	if (!*channel)
		return -ENOMEM;
	(*channel)->store = store;
	(*channel)->ring = ring;
	return 0;
}

static void memory_detach(struct tgt_channel *channel)
{
	free(channel);
}

static int memory_submit(struct tgt_channel *channel, struct tgt_io *io)
{
	unsigned char *place = to_memory(channel->store)->base + io->offset;

	io->channel = channel;
	if (io->flags & TGT_IO_FUA)
		return -EOPNOTSUPP;
	switch (io->kind) {
	case TGT_IO_READ:
		memcpy(io->buffer, place, io->bytes);
		return 1;
	case TGT_IO_WRITE:
		memcpy(place, io->buffer, io->bytes);
		return 1;
	case TGT_IO_WRITE_ZEROES:
		memset(place, 0, io->bytes);
		return 1;
	case TGT_IO_FLUSH:
	case TGT_IO_DISCARD:
	case TGT_IO_EXTENTS:
		break;
	}
	return -EOPNOTSUPP;
}

const struct tgt_store_ops tgt_store_memory = {
	.kind = "memory",
	.forgets = true,
	.open = memory_open,
	.close = memory_close,
	.prepare = memory_prepare,
	.worker = memory_worker,
	.attach = memory_attach,
	.detach = memory_detach,
	.submit = memory_submit,
};
