/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: queries over RDMA from addresses that do not answer, each of which costs the kernel a second, do not keep the
 * daemon from its end. Method: a group that is not there, on the loopback interface, with a query whenever it is asked; the first
 * answer lasts until the daemon wants to end, on a clock of the test's own.
 */
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include "tests/unit/unit.h"
#include "proto/fabric/fabric_group.h"
#include "target/watch/discovery_rdma.h"

static _Atomic uint64_t now_ns = 1000000000;
static atomic_uint reads, answers;
static sem_t asked, ends;

uint64_t __wrap_env_now_ns(void);
uint64_t __wrap_env_now_ns(void)
{
	return now_ns;
}

int __real_eventfd_write(int fd, eventfd_t value);
int __wrap_eventfd_write(int fd, eventfd_t value);
int __wrap_eventfd_write(int fd, eventfd_t value)
{
	int result = __real_eventfd_write(fd, value);

	sem_post(&ends);
	return result;
}

int __wrap_fab_group_join(const struct fab_group_options *options, struct fab_group **group, char *error);
int __wrap_fab_group_join(const struct fab_group_options *options, struct fab_group **group, char *error)
{
	*group = (struct fab_group *)&reads;
	return 0;
}

void __wrap_fab_group_leave(struct fab_group *group);
void __wrap_fab_group_leave(struct fab_group *group)
{
}

const char *__wrap_fab_group_device(const struct fab_group *group);
const char *__wrap_fab_group_device(const struct fab_group *group)
{
	return "none";
}

bool __wrap_fab_group_ethernet(const struct fab_group *group);
bool __wrap_fab_group_ethernet(const struct fab_group *group)
{
	return true;
}

void __wrap_fab_group_polled(const struct fab_group *group, struct pollfd *polled);
void __wrap_fab_group_polled(const struct fab_group *group, struct pollfd *polled)
{
	polled[0] = polled[1] = (struct pollfd){ .fd = -1 };
}

const char *__wrap_fab_group_lost(struct fab_group *group);
const char *__wrap_fab_group_lost(struct fab_group *group)
{
	return NULL;
}

/* Each one from another address of the network of the loopback interface. */
bool __wrap_fab_group_receive(struct fab_group *group, struct fab_group_message *message);
bool __wrap_fab_group_receive(struct fab_group *group, struct fab_group_message *message)
{
	static struct rblk_wire_discover query;
	unsigned int number = atomic_fetch_add(&reads, 1) + 2;

	query = (struct rblk_wire_discover){ .magic = rblk_to_le32(RBLK_MAGIC), .version = rblk_to_le16(1),
					     .type = rblk_to_le16(RBLK_DISCOVER_QUERY), .nonce = { 1 } };
	*message = (struct fab_group_message){ .data = &query, .length = sizeof(query),
					       .from = { [10] = 0xff, 0xff, 127, 0, (uint8_t)(number >> 8), (uint8_t)number } };
	return true;
}

int __wrap_fab_group_answer(struct fab_group *group, const struct fab_group_message *message, const void *data,
			    size_t bytes);
int __wrap_fab_group_answer(struct fab_group *group, const struct fab_group_message *message, const void *data,
			    size_t bytes)
{
	if (!answers++) {
		sem_post(&asked);
		assert_int_equal(sem_wait(&ends), 0);
	}
	now_ns += 1000000000;
	return -1;
}

static bool any_address(const struct sockaddr *address)
{
	return true;
}

static void the_end_waits_for_one_answer(void **state)
{
	static struct tgt_discovery_responder responder;
	struct tgt_discovery_rdma *rdma;
	char error[256];

	(void)state;
	sem_init(&asked, 0, 0);
	sem_init(&ends, 0, 0);
	tgt_discovery_responder_init(&responder, "lo");
	strcpy(responder.self.name, "target");
	responder.self.rdma_address = any_address;
	responder.self.listen_count = 1;
	responder.self.listens[0] = (struct tgt_discovery_listen){.kind = FAB_VERBS, .address.ss_family = AF_INET};
	assert_int_equal(tgt_discovery_rdma_create(&responder, &rdma, error), 0);
	assert_non_null(rdma);
	assert_int_equal(sem_wait(&asked), 0);
	tgt_discovery_rdma_destroy(rdma);
	assert_int_equal(answers, 1);
	tgt_discovery_responder_fini(&responder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_waits_for_one_answer),
	};

	return cmocka_run_group_tests_name("discovery over RDMA", tests, NULL, NULL);
}
