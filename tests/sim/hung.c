/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The disk of hung.h. */
#include "tests/sim/hung.h"

#include "tests/sim/coverage.h"
#include "tests/sim/module.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

/* Much longer than any command takes in such a world, and much shorter than the disk hangs. */
#define LIMIT_NS SIM_S

/* Fewer than may linger. */
#define BREAKS_MAX 3u

static struct {
	const struct sim_disk *disk; /* NULL: none hangs */
	uint64_t from_ns, until_ns, patience_ns;
	unsigned int broken; /* connections */
} hung;

unsigned int sim_hung_depth(void)
{
	return 3 + 2 * hung.broken;
}

void sim_hung_reset(void)
{
	hung.disk = NULL;
}

void sim_hung_begin(const struct sim_disk *disk, uint64_t from_ns, uint64_t ns, uint64_t patience_ns)
{
	hung.disk = disk;
	hung.from_ns = sim_now_ns() + from_ns;
	hung.until_ns = hung.from_ns + ns;
	hung.patience_ns = patience_ns;
	hung.broken = 0;
}

bool sim_hung_is(const struct sim_disk *disk)
{
	return disk && disk == hung.disk;
}

static bool hangs_now(void)
{
	return hung.disk && sim_now_ns() >= hung.from_ns && sim_now_ns() < hung.until_ns;
}

uint64_t sim_hung_ns(const struct sim_disk *disk)
{
	/* What was lost first need not end first. */
	return sim_hung_is(disk) && hangs_now() ? hung.until_ns - sim_now_ns() + sim_below(100 * SIM_MS) : 0;
}

bool sim_hung_may_break(uint32_t chance)
{
	return hangs_now() && hung.broken < BREAKS_MAX && sim_chance(hung.broken ? chance / 100 : chance);
}

bool sim_hung_broke(void)
{
	return hung.broken && hangs_now();
}

void sim_hung_broken(void)
{
	if (hung.broken++)
		sim_reached("hung disk", "a connection is lost, and another one", NULL);
}

void sim_hung_done(const char *who, const char *what, const struct sim_disk *disk, uint64_t begun_ns)
{
	if (!hung.disk || sim_hung_is(disk) || begun_ns < hung.from_ns || begun_ns >= hung.until_ns)
		return;
	if (sim_now_ns() - begun_ns > LIMIT_NS)
		sim_fail("%s: %s on a disk that is well took %llu ms, because another disk hangs", who, what,
			 (unsigned long long)((sim_now_ns() - begun_ns) / SIM_MS));
	if (hung.broken && hangs_now())
		sim_reached("hung disk: a connection is lost, and others go on with", what, NULL);
}

void sim_hung_ended(const char *who, const struct sim_disk *disk, const struct sim_command *command, uint64_t begun_ns,
		    bool done, bool module)
{
	uint64_t now_ns = sim_now_ns();
	bool read = command->kind == SIM_COMMAND_READ;

	if (!sim_hung_is(disk) && !done && hung.broken && hangs_now())
		sim_reached("hung disk", "others fail fast", read ? NULL : "and may still be carried out");
	if (!hung.disk || sim_hung_is(disk) || !done || now_ns < hung.from_ns || begun_ns >= hung.until_ns)
		return;
	if (now_ns - begun_ns > LIMIT_NS)
		sim_fail("%s: a command on a disk that is well took %llu ms, because another disk hangs", who,
			 (unsigned long long)((now_ns - begun_ns) / SIM_MS));
	if (now_ns - hung.from_ns > hung.patience_ns && hangs_now())
		sim_reached("hung disk", hung.broken ? "a connection is lost, and others go on" : "others go on",
			    module ? "by the module" : "by an application");
}
