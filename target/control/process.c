/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The signals and limits of process.h. */
#include "target/control/process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "target/base/error.h"

void tgt_process_defer_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

int tgt_process_open_signals(char *error)
{
	sigset_t set;
	int signals;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN); /* a closed peer is an error of write(), and must not end us */
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		return tgt_error(error, -errno, "signalfd: %s", strerror(errno));
	return signals;
}

int tgt_process_take_signal(int signals)
{
	struct signalfd_siginfo info;

	if (read(signals, &info, sizeof(info)) != sizeof(info))
		return 0;
	return (int)info.ssi_signo;
}

static void limit_raise(int which)
{
	struct rlimit limit;

	if (getrlimit(which, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(which, &limit);
}

void tgt_process_raise_limits(void)
{
	limit_raise(RLIMIT_NOFILE);
	limit_raise(RLIMIT_FSIZE);
}
