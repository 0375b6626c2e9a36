/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What host.c and host_reload.c share. */
#ifndef RBLK_TESTS_SIM_HOST_IMPL_H
#define RBLK_TESTS_SIM_HOST_IMPL_H

#include "tests/sim/host.h"

/* A supervisor tries again. */
#define SIM_HOST_RETRY_NS (20 * SIM_MS)

/* The configuration as if it had been read anew; wanted: by its volumes, NULL: all of them. The caller ends it. */
struct tgt_config sim_host_config_with(const struct tgt_config *config, const bool *wanted);

/* -- host_reload.c --------------------------------------------------------------------------- */

/* On the control thread. all: no volume is left out. */
void sim_host_reload_now(struct sim_host *host, bool all);

#endif
