/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An open RBD image: opened behind its gateway's fence, known by what the cluster calls it, refused if it acknowledges
 * from memory, and looked at again when somebody has changed its size.
 */
#include "target/rbd/rbd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#define OPTIONS_MAX 256
#define ID_BYTES 128
/* librbd launches an operation for each object of a range. */
#define RANGE_BYTES_MAX (256u << 20)
/* librbd leaves out smaller pieces of a discard (rbd_discard_granularity_bytes). */
#define DISCARD_BYTES 65536u

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
	return tgt_rbd_host->error(
		error, -EINVAL,
		"%s = %s is set for the image or its pool: writes would be acknowledged that are not durable "
		"(rbd config image remove IMAGE %s, or rbd config pool remove POOL %s)",
		option->name, option->value, option->name, option->name);
}

static int image_check_cache(rbd_image_t image, char *error)
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
			if (option_is_cache(&options[i]))
				err = cache_refused(&options[i], error);
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

/* The same at all gateways of all machines, and for a copy, a clone or a snapshot another one. */
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
	/* F10: whoever serves it has fenced the one before (gateway.c). */
	hash(info->fence_domain, 2, text);
	/* F7: what was acknowledged is durable, whatever becomes of this process and machine. */
	hash(info->cache_epoch, 3, text);
	return 0;
}

static int image_describe(struct rbd_image *image, bool read_only, struct tgt_store_info *info, char *error)
{
	rbd_image_info_t about;
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
	/* Within this process, which is the only one that serves it: by range locks (range_lock.h), of any length. */
	info->can_compare = true;
	info->fua_alone = true;
	return 0;
}

/* -- its size ---------------------------------------------------------------------------------- */

/* The keeper's thread. */
static void image_look(struct rbd_task *task)
{
	struct rbd_image *image = (struct rbd_image *)task; /* its first member */
	uint64_t bytes;

	if (!rbd_get_size(image->image, &bytes))
		atomic_store(&image->bytes, bytes);
}

/* librbd's thread: must not call it. */
static void image_updated(void *arg)
{
	struct rbd_image *image = arg;

	tgt_rbd_keeper_later(&image->look, 0);
}

/* -- opening ----------------------------------------------------------------------------------- */

/* The name's image may be another one by the time that it is opened; its id stays. */
static int image_id(rados_ioctx_t io, const struct rbd_name *name, char id[ID_BYTES], char *error)
{
	rbd_image_t image;
	int err = rbd_open_read_only(io, name->image, &image, NULL);

	if (err)
		return tgt_rbd_host->error(error, err, "%s", strerror(-err));
	err = rbd_get_id(image, id, ID_BYTES);
	rbd_close(image);
	return err ? tgt_rbd_host->error(error, err, "its id: %s", strerror(-err)) : 0;
}

static int image_open(struct rbd_image *image, const struct rbd_name *name, const char *id, char *error)
{
	int err;

	if (image->writes)
		err = rbd_open_by_id(image->io, id, &image->image, NULL);
	else
		err = rbd_open_by_id_read_only(image->io, id, &image->image, name->snapshot[0] ? name->snapshot : NULL);
	return err ? tgt_rbd_host->error(error, err, "%s", strerror(-err)) : 0;
}

/* The image is open. */
static int image_begin(struct rbd_image *image, const struct rbd_name *name, const char *id,
		       struct tgt_store_info *info, char *error)
{
	int err = image_check_cache(image->image, error);

	if (!err)
		err = image_describe(image, !image->writes, info, error);
	if (!err)
		err = image_identify(image, name, id, info, error);
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
	return 0;
}

int tgt_rbd_image_open(const struct rbd_name *name, bool read_only, struct rbd_image *image,
		       struct tgt_store_info *info, char *error)
{
	char id[ID_BYTES];
	int err;

	image->look.run = image_look;
	image->writes = !read_only && !name->snapshot[0];
	err = tgt_rbd_keeper_start();
	if (err)
		return tgt_rbd_host->error(error, err, "no thread: %s", strerror(-err));
	err = tgt_rbd_client_get(&image->client, error);
	if (err)
		return err;
	err = image_pool(name, image, error);
	if (err)
		goto err_put;
	err = image_id(image->io, name, id, error);
	if (!err && image->writes)
		err = tgt_rbd_gateway_enter(&image->gateway, image->client, image->io, id, error);
	if (err)
		goto err_destroy;
	err = image_open(image, name, id, error);
	if (err)
		goto err_leave;
	err = image_begin(image, name, id, info, error);
	if (err)
		goto err_close;
	return 0;

err_close:
	rbd_close(image->image);
err_leave:
	if (image->writes)
		tgt_rbd_gateway_leave(&image->gateway);
err_destroy:
	rados_ioctx_destroy(image->io);
err_put:
	tgt_rbd_client_put(image->client);
	return err;
}

void tgt_rbd_image_close(struct rbd_image *image)
{
	if (image->watched)
		rbd_update_unwatch(image->image, image->updates);
	tgt_rbd_keeper_forget(&image->look);
	rbd_close(image->image);
	if (image->writes)
		tgt_rbd_gateway_leave(&image->gateway);
	rados_ioctx_destroy(image->io);
	tgt_rbd_client_put(image->client);
}
