/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a gateway shuts out the one client that held the image's lock, never a whole machine; of several, those that
 * are silent, and not those that are busy for a while; and when it leaves it watches no more, and gives its lock back.
 * Method: the gateway with fakes of librados and of the module's other files; each form in which Ceph writes an address
 * is the lock holder's; the watch is lost while it is ended, and the keeper is at once.
 */
#include "tests/unit/unit.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "target/base/error.h"
#include "target/rbd/rbd.h"

#define HOLDER "holder"
#define FORMER "former"
#define BUSY "busy"
#define THIS "this"

static bool several;	   /* serve it: this one, one that is silent, and one that is busy, */
static int busy_asks;	   /* so often when it is asked, and then quiet */
static bool busy_holds;	   /* then it says that the first host that it is asked for is its own */
static int silent_lists;   /* so often the silent one is registered */
static unsigned int notifies; /* since one was shut out */
static time_t notify_s;	      /* so long an OSD holds the next one */
static const char *holder; /* address of who has the lock; NULL: it is free */
static bool formerly;	   /* this process, as another client */
static const char *lives;  /* NULL, or another one that has it, and answers */
static int held_alone = 1; /* exclusively */
static char shot[256];	   /* what was added to the blocklist */
static int unlocks_fail;   /* so often */
static unsigned int unlocks, warnings;
static struct rbd_gateway gateway;
static bool watched;
static rados_watcherrcb_t watch_lost;
static bool loses; /* the watch, once, while it is ended */
static int watch_fails; /* with that */

/* -- the machine's time ------------------------------------------------------------------------ */

static time_t now_s;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	*now = (struct timespec){.tv_sec = now_s};
	return 0;
}

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
	now_s++;
	return 0;
}

/* -- the module's other files ------------------------------------------------------------------ */

static void fake_log(enum tgt_log_level level, const char *format, ...)
{
	warnings += level == TGT_LOG_WARNING;
}

static uint64_t heard; /* serial of another one's change */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void fake_asked(struct tgt_store *store, struct tgt_store_ask *ask)
{
	pthread_mutex_lock(&lock);
	heard = le64toh(ask->note->serial);
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
	ask->answer(ask, true);
}

static const struct tgt_module_host host = {.error = tgt_error, .log = fake_log, .asked = fake_asked};
const struct tgt_module_host *tgt_rbd_host = &host;

rados_t tgt_rbd_client_cluster(const struct rbd_client *client)
{
	return NULL;
}

const char *tgt_rbd_client_name(const struct rbd_client *client)
{
	return THIS;
}

void tgt_rbd_client_fenced(struct rbd_client *client, const char *why)
{
	abort();
}

static unsigned int unlocked;

void tgt_rbd_client_unlocked(struct rbd_client *client)
{
	unlocked++;
}

bool tgt_rbd_client_pool_gone(rados_ioctx_t io, struct tgt_store *store)
{
	return store;
}

bool tgt_rbd_client_was(const struct rbd_client *client, const char *name)
{
	return !strcmp(name, FORMER);
}

int tgt_rbd_client_map(struct rbd_client *client, char *error)
{
	return 0;
}

/* Whoever has entered has a watch, and looks at it until it leaves. */
void tgt_rbd_cut_off_begin(struct rbd_gateway *begun)
{
	uint64_t ago_ms;

	assert_true(tgt_rbd_gateway_heard(begun, &ago_ms));
	assert_int_equal(ago_ms, 7);
}

void tgt_rbd_cut_off_end(struct rbd_gateway *begun)
{
}

/* At once, as if its thread were beside this one. */
void tgt_rbd_keeper_later(struct rbd_task *task, uint64_t pause_ns)
{
	task->run(task);
}

void tgt_rbd_keeper_forget(struct rbd_task *task)
{
}

/* -- librados ---------------------------------------------------------------------------------- */

rados_write_op_t rados_create_write_op(void)
{
	return NULL;
}

void rados_release_write_op(rados_write_op_t op)
{
}

void rados_write_op_create(rados_write_op_t op, int exclusive, const char *category)
{
}

int rados_write_op_operate(rados_write_op_t op, rados_ioctx_t io, const char *object, time_t *when, int flags)
{
	return 0;
}

int rados_watch3(rados_ioctx_t io, const char *object, uint64_t *watch, rados_watchcb2_t asked, rados_watcherrcb_t lost,
		 uint32_t timeout, void *arg)
{
	*watch = 1;
	watch_lost = lost;
	watched = !watch_fails;
	return watch_fails;
}

int rados_unwatch2(rados_ioctx_t io, uint64_t watch)
{
	watched = false;
	if (loses) {
		loses = false;
		watch_lost(&gateway, watch, -ENOTCONN);
	}
	return 0;
}

int rados_watch_flush(rados_t cluster)
{
	return 0;
}

int rados_watch_check(rados_ioctx_t io, uint64_t watch)
{
	assert_true(watched);
	return 7;
}

int rados_notify_ack(rados_ioctx_t io, const char *object, uint64_t id, uint64_t watch, const char *data, int bytes)
{
	return 0;
}

static char reply[1];

/* Nobody answers, but of several the busy one. */
int rados_notify2(rados_ioctx_t io, const char *object, const char *data, int bytes, uint64_t timeout_ms, char **out,
		  size_t *out_bytes)
{
	notifies++;
	now_s += notify_s;
	notify_s = 0;
	*out = reply;
	*out_bytes = sizeof(reply);
	return -ETIMEDOUT;
}

int rados_decode_notify_response(char *answer, size_t bytes, struct notify_ack_t **acks, size_t *ack_count,
				 struct notify_timeout_t **timeouts, size_t *timeout_count)
{
	static char is_busy[] = "busy", is_quiet[13 + 8] = "busy is quiet";
	static struct notify_ack_t ack;
	bool busy = busy_asks-- > 0;

	is_quiet[13] = busy_holds;
	ack.payload = busy ? is_busy : is_quiet;
	ack.payload_len = busy ? strlen(is_busy) : sizeof(is_quiet);
	*acks = &ack;
	*timeouts = NULL;
	*timeout_count = 0;
	*ack_count = several || lives;
	return 0;
}

void rados_free_notify_response(struct notify_ack_t *acks, size_t count, struct notify_timeout_t *timeouts)
{
}

void rados_buffer_free(char *buffer)
{
}

int rados_lock_exclusive(rados_ioctx_t io, const char *object, const char *name, const char *cookie, const char *words,
			 struct timeval *duration, uint8_t flags)
{
	return holder ? -EBUSY : 0;
}

int rados_lock_shared(rados_ioctx_t io, const char *object, const char *name, const char *cookie, const char *tag,
		      const char *words, struct timeval *duration, uint8_t flags)
{
	return holder ? -EBUSY : 0;
}

uint64_t rados_get_instance_id(rados_t cluster)
{
	return 1;
}

int rados_unlock(rados_ioctx_t io, const char *object, const char *name, const char *cookie)
{
	unlocks++;
	return unlocks_fail && unlocks_fail-- ? -EIO : 0;
}

int rados_break_lock(rados_ioctx_t io, const char *object, const char *name, const char *client, const char *cookie)
{
	holder = NULL;
	silent_lists = 0;
	return 0;
}

ssize_t rados_list_lockers(rados_ioctx_t io, const char *object, const char *name, int *exclusive, char *tag,
			   size_t *tag_bytes, char *clients, size_t *client_bytes, char *cookies, size_t *cookie_bytes,
			   char *addresses, size_t *address_bytes)
{
	static const char cookies_of_several[] = "this\0silent\0busy";
	static const char addresses_of_several[] = "1:0/1\0002:0/2\0003:0/3";
	static const char cookies_of_two[] = "this\0busy", addresses_of_two[] = "1:0/1\0003:0/3";

	*exclusive = held_alone && !several;
	if (several && silent_lists-- <= 0) {
		*client_bytes = *cookie_bytes = sizeof(cookies_of_two);
		memcpy(clients, cookies_of_two, *client_bytes);
		memcpy(cookies, cookies_of_two, *cookie_bytes);
		*address_bytes = sizeof(addresses_of_two);
		memcpy(addresses, addresses_of_two, *address_bytes);
		return 2;
	}
	if (several) {
		*client_bytes = sizeof(cookies_of_several);
		memcpy(clients, cookies_of_several, *client_bytes);
		*cookie_bytes = sizeof(cookies_of_several);
		memcpy(cookies, cookies_of_several, *cookie_bytes);
		*address_bytes = sizeof(addresses_of_several);
		memcpy(addresses, addresses_of_several, *address_bytes);
		return 3;
	}
	if (!holder)
		return 0;
	*client_bytes = (size_t)snprintf(clients, *client_bytes, "client.1") + 1;
	*cookie_bytes = (size_t)snprintf(cookies, *cookie_bytes, "%s", lives ? lives : formerly ? FORMER : HOLDER) + 1;
	*address_bytes = (size_t)snprintf(addresses, *address_bytes, "%s", holder) + 1;
	return 1;
}

int rados_blocklist_add(rados_t cluster, char *address, uint32_t expire_s)
{
	notifies = 0;
	snprintf(shot + strlen(shot), sizeof(shot) - strlen(shot), "%s%s", shot[0] ? " " : "", address);
	return 0;
}

/* -- tests ------------------------------------------------------------------------------------- */

/* A silent one has the lock from there. The result of entering; `shot` is set, or empty. */
static int enter(const char *address)
{
	char error[TGT_ERROR_BYTES] = "";
	int err;

	gateway = (struct rbd_gateway){0};
	holder = address;
	shot[0] = 0;
	err = tgt_rbd_gateway_enter(&gateway, true, NULL, NULL, "id", error);
	if (err)
		assert_non_null(strstr(error, "it is not shut out"));
	else
		tgt_rbd_gateway_leave(&gateway);
	assert_false(watched);
	return err;
}

static void one_client_is_shut_out(void **state)
{
	static const char *const forms[][2] = {
		{"1.2.3.4:0/5678", "1.2.3.4:0/5678"},
		{"v1:1.2.3.4:0/5678", "1.2.3.4:0/5678"},
		{"v2:1.2.3.4:0/5678", "1.2.3.4:0/5678"},
		{"any:1.2.3.4:0/5678", "1.2.3.4:0/5678"},
		{"[v2:1.2.3.4:0/5678,v1:1.2.3.4:0/5678]", "1.2.3.4:0/5678"},
		{"[any:1.2.3.4:6800/4294967295]", "1.2.3.4:6800/4294967295"},
		{"[2001:db8::1]:0/5678", "[2001:db8::1]:0/5678"},
		{"v1:[2001:db8::1]:0/5678", "[2001:db8::1]:0/5678"},
		{"any:[2001:db8::1]:0/5678", "[2001:db8::1]:0/5678"},
		{"[v2:[2001:db8::1]:0/5,v1:[2001:db8::1]:0/5]", "[2001:db8::1]:0/5"},
	};

	for (size_t i = 0; i < UNIT_LENGTH(forms); i++) {
		assert_int_equal(enter(forms[i][0]), 0);
		assert_string_equal(shot, forms[i][1]);
	}
}

static void no_machine_is_shut_out(void **state)
{
	static const char *const forms[] = {
		"",
		"-",
		"1.2.3.4:0",
		"1.2.3.4:0/",
		"1.2.3.4:0/0",
		"1.2.3.4:0/000",
		"1.2.3.4:0/4294967296", /* 0 in 32 bits */
		"1.2.3.4:0/18446744073709551617", /* likewise in 64 */
		"1.2.3.4:0/5x",
		"[2001:db8::1]",
		"[2001:db8::1]:0/0",
		"[v2:[2001:db8::1]:0/0,v1:[2001:db8::1]:0/5]",
		"[v2:1.2.3.4:0,v1:1.2.3.4:0/5]",
	};

	for (size_t i = 0; i < UNIT_LENGTH(forms); i++) {
		assert_int_equal(enter(forms[i]), -EBADMSG);
		assert_string_equal(shot, "");
	}
}

static void a_watch_lost_late_is_not_begun_again(void **state)
{
	loses = true;
	assert_int_equal(enter(NULL), 0);
	assert_false(loses);
}

/* Nobody asks it, and it has been shut out already. */
static void a_former_client_loses_its_lock(void **state)
{
	time_t then_s = now_s;

	(void)state;
	formerly = true;
	assert_int_equal(enter("1.2.3.4:0/5678"), 0);
	formerly = false;
	assert_string_equal(shot, "");
	assert_int_equal(now_s, then_s);
}

static void a_lock_that_stays_is_tried_again_for_a_while(void **state)
{
	(void)state;
	warnings = unlocks = 0;
	unlocks_fail = 3;
	assert_int_equal(enter(NULL), 0);
	assert_int_equal(unlocks, 4);
	assert_int_equal(warnings, 1);
	unlocks = 0;
	unlocks_fail = 1000;
	assert_int_equal(enter(NULL), 0);
	assert_in_range(unlocks, 2, 100);
	assert_int_equal(warnings, 3);
	unlocks_fail = 0;
}

/* Else it is. */
static void a_lost_watch_is_begun_again(void **state)
{
	char error[TGT_ERROR_BYTES];

	(void)state;
	gateway = (struct rbd_gateway){0};
	holder = NULL;
	assert_int_equal(tgt_rbd_gateway_enter(&gateway, true, NULL, NULL, "id", error), 0);
	watch_lost(&gateway, gateway.watch, -ENOTCONN);
	assert_true(watched);
	tgt_rbd_gateway_leave(&gateway);
	assert_false(watched);
}

/* Others cannot know of a gateway whose object was removed, unless the pool was, too. */
static void a_removed_object_has_no_lock(void **state)
{
	char error[TGT_ERROR_BYTES];

	gateway = (struct rbd_gateway){0};
	holder = NULL;
	assert_int_equal(tgt_rbd_gateway_enter(&gateway, true, NULL, NULL, "id", error), 0);
	watch_fails = -ENOENT;
	gateway.store = (struct tgt_store *)error;
	watch_lost(&gateway, gateway.watch, -ENOTCONN);
	assert_int_equal(unlocked, 0);
	gateway.store = NULL;
	watch_lost(&gateway, gateway.watch, -ENOTCONN);
	assert_int_equal(unlocked, 1);
	watch_fails = 0;
	tgt_rbd_gateway_leave(&gateway);
}

/* The words of whoever cannot have the lock, which this client has, or one that lives. */
static void lock_is_refused(bool alone, const char *words)
{
	char error[TGT_ERROR_BYTES];

	gateway = (struct rbd_gateway){0};
	holder = "3:0/3";
	assert_int_equal(tgt_rbd_gateway_enter(&gateway, alone, NULL, NULL, "id", error), -EBUSY);
	assert_non_null(strstr(error, words));
	holder = NULL;
}

static void whoever_has_the_lock_is_told(void **state)
{
	(void)state;
	lives = BUSY;
	held_alone = 1;
	lock_is_refused(true, "in use by gateway busy (3:0/3), and this one is to be alone");
	lock_is_refused(false, "in use by gateway busy (3:0/3), which is alone");
	held_alone = 0;
	lock_is_refused(true, "and this one is to be alone");
	lock_is_refused(false, "whose rblkd is of another version");
	lives = THIS;
	lock_is_refused(false, "in use by this process, for another volume");
	lives = NULL;
	held_alone = 1;
}

static void enter_several(int asks, int lists)
{
	char error[TGT_ERROR_BYTES];

	gateway = (struct rbd_gateway){0};
	holder = NULL;
	shot[0] = 0;
	assert_int_equal(tgt_rbd_gateway_enter(&gateway, false, NULL, NULL, "id", error), 0);
	several = true;
	busy_asks = asks;
	silent_lists = lists;
}

static void leave_several(void)
{
	several = busy_holds = false;
	tgt_rbd_gateway_leave(&gateway);
}

/*
 * Of several, all that serve it are to have ended what they have of a session, or of a host. `shot` is set, or empty.
 */
static uint64_t fence_several(int asks, int lists, bool is_host)
{
	const struct tgt_past past = {.epoch = 2, .host = is_host};
	char error[TGT_ERROR_BYTES];
	uint64_t held;

	enter_several(asks, lists);
	busy_holds = is_host;
	assert_int_equal(tgt_rbd_gateway_fence(&gateway, &past, 1, &held, error), 0);
	leave_several();
	return held;
}

/* A machine is lost, and with it some of the cluster: a living gateway writes for longer than a dead one is asked. */
static void a_busy_one_has_its_time_beside_a_silent_one(void **state)
{
	(void)state;
	fence_several(10, 1000, false);
	assert_string_equal(shot, "2:0/2");
}

static void one_that_stays_busy_is_shut_out(void **state)
{
	(void)state;
	fence_several(1000, 10000, false);
	assert_string_equal(shot, "2:0/2 3:0/3");
}

/* It has ended in good order, and answers no more. */
static void one_that_has_left_is_not_shut_out(void **state)
{
	(void)state;
	fence_several(3, 1, false);
	assert_string_equal(shot, "");
}

/* The fault of an OSD that has held the question has ended its watch, too: it has not been asked yet. */
static void one_is_asked_again_after_a_question_that_was_held(void **state)
{
	(void)state;
	notify_s = 60;
	fence_several(0, 1, false);
	assert_string_equal(shot, "");
}

/* It goes on at another one, so nobody has to be quiet for it. */
static void a_host_of_another_one_is_held(void **state)
{
	(void)state;
	assert_int_equal(fence_several(0, 1000, true), 1);
	assert_string_equal(shot, "");
}

/* Who had answered before one was shut out need not have seen that. */
static void a_change_is_told_again_when_one_was_shut_out(void **state)
{
	static const struct tgt_reservation_note note;
	char error[TGT_ERROR_BYTES];

	(void)state;
	enter_several(0, 1000);
	assert_int_equal(tgt_rbd_gateway_tell(&gateway, &note, error), 0);
	leave_several();
	assert_string_equal(shot, "2:0/2");
	assert_int_equal(notifies, 1);
}

/* librados' memory is where it is. */
static void a_change_is_heard_from_any_memory(void **state)
{
	struct rbd_news news = {.magic = RBD_NEWS_MAGIC, .note.serial = htole64(5)};
	char memory[sizeof(news) + 1];

	(void)state;
	memcpy(memory + 1, &news, sizeof(news));
	tgt_rbd_asked(&gateway, 1, 1, UINT64_MAX, memory + 1, sizeof(news));
	pthread_mutex_lock(&lock);
	while (!heard)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	tgt_rbd_asked_end(&gateway);
	assert_int_equal(heard, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_client_is_shut_out),
		cmocka_unit_test(no_machine_is_shut_out),
		cmocka_unit_test(a_watch_lost_late_is_not_begun_again),
		cmocka_unit_test(a_lost_watch_is_begun_again),
		cmocka_unit_test(a_removed_object_has_no_lock),
		cmocka_unit_test(whoever_has_the_lock_is_told),
		cmocka_unit_test(a_former_client_loses_its_lock),
		cmocka_unit_test(a_lock_that_stays_is_tried_again_for_a_while),
		cmocka_unit_test(a_busy_one_has_its_time_beside_a_silent_one),
		cmocka_unit_test(one_that_stays_busy_is_shut_out),
		cmocka_unit_test(one_that_has_left_is_not_shut_out),
		cmocka_unit_test(one_is_asked_again_after_a_question_that_was_held),
		cmocka_unit_test(a_host_of_another_one_is_held),
		cmocka_unit_test(a_change_is_told_again_when_one_was_shut_out),
		cmocka_unit_test(a_change_is_heard_from_any_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
