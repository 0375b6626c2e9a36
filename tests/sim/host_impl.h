/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What host.c and host_reload.c share. */
#ifndef RBLK_TESTS_SIM_HOST_IMPL_H
#define RBLK_TESTS_SIM_HOST_IMPL_H

#include "tests/sim/host.h"

/* A supervisor tries again. */
#define SIM_HOST_RETRY_NS (20 * SIM_MS)

/* The configuration as if it had been read anew; wanted: by its volumes, NULL: all of them. The caller ends it. */
struct tgt_config sim_host_config_with(const struct tgt_config *config, const bool *wanted);

/* -- host_fabrics.c -------------------------------------------------------------------------- */

/* The reactor's fabric that is simulated, or (else) that of NVMe hosts; NULL: it has none. */
struct tgt_fabric;
const struct tgt_fabric *sim_host_fabric(const struct tgt_reactor *reactor, bool simulated);
/* It has drained: has it everything back? */
void sim_host_check_home(const struct sim_host_thread *thread);

/* -- host.c --------------------------------------------------------------------------------- */

/* False: one of them cannot be had now. */
bool sim_host_volumes_add(struct sim_host *host);
void sim_host_volumes_remove(struct sim_host *host);
/* They are open. */
void sim_host_serve(struct sim_host *host);

/* -- host_gateway.c ------------------------------------------------------------------------- */

void sim_gateway_init(struct sim_host *host);
/* It serves as soon as its image can be had. */
void sim_gateway_open(struct sim_host *host);
void sim_gateway_kill_opener(struct sim_host *host, uint64_t back_ns);
/* It has drained: its image is closed, and the process ends. */
void sim_gateway_close(struct sim_host *host);
/* The process is gone, and its volumes are. */
void sim_gateway_end(struct sim_host *host);
/* Its process is dead, or to end: true, it does not open its image again any more. */
bool sim_gateway_mended(struct sim_host *host, bool dead);
/* A volume of it is lost. As its registry's callback. */
void sim_gateway_lost(void *host);
/* If it is not wanted any more, it does not wait for its image. */
void sim_gateway_give_up(struct sim_host *host);

/* -- host_reload.c --------------------------------------------------------------------------- */

/* On the control thread. all: no volume is left out. */
void sim_host_reload_now(struct sim_host *host, bool all);

#endif
