/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: submit.c completes every operation once, with the store's answer; a failed FLUSH or FUA
 * makes every FLUSH fail until the last channel is detached, and changes the cache epoch (F9), also
 * for a sync that succeeds at the same time; errors are counted by kind; operations in flight are
 * bounded, and owners that wait take turns. Method: a store that answers what it is told to, at
 * once or later.
 */
#include "target/store/submit.h"
#include "tests/unit/target_rig.h"

static int answer;	   /* of the store: what its submit returns */
static unsigned int begun; /* how many operations it has seen */
static struct tgt_io *held;

static int fake_attach(struct tgt_store *store, struct tgt_ring *ring, struct tgt_channel **channel)
{
	*channel = calloc(1, sizeof(**channel));
	(*channel)->store = store;
	(*channel)->ring = ring;
	return 0;
}

static void fake_detach(struct tgt_channel *channel)
{
	free(channel);
}

static int fake_submit(struct tgt_channel *channel, struct tgt_io *io)
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
	struct tgt_channel *channels[2]; /* of two reactors */
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
	tgt_range_locks_init(&scene->volume.range_locks);
	for (int i = 0; i < 2; i++)
		assert_int_equal(tgt_volume_attach(&scene->volume, NULL, &scene->channels[i]), 0);
}

static void scene_close(struct scene *scene)
{
	for (int i = 0; i < 2; i++)
		if (scene->channels[i])
			tgt_volume_detach(&scene->volume, scene->channels[i]);
}

static struct tgt_io io_of(enum tgt_io_kind kind, uint32_t flags)
{
	return (struct tgt_io){
		.kind = kind, .flags = flags, .bytes = 512, .offset = 1024, .ended = rig_io_done};
}

/* The store answers `now`, or (0) `later`; returns the result that the owner gets. */
static int run(struct scene *scene, int channel, enum tgt_io_kind kind, uint32_t flags, int now,
	       int later)
{
	struct rig_io one = {.io = io_of(kind, flags)};
	int status;

	answer = now;
	status = tgt_volume_submit(&scene->volume, scene->channels[channel], &one.io);
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
	/* Refused for lack of room: not a failure of the store. */
	assert_int_equal(run(&scene, 0, TGT_IO_READ, 0, -EBUSY, 0), -EBUSY);
	assert_int_equal(atomic_load(&scene.volume.trouble.errors[TGT_IO_READ]), 2);
	assert_int_equal(atomic_load(&scene.volume.trouble.errors[TGT_IO_WRITE]), 0);
	assert_int_equal(run(&scene, 0, TGT_IO_FLUSH, 0, 0, 0), 0);
	scene_close(&scene);
}

static bool flush_latched(struct scene *scene, int channel)
{
	unsigned int before = begun;
	int status = run(scene, channel, TGT_IO_FLUSH, 0, 0, 0);

	if (!status)
		return false;
	assert_int_equal(status, -EIO);
	assert_int_equal(begun, before); /* the store is not asked: its answer would mean nothing */
	return true;
}

static void epoch_of(struct scene *scene, uint8_t epoch[16])
{
	struct rblk_wire_volume described;

	tgt_volume_describe(&scene->volume, 0, 4096, 0, &described);
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
	/* One of two has closed; the other has not been told yet. */
	tgt_volume_detach(&scene.volume, scene.channels[0]);
	scene.channels[0] = NULL;
	assert_true(flush_latched(&scene, 1));
	tgt_volume_detach(&scene.volume, scene.channels[1]);
	assert_int_equal(tgt_volume_attach(&scene.volume, NULL, &scene.channels[1]), 0);
	assert_false(flush_latched(&scene, 1));
	epoch_of(&scene, third);
	assert_memory_equal(second, third, 16);
	/* Another failure, another epoch. */
	assert_int_equal(run(&scene, 1, TGT_IO_FLUSH, 0, -EIO, 0), -EIO);
	epoch_of(&scene, third);
	assert_memory_not_equal(second, third, 16);
	scene_close(&scene);
}

/* The sync that gets the error does not always end first. */
static void a_flush_under_way_fails_too(void **state)
{
	struct rig_io one = {.io = io_of(TGT_IO_FLUSH, 0)};
	struct scene scene;

	scene_open(&scene, false);
	answer = 0;
	assert_int_equal(tgt_volume_submit(&scene.volume, scene.channels[0], &one.io), 0);
	assert_int_equal(run(&scene, 1, TGT_IO_FLUSH, 0, 0, -EIO), -EIO);
	one.io.done(&one.io, 0);
	assert_int_equal(one.done, 1);
	assert_int_equal(one.error, -EIO);
	scene_close(&scene);
}

/*
 * Two reactors share a file description, and the kernel reports a failed writeback to it once. A
 * sync that succeeded while another one is in flight counts only after that one has ended, in
 * whatever order they end.
 */
static void sync_beside(bool buffered, enum tgt_io_kind kind, uint32_t flags, int other_error, bool waits)
{
	struct rig_io first = {.io = io_of(kind, flags)}, other = {.io = io_of(TGT_IO_FLUSH, 0)};
	struct tgt_ring *rings[2];
	struct scene scene;

	scene_open(&scene, buffered);
	scene_close(&scene);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(tgt_ring_create(64, 8, &rings[i]), 0);
		assert_int_equal(tgt_volume_attach(&scene.volume, rings[i], &scene.channels[i]), 0);
	}
	answer = 0;
	assert_int_equal(tgt_volume_submit(&scene.volume, scene.channels[0], &first.io), 0);
	assert_int_equal(tgt_volume_submit(&scene.volume, scene.channels[1], &other.io), 0);
	first.io.done(&first.io, 0);
	assert_int_equal(first.done, !waits);
	/* It does not wait for one that begins later. */
	if (waits)
		assert_int_equal(run(&scene, 1, TGT_IO_WRITE, TGT_IO_FUA, 1, 0), 0);
	other.io.done(&other.io, other_error);
	assert_int_equal(other.done, 1);
	assert_int_equal(other.error, other_error);
	assert_int_equal(tgt_ring_inflight(rings[0]), waits);
	assert_int_equal(tgt_ring_reap(rings[0], 16), waits);
	assert_int_equal(first.done, 1);
	assert_int_equal(first.error, waits && other_error ? -EIO : 0);
	assert_int_equal(tgt_ring_inflight(rings[0]), 0);
	scene_close(&scene);
	for (int i = 0; i < 2; i++)
		tgt_ring_destroy(rings[i]);
}

static void a_sync_is_believed_when_those_beside_it_have_ended(void **state)
{
	sync_beside(false, TGT_IO_FLUSH, 0, -EIO, true);
	sync_beside(true, TGT_IO_FLUSH, 0, -EIO, true);
	sync_beside(true, TGT_IO_FLUSH, 0, 0, true);
	sync_beside(true, TGT_IO_WRITE, TGT_IO_FUA, -EIO, true);
	sync_beside(true, TGT_IO_WRITE_ZEROES, TGT_IO_FUA, 0, true);
	/* It is two operations of the store: another's sync can fail in between, and lose the zeroes. */
	sync_beside(false, TGT_IO_WRITE_ZEROES, TGT_IO_FUA, -EIO, true);
	/* Without the page cache a durable write answers for itself. */
	sync_beside(false, TGT_IO_WRITE, TGT_IO_FUA, -EIO, false);
	sync_beside(true, TGT_IO_WRITE, 0, -EIO, false);
}

/* FLUSHes of three reactors, until each has its result: none waits for one that waits itself. */
static void syncs_do_not_wait_in_a_circle(void **state)
{
	enum { PORTS = 3, ROUNDS = 200 };
	static struct rig_io flushes[PORTS];
	struct tgt_ring *rings[PORTS];
	struct tgt_channel *channels[PORTS];
	struct scene scene;
	unsigned int seed = 1;

	scene_open(&scene, true);
	for (int i = 0; i < PORTS; i++) {
		assert_int_equal(tgt_ring_create(64, 8, &rings[i]), 0);
		assert_int_equal(tgt_volume_attach(&scene.volume, rings[i], &channels[i]), 0);
	}
	answer = 0;
	for (int round = 0; round < ROUNDS; round++) {
		unsigned int begun_mask = 0, back = 0, told = 0;

		memset(flushes, 0, sizeof(flushes));
		while (told != (1u << PORTS) - 1) {
			unsigned int i = (unsigned int)rand_r(&seed) % PORTS;

			if (!(begun_mask & 1u << i)) {
				flushes[i].io = io_of(TGT_IO_FLUSH, 0);
				assert_int_equal(tgt_volume_submit(&scene.volume, channels[i],
								   &flushes[i].io),
						 0);
				begun_mask |= 1u << i;
			} else if (!(back & 1u << i)) {
				flushes[i].io.done(&flushes[i].io, 0);
				back |= 1u << i;
			} else {
				tgt_ring_reap(rings[i], 16);
			}
			if (back == (1u << PORTS) - 1)
				for (int j = 0; j < PORTS; j++)
					tgt_ring_reap(rings[j], 16);
			for (i = 0; i < PORTS; i++)
				told |= flushes[i].done << i;
			if (back == (1u << PORTS) - 1)
				assert_int_equal(told, back);
		}
	}
	for (int i = 0; i < PORTS; i++) {
		assert_int_equal(tgt_ring_inflight(rings[i]), 0);
		tgt_volume_detach(&scene.volume, channels[i]);
		tgt_ring_destroy(rings[i]);
	}
	scene_close(&scene);
}

/* An operation that waited and then found no room did not begin: its owner may send it again. */
static void no_room_for_what_has_waited_is_said(void **state)
{
	struct rig_io flushes[3];
	struct scene scene;

	scene_open(&scene, false);
	answer = 0;
	for (int i = 0; i < 3; i++) {
		flushes[i] = (struct rig_io){.io = io_of(TGT_IO_FLUSH, 0)};
		assert_int_equal(tgt_volume_submit(&scene.volume, scene.channels[0], &flushes[i].io),
				 0);
	}
	assert_int_equal(begun, 1);
	answer = -EBUSY;
	held->done(held, 0);
	assert_int_equal(flushes[0].error, 0);
	for (int i = 1; i < 3; i++) {
		assert_int_equal(flushes[i].done, 1);
		assert_int_equal(flushes[i].error, -EBUSY);
	}
	/* This is not a failure of the store, so nothing is lost. But an operation that has
	 * begun must not be sent again. */
	assert_int_equal(run(&scene, 0, TGT_IO_FLUSH, 0, 0, 0), 0);
	assert_int_equal(run(&scene, 0, TGT_IO_WRITE, 0, 0, -EBUSY), -EIO);
	assert_int_equal(run(&scene, 0, TGT_IO_FLUSH, 0, 0, 0), 0);
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
		bool alone; /* its durable writes fail by themselves */
	} cases[] = {
		{false, TGT_IO_WRITE, TGT_IO_FUA, -ENODATA, true, false}, /* of the write or the flush */
		{false, TGT_IO_WRITE, TGT_IO_FUA, -ENODATA, false, true},
		{false, TGT_IO_WRITE, TGT_IO_FUA, -EIO, false, true},
		{false, TGT_IO_FLUSH, 0, -EIO, true, true},
		{false, TGT_IO_FLUSH, 0, -EIO, true, false},
		{false, TGT_IO_FLUSH, 0, -ETIMEDOUT, true, false},
		{false, TGT_IO_FLUSH, 0, -EOPNOTSUPP, false, false},
		{false, TGT_IO_WRITE, 0, -EIO, false, false},
		{false, TGT_IO_WRITE, TGT_IO_FUA, -EIO, true, false},
		{false, TGT_IO_WRITE, TGT_IO_FUA, -ENOSPC, false, false},
		{false, TGT_IO_WRITE_ZEROES, TGT_IO_FUA, -EIO, true, false},
		{false, TGT_IO_READ, 0, -EIO, false, false},
		{true, TGT_IO_WRITE, 0, -EIO, false, false},
		{true, TGT_IO_WRITE, TGT_IO_FUA, -ENOSPC, true, false},
		{true, TGT_IO_DISCARD, 0, -EIO, false, false},
	};
	struct scene scene;

	for (size_t i = 0; i < UNIT_LENGTH(cases); i++) {
		scene_open(&scene, cases[i].buffered);
		scene.store.info.fua_alone = cases[i].alone;
		assert_int_equal(run(&scene, 0, cases[i].kind, cases[i].flags, 0, cases[i].error),
				 cases[i].error);
		assert_int_equal(flush_latched(&scene, 1), cases[i].remembered);
		scene_close(&scene);
	}
}

/* -- limits ------------------------------------------------------------------------------------ */

/*
 * The test ends the operations that the store has, the oldest first. `order` lists the letters of
 * their owners, in the order in which they ended.
 */
#define MANY 400u
#define RANGES 2u /* of a store that does not say */
static struct rig_io crowd[MANY];
static struct tgt_io *storing[MANY];
static unsigned int storing_head, storing_tail;
static char order[MANY + 1];
static unsigned int ended;

static void crowd_ended(struct tgt_io *io, int error)
{
	rig_io_done(io, error);
	order[ended++] = (char)io->waiter.owner;
}

static int crowd_submit(struct tgt_channel *channel, struct tgt_io *io)
{
	begun++;
	storing[storing_head++ % MANY] = io;
	return 0;
}

static const struct tgt_store_ops crowd_ops = {
	.kind = "crowd",
	.attach = fake_attach,
	.detach = fake_detach,
	.submit = crowd_submit,
};

static void crowd_open(struct scene *scene)
{
	scene_open(scene, false);
	scene->store.ops = &crowd_ops;
	scene->channels[0]->volume = &scene->volume;
	storing_head = storing_tail = ended = 0;
	memset(order, 0, sizeof(order));
	memset(crowd, 0, sizeof(crowd));
}

/* Operation `i` of an owner. */
static void crowd_start(struct scene *scene, unsigned int i, enum tgt_io_kind kind, char owner)
{
	crowd[i].io = io_of(kind, 0);
	crowd[i].io.ended = crowd_ended;
	crowd[i].io.waiter.owner = owner;
	assert_int_equal(tgt_volume_submit(&scene->volume, scene->channels[0], &crowd[i].io), 0);
}

static unsigned int crowd_storing(void)
{
	return storing_head - storing_tail;
}

static void crowd_end_one(int error)
{
	struct tgt_io *io = storing[storing_tail++ % MANY];

	io->done(io, error);
}

static void ranges_leave_threads_to_others(void **state)
{
	struct scene scene;
	unsigned int i;

	crowd_open(&scene);
	for (i = 0; i < 64; i++)
		crowd_start(&scene, i, i % 2 ? TGT_IO_DISCARD : TGT_IO_WRITE_ZEROES, 'a');
	assert_int_equal(crowd_storing(), RANGES);
	/* Neither FLUSH nor transfers wait behind them. */
	crowd_start(&scene, 64, TGT_IO_FLUSH, 'a');
	crowd_start(&scene, 65, TGT_IO_WRITE, 'a');
	assert_int_equal(crowd_storing(), RANGES + 2);
	for (i = 0; crowd_storing(); i++) {
		assert_true(crowd_storing() <= RANGES + 2);
		crowd_end_one(i == 7 ? -EIO : 0);
	}
	assert_int_equal(ended, 66);
	for (i = 0; i < 66; i++)
		assert_int_equal(crowd[i].done, 1);
	scene_close(&scene);
}

/* An owner that came first with many operations does not delay later owners for all of them. */
static void owners_take_turns(void **state)
{
	struct scene scene;
	unsigned int i;

	crowd_open(&scene);
	for (i = 0; i < 8; i++)
		crowd_start(&scene, i, TGT_IO_WRITE_ZEROES, 'a');
	for (; i < 11; i++)
		crowd_start(&scene, i, TGT_IO_WRITE_ZEROES, 'b');
	crowd_start(&scene, i, TGT_IO_WRITE_ZEROES, 'c');
	/* One whose owner's turn is far away, and one whose owner is next. */
	assert_true(tgt_volume_withdraw(&crowd[9].io));
	assert_true(tgt_volume_withdraw(&crowd[2].io));
	assert_false(tgt_volume_withdraw(&crowd[2].io));
	assert_false(tgt_volume_withdraw(&crowd[0].io));
	while (crowd_storing())
		crowd_end_one(0);
	assert_string_equal(order, "aaabcabaaa");
	assert_int_equal(crowd[9].done + crowd[2].done, 0);
	scene_close(&scene);
}

/* What a disk takes is for all reactors that serve it, and each has a part, as long as they do. */
static void transfers_are_divided_among_channels(void **state)
{
	static const struct {
		uint32_t depth;
		unsigned int alone, divided;
	} cases[] = {{0, 256, 256}, {32, 32, 16}, {100, 100, 50}, {9, 9, 8}};
	struct tgt_channel *other;
	struct scene scene;

	for (size_t c = 0; c < UNIT_LENGTH(cases); c++) {
		unsigned int i = 0;

		crowd_open(&scene);
		tgt_volume_detach(&scene.volume, scene.channels[1]);
		scene.store.info.depths.transfers = cases[c].depth;
		for (; i < 270; i++)
			crowd_start(&scene, i, i % 2 ? TGT_IO_READ : TGT_IO_WRITE, 'a');
		assert_int_equal(crowd_storing(), cases[c].alone);
		tgt_volume_attach(&scene.volume, NULL, &other);
		while (crowd_storing() > cases[c].divided)
			crowd_end_one(0);
		for (int n = 0; n < 5 && ended < 200; n++) {
			crowd_end_one(0);
			assert_int_equal(crowd_storing(), cases[c].divided);
		}
		tgt_volume_detach(&scene.volume, other);
		crowd_end_one(0);
		assert_int_equal(crowd_storing(), ended + cases[c].alone > 270 ? 270 - ended : cases[c].alone);
		while (crowd_storing())
			crowd_end_one(0);
		assert_int_equal(ended, 270);
		tgt_volume_attach(&scene.volume, NULL, &scene.channels[1]);
		scene_close(&scene);
	}
}

/* `limit = auto`: a READ waits behind no WRITE, and a WRITE behind no READ. Those that came before go on as they began.
 */
static void reads_and_writes_are_paced_apart(void **state)
{
	struct scene scene;
	unsigned int i = 0;

	(void)state;
	crowd_open(&scene);
	crowd_start(&scene, i++, TGT_IO_READ, 'z');
	tgt_volume_pace(scene.channels[0], true);
	crowd_start(&scene, i++, TGT_IO_WRITE, 'w'); /* waits: the READ before it is counted with WRITEs */
	crowd_start(&scene, i++, TGT_IO_WRITE, 'w');
	assert_int_equal(crowd_storing(), 1);
	crowd_start(&scene, i++, TGT_IO_READ, 'r');
	assert_int_equal(crowd_storing(), 2);
	crowd_start(&scene, i++, TGT_IO_READ, 'r');
	assert_int_equal(crowd_storing(), 2);
	crowd_end_one(0); /* z: a WRITE begins */
	assert_int_equal(crowd_storing(), 2);
	crowd_end_one(0); /* a READ: so does the other one */
	assert_int_equal(crowd_storing(), 2);
	crowd_end_one(0);
	assert_string_equal(order, "zrw");
	crowd_start(&scene, i++, TGT_IO_READ, 'r'); /* waits, and goes on with those that it was with */
	assert_int_equal(atomic_load(&scene.volume.pace.window), 2);
	tgt_volume_pace(scene.channels[0], false);
	assert_int_equal(atomic_load(&scene.volume.pace.window), 0);
	crowd_start(&scene, i++, TGT_IO_READ, 'z');
	while (crowd_storing())
		crowd_end_one(0);
	assert_string_equal(order, "zrwrwzr");
	scene_close(&scene);
}

/* A disk that fails at once is not a quick one, nor one that fails late a slow one. */
static void what_fails_is_no_measure(void **state)
{
	struct scene scene;

	(void)state;
	crowd_open(&scene);
	tgt_volume_pace(scene.channels[0], true);
	crowd_start(&scene, 0, TGT_IO_READ, 'r');
	crowd_end_one(-EIO);
	assert_int_equal(scene.channels[0]->pace[1].probes, TGT_PACE_PROBES);
	scene_close(&scene);
}

/* FLUSHes that come while one is in flight may cover writes that it does not: the next one
 * serves them. */
static void flushes_are_done_together(void **state)
{
	struct scene scene;
	unsigned int i;

	crowd_open(&scene);
	crowd_start(&scene, 0, TGT_IO_FLUSH, 'a');
	for (i = 1; i < 6; i++)
		crowd_start(&scene, i, TGT_IO_FLUSH, 'b');
	assert_true(tgt_volume_withdraw(&crowd[3].io));
	assert_int_equal(begun, 1);
	crowd_end_one(0);
	assert_string_equal(order, "a");
	assert_int_equal(begun, 2);
	crowd_start(&scene, 6, TGT_IO_FLUSH, 'c');
	assert_int_equal(begun, 2);
	crowd_end_one(-EIO);
	/* One failure is reported to all that shared it; and the store is not asked again (F9). */
	assert_string_equal(order, "abbbbc");
	assert_int_equal(begun, 2);
	for (i = 0; i < 7; i++) {
		assert_int_equal(crowd[i].done, i != 3);
		assert_int_equal(crowd[i].error, i == 0 || i == 3 ? 0 : -EIO);
	}
	assert_int_equal(atomic_load(&scene.volume.trouble.errors[TGT_IO_FLUSH]), 1);
	scene_close(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_come_back),
		cmocka_unit_test(a_failed_flush_is_remembered),
		cmocka_unit_test(a_flush_under_way_fails_too),
		cmocka_unit_test(a_sync_is_believed_when_those_beside_it_have_ended),
		cmocka_unit_test(syncs_do_not_wait_in_a_circle),
		cmocka_unit_test(no_room_for_what_has_waited_is_said),
		cmocka_unit_test(which_errors_are_remembered),
		cmocka_unit_test(ranges_leave_threads_to_others),
		cmocka_unit_test(owners_take_turns),
		cmocka_unit_test(transfers_are_divided_among_channels),
		cmocka_unit_test(reads_and_writes_are_paced_apart),
		cmocka_unit_test(what_fails_is_no_measure),
		cmocka_unit_test(flushes_are_done_together),
	};

	return cmocka_run_group_tests_name("target submit", tests, NULL, NULL);
}
