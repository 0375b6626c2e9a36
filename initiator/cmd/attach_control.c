/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel module's control device: a line is written, an errno answers, and a line of text is
 * read back. Loads the module if it is missing; reports what to do if that fails.
 */
#include "initiator/cmd/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int attach_program_run(const char *const argv[])
{
	int status, err;
	pid_t pid;

	err = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);
	if (err)
		return -err;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

int attach_control_open(void)
{
	/* By its full name: the PATH of a user who became root may lack it. */
	static const char *const load[] = { "/sbin/modprobe", "-q", "rblk", NULL };
	int control = open(ATTACH_CONTROL, O_RDWR | O_CLOEXEC);
	bool loaded = false;

	if (control < 0 && errno == ENOENT && !geteuid()) {
		loaded = !attach_program_run(load);
		control = open(ATTACH_CONTROL, O_RDWR | O_CLOEXEC);
	}
	if (control >= 0)
		return control;
	if (errno == EACCES || errno == EPERM)
		cmd_error("%s: %s: only root can attach and detach", ATTACH_CONTROL,
			  strerror(errno));
	else if (errno == ENOENT && geteuid())
		cmd_error("%s: does not exist: the kernel module is not loaded; as root: modprobe rblk",
			  ATTACH_CONTROL);
	else if (errno == ENOENT && !loaded)
		cmd_error("%s: does not exist, and the kernel module cannot be loaded: run modprobe rblk for the reason; is it built for this kernel?",
			  ATTACH_CONTROL);
	else
		cmd_error("%s: %s", ATTACH_CONTROL, strerror(errno));
	return -1;
}

int attach_control_send(int control, const char *line, char *answer)
{
	int err = write(control, line, strlen(line)) < 0 ? -errno : 0;
	/* From the beginning: a refused write leaves the position where the last answer ended. */
	ssize_t length = pread(control, answer, ATTACH_ANSWER_BYTES - 1, 0);

	if (length < 0)
		length = 0;
	answer[length] = '\0';
	answer[strcspn(answer, "\n")] = '\0';
	/* It refuses without a text what is not a line at all. */
	if (err && !answer[0])
		snprintf(answer, ATTACH_ANSWER_BYTES, "%s: %s", ATTACH_CONTROL, strerror(-err));
	return err;
}
