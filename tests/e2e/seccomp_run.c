/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * seccomp_run allow|deny ERRNO NUMBER,NUMBER... PROGRAM ARGUMENT...: runs the program with a filter of these
 * system calls: `allow`: all others fail with ERRNO; `deny`: these do. As a container's engine has it.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NUMBERS_MAX 1000

static struct sock_filter filter[2 * NUMBERS_MAX + 4];
static unsigned short length;

static void add(unsigned short code, unsigned int k, unsigned char if_true, unsigned char if_false)
{
	filter[length++] = (struct sock_filter)BPF_JUMP(code, k, if_true, if_false);
}

int main(int argc, char **argv)
{
	struct sock_fprog program = {.filter = filter};
	unsigned int failed, listed, others;
	char *number;

	if (argc < 5) {
		fprintf(stderr, "seccomp_run allow|deny ERRNO NUMBER,NUMBER... PROGRAM ARGUMENT...\n");
		return 2;
	}
	failed = SECCOMP_RET_ERRNO | (unsigned int)atoi(argv[2]);
	listed = strcmp(argv[1], "allow") ? failed : SECCOMP_RET_ALLOW;
	others = strcmp(argv[1], "allow") ? SECCOMP_RET_ALLOW : failed;
	add(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
	for (number = strtok(argv[3], ","); number && length < 2 * NUMBERS_MAX; number = strtok(NULL, ",")) {
		add(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)atoi(number), 0, 1);
		add(BPF_RET | BPF_K, listed, 0, 0);
	}
	add(BPF_RET | BPF_K, others, 0, 0);
	program.len = length;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("seccomp_run");
		return 77;
	}
	execv(argv[4], argv + 4);
	perror(argv[4]);
	return 127;
}
