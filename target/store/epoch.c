/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The beginning and the end of epoch.h. sync.c changes the epoch in between. */
#include "target/store/epoch.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "target/store/failed_sync_file.h"
#include "target/store/sync.h"

/* No session has it open yet. */
static void epoch_restore(struct tgt_volume *volume, uint64_t epoch, uint64_t lost_ns)
{
	struct tgt_volume_trouble *trouble = &volume->trouble;

	atomic_store(&trouble->epoch, epoch);
	atomic_store(&trouble->lost_ns, lost_ns);
	if (lost_ns)
		tgt_log(TGT_LOG_WARNING,
			"volume %s: a sync has failed earlier, and acknowledged writes may be lost: "
			"FLUSH fails until every session has closed the volume",
			volume->config.name);
}

/* Could acknowledged writes have been lost since the process that left it was told that all is well? */
static bool file_vouches(const struct tgt_failed_sync_file *file, const struct tgt_store_info *info)
{
	switch (atomic_load(&file->state)) {
	case TGT_STORE_CLEAN:
		return atomic_load(&file->epoch) != 0;
	case TGT_STORE_SERVED:
		return info->cache_kept;
	default:
		return false;
	}
}

/* NULL: there is none; it was said why. */
static struct tgt_failed_sync_file *file_open(struct tgt_volume *volume, const char *folder)
{
	char reason[TGT_ERROR_BYTES];
	struct tgt_failed_sync_file *file;
	int status = tgt_failed_sync_file_open(folder, &volume->store->info, &file, reason);

	if (!status)
		return file;
	/* Usually an ordinary user cannot make the folder: a debug message is enough. */
	tgt_log(geteuid() && status != -EPERM ? TGT_LOG_DEBUG : TGT_LOG_WARNING,
		"volume %s: %s: when rblkd is started again, initiators are told that writes which they did not flush "
		"may be lost",
		volume->config.name, reason);
	return NULL;
}

static void epoch_begin_writable(struct tgt_volume *volume, const char *folder)
{
	struct tgt_failed_sync_file *file = file_open(volume, folder);

	if (!file) {
		tgt_sync_new_epoch(volume);
		return;
	}
	volume->trouble.file = file;
	epoch_restore(volume, atomic_load(&file->epoch), atomic_load(&file->lost_ns));
	/* First the epoch: a process that is killed here leaves a failed-sync file that does not vouch, either. */
	if (!file_vouches(file, &volume->store->info))
		tgt_sync_new_epoch(volume);
	atomic_store(&file->state, TGT_STORE_SERVED);
}

/* It may have been writable, and be again. Others may serve it, too: nothing is written. */
static void epoch_begin_read_only(struct tgt_volume *volume, const char *folder)
{
	struct tgt_failed_sync_file file;

	if (tgt_failed_sync_file_find(folder, &volume->store->info, &file)) {
		epoch_restore(volume, atomic_load(&file.epoch), atomic_load(&file.lost_ns));
		if (file_vouches(&file, &volume->store->info))
			return;
	}
	tgt_sync_new_epoch(volume);
}

void tgt_epoch_begin(struct tgt_volume *volume, const char *folder)
{
	const struct tgt_store_info *info = &volume->store->info;

	/* Memory begins anew each time, and has an epoch of its own. */
	if (!info->can_flush || (!info->id.device && !info->id.inode))
		return;
	if (!folder)
		tgt_sync_new_epoch(volume);
	else if (info->read_only || volume->config.read_only)
		epoch_begin_read_only(volume, folder);
	else
		epoch_begin_writable(volume, folder);
}

void tgt_epoch_end(struct tgt_volume *volume)
{
	struct tgt_store *store = volume->store;
	struct tgt_failed_sync_file *file = volume->trouble.file;
	bool writable = store->info.can_flush && !store->info.read_only && !volume->config.read_only;
	int err = writable && store->ops->sync ? store->ops->sync(store) : 0;

	/* Without a failed-sync file the next process has another epoch in any case, but what was lost is said here
	 * alone. */
	if (err)
		tgt_sync_failed(volume, err);
	else if (file)
		atomic_store(&file->state, TGT_STORE_CLEAN);
	volume->trouble.file = NULL;
	if (file)
		tgt_failed_sync_file_close(file);
}

void tgt_epoch_get(const struct tgt_volume *volume, uint8_t epoch[16])
{
	uint64_t change = atomic_load(&volume->trouble.epoch);
	const uint8_t *own = volume->store->info.cache_epoch;

	for (unsigned int i = 0; i < 16; i++)
		epoch[i] = own[i] ^ (uint8_t)(change >> i % 8 * 8);
}
