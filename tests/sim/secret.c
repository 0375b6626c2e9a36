/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* secret.h, by a file in memory, because secrets come from files alone. */
#include "tests/sim/secret.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "proto/secret/secret.h"
#include "tests/sim/trace.h"

struct rblk_secrets *sim_secrets(void)
{
	static const char text[] = "rblk1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
	static struct rblk_secrets *secrets;
	char path[32], error[RBLK_SECRET_ERROR_BYTES] = "it cannot be made";
	int fd;

	if (secrets)
		return secrets;
	fd = memfd_create("secret", MFD_CLOEXEC);
	if (fd >= 0 && !fchmod(fd, 0600) && write(fd, text, strlen(text)) == (ssize_t)strlen(text)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		secrets = rblk_secrets_read(path, error);
	}
	if (!secrets)
		sim_fail("the secret: %s", error);
	close(fd);
	return secrets;
}
