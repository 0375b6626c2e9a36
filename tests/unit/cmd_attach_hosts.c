/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a disk is attached by whichever of its hosts' addresses leads to the target, with one host and with several,
 * and each refusal is said if none does; so is an answer that the module cannot use. Method: a resolver, routes, an
 * answering target and a module of the test.
 */
#include "tests/unit/unit.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/cmd/attach.h"
#include "initiator/cmd/discover.h"

static const char *unrouted; /* an address to which this machine has no route; NULL: it has all */
static const char *source;   /* --source; NULL: not said */
static const char *works;    /* in a line for which the module attaches; NULL: there is none */
static int refusal;
static char sent[16][256];
static unsigned int sent_count;

/* "NAME ADDRESS...": the names that there are. */
static const char *const names[] = {
	"one fd00::1 10.0.0.1",
	"two fd00::2 10.0.0.2",
	"three 10.0.0.3",
};

int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **list);

static struct addrinfo *address_new(const char *text)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *list;

	assert_int_equal(__real_getaddrinfo(text, "4430", &hints, &list), 0);
	return list;
}

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **list);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
	if (hints->ai_flags & AI_NUMERICHOST)
		return __real_getaddrinfo(node, service, hints, list);
	for (size_t i = 0; i < UNIT_LENGTH(names); i++) {
		char text[64], *rest = text, *word;

		strcpy(text, names[i]);
		if (strcmp(strsep(&rest, " "), node))
			continue;
		*list = NULL;
		while ((word = strsep(&rest, " "))) {
			if (hints->ai_family && (hints->ai_family == AF_INET6) != !!strchr(word, ':'))
				continue;
			*list = address_new(word);
			list = &(*list)->ai_next;
		}
		return 0;
	}
	return EAI_NONAME;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	char text[NI_MAXHOST];

	assert_int_equal(getnameinfo(address, bytes, text, sizeof(text), NULL, 0, NI_NUMERICHOST), 0);
	if (!unrouted || strcmp(text, unrouted))
		return 0;
	errno = ENETUNREACH;
	return -1;
}

int __wrap_attach_control_send(int control, const char *line, char *answer);
int __wrap_attach_control_send(int control, const char *line, char *answer)
{
	snprintf(sent[sent_count++], sizeof(sent[0]), "%s", line);
	if (works && strstr(line, works)) {
		strcpy(answer, "rblk0");
		return 0;
	}
	strcpy(answer, "refused");
	return refusal;
}

int __wrap_attach_control_open(void);
int __wrap_attach_control_open(void)
{
	return open("/dev/null", O_RDWR | O_CLOEXEC);
}

int __wrap_discover_uri_resolve(const char *text, enum discover_fabric fabric, char uri[RBLK_URI_BYTES]);
int __wrap_discover_uri_resolve(const char *text, enum discover_fabric fabric, char uri[RBLK_URI_BYTES])
{
	strcpy(uri, "rblk+tcp://one/v");
	return 0;
}

static char said[256];

int __wrap_cmd_error(const char *format, ...);
int __wrap_cmd_error(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(said, sizeof(said), format, arguments);
	va_end(arguments);
	return CMD_FAILED;
}

static int setup(void **state)
{
	said[0] = '\0';
	unrouted = works = source = NULL;
	refusal = -EHOSTUNREACH;
	sent_count = 0;
	return 0;
}

static int run(const char *uri)
{
	struct attach_options options = ATTACH_OPTIONS_DEFAULTS;
	char reason[ATTACH_REASON_BYTES], device[16] = "";
	struct ini_uri parsed;
	int err;

	options.source = source;
	assert_int_equal(attach_uri_parse(uri, &parsed, reason), 0);
	err = attach_hosts("disk", &parsed, -1, &options, device, sizeof(device));
	assert_string_equal(device, err ? "" : "rblk0");
	return err;
}

static void expect_sent(unsigned int n, const char *addresses)
{
	char wanted[256];

	snprintf(wanted, sizeof(wanted), "attach address=%s port=4430%s volume=v", addresses, strchr(addresses, ',') ? ",4430" : "");
	assert_true(n < sent_count);
	assert_string_equal(sent[n], wanted);
}

static void one_host_is_tried_at_each_address(void **state)
{
	works = "10.0.0.1";
	assert_int_equal(run("rblk://one/v"), 0);
	assert_int_equal(sent_count, 2);
	expect_sent(0, "fd00::1");
	expect_sent(1, "10.0.0.1");
	setup(state);
	assert_int_equal(run("rblk://one/v"), -EHOSTUNREACH);
	assert_int_equal(sent_count, 2);
}

static void so_are_several(void **state)
{
	works = "10.0.0.2";
	assert_int_equal(run("rblk://three,two/v"), 0);
	assert_int_equal(sent_count, 2);
	expect_sent(0, "10.0.0.3,fd00::2");
	expect_sent(1, "10.0.0.3,10.0.0.2");
}

/* Else that path would be missing as long as the disk is attached. */
static void what_has_no_route_comes_last(void **state)
{
	works = "10.0.0.3";
	unrouted = "fd00::2";
	assert_int_equal(run("rblk://three,two/v"), 0);
	assert_int_equal(sent_count, 1);
	expect_sent(0, "10.0.0.3,10.0.0.2");
	setup(state);
	unrouted = "fd00::1";
	assert_int_equal(run("rblk://one/v"), -EHOSTUNREACH);
	expect_sent(0, "10.0.0.1");
	expect_sent(1, "fd00::1");
}

static void an_unknown_host_is_left_out(void **state)
{
	works = "10.0.0.3";
	assert_int_equal(run("rblk://nobody,three/v"), 0);
	expect_sent(0, "10.0.0.3");
	setup(state);
	assert_int_equal(run("rblk://nobody/v"), -EHOSTUNREACH);
	assert_int_equal(sent_count, 0);
}

/* Of its family alone: the module would refuse the others. And each host has its own, also beside one that is left out. */
static void each_host_has_its_source(void **state)
{
	works = "10.0.0.1";
	source = "10.0.0.9";
	assert_int_equal(run("rblk://one/v"), 0);
	assert_int_equal(sent_count, 1);
	assert_string_equal(sent[0], "attach address=10.0.0.1 port=4430 volume=v source=10.0.0.9");
	setup(state);
	works = "10.0.0.3";
	source = "10.0.0.7,10.0.0.8,fd00::9";
	assert_int_equal(run("rblk://nobody,three,two/v"), 0);
	assert_string_equal(sent[0], "attach address=10.0.0.3,fd00::2 port=4430,4430 volume=v source=10.0.0.8,fd00::9");
}

/* Also if a host that is unknown now is left out, or would have had the one too many. */
static void surplus_sources_are_refused(void **state)
{
	works = "10.0.0.3";
	source = "10.0.0.7,10.0.0.8,10.0.0.9";
	assert_int_equal(run("rblk://nobody,three/v"), -EINVAL);
	assert_int_equal(sent_count, 0);
}

static void a_wrong_line_is_not_sent_again(void **state)
{
	static const int final[] = { -EINVAL, -EEXIST };

	for (size_t i = 0; i < UNIT_LENGTH(final); i++) {
		setup(state);
		refusal = final[i];
		assert_int_equal(run("rblk://one/v"), final[i]);
		assert_int_equal(sent_count, 1);
	}
}

static void an_answer_without_use_is_said(void **state)
{
	const struct attach_options options = ATTACH_OPTIONS_DEFAULTS;
	struct attached attached;

	assert_int_not_equal(attach_run(ATTACH_BY_MODULE, "disk", "discover://target/v", &options, &attached), 0);
	assert_int_equal(sent_count, 0);
	assert_non_null(strstr(said, "disk: rblk+tcp://one/v: the kernel module supports only RDMA"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_host_is_tried_at_each_address, setup),
		cmocka_unit_test_setup(so_are_several, setup),
		cmocka_unit_test_setup(what_has_no_route_comes_last, setup),
		cmocka_unit_test_setup(an_unknown_host_is_left_out, setup),
		cmocka_unit_test_setup(each_host_has_its_source, setup),
		cmocka_unit_test_setup(surplus_sources_are_refused, setup),
		cmocka_unit_test_setup(a_wrong_line_is_not_sent_again, setup),
		cmocka_unit_test_setup(an_answer_without_use_is_said, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
