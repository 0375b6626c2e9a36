/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: on its way through submit.c an operation comes back once and with the store's answer; a
 * failed FLUSH or FUA makes every FLUSH fail until the last port is detached, and changes the cache
 * epoch (F9); errors are counted by kind. Method: a store that answers what it is told to, at once
 * or later.
 */
#include "target/store/submit.h"
#include "tests/unit/target_rig.h"

static int answer;	   /* of the store: what submit returns */
static unsigned int begun; /* how many operations it has seen */
static struct tgt_io *held;

static int fake_attach(struct tgt_store *store, struct tgt_ring *ring, struct tgt_port **port)
{
	*port = calloc(1, sizeof(**port));
	(*port)->store = store;
	(*port)->ring = ring;
	return 0;
}

static void fake_detach(struct tgt_port *port)
{
	free(port);
}

static int fake_submit(struct tgt_port *port, struct tgt_io *io)
{
	begun++;
	held = answer ? NULL : io;
	return answer;
}

static const struct tgt_store_ops fake_ops = {
	.kind = "fake",
	.attach = fake_attach,
	.detach = fake_detach,
	.submit = fake_submit,
};

struct scene {
	struct tgt_store store;
	struct tgt_volume volume;
	struct tgt_port *ports[2]; /* of two reactors */
};

static void scene_open(struct scene *scene, bool buffered)
{
	memset(scene, 0, sizeof(*scene));
	begun = 0;
	scene->store.ops = &fake_ops;
	scene->store.info.bytes = 65536;
	memset(scene->store.info.cache_epoch, 7, 16);
	scene->volume.store = &scene->store;
	scene->store.info.buffered = buffered;
	scene->volume.block_bytes = 512;
	scene->volume.blocks = 128;
	strcpy(scene->volume.config.name, "v");
	for (int i = 0; i < 2; i++)
		assert_int_equal(tgt_volume_attach(&scene->volume, NULL, &scene->ports[i]), 0);
}

static void scene_close(struct scene *scene)
{
	for (int i = 0; i < 2; i++)
		if (scene->ports[i])
			tgt_volume_detach(&scene->volume, scene->ports[i]);
}

static struct tgt_io io_of(enum tgt_io_kind kind, uint32_t flags)
{
	return (struct tgt_io){
		.kind = kind, .flags = flags, .bytes = 512, .offset = 1024, .ended = rig_io_done};
}

/* The store answers `now`, or (0) `later`; returns what the owner learns. */
static int run(struct scene *scene, int port, enum tgt_io_kind kind, uint32_t flags, int now,
	       int later)
{
	struct rig_io one = {.io = io_of(kind, flags)};
	int status;

	answer = now;
	status = tgt_volume_submit(&scene->volume, scene->ports[port], &one.io);
	if (status) {
		assert_int_equal(one.done, 0);
		return status > 0 ? 0 : status;
	}
	assert_ptr_equal(held, &one.io);
	held->done(held, later);
	assert_int_equal(one.done, 1);
	return one.error;
}

static void answers_come_back(void **state)
{
	struct scene scene;

	scene_open(&scene, false);
	assert_int_equal(run(&scene, 0, TGT_IO_WRITE, 0, 1, 0), 0);
	assert_int_equal(run(&scene, 0, TGT_IO_WRITE, 0, 0, 0), 0);
	assert_int_equal(run(&scene, 0, TGT_IO_READ, 0, 0, -ENODATA), -ENODATA);
	assert_int_equal(run(&scene, 1, TGT_IO_READ, 0, -EIO, 0), -EIO);
	/* Refused for want of room: no failure of the store. */
	assert_int_equal(run(&scene, 0, TGT_IO_READ, 0, -EBUSY, 0), -EBUSY);
	assert_int_equal(atomic_load(&scene.volume.trouble.errors[TGT_IO_READ]), 2);
	assert_int_equal(atomic_load(&scene.volume.trouble.errors[TGT_IO_WRITE]), 0);
	assert_int_equal(run(&scene, 0, TGT_IO_FLUSH, 0, 0, 0), 0);
	scene_close(&scene);
}

static bool flush_latched(struct scene *scene, int port)
{
	unsigned int before = begun;
	int status = run(scene, port, TGT_IO_FLUSH, 0, 0, 0);

	if (!status)
		return false;
	assert_int_equal(status, -EIO);
	assert_int_equal(begun, before); /* not asked: its answer would mean nothing */
	return true;
}

static void epoch_of(struct scene *scene, uint8_t epoch[16])
{
	struct rblk_wire_volume described;

	tgt_volume_describe(&scene->volume, 4096, 0, &described);
	memcpy(epoch, described.cache_epoch, 16);
}

static void a_failed_flush_is_remembered(void **state)
{
	uint8_t first[16], second[16], third[16];
	struct scene scene;

	scene_open(&scene, true);
	epoch_of(&scene, first);
	assert_memory_equal(first, scene.store.info.cache_epoch, 16);
	assert_int_equal(run(&scene, 0, TGT_IO_FLUSH, 0, 0, -ENOSPC), -ENOSPC);
	epoch_of(&scene, second);
	assert_memory_not_equal(first, second, 16);
	assert_true(flush_latched(&scene, 0));
	assert_true(flush_latched(&scene, 1));
	assert_int_equal(run(&scene, 1, TGT_IO_WRITE, TGT_IO_FUA, 0, 0), 0);
	assert_int_equal(run(&scene, 1, TGT_IO_READ, 0, 1, 0), 0);
	/* One of two has closed: the other knows nothing yet. */
	tgt_volume_detach(&scene.volume, scene.ports[0]);
	scene.ports[0] = NULL;
	assert_true(flush_latched(&scene, 1));
	tgt_volume_detach(&scene.volume, scene.ports[1]);
	assert_int_equal(tgt_volume_attach(&scene.volume, NULL, &scene.ports[1]), 0);
	assert_false(flush_latched(&scene, 1));
	epoch_of(&scene, third);
	assert_memory_equal(second, third, 16);
	/* Another failure, another epoch. */
	assert_int_equal(run(&scene, 1, TGT_IO_FLUSH, 0, -EIO, 0), -EIO);
	epoch_of(&scene, third);
	assert_memory_not_equal(second, third, 16);
	scene_close(&scene);
}

/* The one that gets the error is not always the first to come back. */
static void a_flush_under_way_fails_too(void **state)
{
	struct rig_io one = {.io = io_of(TGT_IO_FLUSH, 0)};
	struct scene scene;

	scene_open(&scene, false);
	answer = 0;
	assert_int_equal(tgt_volume_submit(&scene.volume, scene.ports[0], &one.io), 0);
	assert_int_equal(run(&scene, 1, TGT_IO_FLUSH, 0, 0, -EIO), -EIO);
	one.io.done(&one.io, 0);
	assert_int_equal(one.done, 1);
	assert_int_equal(one.error, -EIO);
	scene_close(&scene);
}

static void which_errors_are_remembered(void **state)
{
	static const struct {
		bool buffered;
		enum tgt_io_kind kind;
		uint32_t flags;
		int error;
		bool remembered;
	} cases[] = {
		{false, TGT_IO_FLUSH, 0, -EIO, true},
		{false, TGT_IO_FLUSH, 0, -ETIMEDOUT, true},
		{false, TGT_IO_FLUSH, 0, -EOPNOTSUPP, false},
		{false, TGT_IO_WRITE, 0, -EIO, false},
		{false, TGT_IO_WRITE, TGT_IO_FUA, -EIO, true},
		{false, TGT_IO_WRITE, TGT_IO_FUA, -ENOSPC, false},
		{false, TGT_IO_WRITE_ZEROES, TGT_IO_FUA, -EIO, true},
		{false, TGT_IO_READ, 0, -EIO, false},
		{true, TGT_IO_WRITE, 0, -EIO, false},
		{true, TGT_IO_WRITE, TGT_IO_FUA, -ENOSPC, true},
		{true, TGT_IO_DISCARD, 0, -EIO, false},
	};
	struct scene scene;

	for (size_t i = 0; i < UNIT_LENGTH(cases); i++) {
		scene_open(&scene, cases[i].buffered);
		assert_int_equal(run(&scene, 0, cases[i].kind, cases[i].flags, 0, cases[i].error),
				 cases[i].error);
		assert_int_equal(flush_latched(&scene, 1), cases[i].remembered);
		scene_close(&scene);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_come_back),
		cmocka_unit_test(a_failed_flush_is_remembered),
		cmocka_unit_test(a_flush_under_way_fails_too),
		cmocka_unit_test(which_errors_are_remembered),
	};

	return cmocka_run_group_tests_name("target submit", tests, NULL, NULL);
}
