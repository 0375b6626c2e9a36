/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: each network has one Diffie-Hellman computation at a time, whatever addresses of it ask; others are not held up
 * by that, and neither is who has its key pair. Method: addresses of both families, and jobs of theirs, which are
 * computed in the order in which they begin, agreements first.
 */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>
#include "target/nvme/dh.h"

static void network_of(const char *text, uint8_t network[FAB_NETWORK_BYTES])
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(4420)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(1)};

	if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
		fab_network_of((const struct sockaddr *)&in, network);
		return;
	}
	assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
	fab_network_of((const struct sockaddr *)&in6, network);
}

static void whom_an_address_stands_for(void **state)
{
	static const struct {
		const char *a, *b;
		bool same;
	} all[] = {
		{"10.0.0.1", "10.0.0.1", true},		{"10.0.0.1", "10.0.0.2", false},
		{"10.0.0.1", "::ffff:10.0.0.1", true},	{"::ffff:10.0.0.1", "::ffff:10.0.0.2", false},
		{"fd00::1:2:3", "fd00::4:5:6:7", true}, {"fd00:0:0:1::1", "fd00::1", false},
		{"::1", "10.0.0.1", false},
	};
	uint8_t a[FAB_NETWORK_BYTES], b[FAB_NETWORK_BYTES];

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(all); i++) {
		network_of(all[i].a, a);
		network_of(all[i].b, b);
		assert_int_equal(!memcmp(a, b, sizeof(a)), all[i].same);
	}
}

static struct nvme_dh_job *job_make(const char *address)
{
	uint8_t network[FAB_NETWORK_BYTES];
	struct nvme_dh_job *job;

	network_of(address, network);
	job = nvme_dh_job_create(NVME_DH_8192, network);
	assert_non_null(job);
	return job;
}

/* False: the first was over before the second asked, which shows nothing. */
static bool second_waits(void)
{
	struct nvme_dh_job *first = job_make("fd00::1"), *second = job_make("fd00::2"), *other = job_make("10.0.0.1");
	bool well, late;

	assert_false(nvme_dh_job_run(first, &well));
	assert_false(nvme_dh_job_run(second, &well));
	late = nvme_dh_job_run(first, &well);
	assert_false(nvme_dh_job_run(other, &well));
	while (!nvme_dh_job_run(second, &well))
		usleep(1000);
	assert_true(well);
	/* So it has come behind the other. */
	if (!late)
		assert_true(nvme_dh_job_run(other, &well) && well);
	nvme_dh_job_free(first);
	nvme_dh_job_free(second);
	nvme_dh_job_free(other);
	return !late;
}

static void one_at_a_time(void **state)
{
	(void)state;
	while (!second_waits())
		;
}

/* False: the thread was idle before all had asked, which shows nothing. */
static bool agreement_is_first(void)
{
	struct nvme_dh_job *has = job_make("fd00::1"), *begins = job_make("fd00::2"), *busy = job_make("10.0.0.1");
	bool well, late;

	while (!nvme_dh_job_run(has, &well))
		usleep(1000);
	nvme_dh_job_peer(has, nvme_dh_job_public(has));
	assert_false(nvme_dh_job_run(busy, &well));
	assert_false(nvme_dh_job_run(begins, &well));
	assert_false(nvme_dh_job_run(has, &well));
	late = nvme_dh_job_run(busy, &well);
	while (!nvme_dh_job_run(begins, &well))
		usleep(1000);
	if (!late)
		assert_true(nvme_dh_job_run(has, &well) && well);
	nvme_dh_job_free(has);
	nvme_dh_job_free(begins);
	nvme_dh_job_free(busy);
	return !late;
}

/* The last one: it ends the thread. */
static void who_has_its_pair_ends_first(void **state)
{
	(void)state;
	while (!agreement_is_first())
		;
	nvme_dh_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whom_an_address_stands_for),
		cmocka_unit_test(one_at_a_time),
		cmocka_unit_test(who_has_its_pair_ends_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
