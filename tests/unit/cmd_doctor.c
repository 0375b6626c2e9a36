/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * doctor's verdicts for other machines. Method: the facts of a healthy machine, one thing broken at
 * a time; the problem's text, its command, and whether doctor says that RDMA works.
 */
#include "tests/unit/unit.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/cmd/doctor.h"

static struct doctor_facts facts;
static struct doctor_problems problems;

static int healthy(void **state)
{
	struct doctor_device *device = &facts.devices[0];
	struct doctor_port *port = &device->ports[0];
	struct doctor_gid *gid = &port->gids[0];

	memset(&facts, 0, sizeof(facts));
	strcpy(facts.kernel, "6.1.0-1-amd64");
	facts.privileged = true;
	strcpy(facts.modules[0].name, "rdma_rxe");
	facts.modules[0].available = true;
	facts.module_count = 1;
	strcpy(facts.nodes[0].path, "/dev/infiniband/rdma_cm");
	strcpy(facts.nodes[1].path, "/dev/infiniband/uverbs0");
	facts.nodes[0].exists = facts.nodes[0].accessible = true;
	facts.nodes[1].exists = facts.nodes[1].accessible = true;
	facts.node_count = 2;
	strcpy(device->name, "rxe0");
	strcpy(device->netdev, "eth1");
	port->number = 1;
	strcpy(port->state, "ACTIVE");
	port->active = port->ethernet = true;
	port->active_mtu = port->max_mtu = 4096;
	gid->roce_v2 = true;
	port->gid_count = device->port_count = facts.device_count = 1;
	return 0;
}

/* The one problem that there is now. */
static void expect_problem(bool works, const char *text, const char *fix)
{
	doctor_judge(&facts, &problems);
	assert_int_equal(problems.count, 1);
	assert_non_null(strstr(problems.list[0].text, text));
	if (fix)
		assert_string_equal(problems.list[0].fix, fix);
	assert_int_equal(doctor_rdma_works(&problems), works);
}

static void nothing_wrong(void **state)
{
	doctor_judge(&facts, &problems);
	assert_int_equal(problems.count, 0);
	assert_true(doctor_rdma_works(&problems));
}

static void no_device(void **state)
{
	facts.device_count = 0;
	expect_problem(false, "no RDMA device; Soft-RoCE",
		       "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0");
	strcpy(facts.netdev, "ens3");
	expect_problem(false, "no RDMA device",
		       "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev ens3");
	facts.modules[0].available = false;
	expect_problem(false, "kernel 6.1.0-1-amd64 has no module rdma_rxe", "");
	assert_non_null(strstr(problems.list[0].text, "rblk+tcp://"));
}

static void nodes_missing(void **state)
{
	facts.nodes[0].exists = false;
	expect_problem(false, "/dev/infiniband/rdma_cm: is missing", "modprobe rdma_ucm");
	healthy(state);
	facts.node_count = 1;
	expect_problem(false, "/dev/infiniband/uverbs*: is missing", "modprobe ib_uverbs");
}

static void node_denied(void **state)
{
	facts.nodes[1].accessible = false;
	expect_problem(false, "/dev/infiniband/uverbs0: this user may not open it", NULL);
	assert_non_null(strstr(problems.list[0].fix, "chmod 0666 /dev/infiniband/uverbs0"));
}

static void ports_down(void **state)
{
	struct doctor_port *port = &facts.devices[0].ports[0];

	port->active = false;
	strcpy(port->state, "DOWN");
	expect_problem(false, "rxe0 port 1: is DOWN", "ip link set dev eth1 up");
	/* Another device works, so this one does not keep RDMA from working. */
	facts.devices[1] = facts.devices[0];
	facts.devices[1].ports[0].active = true;
	facts.device_count = 2;
	expect_problem(true, "rxe0 port 1: is DOWN", NULL);
}

static void device_cannot_be_opened(void **state)
{
	struct doctor_device *device = &facts.devices[0];

	device->port_count = 0;
	strcpy(device->error, "Permission denied");
	expect_problem(false, "rxe0: cannot be opened: Permission denied", "");
}

static void addresses_and_mtu(void **state)
{
	struct doctor_port *port = &facts.devices[0].ports[0];

	port->gids[0].link_local = true;
	expect_problem(true, "eth1 has no IP address", "ip address add ADDRESS/PREFIX dev eth1");
	port->gids[0].link_local = false;
	port->gids[0].roce_v2 = false;
	expect_problem(true, "only link-local RoCE v2 addresses", NULL);
	healthy(state);
	port->active_mtu = 1024;
	expect_problem(true, "packets carry 1024 bytes where 4096 are possible", NULL);
}

/* InfiniBand has no RoCE addresses; rdma_cm finds it by an IP address of IPoIB, and a subnet manager sets it up. */
static void infiniband_has_addresses_and_a_manager(void **state)
{
	struct doctor_port *port = &facts.devices[0].ports[0];

	(void)state;
	port->ethernet = false;
	port->gids[0].roce_v2 = false;
	expect_problem(false, "InfiniBand without an IP address",
		       "modprobe ib_ipoib, then ip address add ADDRESS/PREFIX dev eth1");
	facts.devices[0].addressed = true;
	doctor_judge(&facts, &problems);
	assert_int_equal(problems.count, 0);
	port->active = false;
	port->initial = true;
	strcpy(port->state, "INIT");
	expect_problem(false, "port 1: is INIT",
		       "start a subnet manager (opensm) on this fabric: none has set the port up");
}

/* iWARP runs over TCP: it has no RoCE addresses and uses TCP's packet sizes. */
static void iwarp_has_no_roce(void **state)
{
	struct doctor_port *port = &facts.devices[0].ports[0];

	facts.devices[0].iwarp = true;
	port->gids[0].roce_v2 = false;
	port->active_mtu = 1024;
	nothing_wrong(state);
	/* Problems that any device can have are reported for it, too. */
	port->active = false;
	strcpy(port->state, "DOWN");
	expect_problem(false, "rxe0 port 1: is DOWN", NULL);
}

static void memlock(void **state)
{
	facts.privileged = false;
	facts.memlock_bytes = 8u << 20;
	facts.memlock_max_bytes = DOCTOR_UNLIMITED;
	expect_problem(true, "at most 8192 KiB of memory may be locked", "ulimit -l unlimited");
	facts.memlock_max_bytes = 8u << 20;
	expect_problem(true, "may be locked", NULL);
	assert_non_null(strstr(problems.list[0].fix, "limits.conf"));
	facts.memlock_bytes = DOCTOR_UNLIMITED;
	doctor_judge(&facts, &problems);
	assert_int_equal(problems.count, 0);
}

/* One of this name, or of the file's: a machine's folder made for the test. */
__attribute__((format(printf, 1, 2))) static void shell(const char *format, ...)
{
	char command[512];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	assert_int_equal(system(command), 0);
}

static void expect_way(const char *root, unsigned int n, const char *name, bool usable, const char *words)
{
	doctor_collect_ways(&facts, root);
	assert_int_equal(facts.way_count, 4);
	assert_string_equal(facts.ways[n].name, name);
	assert_int_equal(facts.ways[n].usable, usable);
	assert_non_null(strstr(facts.ways[n].words, words));
}

static void ways_and_why_not(void **state)
{
	char root[] = "/tmp/rblk-root.XXXXXX";

	assert_non_null(mkdtemp(root));
	expect_way(root, 0, "module", false, "not built");
	expect_way(root, 1, "ublk", false, "6.5 or newer");
	expect_way(root, 2, "nbdkit", false, "nbdkit is not installed");
	expect_way(root, 3, "librblk", true, "");
	strcpy(facts.kernel, "6.12.1-amd64");
	expect_way(root, 1, "ublk", false, "no module ublk_drv");
	shell("cd %s && mkdir -p lib/modules/6.12.1-amd64/updates sys/kernel/security sys/module/module/parameters proc/sys/kernel "
	      "usr/sbin usr/lib/x/nbdkit/plugins && printf 'updates/rblk.ko: a\nkernel/ublk_drv.ko.xz:\n' > "
	      "lib/modules/6.12.1-amd64/modules.dep && echo code > lib/modules/6.12.1-amd64/updates/rblk.ko && > usr/sbin/nbdkit", root);
	expect_way(root, 0, "module", true, "can be loaded");
	expect_way(root, 1, "ublk", true, "can be loaded");
	expect_way(root, 2, "nbdkit", false, "plugin");
	shell("cd %s && echo 'none [integrity] confidentiality' > sys/kernel/security/lockdown && echo 2 > proc/sys/kernel/io_uring_disabled "
	      "&& > usr/lib/x/nbdkit/plugins/nbdkit-rblk-plugin.so", root);
	expect_way(root, 0, "module", false, "not signed");
	expect_way(root, 1, "ublk", false, "io_uring");
	expect_way(root, 2, "nbdkit", true, "");
	shell("cd %s && echo '~Module signature appended~' >> lib/modules/6.12.1-amd64/updates/rblk.ko", root);
	expect_way(root, 0, "module", true, "can be loaded");
	shell("cd %s && echo '[none] integrity' > sys/kernel/security/lockdown && echo Y > sys/module/module/parameters/sig_enforce "
	      "&& echo code > lib/modules/6.12.1-amd64/updates/rblk.ko", root);
	expect_way(root, 0, "module", false, "not signed");
	shell("mkdir %s/sys/module/rblk", root);
	expect_way(root, 0, "module", true, "is loaded");
	shell("rm -r %s", root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_wrong, healthy),
		cmocka_unit_test_setup(no_device, healthy),
		cmocka_unit_test_setup(nodes_missing, healthy),
		cmocka_unit_test_setup(node_denied, healthy),
		cmocka_unit_test_setup(ports_down, healthy),
		cmocka_unit_test_setup(device_cannot_be_opened, healthy),
		cmocka_unit_test_setup(addresses_and_mtu, healthy),
		cmocka_unit_test_setup(infiniband_has_addresses_and_a_manager, healthy),
		cmocka_unit_test_setup(iwarp_has_no_roce, healthy),
		cmocka_unit_test_setup(memlock, healthy),
		cmocka_unit_test_setup(ways_and_why_not, healthy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
