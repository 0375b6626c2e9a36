/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk fault: asks a daemon on this machine for a fault, if it accepts faults (fault_socket): one
 * datagram with the request and one with the answer, on a Unix socket.
 */
#include "initiator/cmd/cmd.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FAULT_REQUEST_BYTES 512
#define FAULT_ANSWER_BYTES 512

static struct fault_values {
	uint64_t timeout_ms;
} values = {.timeout_ms = 10000};

static const struct cmd_option options[] = {
	{"timeout", 't', CMD_OPTION_TIME, offsetof(struct fault_values, timeout_ms), 1, 3600000,
	 "TIME", "how long to wait for the daemon's answer (default: 10s)"},
	CMD_OPTION_HELP,
	CMD_OPTIONS_END,
};

/* A socket that the daemon can answer to, or a negative errno. */
static int fault_connect(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, err = 0;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* The kernel chooses a name of its own. */
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address.sun_family)))
		err = -errno;
	strcpy(address.sun_path, path);
	if (!err && connect(fd, (const struct sockaddr *)&address, sizeof(address)))
		err = -errno;
	if (err)
		close(fd);
	return err ? err : fd;
}

/* 0 and a text, or a negative errno. */
static int fault_ask(int fd, const char *request, char answer[FAULT_ANSWER_BYTES])
{
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	ssize_t bytes;
	int ready;

	if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		return -errno;
	ready = poll(&polled, 1, (int)values.timeout_ms);
	if (ready <= 0)
		return ready ? -errno : -ETIMEDOUT;
	bytes = recv(fd, answer, FAULT_ANSWER_BYTES - 1, 0);
	if (bytes < 0)
		return -errno;
	answer[bytes] = '\0';
	return 0;
}

static const char *fault_why(int error)
{
	if (error == -ENOENT || error == -ECONNREFUSED || error == -EPROTOTYPE || error == -ENOTSOCK)
		return "no daemon accepts faults there: fault_socket must be set, see rblkd.conf(5)";
	if (error == -EACCES || error == -EPERM)
		return "only the user that rblkd runs as, and root, may ask for faults";
	return strerror(-error);
}

static int fault_run(char **operands, int count)
{
	char request[FAULT_REQUEST_BYTES] = "", answer[FAULT_ANSWER_BYTES];
	size_t length = 0;
	int fd, err;

	for (int i = 1; i < count && length < sizeof(request); i++)
		length += (size_t)snprintf(request + length, sizeof(request) - length, "%s%s",
					   i > 1 ? " " : "", operands[i]);
	if (length >= sizeof(request)) {
		cmd_error("fault: the request is too long");
		return CMD_USAGE;
	}
	fd = fault_connect(operands[0]);
	if (fd < 0)
		return cmd_error("%s: %s", operands[0], fault_why(fd));
	err = fault_ask(fd, request, answer);
	close(fd);
	if (err)
		return cmd_error("%s: %s", operands[0], fault_why(err));
	if (strcmp(answer, "ok"))
		return cmd_error("%s", strncmp(answer, "error ", 6) ? answer : answer + 6);
	return CMD_OK;
}

const struct cmd_verb cmd_verb_fault = {
	.name = "fault",
	.operands = "SOCKET cut|lose|plan [VOLUME [PLAN]]",
	.summary = "for tests: ask a daemon on this machine for a fault",
	.options = options,
	.values = &values,
	.operands_least = 2,
	.operands_most = 4,
	.run = fault_run,
};
