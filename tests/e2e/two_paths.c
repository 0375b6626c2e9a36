/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* See two_paths.h. */
#include "tests/e2e/two_paths.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <time.h>
#include "tests/e2e/daemon.h"

struct proxy *paths[PATHS];
char two_paths_uri[256];
static struct e2e_daemon server;
static struct e2e_file file;

void two_paths_start(uint64_t bytes, const char *second_scheme, const char *keepalive, const char *fault)
{
	char second[64];

	e2e_file_create(&file, "disk", bytes);
	e2e_daemon_start(&server, "--listen", "rblk+tcp://127.0.0.1:0", "--cache", "buffered",
			 "--keepalive", keepalive, file.volume, fault ? "--fault" : NULL, fault, NULL);
	e2e_daemon_second_host(&server, second);
	assert_string_not_equal(second, server.host);
	paths[0] = proxy_start(server.host);
	paths[1] = proxy_start(second);
	snprintf(two_paths_uri, sizeof(two_paths_uri), "rblk+tcp://%s,%s%s/disk",
		 proxy_host(paths[0]), second_scheme, proxy_host(paths[1]));
}

int two_paths_stop(void)
{
	int status;

	for (unsigned int i = 0; i < PATHS; i++)
		proxy_stop(paths[i]);
	status = e2e_daemon_stop(&server);
	e2e_file_remove(&file);
	return status;
}

void two_paths_wait(const struct load *load, unsigned int path)
{
	const struct timespec pause = {.tv_nsec = 2000000};
	uint64_t until = proxy_bytes(paths[path]) + (1 << 16);
	time_t give_up = time(NULL) + 120;

	load_wait(load, 50);
	while (proxy_bytes(paths[path]) < until) {
		if (time(NULL) > give_up)
			fail_msg("path %u is not used", path);
		nanosleep(&pause, NULL);
	}
}
