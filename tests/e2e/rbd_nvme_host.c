/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An NVMe host at gateways of one image. rbd_nvme_host ADDRESS: it connects to the only subsystem there, and prints the
 * status of Connect. rbd_nvme_host ADDRESS ADDRESS [unasked]: it does what native multipath does. One gateway is in
 * charge of it, the other one is not; then it gives the first one up, with a write of 0xaa on the way there that
 * takes seconds, and writes 0xbb, in its place, at the second one, as soon as that takes it. unasked: whoever is in
 * charge.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tests/e2e/nvme_host.h"

#define BLOCK 512u

struct path {
	struct nvme_host admin, io;
};

static void attach(struct path *path, const char *address, const char *nqn)
{
	*path = (struct path){.admin.host_id = 1, .io.host_id = 1};
	nvme_host_attach(&path->admin, &path->io, address, nqn, NVME_HOST_NQN, 32);
}

static void must(const char *what, uint16_t status, uint16_t expected)
{
	if (status == expected)
		return;
	fprintf(stderr, "%s: status %#x, not %#x\n", what, status, expected);
	exit(1);
}

static uint16_t transfer(struct path *path, uint8_t opcode, uint8_t data[BLOCK])
{
	enum nvme_host_way way = opcode == NVME_READ ? NVME_HOST_IN : NVME_HOST_CAPSULE;

	return nvme_host_io(&path->io, opcode, way, 0, 0, data, BLOCK);
}

/* It is in charge, sooner or later. */
static void write_there(struct path *path, uint8_t data[BLOCK])
{
	const struct timespec pause = {.tv_nsec = 50000000};
	uint16_t status;

	while ((status = transfer(path, NVME_WRITE, data)) == NVME_INACCESSIBLE)
		nanosleep(&pause, NULL);
	must("the newer write", status, NVME_OK);
}

static void move(const char *first, const char *second, bool unasked)
{
	struct nvme_host_command older = {.command = {.opcode = NVME_WRITE, .namespace = rblk_to_le32(1)},
					  .way = NVME_HOST_CAPSULE,
					  .bytes = BLOCK};
	uint8_t data[BLOCK], aa[BLOCK], bb[BLOCK];
	char nqn[NVME_NQN_BYTES], other[NVME_NQN_BYTES];
	struct path one, two;

	memset(aa, 0xaa, sizeof(aa));
	memset(bb, 0xbb, sizeof(bb));
	nvme_host_discover(first, nqn);
	nvme_host_discover(second, other);
	if (strcmp(nqn, other))
		must("two gateways have two subsystems", 1, 0);
	attach(&one, first, nqn);
	attach(&two, second, nqn);
	if (one.admin.controller == two.admin.controller)
		must("two controllers have one id", 1, 0);
	must("at the one in charge", transfer(&one, NVME_READ, data), NVME_OK);
	if (!unasked) {
		must("a read at the other one", transfer(&two, NVME_READ, data), NVME_INACCESSIBLE);
		must("a write at the other one", transfer(&two, NVME_WRITE, bb), NVME_INACCESSIBLE);
	}
	older.data = aa;
	nvme_host_send(&one.io, &older);
	/* Answered behind it, and so it has come. */
	must("behind the older write", transfer(&one, NVME_READ, data), NVME_OK);
	nvme_host_close(&one.io);
	nvme_host_close(&one.admin);
	write_there(&two, bb);
	must("read back", transfer(&two, NVME_READ, data), NVME_OK);
	must("what was written", (uint16_t)(memcmp(data, bb, sizeof(bb)) != 0), 0);
	if (unasked)
		return;
	/* Now the first one is not in charge, until the second one is gone. */
	attach(&one, first, nqn);
	must("a write where it was in charge before", transfer(&one, NVME_WRITE, aa), NVME_INACCESSIBLE);
	must("at the one in charge now", transfer(&two, NVME_WRITE, bb), NVME_OK);
	nvme_host_close(&two.io);
	nvme_host_close(&two.admin);
	write_there(&one, bb);
	nvme_host_close(&one.io);
	nvme_host_close(&one.admin);
}

int main(int argc, char **argv)
{
	struct nvme_host host = {.host_id = 1};
	char nqn[NVME_NQN_BYTES];

	if (argc < 2)
		return 2;
	if (argc > 2) {
		move(argv[1], argv[2], argc > 3);
		return 0;
	}
	nvme_host_discover(argv[1], nqn);
	printf("%#x\n", nvme_host_connect(&host, argv[1], nqn, NVME_HOST_NQN, 0, 32));
	return 0;
}
