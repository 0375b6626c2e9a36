/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The registry of volume.h: an array in the order of names under one mutex. One thread at a time
 * adds and removes, reactors look up when they are asked to LIST or OPEN. Stores are opened and
 * closed outside of the lock, because both may block for a long time.
 */
#include "target/store/volume.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>
#include "proto/core/env.h"
#include "proto/wire/wire_check.h"
#include "target/base/affinity.h"
#include "target/base/error.h"
#include "target/store/domain.h"
#include "target/store/epoch.h"
#include "target/store/folder.h"
#include "target/store/identity.h"
#include "target/store/path.h"
#include "target/store/worker.h"

/*
 * `lock` owns everything here but what is fixed: `instance`, `threads`, the folders. A volume is in
 * `all` from the time its store is opened until that is closed, in `sorted` as long as it can be
 * found, in `slots` from its publication until its store is closed.
 */
struct tgt_registry {
	pthread_mutex_t lock;
	pthread_cond_t closed; /* a volume has left `all` */
	bool threads;
	const char *folder;	  /* of failed-sync files, or NULL */
	const char *reservations; /* folder of their files, or NULL */
	struct tgt_worker keeper; /* writes there */
	struct tgt_volume *sorted[RBLK_VOLUMES_MAX];
	unsigned int count;
	bool slots[RBLK_VOLUMES_MAX];
	struct tgt_volume *all;
	tgt_registry_ask *ask; /* or NULL */
	void *ask_context;
	void (*lost)(void *context); /* or NULL */
	void *lost_context;
	bool any_lost; /* so far */
	uint8_t instance[16];
};

int tgt_registry_create(struct tgt_registry **out)
{
	struct tgt_registry *registry = calloc(1, sizeof(*registry));

	if (!registry)
		return -ENOMEM;
	if (tgt_worker_init(&registry->keeper, "reservations")) {
		free(registry);
		return -ENOMEM;
	}
	pthread_mutex_init(&registry->lock, NULL);
	pthread_cond_init(&registry->closed, NULL);
	env_random(registry->instance, sizeof(registry->instance));
	registry->instance[0] |= 1; /* never all zero */
	*out = registry;
	return 0;
}

void tgt_registry_destroy(struct tgt_registry *registry)
{
	if (!registry)
		return;
	assert(!registry->count);
	pthread_mutex_lock(&registry->lock);
	while (registry->all)
		pthread_cond_wait(&registry->closed, &registry->lock);
	pthread_mutex_unlock(&registry->lock);
	tgt_worker_fini(&registry->keeper);
	pthread_cond_destroy(&registry->closed);
	pthread_mutex_destroy(&registry->lock);
	free(registry);
}

const char *tgt_registry_closing(struct tgt_registry *registry, char name[RBLK_NAME_BYTES])
{
	const struct tgt_volume *volume;

	pthread_mutex_lock(&registry->lock);
	for (volume = registry->all; volume && !atomic_load(&volume->removed);)
		volume = volume->next;
	if (volume)
		memcpy(name, volume->config.name, RBLK_NAME_BYTES);
	pthread_mutex_unlock(&registry->lock);
	return volume ? name : NULL;
}

void tgt_registry_use_threads(struct tgt_registry *registry)
{
	registry->threads = true;
}

void tgt_registry_remember(struct tgt_registry *registry, const char *folder)
{
	registry->folder = folder;
}

bool tgt_registry_keep(struct tgt_registry *registry, const char *folder)
{
	char reason[TGT_ERROR_BYTES];
	int err = tgt_folder_make(folder, reason);

	/* Usually an ordinary user cannot make the folder. */
	if (err)
		tgt_log(geteuid() ? TGT_LOG_DEBUG : TGT_LOG_WARNING,
			"%s: reservations end with rblkd", reason);
	else
		registry->reservations = folder;
	return !err;
}

void tgt_registry_on_ask(struct tgt_registry *registry, tgt_registry_ask *run, void *context)
{
	pthread_mutex_lock(&registry->lock);
	registry->ask = run;
	registry->ask_context = context;
	pthread_mutex_unlock(&registry->lock);
}

void tgt_registry_on_lost(struct tgt_registry *registry, void (*run)(void *context), void *context)
{
	pthread_mutex_lock(&registry->lock);
	registry->lost = run;
	registry->lost_context = context;
	if (run && registry->any_lost)
		run(context);
	pthread_mutex_unlock(&registry->lock);
}

void tgt_registry_lost(struct tgt_registry *registry)
{
	pthread_mutex_lock(&registry->lock);
	registry->any_lost = true;
	if (registry->lost)
		registry->lost(registry->lost_context);
	pthread_mutex_unlock(&registry->lock);
}

struct tgt_worker *tgt_registry_keeper(struct tgt_registry *registry)
{
	return &registry->keeper;
}

const uint8_t *tgt_registry_instance(const struct tgt_registry *registry)
{
	return registry->instance;
}

/* The index of `name`, or where it would be inserted; lock held. */
static unsigned int registry_place(const struct tgt_registry *registry, const char *name,
				   bool *found)
{
	unsigned int low = 0, high = registry->count;

	*found = false;
	while (low < high) {
		unsigned int middle = low + (high - low) / 2;
		int order = strcmp(registry->sorted[middle]->config.name, name);

		if (order == 0) {
			*found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* -- adding -------------------------------------------------------------------------------- */

/*
 * kept_bytes: blocks that it has had before, or 0. Partition tables and file systems are made for a block size: it stays,
 * although the disk or the file system is another one now.
 */
static int volume_geometry_check(struct tgt_volume *volume, uint32_t kept_bytes, char *error)
{
	const struct tgt_store_info *info = &volume->store->info;
	const char *name = volume->config.name;
	const char *path = volume->config.path[0] ? volume->config.path : volume->config.store;
	uint32_t own = kept_bytes ? kept_bytes : info->block_bytes;
	uint32_t block = volume->config.block_bytes ? volume->config.block_bytes : own;

	if (block < info->block_bytes && !volume->config.block_bytes)
		return tgt_error(error, -EINVAL,
				 "volume %s: %s: it was served with blocks of %u bytes, and needs %u now: what is on it would be "
				 "misread; cache = buffered keeps the blocks of a file, block_size = %u changes them",
				 name, path, block, info->block_bytes, info->block_bytes);
	if (block < info->block_bytes)
		return tgt_error(error, -EINVAL,
				 "volume %s: %s: block size %u is less than the store's own, %u",
				 name, path, block, info->block_bytes);
	if (!info->bytes)
		return tgt_error(error, -EINVAL, "volume %s: %s: size is 0", name, path);
	if (info->bytes % block)
		return tgt_error(error, -EINVAL,
				 "volume %s: %s: size %llu is not a multiple of the block size, %u",
				 name, path, (unsigned long long)info->bytes, block);
	volume->block_bytes = block;
	volume->blocks = info->bytes / block;
	return 0;
}

/* Sets its geometry and its UUID. */
static int volume_identify(struct tgt_volume *volume, char *error)
{
	const char *folder = volume->registry->reservations;
	const uint8_t *own = volume->store->info.uuid;
	struct tgt_identity identity;
	int status;

	if (uuid_is_null(volume->config.uuid))
		memcpy(volume->config.uuid, own, sizeof(volume->config.uuid));
	status = tgt_identity_find(&volume->config, folder, &identity, error);
	if (!status)
		status = volume_geometry_check(volume, identity.block_bytes, error);
	if (!status)
		status = tgt_identity_keep(&volume->config, folder, &identity, volume->block_bytes, error);
	memcpy(volume->config.uuid, identity.uuid, sizeof(volume->config.uuid));
	return status;
}

/* Not both for reading: readers may share (F6). */
static bool volume_has_path(const struct tgt_volume *volume, const struct tgt_volume_config *config,
			    const struct tgt_store_id *id)
{
	return tgt_store_id_shared(&volume->id, id) &&
	       !(volume->config.read_only && config->read_only);
}

/*
 * -EALREADY: one that is served, or is to be, has that file or device, by whatever name. *leaving:
 * one has it that was removed. -EAGAIN: likewise, by another path to the disk, where no lock of its
 * would stop us.
 */
static int registry_check_path(struct tgt_registry *registry,
			       const struct tgt_volume_config *config, bool *leaving, char *error)
{
	const char *file = tgt_store_file(config);
	const struct tgt_volume *other;
	struct tgt_store_id id;
	bool same_node;
	int status = 0;

	*leaving = false;
	/* A missing path is reported when it is opened. */
	if (!file || tgt_path_identify(file, &id) < 0)
		return 0;
	pthread_mutex_lock(&registry->lock);
	for (other = registry->all; other && status == 0; other = other->next) {
		if (!volume_has_path(other, config, &id))
			continue;
		same_node = tgt_store_id_same(&other->id, &id);
		if (!atomic_load(&other->removed) && !tgt_volume_why_lost(other))
			status = tgt_volume_taken(config, &other->config, same_node, error);
		else if (same_node)
			*leaving = true;
		else
			status = tgt_error(
				error, -EAGAIN,
				"volume %s: %s: its disk is in use by %s, which is being closed",
				config->name, config->path, other->config.path);
	}
	pthread_mutex_unlock(&registry->lock);
	return status;
}

static int volume_store_open(struct tgt_volume *volume, char *error)
{
	const struct tgt_volume_config *config = &volume->config;
	const struct tgt_store_ops *ops;
	char reason[TGT_ERROR_BYTES];
	int status;

	if (config->fault[0] && !tgt_store_faults)
		return tgt_error(error, -EOPNOTSUPP, "volume %s: fault: " TGT_STORE_NO_FAULTS, config->name);
	ops = config->fault[0] ? tgt_store_faults->ops : tgt_store_find(config->store);
	if (!ops)
		return tgt_error(error, -EINVAL, "volume %s: no such kind of store: \"%s\"",
				 config->name, config->store);
	status = ops->open(config, &volume->store, reason);
	if (status < 0)
		return tgt_error(error, status, "volume %s: %s", config->name, reason);
	return 0;
}

/*
 * For files and devices that only this process serves: memory volumes end with the process, and
 * another process may serve read-only ones, too.
 */
static int volume_reservations(struct tgt_volume *volume, char *error)
{
	const struct tgt_store_info *info = &volume->store->info;
	bool own = !info->read_only && !volume->config.read_only &&
		   (info->id.device || info->id.inode);
	char reason[TGT_ERROR_BYTES];
	int err = tgt_reservations_init(&volume->reservations,
					own ? volume->registry->reservations : NULL,
					volume->config.uuid, info->noted, reason);

	if (err)
		return tgt_error(error, err, "volume %s: %s", volume->config.name, reason);
	if (volume->reservations.now.count)
		tgt_log(TGT_LOG_INFO, "volume %s: %u registrants and their reservation are restored",
			volume->config.name, volume->reservations.now.count);
	return 0;
}

/* It would be taken for another one by initiators, and their reservations would share a file; lock held. */
static int registry_check_uuid(const struct tgt_registry *registry, const struct tgt_volume *volume, char *error)
{
	char uuid[UUID_STR_LEN];

	uuid_unparse_lower(volume->config.uuid, uuid);
	for (unsigned int i = 0; i < registry->count; i++) {
		const struct tgt_volume_config *other = &registry->sorted[i]->config;

		if (!memcmp(other->uuid, volume->config.uuid, sizeof(other->uuid)))
			return tgt_error(error, -EEXIST,
					 "volume %s: its uuid %s is that of volume %s (%s), of which it may be a copy: "
					 "give one of them another uuid",
					 volume->config.name, uuid, other->name, other->path[0] ? other->path : other->store);
	}
	return 0;
}

int tgt_volume_publish(struct tgt_volume *volume, char *error)
{
	struct tgt_registry *registry = volume->registry;
	unsigned int place, slot = 0;
	int status = 0;
	bool found;

	pthread_mutex_lock(&registry->lock);
	place = registry_place(registry, volume->config.name, &found);
	while (slot < RBLK_VOLUMES_MAX && registry->slots[slot])
		slot++;
	if (found) {
		status = tgt_error(error, -EEXIST, "volume %s: this name is already served",
				   volume->config.name);
	} else if (slot == RBLK_VOLUMES_MAX) {
		status = tgt_error(error, -ENOSPC, "volume %s: too many volumes, the maximum is %u",
				   volume->config.name, RBLK_VOLUMES_MAX);
	} else {
		status = registry_check_uuid(registry, volume, error);
	}
	if (!status) {
		memmove(&registry->sorted[place + 1], &registry->sorted[place],
			(registry->count - place) * sizeof(registry->sorted[0]));
		registry->sorted[place] = volume;
		registry->count++;
		registry->slots[slot] = true;
		volume->slot = slot;
	}
	pthread_mutex_unlock(&registry->lock);
	return status;
}

static void volume_free(struct tgt_volume *volume)
{
	pthread_mutex_destroy(&volume->trouble.lock);
	tgt_range_locks_fini(&volume->range_locks);
	free(volume);
}

/* In no registry yet. NULL: out of memory. */
static struct tgt_volume *volume_alloc(struct tgt_registry *registry,
				       const struct tgt_volume_config *config)
{
	struct tgt_volume *volume = calloc(1, sizeof(*volume));

	if (!volume)
		return NULL;
	volume->registry = registry;
	volume->config = *config;
	volume->refs = 1;
	volume->slot = RBLK_VOLUMES_MAX;
	pthread_mutex_init(&volume->trouble.lock, NULL);
	tgt_range_locks_init(&volume->range_locks);
	return volume;
}

int tgt_volume_open(struct tgt_registry *registry, const struct tgt_volume_config *config,
		    struct tgt_volume **out, char *error)
{
	struct tgt_volume *volume;
	bool leaving;
	int status;

	if (!rblk_name_valid(config->name))
		return tgt_error(error, -EINVAL, "volume \"%.63s\": not a valid name",
				 config->name);
	volume = volume_alloc(registry, config);
	if (!volume)
		return tgt_error(error, -ENOMEM, "volume %s: out of memory", config->name);
	/* Before the lock is tried: do not wait for a lock that this process keeps. */
	status = registry_check_path(registry, config, &leaving, error);
	if (status == 0)
		status = volume_store_open(volume, error);
	if (status == -EBUSY && leaving)
		status = -EAGAIN;
	if (status < 0) {
		volume_free(volume);
		return status;
	}
	volume->id = volume->store->info.id;
	pthread_mutex_lock(&registry->lock);
	volume->next = registry->all;
	registry->all = volume;
	pthread_mutex_unlock(&registry->lock);
	status = volume_identify(volume, error);
	if (!status)
		status = volume_reservations(volume, error);
	for (struct tgt_store *store = volume->store; store && !status; store = store->inner)
		atomic_store(&store->volume, volume);
	if (!status && tgt_volume_why_lost(volume)) /* before it had a volume */
		tgt_registry_lost(registry);
	if (status < 0) {
		tgt_volume_put(volume); /* to close its store may last for ever */
		return status;
	}
	tgt_domain_warn(&volume->store->info, config);
	tgt_epoch_begin(volume, registry->folder);
	tgt_volume_set_fence_domain(volume, config->fence_domain);
	*out = volume;
	return 0;
}

int tgt_volume_add(struct tgt_registry *registry, const struct tgt_volume_config *config,
		   char *error)
{
	struct tgt_volume *volume;
	int status = tgt_volume_open(registry, config, &volume, error);

	if (status < 0)
		return status;
	status = tgt_volume_publish(volume, error);
	if (status < 0)
		tgt_volume_put(volume);
	return status;
}

struct tgt_volume *tgt_volume_take_out(struct tgt_registry *registry, const char *name)
{
	struct tgt_volume *volume = NULL;
	unsigned int place;
	bool found;

	pthread_mutex_lock(&registry->lock);
	place = registry_place(registry, name, &found);
	if (found) {
		volume = registry->sorted[place];
		registry->count--;
		memmove(&registry->sorted[place], &registry->sorted[place + 1],
			(registry->count - place) * sizeof(registry->sorted[0]));
	}
	pthread_mutex_unlock(&registry->lock);
	return volume;
}

struct tgt_volume *tgt_volume_remove(struct tgt_registry *registry, const char *name)
{
	struct tgt_volume *volume = tgt_volume_take_out(registry, name);

	if (volume)
		atomic_store(&volume->removed, true);
	return volume;
}

/* -- references ------------------------------------------------------------------------------ */

struct tgt_volume *tgt_volume_get(struct tgt_registry *registry, const char *name)
{
	struct tgt_volume *volume = NULL;
	unsigned int place;
	bool found;

	pthread_mutex_lock(&registry->lock);
	place = registry_place(registry, name, &found);
	if (found)
		volume = tgt_volume_ref(registry->sorted[place]);
	pthread_mutex_unlock(&registry->lock);
	return volume;
}

struct tgt_volume *tgt_volume_ref(struct tgt_volume *volume)
{
	atomic_fetch_add(&volume->refs, 1);
	return volume;
}

/* False: there is none any more, and none can be had. */
static bool volume_ref_living(struct tgt_volume *volume)
{
	unsigned int refs = atomic_load(&volume->refs);

	while (refs && !atomic_compare_exchange_weak(&volume->refs, &refs, refs + 1))
		;
	return refs;
}

void tgt_volume_asked(struct tgt_store *store, struct tgt_store_ask *ask)
{
	struct tgt_volume *volume = atomic_load(&store->volume);
	struct tgt_registry *registry = volume ? volume->registry : NULL;
	bool handed_on = false, heard = !ask->note; /* one that is being opened is asked again */

	if (registry) {
		pthread_mutex_lock(&registry->lock);
		/* First: what is opened from now on looks it up. */
		heard = tgt_reservations_hear(&volume->reservations, ask->note, volume->config.name);
		handed_on = heard && registry->ask && volume->slot < RBLK_VOLUMES_MAX && volume_ref_living(volume);
		if (handed_on)
			registry->ask(registry->ask_context, volume, ask);
		pthread_mutex_unlock(&registry->lock);
	}
	if (!handed_on)
		ask->answer(ask, heard);
}

static void volume_close(struct tgt_volume *volume)
{
	struct tgt_registry *registry = volume->registry;
	struct tgt_volume **place = &registry->all;

	/* First: with the lock on the path (F6) the failed-sync file is the next process's. */
	tgt_epoch_end(volume);
	volume->store->ops->close(volume->store);
	pthread_mutex_lock(&registry->lock);
	if (volume->slot < RBLK_VOLUMES_MAX)
		registry->slots[volume->slot] = false;
	while (*place != volume)
		place = &(*place)->next;
	*place = volume->next;
	tgt_reservations_fini(&volume->reservations);
	/* With the lock held: after its release the registry may be destroyed. */
	pthread_cond_broadcast(&registry->closed);
	pthread_mutex_unlock(&registry->lock);
	volume_free(volume);
}

static void *volume_closer(void *argument)
{
	pthread_setname_np(pthread_self(), "closer");
	tgt_affinity_roam();
	volume_close(argument);
	return NULL;
}

/*
 * A thread for each: one that hangs on its disk keeps no other volume from being closed, and so
 * from being served again. There are few: each needs a volume that was removed.
 */
static bool volume_close_by_closer(struct tgt_volume *volume)
{
	pthread_attr_t detached;
	pthread_t thread;
	int err;

	if (pthread_attr_init(&detached))
		return false;
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &detached, volume_closer, volume);
	pthread_attr_destroy(&detached);
	return !err;
}

void tgt_volume_put(struct tgt_volume *volume)
{
	if (atomic_fetch_sub(&volume->refs, 1) != 1)
		return;
	/* The registry's reference is released, too: no thread can find it and take a new one. */
	atomic_store(&volume->removed, true);
	if (!volume->registry->threads || !volume_close_by_closer(volume))
		volume_close(volume);
}

unsigned int tgt_volume_list(struct tgt_registry *registry, unsigned int first,
			     struct tgt_volume **list, unsigned int max, unsigned int *total)
{
	unsigned int i, count = 0;

	pthread_mutex_lock(&registry->lock);
	*total = registry->count;
	for (i = first; i < registry->count && count < max; i++)
		list[count++] = tgt_volume_ref(registry->sorted[i]);
	pthread_mutex_unlock(&registry->lock);
	return count;
}
