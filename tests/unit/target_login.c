/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the number of logins that wait for an older connection to end is bounded, and a full list
 * refuses logins of the host that has filled it; no host can take all places. Method: a reactor
 * made by the test with sessions that are ending, and their logins from several addresses, on a
 * fabric that records each answer.
 */
#include "tests/unit/unit.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "proto/fabric/fabric_impl.h"
#include "target/base/log.h"
#include "target/io/work.h"
#include "target/serve/device.h"
#include "target/serve/host.h"
#include "target/serve/login.h"
#include "target/serve/queue.h"
#include "target/serve/sessions.h"
#include "target/store/volume.h"

#define GREEDY "10.0.0.1"
#define OTHER "10.0.0.2"

struct request {
	struct fab_request head; /* first member */
	bool answered;
	struct rblk_wire_reject reject;
};

static struct rig {
	struct tgt_reactor reactor;
	struct fab fab;
	struct fab_device fab_device;
	struct tgt_device device;
	struct request requests[TGT_LOGINS_WAITING_MAX + 16];
	unsigned int count;
} *rig;

static void fake_reject(struct fab_request *head, const void *private_data, uint8_t bytes)
{
	struct request *request = (struct request *)head;

	assert_false(request->answered);
	assert_int_equal(bytes, sizeof(request->reject));
	request->answered = true;
	memcpy(&request->reject, private_data, bytes);
}

static struct fab_device *fake_request_device(struct fab *fab, struct fab_request *request)
{
	return &rig->fab_device;
}

static const struct fab_ops fake_ops = {
	.kind = FAB_TCP,
	.reject = fake_reject,
	.request_device = fake_request_device,
};

static int setup(void **state)
{
	(void)state;
	tgt_log_set_level(TGT_LOG_ERROR);
	rig = calloc(1, sizeof(*rig));
	assert_non_null(rig);
	rig->fab.ops = &fake_ops;
	rig->fab_device.fab = &rig->fab;
	rig->device.device = &rig->fab_device;
	tgt_work_init(&rig->reactor.loop);
	TAILQ_INIT(&rig->reactor.hosts);
	TAILQ_INIT(&rig->reactor.sessions);
	TAILQ_INIT(&rig->reactor.logins);
	rig->reactor.loop.now_ns = 1;
	rig->reactor.loop.timer_ns = UINT64_MAX;
	rig->reactor.keepalive_ns = 1;
	rig->reactor.config.session_ms = 1;
	rig->reactor.config.reactors = 1;
	rig->reactor.config.queues_max = RBLK_QUEUES_MAX;
	rig->reactor.fabrics[0].fab = &rig->fab;
	rig->reactor.fabrics[0].devices[0] = &rig->device;
	rig->reactor.fabric_count = 1;
	return 0;
}

static int teardown(void **state)
{
	struct tgt_session *session;

	(void)state;
	tgt_login_refuse_all(&rig->reactor);
	while ((session = TAILQ_FIRST(&rig->reactor.sessions)))
		tgt_session_end(session, NULL);
	/* No session uses a host any more. */
	assert_true(TAILQ_EMPTY(&rig->reactor.hosts));
	free(rig);
	return 0;
}

static struct rblk_wire_login login_of(uint8_t session, uint16_t queue, uint64_t epoch,
				       uint32_t incarnation)
{
	return (struct rblk_wire_login){
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_PROTOCOL_VERSION),
		.queue_index = rblk_to_le16(queue),
		.incarnation = rblk_to_le32(incarnation),
		.session_id = {session},
		.session_epoch = rblk_to_le64(epoch),
		.queue_count = rblk_to_le16(RBLK_QUEUES_MAX),
		.credits = rblk_to_le16(RBLK_CREDITS_MIN),
		.reply_bytes = rblk_to_le32(RBLK_REPLY_BYTES_MIN),
	};
}

static struct sockaddr_in address_of(const char *host)
{
	struct sockaddr_in address = {.sin_family = AF_INET};

	assert_int_equal(inet_pton(AF_INET, host, &address.sin_addr), 1);
	return address;
}

/* A session that is ending. */
static void session_is_ending(uint8_t number, const char *from)
{
	struct rblk_wire_login wire = login_of(number, 0, 1, 1);
	struct sockaddr_in address = address_of(from);
	struct tgt_host *host = tgt_host_get(&rig->reactor, (struct sockaddr *)&address);
	struct tgt_session *session = tgt_session_create(&rig->reactor, &wire, NULL, host);

	assert_non_null(session);
	tgt_host_put(&rig->reactor, host);
	session->ending = true;
}

static struct request *log_in(struct rblk_wire_login wire, const char *from)
{
	struct request *request = &rig->requests[rig->count++];
	struct sockaddr_in address = address_of(from);
	struct tgt_login *login = calloc(1, sizeof(*login));

	assert_non_null(login);
	assert_true(rig->count <= UNIT_LENGTH(rig->requests));
	request->head.ops = &fake_ops;
	memcpy(&request->head.peer, &address, sizeof(address));
	login->request = &request->head;
	login->wire = wire;
	login->bytes = sizeof(wire);
	tgt_login_begin(&rig->reactor, &login->message);
	return request;
}

static unsigned int refused(const char *from)
{
	struct sockaddr_in address = address_of(from);
	unsigned int count = 0;

	for (unsigned int i = 0; i < rig->count; i++)
		count += rig->requests[i].answered &&
			 !memcmp(&rig->requests[i].head.peer, &address, sizeof(address));
	return count;
}

static void a_full_list_refuses_only_who_has_filled_it(void **state)
{
	struct request *last = NULL, *others[2];

	(void)state;
	for (uint8_t i = 1; i <= TGT_LOGINS_WAITING_MAX / RBLK_QUEUES_MAX; i++) {
		session_is_ending(i, GREEDY);
		for (uint16_t queue = 0; queue < RBLK_QUEUES_MAX; queue++)
			last = log_in(login_of(i, queue, 2, 1), GREEDY);
	}
	assert_int_equal(rig->reactor.login_count, TGT_LOGINS_WAITING_MAX);
	assert_int_equal(refused(GREEDY), 0);
	session_is_ending(200, OTHER);
	others[0] = log_in(login_of(200, 0, 2, 1), OTHER);
	assert_false(others[0]->answered);
	assert_true(last->answered);
	assert_int_equal(rblk_le16(last->reject.reason), RBLK_REJECT_NO_RESOURCES);
	others[1] = log_in(login_of(200, 1, 2, 1), OTHER);
	assert_false(others[1]->answered);
	assert_int_equal(refused(GREEDY), 2);
	/* When the host with the most logins logs in again, that login is refused. */
	session_is_ending(100, GREEDY);
	assert_true(log_in(login_of(100, 0, 2, 1), GREEDY)->answered);
	assert_int_equal(refused(GREEDY), 3);
	assert_int_equal(refused(OTHER), 0);
	assert_int_equal(rig->reactor.login_count, TGT_LOGINS_WAITING_MAX);
}

/* Of one queue only the newest login waits; the older one is told which it is. */
static void the_older_of_two_that_wait_is_told_why(void **state)
{
	struct request *first, *second, *third;

	(void)state;
	session_is_ending(1, OTHER);
	first = log_in(login_of(1, 0, 2, 7), OTHER);
	second = log_in(login_of(1, 0, 2, 8), OTHER);
	assert_true(first->answered);
	assert_int_equal(rblk_le16(first->reject.reason), RBLK_REJECT_STALE_INCARNATION);
	assert_int_equal(rblk_le32(first->reject.detail), 8);
	third = log_in(login_of(1, 0, 3, 1), OTHER);
	assert_true(second->answered);
	assert_int_equal(rblk_le16(second->reject.reason), RBLK_REJECT_STALE_EPOCH);
	assert_int_equal(rblk_le32(second->reject.detail), 3);
	assert_false(third->answered);
	assert_int_equal(rig->reactor.login_count, 1);
}

/* One that comes late, by a network that reorders, does not wait beside the newer one. */
static void one_that_is_older_than_one_that_waits_is_refused(void **state)
{
	struct request *newest, *late;

	(void)state;
	session_is_ending(1, OTHER);
	newest = log_in(login_of(1, 0, 3, 8), OTHER);
	late = log_in(login_of(1, 0, 3, 7), OTHER);
	assert_true(late->answered);
	assert_int_equal(rblk_le16(late->reject.reason), RBLK_REJECT_STALE_INCARNATION);
	assert_int_equal(rblk_le32(late->reject.detail), 8);
	late = log_in(login_of(1, 0, 2, 9), OTHER);
	assert_true(late->answered);
	assert_int_equal(rblk_le16(late->reject.reason), RBLK_REJECT_STALE_EPOCH);
	assert_int_equal(rblk_le32(late->reject.detail), 3);
	/* Another queue's waits for itself. */
	assert_false(log_in(login_of(1, 1, 3, 1), OTHER)->answered);
	assert_false(newest->answered);
	assert_int_equal(rig->reactor.login_count, 2);
}

/* When the next is due. */
static uint64_t login_expire(struct tgt_reactor *reactor)
{
	reactor->loop.timer_ns = UINT64_MAX;
	tgt_login_expire(reactor);
	return reactor->loop.timer_ns;
}

static uint64_t session_expire(struct tgt_reactor *reactor, const struct tgt_host *need)
{
	reactor->loop.timer_ns = UINT64_MAX;
	tgt_session_expire(reactor, need);
	return reactor->loop.timer_ns;
}

/* A login may wait for I/O of a disk that never answers. */
static void logins_do_not_wait_for_ever(void **state)
{
	struct tgt_reactor *reactor = &rig->reactor;
	struct request *first, *second;
	uint64_t begun_ns = reactor->loop.now_ns;

	(void)state;
	session_is_ending(1, OTHER);
	first = log_in(login_of(1, 0, 2, 1), OTHER);
	assert_int_equal(reactor->loop.timer_ns, begun_ns + TGT_LOGIN_WAIT_NS);
	reactor->loop.now_ns++;
	second = log_in(login_of(1, 1, 2, 1), OTHER);
	reactor->loop.now_ns = begun_ns + TGT_LOGIN_WAIT_NS - 1;
	assert_int_equal(login_expire(reactor), begun_ns + TGT_LOGIN_WAIT_NS);
	assert_false(first->answered);
	reactor->loop.now_ns++;
	assert_int_equal(login_expire(reactor), begun_ns + TGT_LOGIN_WAIT_NS + 1);
	assert_true(first->answered);
	assert_int_equal(rblk_le16(first->reject.reason), RBLK_REJECT_NO_RESOURCES);
	assert_false(second->answered);
}

static struct tgt_host *host_of(const char *from)
{
	struct sockaddr_in address = address_of(from);
	struct tgt_host *host = tgt_host_get(&rig->reactor, (struct sockaddr *)&address);

	assert_non_null(host);
	tgt_host_put(&rig->reactor, host);
	return host;
}

static enum rblk_reject_reason reason_of(const struct request *request)
{
	assert_true(request->answered);
	return rblk_le16(request->reject.reason);
}

/* It is kept for a reconnection. */
static void idle(struct tgt_session *session)
{
	session->queues_here = 0;
	session->handles_open = 1; /* what it is kept for */
	session->ending = false;
}

/*
 * A session whose time is over ends although a store has commands of it, and is not freed before those have ended: nor for
 * another session's sake, which has one without a queue.
 */
static void storage_outlives_a_session(void **state)
{
	struct tgt_reactor *reactor = &rig->reactor;
	struct tgt_session *lingers, *idles;
	uint64_t keep_ns = 1000000;

	(void)state;
	reactor->config.session_ms = 1;
	reactor->session_quota = tgt_quota_places(2);
	session_is_ending(1, OTHER);
	lingers = TAILQ_LAST(&reactor->sessions, tgt_session_list);
	idle(lingers);
	lingers->idle_since_ns = reactor->loop.now_ns;
	lingers->lingering = 1;
	reactor->loop.now_ns++;
	session_is_ending(2, OTHER);
	idles = TAILQ_LAST(&reactor->sessions, tgt_session_list);
	idle(idles);
	idles->idle_since_ns = reactor->loop.now_ns;
	assert_int_equal(session_expire(reactor, host_of(OTHER)), lingers->idle_since_ns + keep_ns);
	assert_ptr_equal(TAILQ_FIRST(&reactor->sessions), lingers);
	assert_ptr_equal(TAILQ_NEXT(lingers, link), NULL);
	reactor->loop.now_ns = lingers->idle_since_ns + keep_ns;
	assert_false(lingers->ending);
	assert_int_equal(session_expire(reactor, NULL), UINT64_MAX);
	assert_ptr_equal(TAILQ_FIRST(&reactor->sessions), lingers);
	assert_true(lingers->ending);
	assert_true(tgt_session_only_lingers(lingers));
	/* A connection on another reactor may bring commands for its handles. */
	lingers->queues_away = 1;
	assert_false(tgt_session_only_lingers(lingers));
	lingers->queues_away = 0;
	lingers->lingering = 0;
}

/* The rig has no receive buffers: a login that gets a place fails for lack of them. */
static void the_last_places_are_for_other_hosts(void **state)
{
	struct tgt_reactor *reactor = &rig->reactor;
	struct tgt_session *session;

	(void)state;
	reactor->session_quota = tgt_quota_places(16);
	reactor->queue_quota = tgt_quota_places(32);
	for (uint8_t i = 1; i <= 14; i++) {
		assert_int_equal(reason_of(log_in(login_of(200, 0, 1, 1), GREEDY)),
				 RBLK_REJECT_NO_CREDITS);
		session_is_ending(i, GREEDY);
	}
	session_is_ending(15, OTHER);
	TAILQ_FOREACH(session, &reactor->sessions, link)
		session->queues_here = 1;
	assert_int_equal(reason_of(log_in(login_of(200, 0, 1, 1), GREEDY)),
			 RBLK_REJECT_NO_RESOURCES);
	assert_int_equal(reason_of(log_in(login_of(200, 0, 1, 1), OTHER)), RBLK_REJECT_NO_CREDITS);
	session_is_ending(16, OTHER);
	TAILQ_LAST(&reactor->sessions, tgt_session_list)->queues_here = 1;
	assert_int_equal(reason_of(log_in(login_of(200, 0, 1, 1), OTHER)),
			 RBLK_REJECT_NO_RESOURCES);
	/* An idle session is forgotten for one of its own host, and for a host that has few. */
	idle(TAILQ_LAST(&reactor->sessions, tgt_session_list));
	assert_int_equal(reason_of(log_in(login_of(200, 0, 1, 1), GREEDY)),
			 RBLK_REJECT_NO_RESOURCES);
	assert_int_equal(host_of(OTHER)->sessions, 2);
	assert_int_equal(reason_of(log_in(login_of(200, 0, 1, 1), OTHER)), RBLK_REJECT_NO_CREDITS);
	assert_int_equal(host_of(OTHER)->sessions, 1);
	session_is_ending(16, OTHER);
	TAILQ_LAST(&reactor->sessions, tgt_session_list)->queues_here = 1;
	idle(TAILQ_FIRST(&reactor->sessions));
	assert_int_equal(reason_of(log_in(login_of(200, 0, 1, 1), "10.0.0.3")),
			 RBLK_REJECT_NO_CREDITS);
	assert_int_equal(host_of(GREEDY)->sessions, 13);
	TAILQ_FOREACH(session, &reactor->sessions, link)
		session->queues_here = 0;
}

/* The limit does not apply to queue 0 of an existing session, which could not go on without it. */
static void the_last_connections_are_for_other_hosts(void **state)
{
	struct rblk_wire_login wire = login_of(1, 0, 1, 2);
	struct tgt_reactor *reactor = &rig->reactor;
	struct tgt_lingering last = {.incarnation = 1, .reactor = reactor};
	struct tgt_queue there = {.incarnation = 1};
	struct tgt_session *session;

	(void)state;
	reactor->session_quota = tgt_quota_places(16);
	reactor->queue_quota = tgt_quota_places(16);
	session_is_ending(1, GREEDY);
	session = TAILQ_FIRST(&reactor->sessions);
	session->ending = false;
	host_of(GREEDY)->queues = reactor->queue_count = 13;
	/* One of the three free places is kept for the session's queue 0. */
	assert_int_equal(reason_of(log_in(login_of(1, 1, 1, 1), GREEDY)), RBLK_REJECT_NO_RESOURCES);
	assert_int_equal(reason_of(log_in(login_of(1, 0, 1, 1), GREEDY)), RBLK_REJECT_NO_CREDITS);
	assert_int_equal(reason_of(log_in(login_of(2, 0, 1, 1), OTHER)), RBLK_REJECT_NO_CREDITS);
	reactor->queue_count = 14;
	assert_int_equal(reason_of(log_in(login_of(3, 0, 1, 1), GREEDY)), RBLK_REJECT_NO_RESOURCES);
	assert_int_equal(reason_of(log_in(login_of(1, 0, 1, 1), GREEDY)), RBLK_REJECT_NO_CREDITS);
	assert_int_equal(reason_of(log_in(login_of(2, 0, 1, 1), OTHER)), RBLK_REJECT_NO_CREDITS);
	/* A queue 0 takes one more, and no place that was its own, while its last one lingers. */
	wire.features = rblk_to_le32(RBLK_FEATURE_VOLUME_FENCE);
	TAILQ_INSERT_TAIL(&session->slots[0].lingering, &last, link);
	assert_int_equal(reason_of(log_in(wire, GREEDY)), RBLK_REJECT_NO_RESOURCES);
	TAILQ_REMOVE(&session->slots[0].lingering, &last, link);
	/* A session that ends needs no queue 0 any more. */
	reactor->queue_count = 15;
	session->ending = true;
	session_is_ending(4, OTHER);
	TAILQ_LAST(&reactor->sessions, tgt_session_list)->ending = false;
	TAILQ_LAST(&reactor->sessions, tgt_session_list)->slots[0].queue = &there;
	assert_int_equal(reason_of(log_in(login_of(4, 1, 1, 1), OTHER)), RBLK_REJECT_NO_CREDITS);
	TAILQ_LAST(&reactor->sessions, tgt_session_list)->slots[0].queue = NULL;
	host_of(GREEDY)->queues = reactor->queue_count = 0;
}

/* Long after a move that it did not follow it has closed the volume, and that was removed: it has other volumes here. */
static void one_that_has_closed_what_was_moved_comes_back(void **state)
{
	struct tgt_reactor *reactor = &rig->reactor;
	struct tgt_session *session;

	(void)state;
	reactor->session_quota = tgt_quota_places(16);
	reactor->queue_quota = tgt_quota_places(16);
	assert_int_equal(tgt_registry_create(&reactor->registry), 0);
	session_is_ending(1, OTHER);
	session = TAILQ_FIRST(&reactor->sessions);
	session->ending = false;
	strcpy(session->sent_away, "disk");
	assert_int_equal(reason_of(log_in(login_of(1, 0, 1, 1), OTHER)), RBLK_REJECT_NO_CREDITS);
	assert_int_equal(session->sent_away[0], 0);
	tgt_registry_destroy(reactor->registry);
	reactor->registry = NULL;
}

/* Ports do not count: each connection has another one. An IPv4 address equals its IPv6-mapped
 * form. */
static void a_host_is_an_address_without_a_port(void **state)
{
	struct sockaddr_in one = address_of(GREEDY), two = address_of(OTHER);
	struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = htons(7)};
	struct tgt_reactor *reactor = &rig->reactor;
	struct tgt_host *first, *again, *other, *six;

	(void)state;
	first = tgt_host_get(reactor, (struct sockaddr *)&one);
	one.sin_port = htons(4711);
	again = tgt_host_get(reactor, (struct sockaddr *)&one);
	other = tgt_host_get(reactor, (struct sockaddr *)&two);
	assert_int_equal(inet_pton(AF_INET6, "::ffff:" GREEDY, &mapped.sin6_addr), 1);
	six = tgt_host_get(reactor, (struct sockaddr *)&mapped);
	assert_ptr_equal(first, again);
	assert_ptr_equal(first, six);
	assert_ptr_not_equal(first, other);
	mapped.sin6_addr.s6_addr[0] = 0xfe;
	assert_ptr_not_equal(first, again = tgt_host_get(reactor, (struct sockaddr *)&mapped));
	tgt_host_put(reactor, again);
	tgt_host_put(reactor, other);
	for (int i = 0; i < 3; i++)
		tgt_host_put(reactor, first);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* A queue whose connection has ended, and whose storage I/O has not, is its host's, whatever the session comes to be called. */
static void what_lingers_goes_to_the_proven_name(void **state)
{
	static const char name[RBLK_NAME_BYTES] = "db1";
	struct rblk_wire_login wire = login_of(1, 0, 1, 1);
	struct sockaddr_in address = address_of(OTHER);
	struct tgt_queue queue = {.device = &rig->device, .io_queue = {.active = 1}, .incarnation = 1};
	struct tgt_receives receives = {0};
	struct tgt_session *session;
	struct tgt_host *host;

	(void)state;
	rig->reactor.session_quota.most = rig->reactor.queue_quota.most = 8;
	host = tgt_host_get(&rig->reactor, (struct sockaddr *)&address);
	session = tgt_session_create(&rig->reactor, &wire, NULL, host);
	assert_non_null(session);
	tgt_host_put(&rig->reactor, host);
	queue.session = session;
	queue.io_queue.receives = &receives;
	session->slots[0].queue = &queue;
	session->queues_here = session->queues = host->queues = 1;
	tgt_queue_linger(&queue);
	assert_null(session->slots[0].queue);
	assert_int_equal(tgt_session_prove(session, name), 0);
	/* The address has nothing left, and is forgotten. */
	assert_int_equal(session->host->queues, 1);
	assert_ptr_equal(TAILQ_FIRST(&rig->reactor.hosts), session->host);
	assert_null(TAILQ_NEXT(session->host, link));
	TAILQ_REMOVE(&session->slots[0].lingering, &queue.lingering, link);
	session->lingering = session->queues = session->host->queues = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_full_list_refuses_only_who_has_filled_it),
		TEST(the_older_of_two_that_wait_is_told_why),
		TEST(one_that_is_older_than_one_that_waits_is_refused),
		TEST(logins_do_not_wait_for_ever),
		TEST(storage_outlives_a_session),
		TEST(the_last_places_are_for_other_hosts),
		TEST(the_last_connections_are_for_other_hosts),
		TEST(one_that_has_closed_what_was_moved_comes_back),
		TEST(a_host_is_an_address_without_a_port),
		TEST(what_lingers_goes_to_the_proven_name),
	};

	return cmocka_run_group_tests_name("target logins", tests, NULL, NULL);
}
