/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the answers that clients do not take are bounded in memory, all together: whoever asks beyond that is told so in a
 * few words, until they are taken or their clients have gone. And clients that do not ask keep no other out. Method: answers
 * as large as the test wants, whose memory nobody touches; clients that do not read, or do not ask, by sockets of the
 * loopback; a clock that stands still.
 */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "target/base/error.h"
#include "target/watch/http.h"
#include "target/watch/paths.h"

/* Two are within the bound and reach it, whatever the kernel holds of them for their clients; one does not. */
#define ANSWER_BYTES (TGT_HTTP_ANSWERS_BYTES / 2 + 4096)

uint64_t __wrap_env_now_ns(void);
uint64_t __wrap_env_now_ns(void)
{
	return 1000000000;
}

static struct tgt_http *http;
static unsigned int answers;

/* Linked instead of paths.c's. */
void __wrap_tgt_paths_answer(struct tgt_methods *methods, const char *path, const struct tgt_http_query *query, struct tgt_http_answer *answer);
void __wrap_tgt_paths_answer(struct tgt_methods *methods, const char *path, const struct tgt_http_query *query, struct tgt_http_answer *answer)
{
	(void)methods;
	(void)path;
	(void)query;
	answers++;
	*answer = (struct tgt_http_answer){.status = 200, .type = "text/plain", .policy = "default-src 'none'",
				      .text = calloc(1, ANSWER_BYTES), .bytes = ANSWER_BYTES};
	assert_non_null(answer->text);
}

static int begin(void **state)
{
	char error[TGT_ERROR_BYTES];

	(void)state;
	answers = 0;
	assert_int_equal(tgt_http_create("127.0.0.1:0", NULL, &http, error), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	tgt_http_destroy(http);
	return 0;
}

/* One turn of the thread that has it: it waits for clients, and a moment for what has no descriptor. */
static void step(void)
{
	struct pollfd polled = {.fd = tgt_http_fd(http), .events = POLLIN};

	poll(&polled, 1, 10);
	tgt_http_step(http);
}

/* From 127.0.0.`from`. */
static int begin_client(unsigned int from)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000 + from)};
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_port = htons((uint16_t)atoi(strrchr(tgt_http_url(http), ':') + 1));
	assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* The first words of its answer: it takes no more than them. */
static int ask(char *words, size_t bytes)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
	int fd = begin_client(1);
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	ssize_t got;

	assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
	while (poll(&polled, 1, 0) == 0)
		step();
	got = recv(fd, words, bytes - 1, 0);
	assert_true(got > 0);
	words[got] = '\0';
	return fd;
}

static void answers_that_nobody_takes_are_bounded(void **state)
{
	char words[1024];
	int one, two, three;

	(void)state;
	one = ask(words, sizeof(words));
	assert_non_null(strstr(words, "HTTP/1.1 200"));
	two = ask(words, sizeof(words));
	assert_non_null(strstr(words, "HTTP/1.1 200"));
	assert_int_equal(answers, 2);
	/* No third answer is made at all. */
	three = ask(words, sizeof(words));
	assert_non_null(strstr(words, "HTTP/1.1 503"));
	assert_non_null(strstr(words, "too many answers have not been taken"));
	assert_int_equal(answers, 2);
	close(three);
	/* One has gone; the daemon sees it when it sends on. */
	close(one);
	do {
		three = ask(words, sizeof(words));
		close(three);
	} while (strstr(words, "HTTP/1.1 503"));
	assert_non_null(strstr(words, "HTTP/1.1 200"));
	assert_int_equal(answers, 3);
	close(two);
}

static bool has_ended(int fd)
{
	struct pollfd polled = {.fd = fd, .events = POLLIN};

	return poll(&polled, 1, 0) == 1;
}

/* As many as may be of two addresses, and more, send a part of a head: the oldest end, and who asks is answered. */
static void clients_that_do_not_ask_make_room(void **state)
{
	enum { EACH = TGT_HTTP_CLIENTS_OF_ADDRESS + 1 };
	int slow[2 * EACH], fd;
	char words[1024];

	(void)state;
	for (unsigned int i = 0; i < 2 * EACH; i++) {
		slow[i] = begin_client(1 + i / EACH);
		assert_int_equal(send(slow[i], "GET /met", 8, MSG_NOSIGNAL), 8);
		step();
	}
	fd = ask(words, sizeof(words));
	assert_non_null(strstr(words, "HTTP/1.1 200"));
	close(fd);
	for (unsigned int i = 0; i < 2 * EACH; i++) {
		unsigned int of_address = i % EACH;

		/* The first of each address, and those in whose places the others are. */
		if (!of_address)
			assert_true(has_ended(slow[i]));
		else if (of_address > 3)
			assert_false(has_ended(slow[i]));
		close(slow[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(clients_that_do_not_ask_make_room, begin, end),
		cmocka_unit_test_setup_teardown(answers_that_nobody_takes_are_bounded, begin, end),
	};

	return cmocka_run_group_tests_name("target http", tests, NULL, NULL);
}
