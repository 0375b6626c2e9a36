/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An open RBD image. It is opened once its gateway has entered, identified by the cluster's ids, refused if librbd
 * would acknowledge writes from memory, and looked at again when somebody has changed its size.
 */
#include "target/rbd/rbd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>
#include "target/base/error.h"

#define OPTIONS_MAX 256
#define ID_BYTES 128
/* librbd launches an operation for each object of a range. */
#define RANGE_BYTES_MAX (256u << 20)
/* librbd leaves out smaller pieces of a discard (rbd_discard_granularity_bytes). */
#define DISCARD_BYTES 65536u
/* How often an image is looked for in the trash, and its pool. */
#define SEEK_NS 10000000000ull

/* -- its settings ------------------------------------------------------------------------------ */

/*
 * `rbd config image set IMAGE rbd_cache true` (or of the pool) overrules what this client has set: writes would be
 * acknowledged from memory, and lost with the process.
 */
static bool option_is_cache(const rbd_config_option_t *option)
{
	if (!strcmp(option->name, "rbd_cache"))
		return strcmp(option->value, "false") && strcmp(option->value, "0");
	if (!strcmp(option->name, "rbd_persistent_cache_mode"))
		return option->value[0] && strcmp(option->value, "disabled");
	return false;
}

static int cache_refused(const rbd_config_option_t *option, char *error)
{
	if (!option_is_cache(option))
		return 0;
	return tgt_rbd_host->error(
		error, -EINVAL,
		"%s = %s is set for the image or its pool: writes would be acknowledged that are not durable "
		"(rbd config image remove IMAGE %s, or rbd config pool remove POOL %s)",
		option->name, option->value, option->name, option->name);
}

/* With this setting a read of a clone writes, and takes the image's lock for that. */
static int copy_refused(const rbd_config_option_t *option, char *error)
{
	if (strcmp(option->name, "rbd_clone_copy_on_read") || !strcmp(option->value, "false"))
		return 0;
	return tgt_rbd_host->error(error, -EINVAL, "%s is set", option->name);
}

/* 0, or the error of the first setting that is refused. */
static int image_check(rbd_image_t image, int (*refused)(const rbd_config_option_t *option, char *error), char *error)
{
	rbd_config_option_t *options = calloc(OPTIONS_MAX, sizeof(*options));
	int count = OPTIONS_MAX, err;

	if (!options)
		return tgt_rbd_host->error(error, -ENOMEM, "out of memory");
	err = rbd_config_image_list(image, options, &count);
	if (err) {
		tgt_rbd_host->error(error, err, "its settings cannot be read: %s", strerror(-err));
	} else {
		for (int i = 0; i < count && !err; i++)
			err = refused(&options[i], error);
		rbd_config_image_list_cleanup(options, count);
	}
	free(options);
	return err;
}

/* -- what it is -------------------------------------------------------------------------------- */

static void hash(uint8_t out[16], uint8_t kind, const char *text)
{
	const uuid_t space = {0x5d, 0x1e, 0x93, 0xb4, 0x2c, 0x67, 0x4f, 0x0a,
			      0x8b, 0x35, 0xc1, 0x7e, 0x46, 0xd9, 0x20, kind};

	uuid_generate_sha1(out, space, text, strlen(text));
}

/* The UUID is the same at all gateways; a copy, a clone and a snapshot have others. */
static int image_identify(const struct rbd_image *image, const struct rbd_name *name, const char *id,
			  struct tgt_store_info *info, char *error)
{
	char fsid[64], text[RBD_NAME_BYTES * 2 + ID_BYTES + 128];
	int length = rados_cluster_fsid(tgt_rbd_client_cluster(image->client), fsid, sizeof(fsid));

	if (length < 0)
		return tgt_rbd_host->error(error, length, "the cluster's fsid is not known: %s", strerror(-length));
	snprintf(text, sizeof(text), "%s/%" PRId64 "/%s/%s@%s", fsid, rados_ioctx_get_id(image->io), name->space, id,
		 name->snapshot);
	hash(info->uuid, 1, text);
	/* F10: each gateway has fenced those before it (gateway.c). */
	hash(info->fence_domain, 2, text);
	/* F7: what was acknowledged is durable, whatever becomes of this process and machine. */
	hash(info->cache_epoch, 3, text);
	return 0;
}

/*
 * RADOS applies a write to an object as a whole, and librbd sends one write for each object. With a journal, librbd
 * writes that first, in other pieces, and replays it.
 */
static int image_untorn(const struct rbd_image *image, uint64_t object_bytes, struct tgt_store_info *info)
{
	uint64_t features, unit_bytes, unit_count;
	int err = rbd_get_features(image->image, &features);

	if (!err)
		err = rbd_get_stripe_unit(image->image, &unit_bytes);
	if (!err)
		err = rbd_get_stripe_count(image->image, &unit_count);
	if (err)
		return err;
	if (unit_count > 1)
		object_bytes = unit_bytes;
	if (features & RBD_FEATURE_JOURNALING || object_bytes & (object_bytes - 1) || object_bytes > UINT32_MAX)
		return 0;
	info->untorn_min_bytes = info->block_bytes;
	info->untorn_max_bytes = (uint32_t)object_bytes;
	return 0;
}

static int image_describe(struct rbd_image *image, struct tgt_store_info *info, char *error)
{
	bool read_only = image->use == RBD_READS;
	rbd_image_info_t about;
	uint64_t stripes;
	int err = rbd_stat(image->image, &about, sizeof(about));

	if (err)
		return tgt_rbd_host->error(error, err, "%s", strerror(-err));
	atomic_store(&image->bytes, about.size);
	info->bytes = about.size;
	info->block_bytes = 512;
	info->physical_bytes = 4096;
	info->optimal_bytes = about.obj_size <= UINT32_MAX ? (uint32_t)about.obj_size : 0;
	info->alignment = 1;
	info->discard_granularity = DISCARD_BYTES;
	info->max_discard_bytes = RANGE_BYTES_MAX;
	info->read_only = read_only;
	info->can_flush = info->can_fua = true;
	info->can_discard = info->can_write_zeroes = !read_only;
	image->object_bytes = info->optimal_bytes;
	/* With stripes over several objects, rbd_diff_iterate2() does not go by offsets. */
	info->can_extents = image->object_bytes && !rbd_get_stripe_count(image->image, &stripes) && stripes == 1;
	info->shared = image->use == RBD_WRITES;
	info->noted = read_only ? NULL : &image->gateway.noted;
	info->can_compare = true;
	/* A gateway that is alone compares by range locks (range_lock.h), any length. */
	info->compare_bytes = info->shared ? RBD_COMPARE_BYTES : 0;
	info->fua_alone = true;
	err = image_untorn(image, about.obj_size, info);
	return err ? tgt_rbd_host->error(error, err, "%s", strerror(-err)) : 0;
}

/* -- its state --------------------------------------------------------------------------------- */

#define SECONDARY "it is mirrored (rbd mirror), and not the primary image"

/*
 * Only rbd-mirror writes a secondary image: others' writes fail as if another client had locked it. While mirroring
 * ends (DISABLING), Ceph calls the primary image no primary one any more.
 */
static bool image_is_secondary(rbd_image_t image)
{
	rbd_mirror_image_info_t info;
	bool secondary;

	if (rbd_mirror_image_get_info(image, &info, sizeof(info)))
		return false;
	secondary = info.state == RBD_MIRROR_IMAGE_ENABLED && !info.primary;
	rbd_mirror_image_get_info_cleanup(&info);
	return secondary;
}

/* A thread of the keeper's. */
static void image_look(struct rbd_task *task)
{
	struct rbd_image *image = (struct rbd_image *)task; /* its first member */
	uint64_t bytes;

	if (!rbd_get_size(image->image, &bytes))
		atomic_store(&image->bytes, bytes);
	if (image->use != RBD_READS && image_is_secondary(image->image)) {
		atomic_store(&image->secondary, true);
		tgt_rbd_host->lost(image->gateway.store, SECONDARY);
	}
}

/*
 * A thread of the keeper's, one for an image. `rbd trash mv` asks no watcher, and no lock that gateways could share
 * keeps it from an image. Ceph deletes nothing while it is served. The client hears of a pool's end by this question:
 * the watches of its images just end.
 */
static void image_seek(struct rbd_task *task)
{
	struct rbd_image *image = (struct rbd_image *)((char *)task - offsetof(struct rbd_image, seek));
	rbd_trash_image_info_t info;
	char id[ID_BYTES];
	int err;

	if (tgt_rbd_client_pool_gone(image->io, image->gateway.store))
		return;
	tgt_rbd_keeper_later(task, SEEK_NS);
	err = rbd_get_id(image->image, id, sizeof(id));
	err = err ? err : rbd_trash_get(image->io, id, &info);
	if (!err)
		rbd_trash_get_cleanup(&info);
	if (err && err != -ENOENT)
		return;
	if (atomic_exchange(&image->trashed, !err) != !err)
		tgt_rbd_host->log(TGT_LOG_WARNING, "rbd: %s: the image %s", image->gateway.path,
				  err ? "is no longer in the trash"
				      : "was moved to the trash: it is served until its gateways end, and then not "
					"before it is restored (rbd trash restore)");
}

/* librbd's thread, which must not call librbd. */
static void image_updated(void *arg)
{
	struct rbd_image *image = arg;

	tgt_rbd_keeper_later(&image->look, 0);
}

/* -- opening ----------------------------------------------------------------------------------- */

/*
 * Finds the id by which the image is opened: by then its name may be another image's. *reads_lock: reads take the
 * image's lock, unless it is opened read-only.
 */
static int image_find(rados_ioctx_t io, const struct rbd_name *name, char id[ID_BYTES], bool *reads_lock, char *error)
{
	char reason[TGT_ERROR_BYTES];
	rbd_image_t image;
	uint64_t features;
	int err = rbd_open_read_only(io, name->image, &image, NULL);

	if (err)
		return tgt_rbd_host->error(error, err, "%s", strerror(-err));
	err = rbd_get_id(image, id, ID_BYTES);
	if (!err)
		err = rbd_get_features(image, &features);
	*reads_lock = !err && (features & RBD_FEATURE_JOURNALING || image_check(image, copy_refused, reason));
	rbd_close(image);
	return err ? tgt_rbd_host->error(error, err, "its id cannot be read: %s", strerror(-err)) : 0;
}

/*
 * An image that is only read is opened with librbd's watch, too: then it cannot be removed, and librbd follows its size
 * and snapshots. Without the watch, what was removed reads as zeroes. It is opened without if reads would take its lock
 * (a snapshot has none), or if rblkd's user may not watch.
 */
static int image_open(struct rbd_image *image, const struct rbd_name *name, const char *id, bool reads_lock,
		      char *error)
{
	const char *snapshot = name->snapshot[0] ? name->snapshot : NULL;
	int err = -EPERM;

	/* Writes wait while the pool is full. */
	if (image->use != RBD_READS)
		rados_unset_pool_full_try(image->io);
	if (image->use != RBD_READS || snapshot || !reads_lock)
		err = rbd_open_by_id(image->io, id, &image->image, snapshot);
	if (err == -EPERM && image->use == RBD_READS)
		err = rbd_open_by_id_read_only(image->io, id, &image->image, snapshot);
	rados_set_pool_full_try(image->io);
	return err ? tgt_rbd_host->error(error, err, "%s", strerror(-err)) : 0;
}

/* The image is open. */
static int image_begin(struct rbd_image *image, const struct rbd_name *name, const char *id,
		       struct tgt_store_info *info, char *error)
{
	int err = image_check(image->image, cache_refused, error);

	if (!err)
		err = image_describe(image, info, error);
	if (!err)
		err = image_identify(image, name, id, info, error);
	if (!err && image->use != RBD_READS && image_is_secondary(image->image))
		err = tgt_rbd_host->error(error, -EROFS, SECONDARY ": it can only be read (read_only = yes)");
	if (err || name->snapshot[0])
		return err;
	err = rbd_update_watch(image->image, &image->updates, image_updated, image);
	if (err)
		return tgt_rbd_host->error(error, err, "changes of its size cannot be watched: %s", strerror(-err));
	image->watched = true;
	return 0;
}

static int image_pool(const struct rbd_name *name, struct rbd_image *image, char *error)
{
	int err = rados_ioctx_create(tgt_rbd_client_cluster(image->client), name->pool, &image->io);

	if (err)
		return tgt_rbd_host->error(error, err, "pool %s: %s", name->pool, strerror(-err));
	rados_ioctx_set_namespace(image->io, name->space);
	/* Locks take no room: gateways enter, leave and are fenced even while the pool is full. */
	rados_set_pool_full_try(image->io);
	return 0;
}

int tgt_rbd_image_open(const struct rbd_name *name, enum rbd_use use, struct rbd_image *image,
		       struct tgt_store_info *info, char *error)
{
	char id[ID_BYTES];
	bool reads_lock;
	int err;

	image->look.run = image_look;
	image->seek.run = image_seek;
	image->use = name->snapshot[0] ? RBD_READS : use;
	err = tgt_rbd_keeper_start();
	if (err)
		return tgt_rbd_host->error(error, err, "cannot start a thread: %s", strerror(-err));
	err = tgt_rbd_client_get(&image->client, error);
	if (err)
		return err;
	err = image_pool(name, image, error);
	if (err)
		goto err_put;
	err = image_find(image->io, name, id, &reads_lock, error);
	if (!err && image->use != RBD_READS)
		err = tgt_rbd_gateway_enter(&image->gateway, image->use == RBD_WRITES_ALONE, image->client, image->io,
					    id, error);
	if (err)
		goto err_destroy;
	if (image->use != RBD_READS) {
		tgt_rbd_client_writes(image->client);
		err = tgt_rbd_recall(&image->gateway, &image->gateway.noted, error);
	}
	if (!err && image->use == RBD_WRITES)
		tgt_rbd_remind(&image->gateway);
	if (!err)
		err = image_open(image, name, id, reads_lock, error);
	if (err)
		goto err_leave;
	err = image_begin(image, name, id, info, error);
	if (err)
		goto err_close;
	tgt_rbd_keeper_later(&image->seek, SEEK_NS);
	return 0;

err_close:
	rbd_close(image->image);
err_leave:
	if (image->use != RBD_READS)
		tgt_rbd_gateway_leave(&image->gateway);
err_destroy:
	rados_ioctx_destroy(image->io);
err_put:
	if (err == -ESHUTDOWN) {
		tgt_rbd_client_fenced(image->client, NULL);
		err = tgt_rbd_host->error(error, -EAGAIN, "this process was shut out of the cluster meanwhile");
	}
	tgt_rbd_client_put(image->client);
	return err;
}

void tgt_rbd_image_close(struct rbd_image *image)
{
	if (image->watched)
		rbd_update_unwatch(image->image, image->updates);
	tgt_rbd_keeper_forget(&image->look);
	tgt_rbd_keeper_forget(&image->seek);
	if (image->use != RBD_READS)
		tgt_rbd_fence_wait(&image->gateway);
	rbd_close(image->image);
	if (image->use != RBD_READS)
		tgt_rbd_gateway_leave(&image->gateway);
	rados_ioctx_destroy(image->io);
	tgt_rbd_client_put(image->client);
}
