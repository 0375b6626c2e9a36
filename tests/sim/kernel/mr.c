/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory registrations of rdma.h: each is one piece of memory, with a key of the simulated fabric. A key that is used
 * before the work request that begins it is an error, and so is a new key while the last one is valid (F4), one that is
 * used twice, and memory that is given back while its key is valid.
 */
#include "tests/sim/kernel/mr.h"

#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/kernel/module_kernel.h"
#include "tests/sim/random.h"
#include "tests/sim/world.h"

#define MRS_MAX 4096u

static struct ib_mr *mrs[MRS_MAX];
static unsigned int mrs_used; /* the first of these places have ever been */

void sim_mrs_start(void)
{
	memset(mrs, 0, sizeof(mrs));
	mrs_used = 0;
}

void sim_mrs_stop(void)
{
	for (unsigned int i = 0; i < mrs_used; i++)
		if (mrs[i])
			sim_fail("the kernel: a memory registration was not freed");
}

struct ib_mr *ib_alloc_mr(struct ib_pd *pd, int type, u32 pages)
{
	unsigned int i = 0;

	(void)type;
	(void)pages;
	while (i < mrs_used && mrs[i])
		i++;
	if (i == MRS_MAX)
		return ERR_PTR(-ENOMEM);
	if (i == mrs_used)
		mrs_used++;
	mrs[i] = calloc(1, sizeof(*mrs[i]));
	if (!mrs[i])
		sim_fail("out of memory");
	mrs[i]->page_size = PAGE_SIZE;
	mrs[i]->pd = pd;
	return mrs[i];
}

uint32_t sim_disk_unmapped;

int ib_dma_map_sg(struct ib_device *ibdev, struct scatterlist *sgl, int count, enum dma_data_direction direction)
{
	(void)direction;
	if (sgl->length > ibdev->dma_device->mapping)
		return 0; /* at no time */
	if (!sim_net.calm && sim_chance(sim_disk_unmapped)) {
		sim_reached("module", "pages cannot be mapped for now", NULL);
		return 0;
	}
	sgl->dma_address = (u64)(uintptr_t)sgl->address;
	sgl->dma_length = sgl->length;
	return count;
}

static bool mr_is_valid(const struct ib_mr *mr)
{
	return mr->fab && (mr->state == SIM_KEY_VALID || mr->state == SIM_KEY_ENDING) &&
	       !((const struct sim_mr *)mr->fab)->invalid;
}

void sim_mrs_connected(const struct ib_pd *pd)
{
	for (unsigned int i = 0; i < mrs_used; i++)
		if (mrs[i] && mrs[i]->pd == pd && mr_is_valid(mrs[i]))
			sim_fail("the kernel: a connection begins where the last one's key is valid (F4)");
}

void sim_mr_end(struct ib_mr *mr)
{
	if (mr->fab)
		fab_mr_deregister(mr->fab);
	mr->fab = NULL;
	mr->state = SIM_KEY_NONE;
}

int ib_map_mr_sg(struct ib_mr *mr, struct scatterlist *sgl, int count, unsigned int *offset,
		 unsigned int page)
{
	u32 bytes = sgl[0].dma_length;

	(void)offset;
	(void)page;
	for (int i = 1; i < count; bytes += sgl[i++].dma_length)
		if (sgl[i].dma_address != sgl[0].dma_address + bytes)
			return i; /* a registration is one piece here */
	if (mr_is_valid(mr))
		sim_fail("the kernel: memory gets a key whose last one is valid (F4)");
	sim_mr_end(mr);
	if (fab_mr_register(sim_rdma_fab(), (void *)(uintptr_t)sgl[0].dma_address, bytes, 0, &mr->fab))
		return -ENOMEM;
	mr->rkey = fab_mr_rkey(mr->fab, sim_rdma_side());
	mr->iova = sgl[0].dma_address;
	mr->state = SIM_KEY_MAPPED;
	return count;
}

void ib_dereg_mr(struct ib_mr *mr)
{
	/* Of one that was used the module may not have heard that its key has ended. */
	if (mr->state == SIM_KEY_NONE && !mr->used)
		sim_rdma_freed(mr->pd->queue, "a registration without a key");
	sim_mr_end(mr);
	for (unsigned int i = 0; i < mrs_used; i++)
		if (mrs[i] == mr)
			mrs[i] = NULL;
	free(mr);
}

/* -- keys ---------------------------------------------------------------------------------------------- */

void sim_mr_begins(const struct ib_reg_wr *wr)
{
	if (wr->mr->state != SIM_KEY_MAPPED || wr->key != wr->mr->rkey)
		sim_fail("the kernel: a registration of what is not mapped");
	/* Whoever has learnt the last one would have this memory, too. */
	if (wr->mr->used && !wr->mr->renewed)
		sim_fail("the kernel: a registration keeps its last one's key (F4)");
	wr->mr->used = true;
	wr->mr->renewed = false;
	/* The values are those of the verbs. */
	((struct sim_mr *)wr->mr->fab)->access = wr->access;
	wr->mr->state = SIM_KEY_VALID;
}

void sim_mr_unmapped(const struct scatterlist *sgl)
{
	for (unsigned int i = 0; i < mrs_used; i++)
		if (mrs[i] && mrs[i]->iova == sgl->dma_address && mr_is_valid(mrs[i]))
			sim_fail("the kernel: memory is unmapped whose key is valid (F4)");
}

struct ib_mr *sim_mr_ending(u32 rkey)
{
	struct ib_mr *mr = NULL;

	for (unsigned int i = 0; i < mrs_used; i++)
		if (mrs[i] && mrs[i]->rkey == rkey && mrs[i]->fab)
			mr = mrs[i];
	if (!mr || mr->state != SIM_KEY_VALID)
		sim_fail("the kernel: an invalidation of a key that is not valid");
	mr->state = SIM_KEY_ENDING;
	return mr;
}
