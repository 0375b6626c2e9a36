/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an image whose opening does not end delays others, which are opened behind it again and again, by no more than
 * a moment, once; those that have begun together are late together; and an opening that was late is taken by the next
 * attempt, also when it has ended in between. Method: the openings, with a fake of what they open, and the machine's
 * time.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include "target/base/error.h"
#include "target/base/settings.h"
#include "target/rbd/rbd.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool stuck; /* rbd/late is */
static unsigned int opened, closed, probes;
static struct tgt_store stores[2];

/* -- the machine's time ------------------------------------------------------------------------ */

static _Atomic uint64_t now_ns = 1000000000000ull;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	*now = (struct timespec){.tv_sec = (time_t)(now_ns / 1000000000u), .tv_nsec = (long)(now_ns % 1000000000u)};
	return 0;
}

/* The one whose turn it is to wait makes time pass; a thread that was not waited for has none. */
static _Atomic bool passes;

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	pthread_mutex_unlock(mutex);
	if (passes)
		now_ns += 50000000;
	sched_yield();
	pthread_mutex_lock(mutex);
	return ETIMEDOUT;
}

/* -- the module's other files ------------------------------------------------------------------ */

static void fake_log(enum tgt_log_level level, const char *format, ...)
{
}

static bool fake_interrupted(void)
{
	return false;
}

static const struct tgt_module_host host = {.error = tgt_error, .log = fake_log, .interrupted = fake_interrupted};
const struct tgt_module_host *tgt_rbd_host = &host;

bool tgt_rbd_client_is_there(void)
{
	return false;
}

void tgt_rbd_client_probe(void)
{
	probes++;
}

int tgt_rbd_store_open(const char *path, const struct rbd_name *name, enum rbd_use use, struct rbd_store **store,
		       char *error)
{
	bool late = !strncmp(path, "rbd/late", 8);

	pthread_mutex_lock(&lock);
	while (late && stuck)
		pthread_cond_wait(&changed, &lock);
	opened += late;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	*store = (struct rbd_store *)&stores[late];
	return 0;
}

void tgt_rbd_store_close(struct tgt_store *store)
{
	closed++;
}

struct tgt_store *tgt_rbd_store_of(struct rbd_store *store)
{
	return (struct tgt_store *)store;
}

/* -- opening ------------------------------------------------------------------------------------- */

static int open_path(const char *path, bool others_wait, struct tgt_store **store)
{
	struct tgt_volume_config config = {.others_wait = others_wait};
	char error[TGT_ERROR_BYTES];
	int err;

	strcpy(config.path, path);
	passes = !strncmp(path, "rbd/late", 8);
	err = tgt_rbd_open(&config, store, error);
	passes = false;
	return err;
}

static int try_open(const char *path, struct tgt_store **store)
{
	return open_path(path, true, store);
}

static void a_late_one_delays_others_once(void **state)
{
	struct tgt_store *store = NULL;
	uint64_t began_ns;

	tgt_rbd_open_begin();
	stuck = true;
	began_ns = now_ns;
	assert_int_equal(try_open("rbd/late", &store), -ETIMEDOUT);
	assert_in_range(now_ns - began_ns, 0, 2000000000u);
	began_ns = now_ns;
	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(try_open("rbd/late", &store), -ETIMEDOUT);
	assert_int_equal(now_ns, began_ns);
	assert_int_equal(probes, 0);
	now_ns += 10000000000ull;
	assert_int_equal(try_open("rbd/late", &store), -ETIMEDOUT);
	assert_int_equal(probes, 1);
	assert_int_equal(try_open("rbd/other", &store), 0);
	assert_ptr_equal(store, &stores[0]);
}

/* As a start does: the first one, and others behind it. */
static void those_that_begin_together_are_late_together(void **state)
{
	struct tgt_volume_config config = {.path = "rbd/late2"};
	struct tgt_store *store = NULL;
	uint64_t began_ns = now_ns;

	for (; config.path[8] <= '9'; config.path[8]++) {
		tgt_rbd_open_ahead(&config);
		tgt_rbd_open_ahead(&config); /* once is enough */
	}
	assert_int_equal(now_ns, began_ns);
	for (config.path[8] = '2'; config.path[8] <= '9'; config.path[8]++) {
		assert_int_equal(try_open(config.path, &store), -ETIMEDOUT);
		assert_int_equal(open_path(config.path, false, &store), -ETIMEDOUT);
	}
	assert_in_range(now_ns - began_ns, 20000000000u, 20000000000u + 50000000u);
}

static void it_is_taken_by_the_next_attempt(void **state)
{
	struct tgt_store *store = NULL;
	unsigned int tries = 0;

	pthread_mutex_lock(&lock);
	stuck = false;
	pthread_cond_broadcast(&changed);
	while (opened < 9)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	/* Its thread may be about to say so. */
	while (try_open("rbd/late", &store) && tries++ < 1000000)
		sched_yield();
	assert_ptr_equal(store, &stores[1]);
	assert_int_equal(opened, 9);
	assert_int_equal(closed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_late_one_delays_others_once),
		cmocka_unit_test(those_that_begin_together_are_late_together),
		cmocka_unit_test(it_is_taken_by_the_next_attempt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
