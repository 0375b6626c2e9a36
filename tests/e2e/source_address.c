/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* See source_address.h. */
#include "tests/e2e/source_address.h"
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

const char *source_address;

int __real_connect(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes);

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	struct sockaddr_in from = {.sin_family = AF_INET};

	if (source_address) {
		assert_int_equal(inet_pton(AF_INET, source_address, &from.sin_addr), 1);
		assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	}
	return __real_connect(fd, address, bytes);
}
