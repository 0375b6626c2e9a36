/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a change of the reservation that gateways share, of which the cluster has not said whether it has it, is
 * neither taken for made nor for not made: what the cluster has decides, and a volume that cannot know it is lost. All
 * are told of it, again if that fails; an error of the cluster's is not taken for another gateway's change. Method: the
 * change with fakes of librados and of the gateway.
 */
#include "tests/unit/unit.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include "target/base/error.h"
#include "target/rbd/rbd.h"

static struct tgt_reservation_note object; /* in the cluster */
static int write_result, read_result;	   /* 0: it succeeds */
static bool writes;			   /* whatever it says */
static unsigned int lost, told;
static unsigned int tells_fail; /* so often */
static int ended; /* the change's result; 1: not yet */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct tgt_reservation_note wanted;

/* -- the module's other files, and librados ----------------------------------------------------- */

static void fake_log(enum tgt_log_level level, const char *format, ...)
{
}

static void fake_lost(struct tgt_store *store, const char *why)
{
	lost++;
}

static const struct tgt_module_host host = {.error = tgt_error, .log = fake_log, .lost = fake_lost};
const struct tgt_module_host *tgt_rbd_host = &host;

void tgt_rbd_client_fenced(struct rbd_client *client, const char *why)
{
	lost++;
}

int tgt_rbd_gateway_tell(struct rbd_gateway *gateway, const struct tgt_reservation_note *note, char *error)
{
	assert_memory_equal(note, &wanted, sizeof(wanted));
	told++;
	return told > tells_fail ? 0 : -EAGAIN; /* as librados, while it looks for another monitor */
}

static time_t now_s = 1000;

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

int rados_notify2(rados_ioctx_t io, const char *name, const char *data, int bytes, uint64_t timeout_ms, char **reply,
		  size_t *reply_bytes)
{
	return -EIO;
}

void rados_buffer_free(char *buffer)
{
}

rados_write_op_t rados_create_write_op(void)
{
	return NULL;
}

void rados_release_write_op(rados_write_op_t op)
{
}

void rados_write_op_cmpext(rados_write_op_t op, const char *compared, size_t bytes, uint64_t offset, int *result)
{
}

void rados_write_op_write_full(rados_write_op_t op, const char *data, size_t bytes)
{
	if (writes)
		memcpy(&object, data, bytes);
}

int rados_write_op_operate(rados_write_op_t op, rados_ioctx_t io, const char *name, time_t *time, int flags)
{
	return write_result;
}

int rados_read(rados_ioctx_t io, const char *name, char *data, size_t bytes, uint64_t offset)
{
	if (read_result)
		return read_result;
	memcpy(data, &object, bytes);
	return (int)bytes;
}

/* -- the changes ---------------------------------------------------------------------------------- */

static void change_done(struct tgt_store_change *change, int error)
{
	pthread_mutex_lock(&lock);
	ended = error;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
}

/* From serial 1 to 2, while the cluster has that serial. */
static struct tgt_store_change change(uint64_t serial, bool written, int result, int reads)
{
	static struct rbd_gateway gateway;
	struct tgt_store_change one = {.before = htole64(1), .note.serial = htole64(2), .done = change_done};

	wanted = one.note;
	object = (struct tgt_reservation_note){.serial = htole64(serial)};
	writes = written;
	write_result = result;
	read_result = reads;
	lost = told = 0;
	ended = 1;
	tgt_rbd_change(&gateway, &one);
	pthread_mutex_lock(&lock);
	while (ended == 1)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return one;
}

static void a_change_is_told_to_all(void **state)
{
	assert_true(change(1, true, 0, 0).kept);
	assert_int_equal(ended, 0);
	assert_int_equal(told, 1);
}

static void one_that_cannot_be_told_is_told_again(void **state)
{
	tells_fail = 2;
	assert_true(change(1, true, 0, 0).kept);
	assert_int_equal(ended, 0);
	assert_int_equal(told, 3);
	tells_fail = 1000;
	assert_true(change(1, true, 0, 0).kept);
	assert_int_equal(ended, -EIO);
	assert_in_range(told, 2, 100);
	tells_fail = 0;
}

static void no_error_of_the_clusters_is_another_gateways_change(void **state)
{
	assert_false(change(1, false, -EAGAIN, 0).kept);
	assert_int_equal(ended, -EIO);
	change(7, false, -4095, -EAGAIN);
	assert_int_equal(ended, -EIO);
	change(1, false, -EAGAIN, -EAGAIN);
	assert_int_equal(ended, -EIO);
}

static void one_that_was_made_after_all_is_told(void **state)
{
	assert_true(change(1, true, -ETIMEDOUT, 0).kept);
	assert_int_equal(ended, 0);
	assert_int_equal(told, 1);
}

static void one_that_was_not_made_fails(void **state)
{
	assert_false(change(1, false, -EPERM, 0).kept);
	assert_int_equal(ended, -EPERM);
	assert_int_equal(told + lost, 0);
}

static void another_one_in_its_place_is_taken(void **state)
{
	assert_int_equal(le64toh(change(7, false, -EIO, 0).note.serial), 7);
	assert_int_equal(ended, -EAGAIN);
	assert_int_equal(told + lost, 0);
	assert_false(change(7, false, -4095, 0).kept);
	assert_int_equal(ended, -EAGAIN);
}

static void a_volume_that_cannot_know_is_lost(void **state)
{
	assert_false(change(1, true, -EIO, -EIO).kept);
	assert_int_equal(ended, -EIO);
	assert_int_equal(told, 0);
	assert_int_equal(lost, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_change_is_told_to_all),
		cmocka_unit_test(one_that_cannot_be_told_is_told_again),
		cmocka_unit_test(no_error_of_the_clusters_is_another_gateways_change),
		cmocka_unit_test(one_that_was_made_after_all_is_told),
		cmocka_unit_test(one_that_was_not_made_fails),
		cmocka_unit_test(another_one_in_its_place_is_taken),
		cmocka_unit_test(a_volume_that_cannot_know_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
