/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * librbd as the module of target/rbd calls it: one image, whose objects are on the cluster of rados.c. Linked
 * instead of the library.
 */
#include "tests/sim/rados_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/sim/trace.h"

#define IMAGE_ID "simulated"

/* One of librbd's operations, of a process: its memory. */
struct completion {
	TAILQ_ENTRY(completion) link;
	struct rados_client *client;
	rbd_callback_t callback;
	void *arg;
	ssize_t result;
	unsigned int parts; /* under way */
	bool called;
	void *of; /* sim_rbd_begins() */
};
TAILQ_HEAD(completions, completion);

static struct completions completions[SIM_RADOS_MACHINES];
/* -- images ------------------------------------------------------------------------------------------ */

struct image {
	struct rados_client *client;
};

static int image_open(rados_ioctx_t io, rbd_image_t *image)
{
	int err = rados_process_is_dead() ? -ENOTCONN : rados_op_call(rados_op_create(io, 0, rados_do_nothing));
	struct image *made;

	if (err)
		return err;
	made = sim_rbd_calloc(1, sizeof(*made));
	made->client = io;
	*image = made;
	return 0;
}

/* No pool is ever full. */
void rados_set_pool_full_try(rados_ioctx_t io)
{
	(void)io;
}

void rados_unset_pool_full_try(rados_ioctx_t io)
{
	(void)io;
}

int rbd_open_read_only(rados_ioctx_t io, const char *name, rbd_image_t *image, const char *snapshot)
{
	(void)name;
	(void)snapshot;
	return image_open(io, image);
}

int rbd_open_by_id(rados_ioctx_t io, const char *id, rbd_image_t *image, const char *snapshot)
{
	(void)id;
	(void)snapshot;
	return image_open(io, image);
}

int rbd_open_by_id_read_only(rados_ioctx_t io, const char *id, rbd_image_t *image, const char *snapshot)
{
	(void)id;
	(void)snapshot;
	return image_open(io, image);
}

/* Nothing of it is in flight. */
int rbd_close(rbd_image_t image)
{
	const struct completion *completion;

	const struct rados_client *client = ((struct image *)image)->client;

	TAILQ_FOREACH(completion, &completions[client->machine], link)
		if (!rados_process_is_dead() && completion->client == client && !completion->called)
			sim_fail("an image is closed while something of it is in flight");
	sim_rbd_free(image);
	return 0;
}

int rbd_get_id(rbd_image_t image, char *id, size_t bytes)
{
	(void)image;
	snprintf(id, bytes, IMAGE_ID);
	return 0;
}

int rbd_stat(rbd_image_t image, rbd_image_info_t *about, size_t bytes)
{
	(void)image;
	memset(about, 0, bytes);
	about->size = sim_rados_image_bytes();
	about->obj_size = RADOS_OBJECT_BYTES;
	return 0;
}

int rbd_get_features(rbd_image_t image, uint64_t *features)
{
	(void)image;
	*features = 0;
	return 0;
}

int rbd_get_stripe_unit(rbd_image_t image, uint64_t *bytes)
{
	(void)image;
	*bytes = RADOS_OBJECT_BYTES;
	return 0;
}

int rbd_get_size(rbd_image_t image, uint64_t *bytes)
{
	(void)image;
	*bytes = sim_rados_image_bytes();
	return 0;
}

/* EXTENTS is none of a gateway's troubles: with several the store cannot tell. */
int rbd_get_stripe_count(rbd_image_t image, uint64_t *stripes)
{
	(void)image;
	*stripes = 2;
	return 0;
}

int rbd_diff_iterate2(rbd_image_t image, const char *from, uint64_t offset, uint64_t bytes, uint8_t with_parent,
		      uint8_t whole_objects, int (*found)(uint64_t, size_t, int, void *), void *arg)
{
	(void)image;
	(void)from;
	(void)offset;
	(void)bytes;
	(void)with_parent;
	(void)whole_objects;
	(void)found;
	(void)arg;
	return -EOPNOTSUPP;
}

int rbd_config_image_list(rbd_image_t image, rbd_config_option_t *options, int *count)
{
	(void)image;
	(void)options;
	*count = 0;
	return 0;
}

void rbd_config_image_list_cleanup(rbd_config_option_t *options, int count)
{
	(void)options;
	(void)count;
}

int rados_ioctx_get_pool_name(rados_ioctx_t io, char *name, unsigned bytes)
{
	(void)io;
	return snprintf(name, bytes, "rbd");
}

/* No image is in the trash. */
int rbd_trash_get(rados_ioctx_t io, const char *id, rbd_trash_image_info_t *info)
{
	(void)io;
	(void)id;
	(void)info;
	return -ENOENT;
}

void rbd_trash_get_cleanup(rbd_trash_image_info_t *info)
{
	(void)info;
}

int rbd_mirror_image_get_info(rbd_image_t image, rbd_mirror_image_info_t *info, size_t bytes)
{
	(void)image;
	memset(info, 0, bytes);
	info->state = RBD_MIRROR_IMAGE_DISABLED;
	return 0;
}

void rbd_mirror_image_get_info_cleanup(rbd_mirror_image_info_t *info)
{
	(void)info;
}

int rbd_update_watch(rbd_image_t image, uint64_t *handle, rbd_update_callback_t updated, void *arg)
{
	(void)image;
	(void)updated;
	(void)arg;
	*handle = 1;
	return 0;
}

int rbd_update_unwatch(rbd_image_t image, uint64_t handle)
{
	(void)image;
	(void)handle;
	return 0;
}

/* -- operations of images ----------------------------------------------------------------------------- */

struct completed {
	struct rados_call call; /* first */
	struct completion *completion;
};

int rbd_aio_create_completion(void *arg, rbd_callback_t callback, rbd_completion_t *out)
{
	struct completion *completion = sim_rbd_calloc(1, sizeof(*completion));

	completion->callback = callback;
	completion->arg = arg;
	completion->of = sim_rbd_begins();
	*out = completion;
	return 0;
}

ssize_t rbd_aio_get_return_value(rbd_completion_t completion)
{
	return ((const struct completion *)completion)->result;
}

void rbd_aio_release(rbd_completion_t out)
{
	struct completion *completion = out;

	if (completion->client)
		TAILQ_REMOVE(&completions[completion->client->machine], completion, link);
	sim_rbd_free(completion);
}

static void completion_call(struct completion *completion)
{
	completion->called = true;
	completion->callback(completion, completion->arg);
}

static void completed_run(struct rados_call *call)
{
	struct completion *completion = ((struct completed *)call)->completion;
	struct rados_client *client = completion->client;

	free(call);
	client->calling_for = completion->of;
	completion_call(completion);
	client->calling_for = NULL;
}

void rados_completions_end(unsigned int machine)
{
	struct completion *completion;

	while ((completion = TAILQ_FIRST(&completions[machine]))) {
		completion->result = -EIO;
		completion_call(completion);
	}
}

/* The agenda's time; never of a dead process. */
static void part_ended(struct rados_op *op)
{
	struct completion *completion = op->completion;
	struct completed *completed;

	if (op->differs)
		*op->differs = op->id;
	if (op->result < 0)
		completion->result = op->result;
	else if (op->kind == SIM_IO_READ && op->data)
		memcpy(op->buffer, op->data, op->bytes);
	rados_op_free(op);
	if (--completion->parts)
		return;
	completed = calloc(1, sizeof(*completed));
	if (!completed)
		sim_fail("out of memory");
	completed->call.run = completed_run;
	completed->completion = completion;
	rados_client_call(completion->client, &completed->call);
}

static struct rados_op *part_add(struct completion *completion, unsigned int where, int (*run)(struct rados_op *op))
{
	struct rados_op *op = rados_op_create(completion->client, where, run);

	op->completion = completion;
	op->ended = part_ended;
	strncpy(op->name, sim_rbd_initiator(), sizeof(op->name) - 1);
	completion->parts++;
	return op;
}

/* False: it is over, as its process is. */
static bool completion_begin(rbd_image_t image, struct completion *completion)
{
	if (rados_process_is_dead()) {
		completion->result = -EIO;
		completion_call(completion);
		return false;
	}
	completion->client = ((struct image *)image)->client;
	TAILQ_INSERT_TAIL(&completions[completion->client->machine], completion, link);
	return true;
}

static unsigned int osd_of(uint64_t offset)
{
	return 1 + (unsigned int)(offset / RADOS_OBJECT_BYTES % (RADOS_OSDS - 1));
}

/* A part for each object. */
static int io_begin(rbd_image_t image, enum sim_io_kind kind, uint64_t offset, uint64_t bytes, uint8_t *buffer,
		    struct completion *completion)
{
	uint64_t end = offset + bytes;

	if (!completion_begin(image, completion))
		return 0;
	completion->result = kind == SIM_IO_READ ? (ssize_t)bytes : 0;
	while (offset < end) {
		uint64_t next = (offset / RADOS_OBJECT_BYTES + 1) * RADOS_OBJECT_BYTES;
		struct rados_op *op = part_add(completion, osd_of(offset), rados_do_io);

		op->kind = kind;
		op->offset = offset;
		op->bytes = (next < end ? next : end) - offset;
		op->buffer = buffer;
		op->data = buffer ? malloc(op->bytes) : NULL;
		if (buffer && !op->data)
			sim_fail("out of memory");
		if (kind == SIM_IO_WRITE)
			memcpy(op->data, buffer, op->bytes);
		buffer = buffer ? buffer + op->bytes : NULL;
		offset += op->bytes;
		rados_op_send(op);
	}
	return 0;
}

int rbd_aio_read(rbd_image_t image, uint64_t offset, size_t bytes, char *buffer, rbd_completion_t completion)
{
	return io_begin(image, SIM_IO_READ, offset, bytes, (uint8_t *)buffer, completion);
}

int rbd_aio_write(rbd_image_t image, uint64_t offset, size_t bytes, const char *buffer, rbd_completion_t completion)
{
	return io_begin(image, SIM_IO_WRITE, offset, bytes, (uint8_t *)buffer, completion);
}

/* The differing byte's offset is told when it is over: `out` is the operation's. */
ssize_t rbd_aio_compare_and_write(rbd_image_t image, uint64_t offset, size_t bytes, const char *expected,
				  const char *data, rbd_completion_t out, uint64_t *differs, int flags)
{
	struct completion *completion = out;
	struct rados_op *op;

	(void)flags;
	if (bytes > 512 || offset % 512 || bytes % 512)
		return -EINVAL;
	if (!completion_begin(image, completion))
		return 0;
	completion->result = 0;
	op = part_add(completion, osd_of(offset), rados_do_compare);
	op->kind = SIM_IO_WRITE;
	op->offset = offset;
	op->bytes = bytes;
	op->differs = differs;
	op->data = malloc(2 * bytes);
	if (!op->data)
		sim_fail("out of memory");
	memcpy(op->data, expected, bytes);
	memcpy(op->data + bytes, data, bytes);
	rados_op_send(op);
	return 0;
}

int rbd_aio_write_zeroes(rbd_image_t image, uint64_t offset, size_t bytes, rbd_completion_t completion, int zero_flags,
			 int op_flags)
{
	(void)zero_flags;
	(void)op_flags;
	return io_begin(image, SIM_IO_ZERO, offset, bytes, NULL, completion);
}

/* Behind whatever was sent before. */
int rbd_aio_flush(rbd_image_t image, rbd_completion_t out)
{
	struct completion *completion = out;

	if (!completion_begin(image, completion))
		return 0;
	completion->result = 0;
	for (unsigned int i = 1; i < RADOS_OSDS; i++)
		rados_op_send(part_add(completion, i, rados_do_nothing));
	return 0;
}

/* librbd leaves out what is smaller than 64 KiB, and so the image's. */
int rbd_aio_discard(rbd_image_t image, uint64_t offset, uint64_t bytes, rbd_completion_t completion)
{
	(void)offset;
	(void)bytes;
	return rbd_aio_flush(image, completion);
}

void rados_completions_reset(void)
{
	for (unsigned int i = 0; i < SIM_RADOS_MACHINES; i++)
		TAILQ_INIT(&completions[i]);
}
