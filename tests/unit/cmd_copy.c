/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a copy between two sessions sleeps no longer than the first of their times, such as when a command that was BUSY is due
 * again, and not at all where something is due now. Method: sessions that are not there, whose calls the test answers.
 */
#include <poll.h>
#include "tests/unit/unit.h"
#include "initiator/cmd/copy.h"

static struct scene {
	int due_ms[2]; /* of the sessions; -1: they wait for nothing but events */
	int armed[2];
	int slept_ms; /* -1: it has not */
} scene;

static char sessions[2];

static unsigned int index_of(const struct rblk_session *session)
{
	return (const char *)session == &sessions[1];
}

int __wrap_rblk_submit(struct rblk_session *session);
int __wrap_rblk_submit(struct rblk_session *session)
{
	(void)session;
	return 0;
}

int __wrap_rblk_poll(struct rblk_session *session, unsigned int max);
int __wrap_rblk_poll(struct rblk_session *session, unsigned int max)
{
	(void)session;
	(void)max;
	return 0;
}

int __wrap_rblk_arm(struct rblk_session *session);
int __wrap_rblk_arm(struct rblk_session *session)
{
	return scene.armed[index_of(session)];
}

int __wrap_rblk_timeout_ms(const struct rblk_session *session);
int __wrap_rblk_timeout_ms(const struct rblk_session *session)
{
	return scene.due_ms[index_of(session)];
}

int __wrap_rblk_fd(const struct rblk_session *session);
int __wrap_rblk_fd(const struct rblk_session *session)
{
	return 10 + (int)index_of(session);
}

int __wrap_poll(struct pollfd *polled, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *polled, nfds_t count, int timeout_ms)
{
	assert_int_equal(count, 2);
	assert_int_equal(polled[0].fd, 10);
	assert_int_equal(polled[1].fd, 11);
	scene.slept_ms = timeout_ms;
	return 0;
}

static void it_sleeps_until_the_first_is_due(void **state)
{
	static const struct {
		struct scene scene;
		int slept_ms;
	} cases[] = {
		{{.due_ms = {-1, -1}}, COPY_WAIT_MS},
		{{.due_ms = {3, -1}}, 3},
		{{.due_ms = {70, 5}}, 5},
		{{.due_ms = {9000, 0}}, 0},
		{{.due_ms = {3, 3}, .armed = {0, 1}}, -1},
		{{.due_ms = {3, 3}, .armed = {1, 0}}, -1},
	};
	struct copy copy = {
		.source.session = (struct rblk_session *)&sessions[0],
		.destination.session = (struct rblk_session *)&sessions[1],
	};

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(cases); i++) {
		scene = cases[i].scene;
		scene.slept_ms = -1;
		assert_int_equal(copy_wait(&copy), 0);
		assert_int_equal(scene.slept_ms, cases[i].slept_ms);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_sleeps_until_the_first_is_due),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
