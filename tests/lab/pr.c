/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One of the kernel's ioctls for persistent reservations, for jobs (Debian 12 has no blkpr). A key
 * that comes first is the caller's own, as sd, nvme and rblk have it. pr DEVICE register OLD NEW |
 * ignore NEW | reserve KEY TYPE | release KEY TYPE pr DEVICE preempt OWN VICTIMS TYPE | abort OWN
 * VICTIMS TYPE | clear KEY pr DEVICE keys | holder        what "GENERATION NUMBER KEY..." and
 * "GENERATION KEY TYPE" are Exit status 0; 1 for an error, in words; 3 for a conflict; 77 where the
 * kernel has no such ioctl.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/pr.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define CONFLICT 0x18 /* PR_STS_RESERVATION_CONFLICT, of newer headers */
#define KEYS_MAX 128

/* Of newer headers, too. */
struct read_keys {
	uint64_t keys;
	uint32_t generation, count;
};
struct read_reservation {
	uint64_t key;
	uint32_t generation, type;
};
#define READ_KEYS _IOWR('p', 206, struct read_keys)
#define READ_RESERVATION _IOR('p', 207, struct read_reservation)

static int fd;

static uint64_t number(const char *text)
{
	return strtoull(text, NULL, 0);
}

/* "register OLD NEW", and "ignore NEW": whatever it was before. */
static int do_register(char **a)
{
	struct pr_registration r = {.old_key = number(a[0]), .new_key = number(a[1])};

	return ioctl(fd, IOC_PR_REGISTER, &r);
}

static int do_ignore(char **a)
{
	struct pr_registration r = {.new_key = number(a[0]), .flags = PR_FL_IGNORE_KEY};

	return ioctl(fd, IOC_PR_REGISTER, &r);
}

static int do_reserve(char **a)
{
	struct pr_reservation r = {.key = number(a[0]), .type = (uint32_t)number(a[1])};

	return ioctl(fd, IOC_PR_RESERVE, &r);
}

static int do_release(char **a)
{
	struct pr_reservation r = {.key = number(a[0]), .type = (uint32_t)number(a[1])};

	return ioctl(fd, IOC_PR_RELEASE, &r);
}

static struct pr_preempt preempt_of(char **a)
{
	return (struct pr_preempt){
		.old_key = number(a[0]), .new_key = number(a[1]), .type = (uint32_t)number(a[2])};
}

static int do_preempt(char **a)
{
	struct pr_preempt p = preempt_of(a);

	return ioctl(fd, IOC_PR_PREEMPT, &p);
}

static int do_abort(char **a)
{
	struct pr_preempt p = preempt_of(a);

	return ioctl(fd, IOC_PR_PREEMPT_ABORT, &p);
}

static int do_clear(char **a)
{
	struct pr_clear c = {.key = number(a[0])};

	return ioctl(fd, IOC_PR_CLEAR, &c);
}

static int do_keys(char **a)
{
	uint64_t keys[KEYS_MAX] = {0};
	struct read_keys r = {.keys = (uintptr_t)keys, .count = KEYS_MAX};
	int status = ioctl(fd, READ_KEYS, &r);

	(void)a;
	if (status)
		return status;
	printf("%u %u", r.generation, r.count);
	for (uint32_t i = 0; i < r.count && i < KEYS_MAX; i++)
		printf(" %#llx", (unsigned long long)keys[i]);
	printf("\n");
	return 0;
}

static int do_holder(char **a)
{
	struct read_reservation r = {0};
	int status = ioctl(fd, READ_RESERVATION, &r);

	(void)a;
	if (!status)
		printf("%u %#llx %u\n", r.generation, (unsigned long long)r.key, r.type);
	return status;
}

static const struct {
	const char *name;
	int arguments;
	int (*run)(char **arguments);
} calls[] = {
	{"register", 2, do_register}, {"ignore", 1, do_ignore},	  {"reserve", 2, do_reserve},
	{"release", 2, do_release},   {"preempt", 3, do_preempt}, {"abort", 3, do_abort},
	{"clear", 1, do_clear},	      {"keys", 0, do_keys},	  {"holder", 0, do_holder},
};

int main(int argc, char **argv)
{
	size_t i = 0, count = sizeof(calls) / sizeof(calls[0]);
	int status;

	while (argc > 2 && i < count &&
	       (strcmp(argv[2], calls[i].name) != 0 || argc != 3 + calls[i].arguments))
		i++;
	if (argc <= 2 || i == count) {
		fprintf(stderr, "usage: pr DEVICE CALL NUMBER...\n");
		return 2;
	}
	fd = open(argv[1], O_RDWR);
	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	errno = 0;
	status = calls[i].run(argv + 3);
	if (status < 0 && errno == ENOTTY)
		return 77;
	if (status == CONFLICT)
		return 3;
	if (status > 0)
		fprintf(stderr, "%s: status %#x\n", argv[2], (unsigned int)status);
	else if (status < 0)
		perror(argv[2]);
	return status ? 1 : 0;
}
