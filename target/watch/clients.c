/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Each line of a client is a request, and each answer is a line. A client gets its next request read
 * when it has taken the answer of the last one.
 */
#include "target/watch/clients.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "proto/core/env.h"

struct tgt_client {
	int fd;
	struct tgt_rpc_caller caller;
	uint64_t due_ns; /* by then it has sent, or taken, what is expected */
	size_t bytes;	 /* of the request, so far */
	char *answer;	 /* being sent; NULL: none */
	size_t answer_bytes, sent;
	uint64_t job; /* that its first request waits for; 0: none */
	bool last; /* it ends when the answer has been sent */
	char request[TGT_RPC_REQUEST_BYTES];
};

static void client_end(struct tgt_client *client)
{
	close(client->fd);
	free(client->answer);
	free(client);
}

static void client_expect(struct tgt_client *client, uint64_t within_ns)
{
	client->due_ns = env_now_ns() + within_ns;
}

/* Takes over the answer. */
static void client_answer(struct tgt_client *client, char *answer)
{
	free(client->answer);
	client->answer = answer;
	client->answer_bytes = answer ? strlen(answer) : 0;
	client->sent = 0;
	client_expect(client, answer ? TGT_CLIENT_NS : TGT_CLIENT_IDLE_NS);
}

/* False: it has gone. */
static bool client_send(struct tgt_client *client)
{
	while (client->answer) {
		ssize_t sent = send(client->fd, client->answer + client->sent,
				    client->answer_bytes - client->sent,
				    MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0)
			return errno == EAGAIN || errno == EINTR;
		client->sent += (size_t)sent;
		if (client->sent == client->answer_bytes)
			client_answer(client, NULL);
	}
	return !client->last;
}

/* The requests that have come whole, until one has an answer that is not taken at once. */
static bool client_run(struct tgt_client *client, struct tgt_methods *methods)
{
	char *end;

	while (!client->answer && (end = memchr(client->request, '\n', client->bytes))) {
		size_t length = (size_t)(end - client->request) + 1;
		char *answer = tgt_rpc_answer(tgt_methods, methods, &client->caller,
					      client->request, length);

		/* The request stays, and is asked again when the job has ended. */
		if (client->job) {
			client->due_ns = UINT64_MAX;
			return true;
		}
		client_answer(client, answer);
		client->bytes -= length;
		memmove(client->request, client->request + length, client->bytes);
		if (!client_send(client))
			return false;
	}
	if (client->answer || client->job || client->bytes < sizeof(client->request))
		return true;
	/* No end of line within the longest request: nothing after it can be understood. */
	client->last = true;
	client_answer(client, strdup("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,"
				     "\"message\":\"the request is too long\"}}\n"));
	return client_send(client);
}

static bool client_receive(struct tgt_client *client, struct tgt_methods *methods)
{
	ssize_t got = recv(client->fd, client->request + client->bytes,
			   sizeof(client->request) - client->bytes, MSG_DONTWAIT);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	if (!got)
		return false;
	/* From the first byte of a request on; more bytes give it no more time. */
	if (!client->bytes)
		client_expect(client, TGT_CLIENT_NS);
	client->bytes += (size_t)got;
	return client_run(client, methods);
}

void tgt_clients_add(struct tgt_clients *clients, int fd)
{
	static const char full[] = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32000,"
				   "\"message\":\"too many clients\"}}\n";
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	struct tgt_client *client;
	unsigned int i;

	for (i = 0; i < TGT_CLIENTS_MAX && clients->clients[i]; i++)
		;
	client = i < TGT_CLIENTS_MAX ? calloc(1, sizeof(*client)) : NULL;
	if (!client || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes)) {
		send(fd, full, sizeof(full) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		close(fd);
		free(client);
		return;
	}
	client->fd = fd;
	client->caller = (struct tgt_rpc_caller){
		.pid = peer.pid, .uid = peer.uid, .job = &client->job};
	client_expect(client, TGT_CLIENT_NS);
	clients->clients[i] = client;
}

unsigned int tgt_clients_poll(const struct tgt_clients *clients,
			      struct pollfd polled[TGT_CLIENTS_MAX])
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < TGT_CLIENTS_MAX; i++) {
		const struct tgt_client *client = clients->clients[i];

		polled[i] = (struct pollfd){.fd = client ? client->fd : -1,
					    .events = !client || client->job ? 0
						      : client->answer	     ? POLLOUT
									     : POLLIN};
		if (client)
			count = i + 1;
	}
	return count;
}

static bool client_step(struct tgt_client *client, struct tgt_methods *methods)
{
	/* It has gone; what it has asked for is done all the same. */
	if (client->job)
		return false;
	if (client->answer)
		return client_send(client) && client_run(client, methods);
	return client_receive(client, methods);
}

void tgt_clients_step(struct tgt_clients *clients, const struct pollfd polled[TGT_CLIENTS_MAX])
{
	uint64_t now_ns = env_now_ns();

	for (unsigned int i = 0; i < TGT_CLIENTS_MAX; i++) {
		struct tgt_client *client = clients->clients[i];

		/* The place may have got another client since. */
		if (!client || polled[i].fd != client->fd)
			continue;
		if (polled[i].revents ? client_step(client, clients->methods)
				      : now_ns < client->due_ns)
			continue;
		client_end(client);
		clients->clients[i] = NULL;
	}
}

void tgt_clients_retry(struct tgt_clients *clients)
{
	for (unsigned int i = 0; i < TGT_CLIENTS_MAX; i++) {
		struct tgt_client *client = clients->clients[i];

		if (!client || !client->job || client_run(client, clients->methods))
			continue;
		client_end(client);
		clients->clients[i] = NULL;
	}
}

int tgt_clients_timeout_ms(const struct tgt_clients *clients)
{
	uint64_t now_ns = env_now_ns(), first_ns = UINT64_MAX;

	for (unsigned int i = 0; i < TGT_CLIENTS_MAX; i++)
		if (clients->clients[i] && clients->clients[i]->due_ns < first_ns)
			first_ns = clients->clients[i]->due_ns;
	if (first_ns == UINT64_MAX)
		return -1;
	return first_ns > now_ns ? (int)((first_ns - now_ns) / 1000000) + 1 : 0;
}

void tgt_clients_close(struct tgt_clients *clients)
{
	for (unsigned int i = 0; i < TGT_CLIENTS_MAX; i++) {
		if (clients->clients[i])
			client_end(clients->clients[i]);
		clients->clients[i] = NULL;
	}
}
