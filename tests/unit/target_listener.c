/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the listener listens where it is told to, even if the machine lacks a protocol, and listens
 * again when a device is back. Method: a fabric of the test, which refuses what the test says, with
 * the test's clock.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "proto/fabric/fabric_impl.h"
#include "target/base/daemon_event.h"
#include "target/base/error.h"
#include "target/base/unserved.h"
#include "target/control/address.h"
#include "target/control/listener.h"
#include "target/serve/calls.h"
#include "target/serve/lease.h"
#include "tests/unit/unit.h"

/* -- the fabric -------------------------------------------------------------------------------- */

static struct fake {
	struct fab fab;
	struct fab_listener listener;
	struct sockaddr_storage bound;
	unsigned int listening;
	bool gone;
	unsigned int attempts, told, checks;
	int refuse_v6, refuse_v4, refuse; /* errno of fab_listen(), 0: works */
} fake;

/* A login, and what becomes of it. */
static struct login {
	struct fab_request request;
	struct rblk_wire_login wire;
	bool due, no_lease, no_mail;
	int failure; /* in its place: no connection was taken, negative errno */
	unsigned int denied, malformed; /* counted by the reactor */
	unsigned int rejected;
	struct rblk_wire_reject reject;
	struct tgt_lease lease;
} login;

struct tgt_lease *__wrap_tgt_lease_get(struct tgt_leases *leases, const uint8_t id[16], const struct fab *only);
struct tgt_lease *__wrap_tgt_lease_get(struct tgt_leases *leases, const uint8_t id[16], const struct fab *only)
{
	return login.no_lease ? NULL : &login.lease;
}

bool __wrap_tgt_reactor_login(struct tgt_reactor *reactor, struct fab_request *request, const struct tgt_origin *origin,
			      const void *private_data, size_t private_bytes, struct tgt_lease *lease);
bool __wrap_tgt_reactor_login(struct tgt_reactor *reactor, struct fab_request *request, const struct tgt_origin *origin,
			      const void *private_data, size_t private_bytes, struct tgt_lease *lease)
{
	return !login.no_mail;
}

bool __wrap_tgt_reactor_call(struct tgt_reactor *to, tgt_reactor_run *run, struct tgt_volume *volume);
bool __wrap_tgt_reactor_call(struct tgt_reactor *to, tgt_reactor_run *run, struct tgt_volume *volume)
{
	login.denied += run == tgt_reactor_login_denied;
	login.malformed += run == tgt_reactor_login_malformed;
	return true;
}

static void fake_reject(struct fab_request *request, const void *private_data, uint8_t bytes)
{
	assert_int_equal(bytes, sizeof(login.reject));
	memcpy(&login.reject, private_data, bytes);
	login.rejected++;
}

static bool login_event(struct fab_event *event)
{
	if (login.failure) {
		*event = (struct fab_event){.type = FAB_EVENT_FAILED, .status = login.failure};
		login.failure = 0;
		return true;
	}
	if (!login.due)
		return false;
	login.due = false;
	login.request.ops = fake.fab.ops;
	*event = (struct fab_event){.type = FAB_EVENT_REQUEST, .request = &login.request,
				    .private_bytes = sizeof(login.wire), .private_data = (const void *)&login.wire};
	return true;
}

static struct fab *fake_open(const struct fab_options *options, char *error)
{
	return &fake.fab;
}

static void fake_close(struct fab *fab)
{
	assert_false(fake.listening);
}

static int fake_listen(struct fab *fab, const struct sockaddr *addr, int backlog,
		       struct fab_listener **listener)
{
	int err = fake.refuse;

	fake.attempts++;
	if (!err && addr->sa_family == AF_INET6)
		err = fake.refuse_v6;
	if (!err && addr->sa_family == AF_INET)
		err = fake.refuse_v4;
	if (err)
		return fab_fail(fab, -err, "listen: %s", strerror(err));
	memcpy(&fake.bound, addr,
	       addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in));
	fake.listening++;
	fake.gone = false;
	fake.listener.fab = fab;
	*listener = &fake.listener;
	return 0;
}

static void fake_listener_destroy(struct fab_listener *listener)
{
	assert_true(fake.listening);
	fake.listening--;
}

static int fake_listener_address(const struct fab_listener *listener, struct sockaddr_storage *addr)
{
	*addr = fake.bound;
	return fake.gone ? -ENODEV : 0;
}

static int fake_poll(struct fab *fab, struct ibv_wc *wc, int count)
{
	return 0;
}

static int fake_poll_event(struct fab *fab, struct fab_event *event)
{
	if (login_event(event))
		return 1;
	memset(event, 0, sizeof(*event));
	event->type = FAB_EVENT_DEVICE_GONE;
	return fake.gone && fake.listening && !fake.told++;
}

static int fake_arm(struct fab *fab)
{
	return 0;
}

static int fake_timeout_ms(const struct fab *fab)
{
	return -1;
}

static const struct fab_ops fake_ops = {
	.kind = FAB_SIM,
	.open = fake_open,
	.close = fake_close,
	.arm = fake_arm,
	.poll = fake_poll,
	.poll_event = fake_poll_event,
	.timeout_ms = fake_timeout_ms,
	.listen = fake_listen,
	.listener_destroy = fake_listener_destroy,
	.listener_address = fake_listener_address,
	.reject = fake_reject,
};

static struct tgt_unserved *unserved;
static bool none_will_do;

static int setup(void **state)
{
	fake = (struct fake){.fab = {.ops = &fake_ops, .fd = -1}};
	fab_sim_ops = &fake_ops;
	tgt_unserved_destroy(unserved);
	unserved = tgt_unserved_create();
	assert_non_null(unserved);
	return 0;
}

/* How often the list of what is missing has it. */
static unsigned int missing(const char *name)
{
	unsigned int count, found = 0;
	struct tgt_unserved_one *list = tgt_unserved_list(unserved, TGT_UNSERVED_ADDRESS, &count);

	for (unsigned int i = 0; i < count; i++)
		found += !strcmp(list[i].name, name);
	free(list);
	return found;
}

/* second: NULL, or another address. */
static int listen_on_two(const char *text, const char *second, struct tgt_listener **listener, char *error)
{
	static struct tgt_config config;
	static struct tgt_reactor *reactors[1];

	memset(&config, 0, sizeof(config));
	config.reactors = 1;
	config.listen_count = second ? 2 : 1;
	assert_null(tgt_address_parse(text, &config.listen[0]));
	if (second)
		assert_null(tgt_address_parse(second, &config.listen[1]));
	return tgt_listener_create(&(struct tgt_listener_options){.config = &config,
								.reactors = reactors,
								.unserved = unserved,
								.none_will_do = none_will_do}, listener, error);
}

static int listen_on(const char *text, struct tgt_listener **listener, char *error)
{
	return listen_on_two(text, NULL, listener, error);
}

/* The only reactor, as far as the listener needs one. */
void __wrap_tgt_reactors_call(struct tgt_reactor *const *reactors, unsigned int count, tgt_reactor_run *run,
			      struct tgt_volume *volume);
void __wrap_tgt_reactors_call(struct tgt_reactor *const *reactors, unsigned int count, tgt_reactor_run *run,
			      struct tgt_volume *volume)
{
	fake.checks += run == tgt_reactor_check_devices ? count : 0;
}

/* -- cases ------------------------------------------------------------------------------------- */

static void an_empty_host_is_both_families(void **state)
{
	struct tgt_listener *listener;
	char error[TGT_ERROR_BYTES];

	assert_int_equal(listen_on("sim://:99", &listener, error), 0);
	assert_string_equal(tgt_listener_address(listener, 0), "sim://[::]:99");
	tgt_listener_destroy(listener);
}

static void without_ipv6_it_is_ipv4(void **state)
{
	static const int errors[] = {EAFNOSUPPORT, EADDRNOTAVAIL};
	struct tgt_listener *listener;
	char error[TGT_ERROR_BYTES];

	for (size_t i = 0; i < UNIT_LENGTH(errors); i++) {
		fake.refuse_v6 = errors[i];
		assert_int_equal(listen_on("sim://:99", &listener, error), 0);
		assert_string_equal(tgt_listener_address(listener, 0), "sim://0.0.0.0:99");
		tgt_listener_destroy(listener);
	}
}

static void a_channel_in_use_is_not_asked_for_twice(void **state)
{
	struct tgt_listener *listener;
	char error[TGT_ERROR_BYTES];

	fake.refuse = EADDRINUSE;
	assert_int_equal(listen_on("sim://:99", &listener, error), -EADDRINUSE);
	assert_string_equal(error, "sim://:99: listen: Address already in use");
	assert_int_equal(fake.attempts, 1);
}

/* The device is removed and added again; the port that the kernel chose stays. */
static void a_device_that_comes_back_is_listened_on(void **state)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	struct tgt_listener *listener;
	char error[TGT_ERROR_BYTES];

	assert_int_equal(listen_on("sim://10.0.0.1:99", &listener, error), 0);
	/* Devices are looked for now and then: not everyone is told of a removal. */
	assert_in_range(tgt_listener_timeout_ms(listener), 1, 5000);
	tgt_listener_step(listener);
	assert_int_equal(fake.checks, 1);
	fake.gone = true;
	fake.refuse = ENODEV;
	tgt_listener_step(listener);
	assert_false(fake.listening);
	assert_in_range(tgt_listener_timeout_ms(listener), 1, 1000);
	while (fake.attempts < 3) {
		tgt_listener_step(listener);
		nanosleep(&pause, NULL);
	}
	assert_false(fake.listening);
	assert_in_range(fake.checks, 3, fake.attempts + 1);
	fake.refuse = 0;
	while (!fake.listening) {
		tgt_listener_step(listener);
		nanosleep(&pause, NULL);
	}
	assert_string_equal(tgt_listener_address(listener, 0), "sim://10.0.0.1:99");
	assert_in_range(tgt_listener_timeout_ms(listener), 1001, 5000);
	tgt_listener_destroy(listener);
}

/* -- names ------------------------------------------------------------------------------------- */

/* Linked instead of getaddrinfo(): the address of the name the next time that it is resolved; a thread asks, too. */
static const char *_Atomic resolves_to = "10.0.0.1";
static _Atomic bool with_v6; /* and before it fd00::1 */
static _Atomic unsigned int resolved;

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		       struct addrinfo **list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		       struct addrinfo **list)
{
	static struct sockaddr_in in;
	static struct addrinfo info = {.ai_addr = (struct sockaddr *)&in,
				       .ai_addrlen = sizeof(in)};
	static struct sockaddr_in6 in6;
	static struct addrinfo info6 = {.ai_addr = (struct sockaddr *)&in6,
					.ai_addrlen = sizeof(in6),
					.ai_next = &info};

	resolved++;
	if (!resolves_to)
		return EAI_NONAME;
	in.sin_family = AF_INET;
	in.sin_port = htons((uint16_t)atoi(port));
	assert_int_equal(inet_pton(AF_INET, resolves_to, &in.sin_addr), 1);
	in6.sin6_family = AF_INET6;
	in6.sin6_port = in.sin_port;
	assert_int_equal(inet_pton(AF_INET6, "fd00::1", &in6.sin6_addr), 1);
	*list = with_v6 ? &info6 : &info;
	return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *list);
void __wrap_freeaddrinfo(struct addrinfo *list)
{
}

/*
 * The resolver may take long, and the control thread must not wait once it serves. So the address
 * of the start stays, even if the name has another one when the device is back.
 */
static void a_name_is_resolved_once(void **state)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	struct tgt_listener *listener;
	char error[TGT_ERROR_BYTES];

	resolves_to = NULL;
	assert_int_equal(listen_on("sim://storage.example:99", &listener, error), -EINVAL);
	assert_string_equal(error, "sim://storage.example:99: Name or service not known");
	resolves_to = "10.0.0.1";
	resolved = 0;
	assert_int_equal(listen_on("sim://storage.example:99", &listener, error), 0);
	assert_string_equal(tgt_listener_address(listener, 0), "sim://10.0.0.1:99");
	resolves_to = "10.0.0.2";
	fake.gone = true;
	tgt_listener_step(listener);
	assert_false(fake.listening);
	while (!fake.listening) {
		tgt_listener_step(listener);
		nanosleep(&pause, NULL);
	}
	assert_string_equal(tgt_listener_address(listener, 0), "sim://10.0.0.1:99");
	assert_int_equal(resolved, 1);
	tgt_listener_destroy(listener);
}

/* The initiator is told why, and the log says whom it was. */
static void a_login_without_memory_is_refused_with_words(void **state)
{
	struct tgt_listener *listener;
	char error[TGT_ERROR_BYTES], said[1024];

	assert_int_equal(listen_on("sim://:99", &listener, error), 0);
	for (unsigned int i = 0; i < 3; i++) {
		int saved = dup(STDERR_FILENO);
		FILE *log = tmpfile();

		login = (struct login){.due = true, .no_lease = i == 0, .no_mail = i == 1};
		assert_non_null(log);
		dup2(fileno(log), STDERR_FILENO);
		tgt_listener_step(listener);
		dup2(saved, STDERR_FILENO);
		close(saved);
		rewind(log);
		memset(said, 0, sizeof(said));
		assert_true(fread(said, 1, sizeof(said) - 1, log) > 0 || i == 2);
		fclose(log);
		assert_int_equal(login.rejected, i < 2);
		assert_int_equal(rblk_le16(login.reject.reason), i < 2 ? RBLK_REJECT_NO_RESOURCES : 0);
		assert_true(i == 2 || strstr(said, "full: out of memory"));
	}
	tgt_listener_destroy(listener);
}

/* Want of anything is "full", and nobody's fault: no login that was refused. All else is. */
static void who_was_not_taken_is_told_apart(void **state)
{
	static const struct {
		int failure;
		unsigned int denied, malformed;
	} rows[] = {{-EMFILE, 0, 0}, {-ENFILE, 0, 0}, {-ENOBUFS, 0, 0}, {-ENOMEM, 0, 0}, {-EKEYREJECTED, 1, 0}, {-EPROTO, 0, 1}};
	struct tgt_listener *listener;
	char error[TGT_ERROR_BYTES];

	assert_int_equal(listen_on("sim://:99", &listener, error), 0);
	for (size_t i = 0; i < UNIT_LENGTH(rows); i++) {
		bool full = !rows[i].denied && !rows[i].malformed;
		enum tgt_daemon_event_kind kind = full ? TGT_DAEMON_EVENT_FULL : TGT_DAEMON_EVENT_REFUSED;
		uint64_t number = tgt_daemon_events_last();
		struct tgt_daemon_event event;

		login = (struct login){.failure = rows[i].failure};
		tgt_listener_step(listener);
		assert_int_equal(login.denied, rows[i].denied);
		assert_int_equal(login.malformed, rows[i].malformed);
		assert_int_equal(tgt_daemon_events_after(number, &event, 1), 1);
		assert_int_equal(event.kind, kind);
		assert_int_equal(event.error, -rows[i].failure);
	}
	tgt_listener_destroy(listener);
}

/* Steps until the n-th address is there. */
static void step_until(struct tgt_listener *listener, unsigned int n)
{
	const struct timespec pause = {.tv_nsec = 10000000};

	while (!tgt_listener_address(listener, n)) {
		tgt_listener_step(listener);
		nanosleep(&pause, NULL);
	}
}

static void all_addresses_of_a_name_are_listened_on(void **state)
{
	struct tgt_listener *listener;
	char error[TGT_ERROR_BYTES];

	resolves_to = "10.0.0.1";
	with_v6 = true;
	assert_int_equal(listen_on("sim://storage.example:99", &listener, error), 0);
	assert_string_equal(tgt_listener_address(listener, 0), "sim://[fd00::1]:99");
	assert_string_equal(tgt_listener_address(listener, 1), "sim://10.0.0.1:99");
	assert_null(tgt_listener_address(listener, 2));
	tgt_listener_destroy(listener);
	/* One that is not there yet: the other is, and is joined. */
	fake.refuse_v4 = EADDRNOTAVAIL;
	assert_int_equal(listen_on("sim://storage.example:99", &listener, error), 0);
	assert_int_equal(missing("sim://10.0.0.1:99"), 1);
	assert_string_equal(tgt_listener_address(listener, 0), "sim://[fd00::1]:99");
	assert_null(tgt_listener_address(listener, 1));
	fake.refuse_v4 = 0;
	step_until(listener, 1);
	assert_string_equal(tgt_listener_address(listener, 1), "sim://10.0.0.1:99");
	assert_int_equal(missing("sim://10.0.0.1:99"), 0);
	tgt_listener_destroy(listener);
	/* A family that this machine has not: nothing is missing. */
	fake.refuse_v6 = EAFNOSUPPORT;
	assert_int_equal(listen_on("sim://storage.example:99", &listener, error), 0);
	assert_string_equal(tgt_listener_address(listener, 0), "sim://10.0.0.1:99");
	assert_int_equal(missing("sim://[fd00::1]:99"), 0);
	tgt_listener_destroy(listener);
	/* None of them. */
	fake.refuse = EADDRNOTAVAIL;
	assert_int_equal(listen_on("sim://storage.example:99", &listener, error), -EADDRNOTAVAIL);
	with_v6 = false;
}

static void what_is_missing_is_tried_again(void **state)
{
	struct tgt_listener *listener;
	char error[TGT_ERROR_BYTES];

	none_will_do = true;
	fake.refuse = ENODEV;
	assert_int_equal(listen_on("sim://10.0.0.1:99", &listener, error), 0);
	assert_null(tgt_listener_address(listener, 0));
	assert_int_equal(missing("sim://10.0.0.1:99"), 1);
	assert_in_range(tgt_listener_timeout_ms(listener), 1, 1000);
	fake.refuse = 0;
	step_until(listener, 0);
	assert_int_equal(missing("sim://10.0.0.1:99"), 0);
	tgt_listener_destroy(listener);
	/* A name that is not known yet. */
	resolves_to = NULL;
	assert_int_equal(listen_on("sim://storage.example:99", &listener, error), 0);
	assert_int_equal(missing("sim://storage.example:99"), 1);
	resolves_to = "10.0.0.1";
	with_v6 = true;
	step_until(listener, 1);
	assert_string_equal(tgt_listener_address(listener, 0), "sim://[fd00::1]:99");
	assert_string_equal(tgt_listener_address(listener, 1), "sim://10.0.0.1:99");
	assert_int_equal(missing("sim://storage.example:99"), 0);
	tgt_listener_destroy(listener);
	none_will_do = false;
	with_v6 = false;
}

static void each_name_has_its_own_reason(void **state)
{
	struct tgt_unserved_one *list;
	struct tgt_listener *listener;
	char error[TGT_ERROR_BYTES];
	unsigned int count;

	none_will_do = true;
	resolves_to = NULL;
	assert_int_equal(listen_on_two("sim://one.example:99", "sim://two.example:99", &listener, error), 0);
	list = tgt_unserved_list(unserved, TGT_UNSERVED_ADDRESS, &count);
	assert_int_equal(count, 2);
	for (unsigned int i = 0; i < count; i++) {
		char host[16];

		assert_int_equal(sscanf(list[i].name, "sim://%15[a-z.]", host), 1);
		if (!strstr(list[i].reason, host))
			fail_msg("%s: %s", list[i].name, list[i].reason);
	}
	free(list);
	tgt_listener_destroy(listener);
	none_will_do = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_empty_host_is_both_families, setup),
		cmocka_unit_test_setup(without_ipv6_it_is_ipv4, setup),
		cmocka_unit_test_setup(a_channel_in_use_is_not_asked_for_twice, setup),
		cmocka_unit_test_setup(a_device_that_comes_back_is_listened_on, setup),
		cmocka_unit_test_setup(a_name_is_resolved_once, setup),
		cmocka_unit_test_setup(a_login_without_memory_is_refused_with_words, setup),
		cmocka_unit_test_setup(who_was_not_taken_is_told_apart, setup),
		cmocka_unit_test_setup(all_addresses_of_a_name_are_listened_on, setup),
		cmocka_unit_test_setup(what_is_missing_is_tried_again, setup),
		cmocka_unit_test_setup(each_name_has_its_own_reason, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
