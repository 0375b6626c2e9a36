/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* See program.h. */
#include "proto/program/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From the lowest up, so that open() gives the number that is missing. Without /dev (chroot) any descriptor
 * that can be neither read nor written does. */
static void descriptors_open(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		int opened;

		if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
			continue;
		opened = open("/dev/null", O_RDWR);
		if (opened < 0)
			opened = open("/", O_PATH);
		if (opened != fd)
			abort();
	}
}

void rblk_program_begin(void)
{
	descriptors_open();
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
}

int rblk_program_end(const char *name, int status)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	/* An earlier line's error has no errno any more. */
	fprintf(stderr, "%s: standard output: cannot be written%s%s\n", name, errno ? ": " : "",
		errno ? strerror(errno) : "");
	return status ? status : EXIT_FAILURE;
}
