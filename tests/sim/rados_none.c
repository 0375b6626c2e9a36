/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rados.h where the module of target/rbd is not built: no world has a cluster.
 */
#include "tests/sim/rados.h"

#include <stddef.h>
#include "target/store/store.h"

struct sim_rados_counts sim_rados_counts;

const struct tgt_store_ops tgt_store_rbd = {.kind = "rbd"};

bool sim_rados_can(void)
{
	return false;
}

void sim_rados_begin(struct sim_disk *image)
{
	(void)image;
}

void sim_rados_commits_together(void)
{
}

void sim_rados_fini(void)
{
}

void sim_rados_cut(unsigned int machine, uint64_t ns)
{
	(void)machine;
	(void)ns;
}

void sim_rados_delay(unsigned int machine, uint64_t ns)
{
	(void)machine;
	(void)ns;
}

void sim_rados_block(unsigned int machine)
{
	(void)machine;
}

bool sim_rados_was_shut_out(uint64_t since_ns)
{
	(void)since_ns;
	return false;
}

void sim_rados_stall(uint64_t ns)
{
	(void)ns;
}

void sim_rados_forget_watch(void)
{
}

void sim_rados_process_begin(unsigned int machine)
{
	(void)machine;
}

void sim_rados_process_close(unsigned int machine)
{
	(void)machine;
}

void sim_rados_process_kill(unsigned int machine)
{
	(void)machine;
}

bool sim_rados_process_hurry(unsigned int machine)
{
	(void)machine;
	return true;
}

void sim_rados_process_end(unsigned int machine)
{
	(void)machine;
}

bool sim_rados_process_is_dead(unsigned int machine)
{
	(void)machine;
	return false;
}

void sim_rados_process_hold(unsigned int machine, uint64_t ns)
{
	(void)machine;
	(void)ns;
}
