/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What only the target's own structs tell: whose a storage I/O is, where a volume in memory lies.
 */
#ifndef RBLK_TESTS_SIM_INSIDE_H
#define RBLK_TESTS_SIM_INSIDE_H

#include "tests/sim/disk.h"
#include "tests/sim/host.h"

/*
 * Section 8: an OPEN for writing of the host's volume has succeeded. What connections that ended
 * before it was sent have left there is over: storage I/O, and READs into memory.
 */
void sim_inside_opened(const struct sim_host *host, unsigned int volume,
		       const struct sim_opening *opening);

#endif
