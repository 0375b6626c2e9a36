/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Connections to the control socket, calls, and messages about what failed. */
#include "target/ctl/ctl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* An answer comes within a second or two, unless the machine is very busy. */
#define ANSWER_S 30
/* The longest answer: all that a daemon at its limits has to say. */
#define ANSWER_BYTES_MAX (256u << 20)

struct ctl_connection {
	const char *path;
	int fd;
	int number; /* of the last call */
	char *buffer;
	size_t bytes, room;
};

/* -- messages ---------------------------------------------------------------------------------- */

static const char *verb; /* as it was typed: methods may have other names */
static bool wants_json;

void ctl_begin(const char *name, bool json)
{
	verb = name;
	wants_json = json;
}

int ctl_json_print(json_t *object)
{
	if (!json_object_get(object, "errors"))
		json_object_set_new(object, "errors", json_array());
	json_dumpf(object, stdout, JSON_COMPACT);
	json_decref(object);
	printf("\n");
	return CTL_OK;
}

static bool held;
static char words[1024]; /* of the last error */

const char *ctl_hold_errors(bool hold)
{
	held = hold;
	return words;
}

int ctl_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	if (held)
		return CTL_FAILED;
	fflush(stdout);
	fprintf(stderr, "rblkctl: %s\n", words);
	if (wants_json)
		ctl_json_print(json_pack("{s:[s]}", "errors", words));
	return CTL_FAILED;
}

/* -- connections ------------------------------------------------------------------------------- */

static const char *connect_advice(int error)
{
	if (error == ENOENT || error == ECONNREFUSED)
		return ": no rblkd listens there: is it running, and is control_socket this path?";
	if (error == EACCES || error == EPERM)
		return ": only root and the members of group rblk may connect";
	return "";
}

struct ctl_connection *ctl_connect(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = ANSWER_S};
	struct ctl_connection *connection;
	int fd;

	if (strlen(path) >= sizeof(address.sun_path)) {
		ctl_error("%s: the path is too long", path);
		return NULL;
	}
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address))) {
		ctl_error("%s: %s%s", path, strerror(errno), connect_advice(errno));
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	connection = calloc(1, sizeof(*connection));
	if (!connection) {
		close(fd);
		ctl_error("out of memory");
		return NULL;
	}
	connection->path = path;
	connection->fd = fd;
	return connection;
}

void ctl_disconnect(struct ctl_connection *connection)
{
	if (!connection)
		return;
	close(connection->fd);
	free(connection->buffer);
	free(connection);
}

void ctl_be_patient(struct ctl_connection *connection)
{
	struct timeval never = {0};

	setsockopt(connection->fd, SOL_SOCKET, SO_RCVTIMEO, &never, sizeof(never));
}

void ctl_wait_end(struct ctl_connection *connection)
{
	char byte;

	ctl_be_patient(connection);
	while (recv(connection->fd, &byte, 1, 0) > 0)
		;
}

/* -- calls ------------------------------------------------------------------------------------- */

static bool call_send(struct ctl_connection *connection, const char *method, json_t *params)
{
	json_t *request = json_pack("{s:s, s:i, s:s, s:o}", "jsonrpc", "2.0", "id",
				    ++connection->number, "method", method, "params",
				    params ? params : json_object());
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
	size_t length = text ? strlen(text) : 0, done = 0;

	json_decref(request);
	if (!text) {
		ctl_error("out of memory");
		return false;
	}
	text[length++] = '\n'; /* in place of the zero */
	while (done < length) {
		ssize_t sent = send(connection->fd, text + done, length - done, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		/* A daemon that has no room for a client says so, and closes: that is read next. */
		if (sent < 0)
			break;
		done += (size_t)sent;
	}
	free(text);
	return true;
}

/* One line into the buffer. False after a message. */
static bool call_receive(struct ctl_connection *connection)
{
	connection->bytes = 0;
	for (;;) {
		ssize_t got;

		if (connection->bytes == connection->room) {
			size_t room = connection->room ? connection->room * 2 : 65536;
			char *buffer = room > ANSWER_BYTES_MAX ? NULL
							       : realloc(connection->buffer, room);

			if (!buffer) {
				ctl_error("%s: the answer is too long", connection->path);
				return false;
			}
			connection->buffer = buffer;
			connection->room = room;
		}
		got = recv(connection->fd, connection->buffer + connection->bytes,
			   connection->room - connection->bytes, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			ctl_error("%s: %s", connection->path,
				  /* It is reset by a daemon that ends before it has read all. */
				  !got || errno == ECONNRESET ? "the daemon has closed the connection"
				  : errno == EAGAIN	      ? "the daemon does not answer"
							      : strerror(errno));
			return false;
		}
		connection->bytes += (size_t)got;
		if (connection->buffer[connection->bytes - 1] == '\n')
			return true;
	}
}

json_t *ctl_call(struct ctl_connection *connection, const char *method, json_t *params)
{
	const char *message = NULL;
	json_t *answer, *result;
	json_error_t error;

	if (!call_send(connection, method, params) || !call_receive(connection))
		return NULL;
	answer = json_loadb(connection->buffer, connection->bytes, 0, &error);
	json_unpack(answer, "{s:{s:s}}", "error", "message", &message);
	result = json_incref(json_object_get(answer, "result"));
	if (message)
		ctl_error("%s: %s", verb, message);
	else if (!json_is_object(result))
		ctl_error("%s: an answer that is not of rblkd", connection->path);
	json_decref(answer);
	if (!message && json_is_object(result))
		return result;
	json_decref(result);
	return NULL;
}

json_t *ctl_ask(const struct ctl_values *values, const char *method, json_t *params)
{
	struct ctl_connection *connection = ctl_connect(values->socket);
	json_t *result;

	if (!connection) {
		json_decref(params);
		return NULL;
	}
	result = ctl_call(connection, method, params);
	ctl_disconnect(connection);
	return result;
}
