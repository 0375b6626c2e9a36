/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The CPUs that reactors run on (the setting `cpus`): reading the list, and placing a reactor. Control thread.
 */
#ifndef RBLK_TARGET_CPUS_H
#define RBLK_TARGET_CPUS_H

#include <sched.h>
#include "target/base/settings.h"

/* "0-3,8", in this order. -EINVAL: `why` (TGT_ERROR_BYTES) has the error. */
int tgt_cpus_parse(const char *text, struct tgt_cpus *cpus, char *why);

/*
 * Around making and starting a reactor: in between, this thread runs on the reactor's CPU alone. So the thread that it
 * starts does, for good, and the memory that is touched first in between is of that CPU's NUMA node. Without a list
 * nothing happens. error: TGT_ERROR_BYTES.
 */
int tgt_cpus_enter(const struct tgt_cpus *cpus, unsigned int reactor, cpu_set_t *before, char *error);
void tgt_cpus_leave(const struct tgt_cpus *cpus, const cpu_set_t *before);

/*
 * How many CPUs' time the cgroups of this process allow it (cpu.max, of cgroup v2), rounded up; 0: they do not say.
 * root: "" but in tests.
 */
unsigned int tgt_cpus_quota(const char *root);

#endif
