/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A relay between TCP ports of 127.0.0.1 whose connections a test breaks:
 *	proxy PORT-TO [PORT]   prints the port that it listens on
 * SIGUSR1 resets all connections. SIGUSR2 holds those that there are: nothing of theirs is relayed
 *any more, while new ones work; the next SIGUSR2 delivers what was held, late. Ends when its parent
 *does.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAIRS_MAX 256
#define RELAY_BYTES 65536

struct pair {
	int fds[2]; /* -1: free */
	bool held;
};

static struct pair pairs[PAIRS_MAX];
static struct pollfd polls[1 + 2 * PAIRS_MAX];
static volatile sig_atomic_t reset_wanted, hold_wanted;

static void on_signal(int number)
{
	if (number == SIGUSR1)
		reset_wanted = 1;
	else
		hold_wanted++;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* With a reset, so that neither side takes it for an orderly end. */
static void pair_close(struct pair *pair)
{
	const struct linger none = {.l_onoff = 1};

	for (int i = 0; i < 2; i++) {
		setsockopt(pair->fds[i], SOL_SOCKET, SO_LINGER, &none, sizeof(none));
		close(pair->fds[i]);
		pair->fds[i] = -1;
	}
	pair->held = false;
}

static void pair_accept(int listener, const struct sockaddr_in *to)
{
	int from = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pair *pair = pairs;

	while (pair < pairs + PAIRS_MAX && pair->fds[0] >= 0)
		pair++;
	if (pair == pairs + PAIRS_MAX || from < 0 || fd < 0 ||
	    connect(fd, (const struct sockaddr *)to, sizeof(*to))) {
		close(from);
		close(fd);
		return;
	}
	pair->fds[0] = from;
	pair->fds[1] = fd;
}

static bool relay(int from, int to)
{
	static char data[RELAY_BYTES];
	ssize_t got = recv(from, data, sizeof(data), MSG_DONTWAIT), sent = 0;

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	while (got > 0 && sent < got) {
		ssize_t n = send(to, data + sent, (size_t)(got - sent), MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return false;
		sent += n > 0 ? n : 0;
	}
	return got > 0;
}

static void obey(void)
{
	bool any_held = false;

	for (struct pair *pair = pairs; pair < pairs + PAIRS_MAX; pair++) {
		if (pair->fds[0] >= 0 && reset_wanted)
			pair_close(pair);
		any_held |= pair->held;
	}
	reset_wanted = 0;
	for (; hold_wanted; hold_wanted--) {
		for (struct pair *pair = pairs; pair < pairs + PAIRS_MAX; pair++)
			pair->held = !any_held && pair->fds[0] >= 0;
		any_held = !any_held;
	}
}

/* port 0: any. */
static int listen_at(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const int yes = 1;
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 64) ||
	    getsockname(fd, (struct sockaddr *)&address, &length))
		fail("listen");
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	return fd;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sigaction action = {.sa_handler = on_signal};
	sigset_t blocked, before;
	int listener;

	if (argc != 2 && argc != 3)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigaddset(&blocked, SIGUSR2);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	to.sin_port = htons((uint16_t)atoi(argv[1]));
	for (int i = 0; i < PAIRS_MAX; i++)
		pairs[i].fds[0] = pairs[i].fds[1] = -1;
	listener = listen_at(argc == 3 ? atoi(argv[2]) : 0);
	for (;;) {
		polls[0] = (struct pollfd){.fd = listener, .events = POLLIN};
		for (int i = 0; i < 2 * PAIRS_MAX; i++)
			polls[1 + i] = (struct pollfd){
				.fd = pairs[i / 2].held ? -1 : pairs[i / 2].fds[i % 2],
				.events = POLLIN};
		/* Signals arrive here only. */
		if (ppoll(polls, 1 + 2 * PAIRS_MAX, NULL, &before) < 0) {
			obey();
			continue;
		}
		for (int i = 0; i < 2 * PAIRS_MAX; i++) {
			struct pair *pair = &pairs[i / 2];

			if (polls[1 + i].revents && pair->fds[0] >= 0 &&
			    !relay(pair->fds[i % 2], pair->fds[1 - i % 2]))
				pair_close(pair);
		}
		if (polls[0].revents)
			pair_accept(listener, &to);
	}
}
