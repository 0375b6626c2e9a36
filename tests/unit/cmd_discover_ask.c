/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: answers over RDMA are taken for as long as was asked, however long it took to join a group, and all that have come,
 * however many at once. Method: groups that are not there, and a clock of the test's own, which goes on when the command
 * waits; the loopback interface, over RDMA only.
 */
#include <string.h>
#include <time.h>
#include <infiniband/verbs.h>
#include "tests/unit/unit.h"
#include "initiator/cmd/discover.h"

#define MS 1000000ull

static uint64_t now_ns;
static uint64_t join_ns;		 /* how long it takes */
static unsigned int answers, told;	 /* to each question; so far */
static struct rblk_wire_discover answer; /* to the question; its first 4 bytes of the instance count */

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	*now = (struct timespec){ .tv_sec = (time_t)(now_ns / 1000 / MS), .tv_nsec = (long)(now_ns % (1000 * MS)) };
	return 0;
}

/* Nothing happens: what has been taken is not told again. */
int __wrap_poll(struct pollfd *polled, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *polled, nfds_t count, int timeout_ms)
{
	now_ns += (uint64_t)timeout_ms * MS;
	return 0;
}

/* This machine has a device, and nobody opens it. */
struct ibv_device **__wrap_ibv_get_device_list(int *count);
struct ibv_device **__wrap_ibv_get_device_list(int *count)
{
	static struct ibv_device *devices[1];

	*count = 1;
	return devices;
}

void __wrap_ibv_free_device_list(struct ibv_device **devices);
void __wrap_ibv_free_device_list(struct ibv_device **devices)
{
	(void)devices;
}

int __wrap_fab_group_join(const struct fab_group_options *options, struct fab_group **group, char *error);
int __wrap_fab_group_join(const struct fab_group_options *options, struct fab_group **group, char *error)
{
	now_ns += join_ns;
	*group = (struct fab_group *)&answer;
	return 0;
}

void __wrap_fab_group_leave(struct fab_group *group);
void __wrap_fab_group_leave(struct fab_group *group)
{
}

void __wrap_fab_group_polled(const struct fab_group *group, struct pollfd *polled);
void __wrap_fab_group_polled(const struct fab_group *group, struct pollfd *polled)
{
	memset(polled, 0, FAB_GROUP_FDS * sizeof(*polled));
}

const char *__wrap_fab_group_lost(struct fab_group *group);
const char *__wrap_fab_group_lost(struct fab_group *group)
{
	return NULL;
}

int __wrap_fab_group_send(struct fab_group *group, const void *data, size_t bytes);
int __wrap_fab_group_send(struct fab_group *group, const void *data, size_t bytes)
{
	const struct rblk_wire_discover *query = data;

	assert_int_equal(bytes, sizeof(*query));
	answer = (struct rblk_wire_discover){
		.magic = query->magic, .version = query->version, .type = rblk_to_le16(RBLK_DISCOVER_ANSWER),
		.name = "one", .protocol = rblk_to_le16(1) };
	memcpy(answer.nonce, query->nonce, sizeof(answer.nonce));
	told = 0;
	return 0;
}

bool __wrap_fab_group_receive(struct fab_group *group, struct fab_group_message *message);
bool __wrap_fab_group_receive(struct fab_group *group, struct fab_group_message *message)
{
	if (told == answers)
		return false;
	told++;
	memcpy(answer.instance, &told, sizeof(told));
	*message = (struct fab_group_message){ .data = &answer, .length = sizeof(answer) };
	return true;
}

static unsigned int asked(void)
{
	struct discover_question question = { .interfaces = "lo", .over = DISCOVER_OVER_RDMA, .time_ms = 900 };
	struct discover_list list;
	unsigned int count;

	assert_int_equal(discover_ask(&question, &list), 0);
	count = list.count;
	discover_list_free(&list);
	return count;
}

static void joining_takes_no_time_from_answers(void **state)
{
	(void)state;
	answers = 1;
	join_ns = 5000 * MS;
	assert_int_equal(asked(), 1);
	join_ns = 0;
}

static void all_that_has_come_is_taken(void **state)
{
	(void)state;
	answers = 1000;
	assert_int_equal(asked(), 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(joining_takes_no_time_from_answers),
		cmocka_unit_test(all_that_has_come_is_taken),
	};

	return cmocka_run_group_tests_name("rblk discover, asking", tests, NULL, NULL);
}
