/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a queue pair that another thread makes or destroys belongs to nobody else meanwhile; whatever
 * happens to its connection meanwhile, and whatever step fails, the peer gets one answer, DRAINED
 * comes only when the queue pair is gone, and none is left. Method: the verbs fabric's functions on a
 * device that the test makes, with the calls of libibverbs and librdmacm that matter counted by the
 * test, and the test's own thread.
 */
#include "proto/fabric/fabric_verbs.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static struct verbs_fab fab;
static struct verbs_device device;
static struct ibv_context context;
static struct ibv_srq srq;
static struct ibv_qp qp;
static struct rdma_cm_id id;
static struct verbs_conn *conn;

static struct fab_job *taken; /* by the test */
static bool takes;
static unsigned int created, destroyed, accepted, rejected;
static unsigned int moves[IBV_QPS_ERR + 1]; /* of the queue pair, by state */
static enum ibv_qp_state refuses;	    /* a move that fails; IBV_QPS_RESET: to make it */
static bool accept_fails;

#define REFUSES_NOTHING IBV_QPS_UNKNOWN

struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init);
struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	(void)pd;
	if (refuses == IBV_QPS_RESET) {
		errno = EPERM;
		return NULL;
	}
	created++;
	assert_ptr_equal(init->qp_context, conn);
	qp.qp_num = 7;
	qp.srq = init->srq;
	return &qp;
}

int __wrap_ibv_destroy_qp(struct ibv_qp *one);
int __wrap_ibv_destroy_qp(struct ibv_qp *one)
{
	assert_ptr_equal(one, &qp);
	destroyed++;
	assert_true(destroyed <= created);
	return 0;
}

int __wrap_ibv_modify_qp(struct ibv_qp *one, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *one, struct ibv_qp_attr *attr, int mask)
{
	(void)mask;
	assert_ptr_equal(one, &qp);
	assert_true(created > destroyed);
	if (attr->qp_state == refuses)
		return EINVAL;
	moves[attr->qp_state]++;
	return 0;
}

int __wrap_rdma_init_qp_attr(struct rdma_cm_id *one, struct ibv_qp_attr *attr, int *mask);
int __wrap_rdma_init_qp_attr(struct rdma_cm_id *one, struct ibv_qp_attr *attr, int *mask)
{
	(void)attr;
	assert_ptr_equal(one, &id);
	*mask = IBV_QP_STATE;
	return 0;
}

int __wrap_rdma_accept(struct rdma_cm_id *one, struct rdma_conn_param *param);
int __wrap_rdma_accept(struct rdma_cm_id *one, struct rdma_conn_param *param)
{
	assert_ptr_equal(one, &id);
	assert_int_equal(param->qp_num, 7);
	assert_int_equal(param->private_data_len, 3);
	assert_memory_equal(param->private_data, "yes", 3);
	if (accept_fails) {
		errno = EINVAL;
		return -1;
	}
	accepted++;
	return 0;
}

int __wrap_rdma_reject(struct rdma_cm_id *one, const void *data, uint8_t bytes);
int __wrap_rdma_reject(struct rdma_cm_id *one, const void *data, uint8_t bytes)
{
	(void)data;
	(void)bytes;
	assert_ptr_equal(one, &id);
	rejected++;
	return 0;
}

int __wrap_rdma_disconnect(struct rdma_cm_id *one);
int __wrap_rdma_disconnect(struct rdma_cm_id *one)
{
	assert_ptr_equal(one, &id);
	return 0;
}

int __wrap_rdma_destroy_id(struct rdma_cm_id *one);
int __wrap_rdma_destroy_id(struct rdma_cm_id *one)
{
	assert_ptr_equal(one, &id);
	return 0;
}

static bool take(struct fab_job *job, void *user)
{
	assert_ptr_equal(user, &fab);
	assert_null(taken);
	if (takes)
		taken = job;
	return takes;
}

static int setup(void **state)
{
	struct fab_conn_options options = {.send_depth = 4, .recv_depth = 4};

	(void)state;
	memset(&fab, 0, sizeof(fab));
	memset(&device, 0, sizeof(device));
	memset(moves, 0, sizeof(moves));
	TAILQ_INIT(&fab.conns);
	TAILQ_INIT(&fab.ready);
	TAILQ_INIT(&fab.timed);
	TAILQ_INIT(&fab.mrs);
	TAILQ_INIT(&fab.listeners);
	fab.head.ops = &fab_verbs_ops;
	fab.head.options = (struct fab_options){.recv_sge = 1, .helper = take, .helper_user = &fab};
	fab.devices[0] = &device;
	fab.device_count = 1;
	device.head.fab = &fab.head;
	device.head.limits = (struct fab_limits){.max_sge = 1, .max_send_wr = 8, .max_recv_wr = 8};
	device.context = &context;
	device.srq = &srq;
	/* Without markers and LAST_WQE_REACHED: the drain is polling and destroying. */
	device.last_wqe = VERBS_LAST_WQE_NEVER;
	strcpy(device.head.name, "dev0");
	taken = NULL;
	takes = true;
	refuses = REFUSES_NOTHING;
	accept_fails = false;
	created = destroyed = accepted = rejected = 0;
	conn = verbs_conn_alloc(&fab, &options, VERBS_CONN_ACCEPTED);
	assert_non_null(conn);
	strcpy(conn->head.peer, "10.0.0.1:4430");
	conn->id = &id;
	conn->unanswered = true;
	return 0;
}

static void *job_thread(void *job)
{
	((struct fab_job *)job)->run(job);
	return NULL;
}

/* What the helper thread does: the fab's own thread sees nothing of it. */
static void run(void)
{
	pthread_t thread;

	assert_non_null(taken);
	assert_null(conn->qp);
	assert_int_equal(pthread_create(&thread, NULL, job_thread, taken), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_null(conn->qp);
}

static void end(void)
{
	struct fab_job *job = taken;

	taken = NULL;
	job->end(job);
}

static void accept_it(void)
{
	assert_int_equal(verbs_conn_create_qp(conn, &id, &device), 0);
	assert_int_equal(device.conns, 1);
	assert_int_equal(created, 0);
	assert_int_equal(verbs_conn_establish(&conn->head, "yes", 3), 0);
	assert_int_equal(accepted, 0);
}

static void poll_empty(void)
{
	assert_int_equal(conn->events, 0);
	device.empties++;
	verbs_conn_drain(conn);
}

/* Close it, unless that was done: DRAINED, but not before the queue pair is destroyed. */
static void drain(unsigned int queue_pairs)
{
	verbs_conn_close(&conn->head);
	if (queue_pairs) {
		poll_empty();
		run();
		assert_int_equal(destroyed, queue_pairs);
		end();
		poll_empty();
	}
	assert_null(taken);
	assert_int_equal(conn->events, 1u << FAB_EVENT_DRAINED);
	assert_int_equal(created, destroyed);
	assert_int_equal(fab.polls_wanted, 0);
	verbs_conn_destroy(&conn->head);
	assert_int_equal(device.conns, 0);
	assert_null(fab.head.conns);
	assert_true(TAILQ_EMPTY(&fab.conns));
}

static void the_helper_makes_it_then_it_is_answered(void **state)
{
	(void)state;
	accept_it();
	run();
	assert_int_equal(created, 1);
	assert_int_equal(moves[IBV_QPS_RTS], 1);
	assert_int_equal(accepted, 0);
	assert_null(fab_conn_find(&fab.head, 7));
	end();
	assert_int_equal(accepted, 1);
	assert_int_equal(conn->state, VERBS_CONN_ESTABLISHING);
	assert_ptr_equal(fab_conn_find(&fab.head, 7), &conn->head);
	assert_true(conn->postable);
	verbs_conn_refuse(&conn->head, NULL, 0);
	assert_int_equal(rejected, 0);
	drain(1);
}

/* The step that fails has its words; the queue pair does not outlive it; one refusal. */
static void expect_failed(const char *words, unsigned int queue_pairs)
{
	accept_it();
	run();
	end();
	assert_int_equal(accepted, 0);
	assert_int_equal(conn->state, VERBS_CONN_BROKEN);
	assert_int_equal(conn->events, 1u << FAB_EVENT_FAILED);
	assert_non_null(strstr(conn->reason, "accept 10.0.0.1:4430"));
	assert_non_null(strstr(conn->reason, words));
	verbs_conn_refuse(&conn->head, "no", 2);
	verbs_conn_refuse(&conn->head, "no", 2);
	assert_int_equal(rejected, 1);
	drain(queue_pairs);
}

static void each_step_may_fail(void **state)
{
	(void)state;
	refuses = IBV_QPS_RESET;
	expect_failed("queue pair: Operation not permitted", 0);
	setup(NULL);
	refuses = IBV_QPS_INIT;
	expect_failed("queue pair to INIT: Invalid argument", 0);
	setup(NULL);
	refuses = IBV_QPS_RTR;
	expect_failed("queue pair to RTS: Invalid argument", 0);
	setup(NULL);
	accept_fails = true;
	expect_failed("the peer has given up", 1);
}

static void closed_meanwhile(void **state)
{
	(void)state;
	/* Before the helper has begun, and after it has made the queue pair. */
	for (unsigned int when = 0; when < 2; when++) {
		setup(NULL);
		accept_it();
		if (when)
			run();
		verbs_conn_close(&conn->head);
		assert_int_equal(conn->state, VERBS_CONN_DRAINING);
		assert_int_equal(conn->events, 0);
		if (!when)
			run();
		end();
		assert_int_equal(accepted, 0);
		assert_int_equal(moves[IBV_QPS_ERR], 1);
		assert_false(conn->postable);
		drain(1);
	}
	/* And where it could not be made. */
	setup(NULL);
	refuses = IBV_QPS_RTS;
	accept_it();
	verbs_conn_close(&conn->head);
	run();
	end();
	drain(0);
}

static void lost_meanwhile(void **state)
{
	(void)state;
	accept_it();
	verbs_device_lost(&device, -ENODEV, "the device was removed");
	device.gone_pending = false;
	assert_int_equal(conn->state, VERBS_CONN_BROKEN);
	assert_int_equal(conn->events, 1u << FAB_EVENT_DISCONNECTED);
	run();
	end();
	assert_int_equal(accepted, 0);
	assert_int_equal(moves[IBV_QPS_ERR], 1);
	/* The device's context belongs to the connection until that has gone. */
	device.context = NULL;
	drain(1);
}

static void lost_and_closed_meanwhile(void **state)
{
	(void)state;
	accept_it();
	verbs_conn_close(&conn->head);
	verbs_device_lost(&device, -ENODEV, "the device was removed");
	device.gone_pending = false;
	device.context = NULL;
	assert_int_equal(conn->events, 0);
	run();
	end();
	drain(1);
}

static void closed_without_an_answer(void **state)
{
	(void)state;
	assert_int_equal(verbs_conn_create_qp(conn, &id, &device), 0);
	verbs_conn_refuse(&conn->head, "no", 2);
	assert_int_equal(rejected, 1);
	drain(0);
	assert_int_equal(created, 0);
}

/* All at once, on the fab's thread. */
static void expect_made_here(void)
{
	assert_int_equal(verbs_conn_create_qp(conn, &id, &device), 0);
	assert_int_equal(verbs_conn_establish(&conn->head, "yes", 3), 0);
	assert_int_equal(accepted, 1);
	verbs_conn_close(&conn->head);
	poll_empty();
	assert_int_equal(destroyed, 1);
	poll_empty();
	assert_int_equal(conn->events, 1u << FAB_EVENT_DRAINED);
	verbs_conn_destroy(&conn->head);
}

static void who_cannot_take_it_leaves_it_here(void **state)
{
	(void)state;
	takes = false;
	expect_made_here();
	setup(NULL);
	fab.head.options.helper = NULL;
	expect_made_here();
}

static void without_the_srq_it_is_made_at_once(void **state)
{
	(void)state;
	device.srq = NULL;
	assert_int_equal(verbs_conn_create_qp(conn, &id, &device), 0);
	assert_int_equal(created, 1);
	assert_true(conn->postable);
	assert_int_equal(verbs_conn_establish(&conn->head, "yes", 3), 0);
	assert_int_equal(accepted, 1);
	drain(1);
}

static void too_long_an_acceptance_is_refused(void **state)
{
	static const char data[RBLK_PRIVATE_DATA_MAX + 1];

	(void)state;
	assert_int_equal(verbs_conn_create_qp(conn, &id, &device), 0);
	assert_int_equal(verbs_conn_establish(&conn->head, data, sizeof(data)), -EINVAL);
	assert_null(taken);
	drain(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_helper_makes_it_then_it_is_answered, setup),
		cmocka_unit_test_setup(each_step_may_fail, setup),
		cmocka_unit_test(closed_meanwhile),
		cmocka_unit_test_setup(lost_meanwhile, setup),
		cmocka_unit_test_setup(lost_and_closed_meanwhile, setup),
		cmocka_unit_test_setup(closed_without_an_answer, setup),
		cmocka_unit_test_setup(who_cannot_take_it_leaves_it_here, setup),
		cmocka_unit_test_setup(without_the_srq_it_is_made_at_once, setup),
		cmocka_unit_test_setup(too_long_an_acceptance_is_refused, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
