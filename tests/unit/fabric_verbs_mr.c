/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a registration on another thread gives each device its keys, even if devices come and go
 * meanwhile; one that a device refuses leaves nothing behind; each registration is undone once.
 * Method: the verbs fabric's functions on devices that the test makes, with ibv_reg_mr() and
 * ibv_dereg_mr() of the test instead of those of libibverbs.
 */
#include "proto/fabric/fabric_verbs.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES 3u

static struct verbs_fab fab;
static struct verbs_device devices[DEVICES];
static struct ibv_pd domains[DEVICES];
static unsigned int registered; /* not deregistered yet */
static const struct ibv_pd *refuses;
static char memory[4096];

static struct ibv_mr *reg(struct ibv_pd *pd)
{
	struct ibv_mr *mr;

	if (pd == refuses) {
		errno = ENOMEM;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	assert_non_null(mr);
	mr->pd = pd;
	mr->lkey = 0x100 + (uint32_t)(pd - domains);
	mr->rkey = 0x200 + (uint32_t)(pd - domains);
	registered++;
	return mr;
}

struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg(pd);
}

struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access);
struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access)
{
	return reg(pd);
}

int __wrap_ibv_dereg_mr(struct ibv_mr *mr);
int __wrap_ibv_dereg_mr(struct ibv_mr *mr)
{
	registered--;
	free(mr);
	return 0;
}

static int setup(void **state)
{
	memset(&fab, 0, sizeof(fab));
	memset(devices, 0, sizeof(devices));
	TAILQ_INIT(&fab.mrs);
	registered = 0;
	refuses = NULL;
	for (unsigned int i = 0; i < DEVICES; i++) {
		devices[i].head.fab = &fab.head;
		devices[i].head.index = i;
		devices[i].pd = &domains[i];
		/* A device that is gone stays, because its owner has not been told yet. */
		devices[i].gone_pending = true;
		snprintf(devices[i].head.name, sizeof(devices[i].head.name), "dev%u", i);
		fab.devices[i] = &devices[i];
	}
	fab.device_count = 2;
	return 0;
}

static void expect_jobs(unsigned int first, unsigned int second, unsigned int third)
{
	assert_int_equal(devices[0].mr_jobs, first);
	assert_int_equal(devices[1].mr_jobs, second);
	assert_int_equal(devices[2].mr_jobs, third);
}

static struct fab_mr *begin(void)
{
	struct fab_mr *mr;

	assert_int_equal(verbs_mr_begin(&fab.head, memory, sizeof(memory), 0, &mr), 0);
	mr->fab = &fab.head;
	return mr;
}

static void retire(struct fab_mr *mr)
{
	mr->retired = true;
	verbs_mr_retire(mr);
}

static void keys_are_there_at_the_end(void **state)
{
	struct fab_mr *mr = begin();

	expect_jobs(1, 1, 0);
	assert_true(TAILQ_EMPTY(&fab.mrs));
	verbs_mr_work(mr);
	assert_int_equal(registered, 2);
	assert_int_equal(mr->lkey[0], 0);
	/* A device that came into use meanwhile. */
	fab.device_count = 3;
	assert_int_equal(verbs_mr_end(mr), 0);
	expect_jobs(0, 0, 0);
	assert_int_equal(registered, 3);
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(mr->lkey[i], 0x100 + i);
		assert_int_equal(mr->rkey[i], 0x200 + i);
	}
	retire(mr);
	expect_jobs(1, 1, 1);
	assert_true(TAILQ_EMPTY(&fab.mrs));
	verbs_mr_work(mr);
	assert_int_equal(registered, 0);
	assert_int_equal(verbs_mr_end(mr), 0);
	expect_jobs(0, 0, 0);
}

static void what_is_refused_leaves_nothing(void **state)
{
	struct fab_mr *mr = begin();

	refuses = &domains[1];
	verbs_mr_work(mr);
	assert_int_equal(registered, 1);
	assert_int_equal(verbs_mr_end(mr), -ENOMEM);
	assert_int_equal(registered, 0);
	assert_true(TAILQ_EMPTY(&fab.mrs));
	expect_jobs(0, 0, 0);
}

/* Its failure does not affect the others, and it is kept until the work has ended. */
static void a_device_may_go_meanwhile(void **state)
{
	struct fab_mr *mr = begin();

	devices[0].gone = true;
	refuses = &domains[0];
	verbs_mr_work(mr);
	expect_jobs(1, 1, 0);
	/* The fab's thread, which calls verbs_mr_end(), does not register what the work did not. */
	assert_int_equal(registered, 1);
	assert_int_equal(verbs_mr_end(mr), 0);
	assert_int_equal(mr->lkey[0], 0);
	assert_int_equal(mr->lkey[1], 0x101);
	/* Another device has its place. */
	devices[2].head.index = 0;
	fab.devices[0] = &devices[2];
	retire(mr);
	expect_jobs(0, 1, 0);
	verbs_mr_work(mr);
	assert_int_equal(verbs_mr_end(mr), 0);
	assert_int_equal(registered, 0);
	expect_jobs(0, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(keys_are_there_at_the_end, setup),
		cmocka_unit_test_setup(what_is_refused_leaves_nothing, setup),
		cmocka_unit_test_setup(a_device_may_go_meanwhile, setup),
	};

	return cmocka_run_group_tests_name("fabric verbs mr", tests, NULL, NULL);
}
