/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: one host's OPENs leave no more than so many fences with a store that does not answer, whichever of its
 * sessions they are of, and other hosts' are begun beside them; another gateway's question is answered while the
 * volume, and so its gateway, is still there, also without memory; and of a session that stays no connection ends
 * because its cluster does not answer, on whichever reactor. Method: a reactor made by the test, a store that
 * answers when the test likes, and memory that it refuses.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "target/serve/gateways.h"
#include "target/serve/host.h"
#include "target/serve/peers.h"
#include "target/serve/queue.h"
#include "target/serve/reactor_impl.h"
#include "target/serve/session.h"
#include "target/store/volume.h"

/* More than one host may have. */
#define FENCES 100000u

static struct tgt_peers peers;
static struct tgt_reactor reactor;
static struct tgt_volume volume;
static unsigned int references;
static struct tgt_store_fence *fences; /* that the store has */
static bool refuses;		       /* memory that is zeroed */
static tgt_registry_ask *asked;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
	return refuses ? NULL : __real_calloc(count, bytes);
}

struct tgt_volume *__wrap_tgt_volume_ref(struct tgt_volume *used);
struct tgt_volume *__wrap_tgt_volume_ref(struct tgt_volume *used)
{
	references++;
	return used;
}

void __wrap_tgt_volume_put(struct tgt_volume *used);
void __wrap_tgt_volume_put(struct tgt_volume *used)
{
	(void)used;
	assert_true(references > 0);
	references--;
}

void __wrap_tgt_ring_expect(struct tgt_ring *ring);
void __wrap_tgt_ring_expect(struct tgt_ring *ring)
{
	(void)ring;
}

void __wrap_tgt_ring_post(struct tgt_ring *ring, struct tgt_message *message);
void __wrap_tgt_ring_post(struct tgt_ring *ring, struct tgt_message *message)
{
	(void)ring;
	message->run(&reactor, message);
}

void __wrap_tgt_reactor_send(struct tgt_reactor *to, struct tgt_message *message);
void __wrap_tgt_reactor_send(struct tgt_reactor *to, struct tgt_message *message)
{
	message->run(to, message);
}

void __wrap_tgt_registry_on_ask(struct tgt_registry *registry, tgt_registry_ask *run, void *context);
void __wrap_tgt_registry_on_ask(struct tgt_registry *registry, tgt_registry_ask *run, void *context)
{
	(void)registry;
	assert_true(!run || context == &peers);
	asked = run;
}

static void fake_fence(struct tgt_store *store, struct tgt_store_fence *fence)
{
	(void)store;
	fence->next = fences;
	fences = fence;
}

static int setup(void **state)
{
	static const struct tgt_store_ops ops = {.fence = fake_fence};
	static struct tgt_store store = {.ops = &ops};

	(void)state;
	memset(&reactor, 0, sizeof(reactor));
	reactor.peers = &peers;
	peers.reactors[0] = &reactor;
	atomic_store(&peers.count, 1);
	TAILQ_INIT(&reactor.sessions);
	TAILQ_INIT(&reactor.pending);
	TAILQ_INIT(&reactor.hosts);
	volume.store = &store;
	references = 0;
	return 0;
}

/* -- fences ------------------------------------------------------------------------------------- */

/* So many are begun by a session of that host, each of which is given up at once. */
static unsigned int begin_until_busy(const struct tgt_session *session)
{
	struct tgt_gateways_fence *fence;
	enum rblk_status status;
	unsigned int count = 0;

	while (!(status = tgt_gateways_fence_begin(session, &volume, &fence))) {
		tgt_gateways_fence_end(fence);
		assert_true(++count < FENCES);
	}
	assert_int_equal(status, RBLK_E_BUSY);
	return count;
}

static struct tgt_host *host_create(void)
{
	struct tgt_host *host = calloc(1, sizeof(*host));

	assert_non_null(host);
	host->users = 1;
	TAILQ_INSERT_TAIL(&reactor.hosts, host, link);
	return host;
}

static void a_hosts_fences_are_bounded(void **state)
{
	struct tgt_session first = {.reactor = &reactor, .host = host_create()};
	struct tgt_session second = {.reactor = &reactor, .host = first.host};
	struct tgt_session other = {.reactor = &reactor, .host = host_create()};
	unsigned int count = begin_until_busy(&first);

	(void)state;
	assert_true(count > 0);
	assert_int_equal(begin_until_busy(&second), 0);
	assert_int_equal(begin_until_busy(&other), count);
	assert_int_equal(references, 2 * count);
	/* Sessions may end before their fences do. */
	tgt_host_put(&reactor, first.host);
	for (struct tgt_store_fence *next; fences; fences = next) {
		next = fences->next;
		fences->done(fences, next ? 0 : -EIO);
	}
	assert_int_equal(references, 0);
	assert_ptr_equal(TAILQ_FIRST(&reactor.hosts), other.host);
	assert_null(TAILQ_NEXT(other.host, link));
	assert_int_equal(begin_until_busy(&other), count);
	tgt_host_put(&reactor, other.host);
	for (struct tgt_store_fence *next; fences; fences = next) {
		next = fences->next;
		fences->done(fences, 0);
	}
	assert_true(TAILQ_EMPTY(&reactor.hosts));
}

/* -- questions ---------------------------------------------------------------------------------- */

static unsigned int answers;

static void take_answer(struct tgt_store_ask *ask, bool quiet)
{
	(void)ask;
	assert_false(quiet);
	assert_true(references > 0);
	answers++;
}

static void a_question_is_answered_without_memory(void **state)
{
	struct tgt_store_ask ask = {.answer = take_answer};

	(void)state;
	tgt_gateways_begin(&reactor);
	references = 1;
	refuses = true;
	asked(&peers, &volume, &ask);
	refuses = false;
	tgt_gateways_end(&reactor);
	assert_int_equal(answers, 1);
	assert_int_equal(references, 0);
}

/* -- a gateway that is cut off ------------------------------------------------------------------- */

static unsigned int closed; /* connections */

void __wrap_tgt_queue_close(struct tgt_queue *queue, const char *reason);
void __wrap_tgt_queue_close(struct tgt_queue *queue, const char *reason)
{
	(void)queue;
	(void)reason;
	closed++;
}

static void cut(void)
{
	struct tgt_store_ask ask = {.leave = TGT_ASK_CUT, .answer = take_answer};

	references = 1;
	refuses = true;
	asked(&peers, &volume, &ask);
	refuses = false;
}

static void of_a_session_that_stays_no_connection_ends(void **state)
{
	static struct tgt_volume local = {.config.store = "memory"};
	static struct tgt_channel channel = {.volume = &volume}, local_channel = {.volume = &local};
	struct tgt_handle handle = {.access.channel = &channel}, other = {.access.channel = &local_channel};
	struct tgt_handle *all[] = {&handle, &other}, *named[] = {&handle};
	struct tgt_queue queue = {0}, remote_queue = {0};
	struct tgt_session session = {.handles = all, .handle_slots = 2, .slots[0].queue = &queue};
	/* Its commands have named one of the two so far. */
	struct tgt_session remote = {
		.home = &session, .handles = named, .handle_slots = 1, .slots[1].queue = &remote_queue};

	(void)state;
	tgt_gateways_begin(&reactor);
	TAILQ_INSERT_TAIL(&reactor.sessions, &session, link);
	TAILQ_INSERT_TAIL(&reactor.sessions, &remote, link);
	cut();
	assert_int_equal(closed, 0);
	/* Without the other one it goes: its home has its connections ended. */
	session.handle_slots = 1;
	cut();
	assert_int_equal(closed, 1);
	tgt_gateways_end(&reactor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_hosts_fences_are_bounded, setup),
		cmocka_unit_test_setup(a_question_is_answered_without_memory, setup),
		cmocka_unit_test_setup(of_a_session_that_stays_no_connection_ends, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
