/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a device that is asked for is used although the routes lead to another one (two ports in one subnet): a
 * connection comes from an address of its own, the one in the target's subnet if there is one. Where the routes lead to
 * it, they choose. An address that the caller names goes before both; TOS and time-out are set before the address is
 * resolved. Method: the machine's addresses, routes and rdma_cm are the test's.
 */
#include "proto/fabric/fabric_verbs.h"
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

/* Which device has which address; NULL: none. The routes lead from the one that is `routed`. */
static const struct own {
	const char *address, *mask, *device;
} owns[] = {
	{"127.0.0.1", "255.0.0.0", NULL},
	{"10.1.0.1", "255.255.0.0", "port1"},
	{"10.2.0.2", "255.255.0.0", "port2"}, /* elsewhere */
	{"10.1.0.2", "255.255.0.0", "port2"},
	{"10.1.0.3", "255.255.0.0", "port2"},
	{"fe80::2", "ffff:ffff:ffff:ffff::", "port2"},
	{"fd00::2", "ffff:ffff:ffff:ffff::", "port2"},
};
#define OWNS UNIT_LENGTH(owns)

static const char *routed;
static struct sockaddr_storage addresses[OWNS], masks[OWNS];
static struct ifaddrs list[OWNS];
static struct rdma_cm_id ids[4]; /* one to connect with, one to bind */
static bool used[UNIT_LENGTH(ids)];
static struct ibv_context contexts[OWNS];
static struct ibv_device devices[OWNS];
static struct sockaddr_storage source; /* that rdma_resolve_addr() was given; family 0: none */
static uint8_t tos, ack_timeout;
static int option_error, resolve_error;
static struct verbs_fab fab;

static const struct sockaddr *address_of(const char *text, struct sockaddr_storage *to)
{
	struct sockaddr_in *in = (void *)to;
	struct sockaddr_in6 *in6 = (void *)to;

	memset(to, 0, sizeof(*to));
	to->ss_family = strchr(text, ':') ? AF_INET6 : AF_INET;
	assert_int_equal(inet_pton(to->ss_family, text,
				   to->ss_family == AF_INET ? (void *)&in->sin_addr : (void *)&in6->sin6_addr),
			 1);
	return (const struct sockaddr *)to;
}

int __wrap_getifaddrs(struct ifaddrs **to);
int __wrap_getifaddrs(struct ifaddrs **to)
{
	for (size_t i = 0; i < OWNS; i++) {
		list[i] = (struct ifaddrs){.ifa_next = i + 1 < OWNS ? &list[i + 1] : NULL,
					   .ifa_flags = IFF_UP,
					   .ifa_addr = (struct sockaddr *)address_of(owns[i].address, &addresses[i]),
					   .ifa_netmask = (struct sockaddr *)address_of(owns[i].mask, &masks[i])};
	}
	*to = list;
	return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *from);
void __wrap_freeifaddrs(struct ifaddrs *from)
{
	assert_ptr_equal(from, list);
}

int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t bytes);
int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t bytes)
{
	(void)fd;
	(void)addr;
	(void)bytes;
	return routed ? 0 : -1;
}

int __wrap_getsockname(int fd, struct sockaddr *addr, socklen_t *bytes);
int __wrap_getsockname(int fd, struct sockaddr *addr, socklen_t *bytes)
{
	struct sockaddr_storage from;

	(void)fd;
	address_of(routed, &from);
	((struct sockaddr_in *)&from)->sin_port = htons(1);
	assert_true(*bytes >= sizeof(from));
	memcpy(addr, &from, sizeof(from));
	return 0;
}

int __wrap_rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space space);
int __wrap_rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space space)
{
	unsigned int i = 0;

	(void)space;
	while (used[i])
		i++;
	assert_in_range(i, 0, UNIT_LENGTH(ids) - 1);
	used[i] = true;
	ids[i] = (struct rdma_cm_id){.channel = channel, .context = context};
	*id = &ids[i];
	return 0;
}

int __wrap_rdma_destroy_id(struct rdma_cm_id *id);
int __wrap_rdma_destroy_id(struct rdma_cm_id *id)
{
	assert_true(used[id - ids]);
	used[id - ids] = false;
	return 0;
}

int __wrap_rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int __wrap_rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct sockaddr_storage own;

	assert_int_equal(((struct sockaddr_in *)addr)->sin_port, 0);
	for (size_t i = 0; i < OWNS; i++) {
		if (memcmp(address_of(owns[i].address, &own), addr,
			   addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) != 0)
			continue;
		if (!owns[i].device)
			break;
		strcpy(devices[i].name, owns[i].device);
		contexts[i].device = &devices[i];
		id->verbs = &contexts[i];
		return 0;
	}
	errno = ENODEV;
	return -1;
}

int __wrap_rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t bytes);
int __wrap_rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t bytes)
{
	(void)id;
	assert_int_equal(level, RDMA_OPTION_ID);
	assert_int_equal(bytes, 1);
	if (name == RDMA_OPTION_ID_TOS)
		tos = *(uint8_t *)value;
	else if (name == RDMA_OPTION_ID_ACK_TIMEOUT)
		ack_timeout = *(uint8_t *)value;
	else
		fail();
	errno = option_error;
	return option_error ? -1 : 0;
}

/* Ends the attempt: the test has seen enough. */
int __wrap_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms);
int __wrap_rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
	(void)id;
	(void)to;
	(void)ms;
	memset(&source, 0, sizeof(source));
	if (from)
		memcpy(&source, from, sizeof(source));
	errno = resolve_error;
	return -1;
}

static int setup(void **state)
{
	(void)state;
	memset(&fab, 0, sizeof(fab));
	TAILQ_INIT(&fab.conns);
	TAILQ_INIT(&fab.ready);
	TAILQ_INIT(&fab.timed);
	routed = "10.1.0.1";
	tos = ack_timeout = 0;
	option_error = 0;
	resolve_error = EHOSTUNREACH;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(ids); i++)
		assert_false(used[i]);
	return 0;
}

/* An attempt to connect by `device` came from `expected`; NULL: the routes were to say. */
static void comes_from(const char *device, const char *peer, const struct fab_conn_options *options,
		       const char *expected)
{
	struct sockaddr_storage to, from;
	struct fab_conn *conn;

	fab.head.options.device = device;
	memset(&source, 0xff, sizeof(source));
	assert_int_equal(verbs_connect(&fab.head, address_of(peer, &to), options, NULL, &conn), -resolve_error);
	if (!expected) {
		assert_int_equal(source.ss_family, AF_UNSPEC);
		return;
	}
	address_of(expected, &from);
	assert_memory_equal(&source, &from, sizeof(from));
}

static const struct fab_conn_options plain = {.timeout_ms = 1000};

static void a_device_has_its_own_address(void **state)
{
	(void)state;
	comes_from("port2", "10.1.0.9", &plain, "10.1.0.2");
	/* In no subnet of its own: the first. */
	comes_from("port2", "10.9.0.9", &plain, "10.2.0.2");
	comes_from("port2", "fd00::9", &plain, "fd00::2");
	comes_from("port2", "fe80::9", &plain, "fe80::2");
	routed = NULL;
	comes_from("port2", "10.1.0.9", &plain, "10.1.0.2");
}

/* They may know better: gateways, preferred addresses. */
static void routes_that_lead_to_it_choose(void **state)
{
	(void)state;
	comes_from("port1", "10.1.0.9", &plain, NULL);
	routed = "10.1.0.3";
	comes_from("port2", "10.1.0.9", &plain, NULL);
	comes_from(NULL, "10.1.0.9", &plain, NULL);
}

static void one_without_an_address_is_refused_later(void **state)
{
	(void)state;
	comes_from("port3", "10.1.0.9", &plain, NULL);
	comes_from("port1", "fd00::9", &plain, NULL);
}

static void a_named_address_goes_before(void **state)
{
	struct sockaddr_storage own;
	struct fab_conn_options options = plain;

	(void)state;
	options.source = address_of("10.1.0.3", &own);
	comes_from("port2", "10.1.0.9", &options, "10.1.0.3");
	comes_from(NULL, "10.1.0.9", &options, "10.1.0.3");
	resolve_error = EADDRNOTAVAIL;
	comes_from(NULL, "10.1.0.9", &options, "10.1.0.3");
	assert_string_equal(fab.head.error, "connect to 10.1.0.9:0: the source address is not this machine's");
}

static void options_are_set_first(void **state)
{
	struct fab_conn_options options = plain;
	struct sockaddr_storage to;
	struct fab_conn *conn;

	(void)state;
	comes_from(NULL, "10.1.0.9", &options, NULL);
	assert_int_equal(tos | ack_timeout, 0);
	options.tos = 104;
	options.ack_timeout = 18;
	comes_from(NULL, "10.1.0.9", &options, NULL);
	assert_int_equal(tos, 104);
	assert_int_equal(ack_timeout, 18);
	/* One that cannot be set is not left out: no packet goes. */
	option_error = ENOSYS;
	memset(&source, 0xff, sizeof(source));
	assert_int_equal(verbs_connect(&fab.head, address_of("10.1.0.9", &to), &options, NULL, &conn), -ENOSYS);
	assert_int_equal(source.ss_family, 0xffff);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_device_has_its_own_address, setup, teardown),
		cmocka_unit_test_setup_teardown(routes_that_lead_to_it_choose, setup, teardown),
		cmocka_unit_test_setup_teardown(one_without_an_address_is_refused_later, setup, teardown),
		cmocka_unit_test_setup_teardown(a_named_address_goes_before, setup, teardown),
		cmocka_unit_test_setup_teardown(options_are_set_first, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
