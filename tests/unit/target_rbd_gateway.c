/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a gateway shuts out the one client that held the image's lock, never a whole machine, and when it leaves it
 * watches no more. Method: the gateway with fakes of librados and of the module's other files; each form in which Ceph
 * writes an address is the lock holder's; the watch is lost while it is ended, and the keeper is at once.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "target/base/error.h"
#include "target/rbd/rbd.h"

#define HOLDER "holder"

static const char *holder; /* address of who has the lock; NULL: it is free */
static char shot[256];	   /* what was added to the blocklist */
static struct rbd_gateway gateway;
static bool watched;
static rados_watcherrcb_t watch_lost;
static bool loses; /* the watch, once, while it is ended */

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
}

static const struct tgt_module_host host = {.error = tgt_error, .log = fake_log};
const struct tgt_module_host *tgt_rbd_host = &host;

rados_t tgt_rbd_client_cluster(const struct rbd_client *client)
{
	return NULL;
}

const char *tgt_rbd_client_name(const struct rbd_client *client)
{
	return "this";
}

void tgt_rbd_client_fenced(struct rbd_client *client)
{
	abort();
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
	watched = true;
	return 0;
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

int rados_wait_for_latest_osdmap(rados_t cluster)
{
	return 0;
}

int rados_notify_ack(rados_ioctx_t io, const char *object, uint64_t id, uint64_t watch, const char *data, int bytes)
{
	return 0;
}

static char reply[1];

/* Nobody answers. */
int rados_notify2(rados_ioctx_t io, const char *object, const char *data, int bytes, uint64_t timeout_ms, char **out,
		  size_t *out_bytes)
{
	*out = reply;
	*out_bytes = sizeof(reply);
	return -ETIMEDOUT;
}

int rados_decode_notify_response(char *answer, size_t bytes, struct notify_ack_t **acks, size_t *ack_count,
				 struct notify_timeout_t **timeouts, size_t *timeout_count)
{
	*acks = NULL;
	*timeouts = NULL;
	*ack_count = *timeout_count = 0;
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

int rados_unlock(rados_ioctx_t io, const char *object, const char *name, const char *cookie)
{
	return 0;
}

int rados_break_lock(rados_ioctx_t io, const char *object, const char *name, const char *client, const char *cookie)
{
	holder = NULL;
	return 0;
}

ssize_t rados_list_lockers(rados_ioctx_t io, const char *object, const char *name, int *exclusive, char *tag,
			   size_t *tag_bytes, char *clients, size_t *client_bytes, char *cookies, size_t *cookie_bytes,
			   char *addresses, size_t *address_bytes)
{
	*exclusive = 1;
	*client_bytes = (size_t)snprintf(clients, *client_bytes, "client.1") + 1;
	*cookie_bytes = (size_t)snprintf(cookies, *cookie_bytes, HOLDER) + 1;
	*address_bytes = (size_t)snprintf(addresses, *address_bytes, "%s", holder) + 1;
	return 1;
}

int rados_blocklist_add(rados_t cluster, char *address, uint32_t expire_s)
{
	snprintf(shot, sizeof(shot), "%s", address);
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
	err = tgt_rbd_gateway_enter(&gateway, NULL, NULL, "id", error);
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

	(void)state;
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

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(forms); i++) {
		assert_int_equal(enter(forms[i]), -EBADMSG);
		assert_string_equal(shot, "");
	}
}

static void a_watch_lost_late_is_not_begun_again(void **state)
{
	(void)state;
	loses = true;
	assert_int_equal(enter(NULL), 0);
	assert_false(loses);
}

/* Else it is. */
static void a_lost_watch_is_begun_again(void **state)
{
	char error[TGT_ERROR_BYTES];

	(void)state;
	gateway = (struct rbd_gateway){0};
	holder = NULL;
	assert_int_equal(tgt_rbd_gateway_enter(&gateway, NULL, NULL, "id", error), 0);
	watch_lost(&gateway, gateway.watch, -ENOTCONN);
	assert_true(watched);
	tgt_rbd_gateway_leave(&gateway);
	assert_false(watched);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_client_is_shut_out),
		cmocka_unit_test(no_machine_is_shut_out),
		cmocka_unit_test(a_watch_lost_late_is_not_begun_again),
		cmocka_unit_test(a_lost_watch_is_begun_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
