/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: whether there is a client can be asked while a client ends, which may last for ever; one
 * that ends is not at the keeper. Method: the client with fakes of librados and of the keeper.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include "target/base/error.h"
#include "target/rbd/rbd.h"

static struct rbd_task *queued; /* at the keeper */
static unsigned int ended;	/* clients */

static const struct tgt_module_host host = {.error = tgt_error};
const struct tgt_module_host *tgt_rbd_host = &host;

void tgt_rbd_keeper_later(struct rbd_task *task, uint64_t pause_ns)
{
	assert_true(!queued || queued == task);
	task->queued = true;
	queued = task;
}

/* The keeper begins with it: it is in the queue no more, and runs soon. */
static struct rbd_task *keeper_begins(void)
{
	struct rbd_task *task = queued;

	assert_non_null(task);
	task->queued = false;
	queued = NULL;
	return task;
}

int rados_create(rados_t *cluster, const char *const user)
{
	*cluster = &ended;
	return 0;
}

int rados_conf_read_file(rados_t cluster, const char *path)
{
	return 0;
}

int rados_conf_parse_env(rados_t cluster, const char *variable)
{
	return 0;
}

int rados_conf_set(rados_t cluster, const char *option, const char *value)
{
	return 0;
}

int rados_connect(rados_t cluster)
{
	return 0;
}

void rados_shutdown(rados_t cluster)
{
	/* Another thread asks. */
	assert_true(tgt_rbd_client_is_there());
	assert_null(queued);
	ended++;
}

/* -- tests ------------------------------------------------------------------------------------- */

static struct rbd_client *get(void)
{
	struct rbd_client *client;
	char error[TGT_ERROR_BYTES];

	assert_int_equal(tgt_rbd_client_get(&client, error), 0);
	return client;
}

static struct rbd_task *used_once(void)
{
	ended = 0;
	tgt_rbd_client_put(get());
	assert_true(tgt_rbd_client_is_there());
	return keeper_begins();
}

static void one_that_nobody_has_ends(void **state)
{
	struct rbd_task *task = used_once();

	(void)state;
	task->run(task);
	assert_int_equal(ended, 1);
	assert_false(tgt_rbd_client_is_there());
}

static void one_that_is_used_goes_on(void **state)
{
	struct rbd_task *task = used_once();
	struct rbd_client *client = get();

	(void)state;
	task->run(task);
	assert_int_equal(ended, 0);
	tgt_rbd_client_put(client);
	task = keeper_begins();
	task->run(task);
	assert_int_equal(ended, 1);
}

/* Between the keeper's taking it up and its looking. */
static void one_that_was_used_meanwhile_lingers_anew(void **state)
{
	struct rbd_task *task = used_once();

	(void)state;
	tgt_rbd_client_put(get());
	task->run(task);
	assert_int_equal(ended, 0);
	task = keeper_begins();
	task->run(task);
	assert_int_equal(ended, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_nobody_has_ends),
		cmocka_unit_test(one_that_is_used_goes_on),
		cmocka_unit_test(one_that_was_used_meanwhile_lingers_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
