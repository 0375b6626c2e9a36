/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Uses up an RDMA device's address handles, for jobs/kmod-errors.sh. Soft-RoCE has fewest of these
 * (32767), and without one the connection manager cannot send a message. They are for a multicast
 * group, so that no address is resolved; and made by the system call itself, because the library
 * sends about ten queries for each.
 *   use_up DEVICE      says how many there were, "ready", and goes when its input ends
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#define LIMIT 1000000 /* no device of the lab has so many */

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	return context;
}

static bool take_one(const struct ibv_pd *pd)
{
	struct ib_uverbs_create_ah_resp response;
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_create_ah create;
	} command = {
		.header = { .command = IB_USER_VERBS_CMD_CREATE_AH,
			    .in_words = sizeof(command) / 4,
			    .out_words = sizeof(response) / 4 },
		.create = { .response = (uintptr_t)&response,
			    .pd_handle = pd->handle,
			    .attr = { .grh = { .dgid = { 0xff, 0x02, [15] = 1 } },
				      .is_global = 1,
				      .port_num = 1 } },
	};

	return write(pd->context->cmd_fd, &command, sizeof(command)) == sizeof(command);
}

int main(int argc, char **argv)
{
	struct ibv_context *context = argc == 2 ? open_device(argv[1]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	unsigned int count = 0;
	char end;

	if (!pd) {
		fprintf(stderr, "usage: use_up DEVICE, an RDMA device\n");
		return 2;
	}
	while (count < LIMIT && take_one(pd))
		count++;
	if (!count || count == LIMIT) {
		fprintf(stderr, "use_up: %s: no end at %u address handles: %m\n", argv[1], count);
		return 2;
	}
	printf("%u address handles\nready\n", count);
	fflush(stdout);
	return read(STDIN_FILENO, &end, 1) != 0;
}
