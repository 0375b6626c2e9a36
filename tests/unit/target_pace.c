/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: `limit = auto` gives a disk what keeps it busy and little more, whatever its speed and however many it serves at
 * once; a disk that slows down has a short queue at once, and its window comes back. Method: a disk of so many servers
 * with fixed times, on a clock of the test's own, that always has more to do; windows and operations are counted.
 */
#include "target/store/pace.h"
#include "tests/unit/unit.h"

#define MS 1000000ull
#define MOST 256u

static struct disk {
	unsigned int servers;
	uint64_t service_ns;
	unsigned int in_flight, most_in_flight; /* most: since disk_run() began */
	uint64_t ended;
	struct {
		uint64_t begun_ns, end_ns;
		bool used;
	} operations[MOST];
	uint64_t free_ns[MOST]; /* of each server */
} disk;

/* The disk is given READs. */
static struct tgt_pace paces[2], *const writes = &paces[0], *const reads = &paces[1];
static uint64_t now_ns;

static void begin(void)
{
	unsigned int server = 0, place = 0;
	uint64_t start_ns;

	for (unsigned int i = 1; i < disk.servers; i++)
		if (disk.free_ns[i] < disk.free_ns[server])
			server = i;
	while (disk.operations[place].used)
		place++;
	start_ns = disk.free_ns[server] > now_ns ? disk.free_ns[server] : now_ns;
	disk.free_ns[server] = start_ns + disk.service_ns;
	disk.operations[place].used = true;
	disk.operations[place].begun_ns = now_ns;
	disk.operations[place].end_ns = disk.free_ns[server];
	if (++disk.in_flight > disk.most_in_flight)
		disk.most_in_flight = disk.in_flight;
}

static void end_one(unsigned int offered)
{
	unsigned int next = MOST;

	for (unsigned int i = 0; i < MOST; i++)
		if (disk.operations[i].used &&
		    (next == MOST || disk.operations[i].end_ns < disk.operations[next].end_ns))
			next = i;
	assert_true(next < MOST);
	disk.operations[next].used = false;
	now_ns = disk.operations[next].end_ns;
	disk.in_flight--;
	disk.ended++;
	reads->wanted |= offered > disk.in_flight + 1;
	tgt_pace_ended(paces, TGT_PACE_READ, 4096, disk.operations[next].begun_ns, now_ns, disk.in_flight + 1, MOST);
	assert_in_range(reads->window, 1, MOST);
}

/* `offered` want to be in flight at any time, for so long. */
static void run(unsigned int offered, uint64_t ns)
{
	uint64_t until_ns = now_ns + ns;

	disk.most_in_flight = disk.in_flight;
	while (now_ns < until_ns) {
		while (disk.in_flight < reads->window && disk.in_flight < offered)
			begin();
		end_one(offered);
	}
}

static void disk_new(unsigned int servers, uint64_t service_ns)
{
	disk = (struct disk){.servers = servers, .service_ns = service_ns};
	now_ns = 1000 * TGT_PACE_PERIOD_NS;
	tgt_pace_init(paces, now_ns);
}

/* What the disk could do in that time at any depth. */
static uint64_t ability(uint64_t ns)
{
	return ns / disk.service_ns * disk.servers;
}

static void a_disk_is_busy_and_has_no_queue(void **state)
{
	static const unsigned int servers[] = {1, 4, 16, 64};

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(servers); i++) {
		disk_new(servers[i], 4 * MS);
		run(MOST, 3000 * MS);
		disk.ended = 0;
		run(MOST, 15000 * MS);
		/* Twice what it serves at once, and the growth until that is seen. */
		assert_in_range(disk.most_in_flight, servers[i], 4 * servers[i] + 2);
		assert_true(disk.ended * 10 > ability(15000 * MS) * 9);
	}
}

static void what_is_not_wanted_is_not_given(void **state)
{
	(void)state;
	disk_new(64, 4 * MS);
	run(3, 12000 * MS);
	assert_in_range(reads->window, 3, 4);
	assert_int_equal(disk.most_in_flight, 3);
}

/* No operation takes it far below what a quick disk needs: the slack. */
static void a_quick_disk_gets_all(void **state)
{
	(void)state;
	disk_new(16, 1000);
	run(MOST, 3 * MS);
	assert_int_equal(reads->window, MOST);
}

static void a_slow_phase_shortens_the_queue(void **state)
{
	unsigned int before;
	uint64_t begun;

	(void)state;
	disk_new(32, MS);
	run(MOST, 2000 * MS);
	before = reads->window;
	assert_true(before >= 32);
	disk.service_ns = 40 * MS;
	begun = disk.ended;
	while (reads->window > 1) {
		run(MOST, 1);
		assert_true(disk.ended - begun < 4 * MOST);
	}
	/* While it is as slow as that, the queue stays short until the next look at the quiet disk... */
	run(MOST, 1000 * MS);
	assert_true(disk.in_flight <= 2 && reads->window <= 2);
	/* ... which finds that this is what it takes now. */
	run(MOST, 2 * TGT_PACE_PERIOD_NS);
	assert_true(reads->window >= 32);
	/* It is quick again: found at the next look at the latest, and nothing was cut for it. */
	disk.service_ns = MS;
	run(MOST, 2 * TGT_PACE_PERIOD_NS);
	disk.ended = 0;
	run(MOST, 1000 * MS);
	assert_true(disk.ended * 10 > ability(1000 * MS) * 9);
	assert_true(reads->window <= 3 * 32 + 2);
}

/* A probe has few in flight, for so many operations, and gives the window back. */
static void a_probe_is_short(void **state)
{
	unsigned int before;
	uint64_t ended;

	(void)state;
	disk_new(32, MS);
	run(MOST, 4990 * MS);
	before = reads->window;
	while (!reads->probes)
		run(MOST, 1);
	assert_int_equal(reads->window, TGT_PACE_QUIET);
	ended = disk.ended + disk.in_flight;
	while (reads->probes)
		run(MOST, 1);
	assert_true(disk.ended - ended <= TGT_PACE_PROBES);
	assert_true(reads->window >= before / 2);
	assert_int_equal(reads->quiet_ns[TGT_PACE_READ][0] / 1000, 1000);
}

/* READs beside WRITEs that the store had before are no measure of the quiet store. */
static void a_probe_waits_for_both_kinds(void **state)
{
	uint64_t t = 1001 * TGT_PACE_PERIOD_NS;

	(void)state;
	disk_new(1, MS);
	reads->probes = writes->probes = 0;
	writes->window = 9;
	assert_true(tgt_pace_ended(paces, TGT_PACE_READ, 4096, t - MS, t, 1, MOST));
	assert_int_equal(writes->window, TGT_PACE_QUIET);
	for (unsigned int left = 9; left > 1; left--, t += 10 * MS) {
		tgt_pace_ended(paces, TGT_PACE_WRITE, 4096, t - 80 * MS, t + 9 * MS, left, MOST);
		tgt_pace_ended(paces, TGT_PACE_READ, 4096, t, t + 10 * MS, 1, MOST);
	}
	assert_int_equal(reads->probes, TGT_PACE_PROBES);
	for (; reads->probes; t += MS)
		tgt_pace_ended(paces, TGT_PACE_READ, 4096, t, t + MS, 1, MOST);
	assert_int_equal(reads->quiet_ns[TGT_PACE_READ][0], MS);
}

/* Kinds and lengths have quiet times of their own: a long one is not late because it is long. */
static void lengths_are_judged_by_themselves(void **state)
{
	uint64_t t = 1000 * TGT_PACE_PERIOD_NS;

	(void)state;
	tgt_pace_init(paces, t);
	for (unsigned int i = 0; i < 2 * TGT_PACE_PROBES; i++, t += MS)
		tgt_pace_ended(paces, i % 2 ? TGT_PACE_READ : TGT_PACE_DURABLE_WRITE, i % 2 ? 4096 : 1u << 24, t,
			       t + (i % 2 ? MS : 50 * MS), 1, MOST);
	assert_int_equal(reads->probes, 0);
	reads->wanted = true;
	for (unsigned int i = 0; i < 100; i++, t += MS) {
		tgt_pace_ended(paces, TGT_PACE_READ, 4096, t, t + MS, 1, MOST);
		tgt_pace_ended(paces, TGT_PACE_DURABLE_WRITE, 1u << 24, t, t + 60 * MS, 1, MOST);
		/* The first one says what it takes. */
		tgt_pace_ended(paces, TGT_PACE_WRITE, 8192, t, t + 7 * MS, 1, MOST);
	}
	assert_true(reads->steep);
	assert_int_equal(reads->window, 2 * TGT_PACE_QUIET);
	/* And a short one that takes as long as a long one is. */
	for (unsigned int i = 0; i < 400; i++, t += MS)
		tgt_pace_ended(paces, TGT_PACE_READ, 4096, t, t + 50 * MS, 1, MOST);
	assert_int_equal(reads->window, 1);
}

/* Probes take most of a period, or are longer than several: its end cuts none off, and they become as rare as they are
 * long. */
static void slow_operations_get_a_window(void **state)
{
	static const uint64_t service_ms[] = {200, 400, 1000, 6000};

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(service_ms); i++) {
		uint64_t time_ns = 1000 * service_ms[i] * MS;

		disk_new(64, service_ms[i] * MS);
		run(MOST, time_ns / 4);
		disk.ended = 0;
		run(MOST, time_ns);
		assert_true(disk.ended * 10 > ability(time_ns) * 7);
	}
}

/* Quick READs are late behind WRITEs whose own time allows them a queue: with a window of one, READs cannot help it. */
static void the_other_kind_gives_way(void **state)
{
	uint64_t t = 1000 * TGT_PACE_PERIOD_NS;

	(void)state;
	tgt_pace_init(paces, t);
	for (unsigned int i = 0; i < 2 * TGT_PACE_PROBES; i++, t += MS)
		tgt_pace_ended(paces, i % 2 ? TGT_PACE_READ : TGT_PACE_WRITE, 4096, t, t + (i % 2 ? MS : 20 * MS), 1,
			       MOST);
	reads->window = 4;
	writes->window = 32;
	for (unsigned int left = 16; left; left--, t += 20 * MS)
		tgt_pace_ended(paces, TGT_PACE_READ, 4096, t, t + 20 * MS, 1, MOST);
	assert_int_equal(reads->window, 1);
	assert_int_equal(writes->window, 32);
	for (unsigned int left = 8; left; left--, t += 20 * MS)
		tgt_pace_ended(paces, TGT_PACE_READ, 4096, t, t + 20 * MS, 1, MOST);
	assert_int_equal(reads->window, 1);
	assert_int_equal(writes->window, 16);
	/* While these are late themselves, their own window is what changes. */
	reads->window = 2;
	for (unsigned int left = 16; left; left--, t += 100 * MS)
		tgt_pace_ended(paces, TGT_PACE_WRITE, 4096, t, t + 100 * MS, 1, MOST);
	assert_int_equal(reads->window, 2);
	assert_int_equal(writes->window, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_disk_is_busy_and_has_no_queue),
		cmocka_unit_test(what_is_not_wanted_is_not_given),
		cmocka_unit_test(a_quick_disk_gets_all),
		cmocka_unit_test(a_slow_phase_shortens_the_queue),
		cmocka_unit_test(a_probe_is_short),
		cmocka_unit_test(a_probe_waits_for_both_kinds),
		cmocka_unit_test(lengths_are_judged_by_themselves),
		cmocka_unit_test(slow_operations_get_a_window),
		cmocka_unit_test(the_other_kind_gives_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
