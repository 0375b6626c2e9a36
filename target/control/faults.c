/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The requests of faults.h: "cut [VOLUME]", "lose VOLUME" and "plan VOLUME PLAN". The answer begins
 * with "ok " or "error ". The mode of the socket's file decides who may write to it.
 */
#include "target/control/faults.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/serve/calls.h"
#include "target/store/sync.h"
#include "target/store/volume.h"

#define REQUEST_BYTES 512u
#define STEP_MAX 16 /* requests of one step */

struct tgt_faults {
	int fd;
	struct sockaddr_un address;
	dev_t device; /* of the socket's file, so that only this daemon's own is removed */
	ino_t inode;
	struct tgt_registry *registry;
	struct tgt_reactor **reactors;
	unsigned int reactor_count;
};

/* -- requests ---------------------------------------------------------------------------------- */

/* `volume` NULL: none was named. */
static int request_cut(struct tgt_faults *faults, struct tgt_volume *volume, const char *plan,
		       char *error)
{
	if (plan)
		return tgt_error(error, -EINVAL, "cut [VOLUME]: too many words");
	tgt_reactors_call(faults->reactors, faults->reactor_count, tgt_reactor_cut, volume);
	return 0;
}

/* As if the machine had been down: another cache epoch, and all sessions are forgotten. */
static int request_lose(struct tgt_faults *faults, struct tgt_volume *volume, const char *plan,
			char *error)
{
	if (!volume || plan)
		return tgt_error(error, -EINVAL, "lose VOLUME: one volume is named");
	tgt_sync_new_epoch(volume);
	tgt_reactors_call(faults->reactors, faults->reactor_count, tgt_reactor_forget, volume);
	return 0;
}

static int request_plan(struct tgt_faults *faults, struct tgt_volume *volume, const char *plan,
			char *error)
{
	char why[TGT_ERROR_BYTES];
	int status;

	(void)faults;
	if (!volume || !plan)
		return tgt_error(error, -EINVAL, "plan VOLUME PLAN: both are needed");
	status = tgt_store_faults->change(volume->store, plan, why);
	if (status < 0)
		return tgt_error(error, status, "volume %s: %s", volume->config.name, why);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(struct tgt_faults *faults, struct tgt_volume *volume, const char *plan,
		   char *error);
} requests[] = {
	{"cut", request_cut},
	{"lose", request_lose},
	{"plan", request_plan},
};

/* Changes `text`. */
static int request_run(struct tgt_faults *faults, char *text, char *error)
{
	char *rest = NULL, *name = strtok_r(text, " ", &rest),
	     *volume_name = strtok_r(NULL, " ", &rest);
	const char *plan = strtok_r(NULL, " ", &rest);
	struct tgt_volume *volume = NULL;
	int status = -EINVAL;
	unsigned int i;

	for (i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		if (name && !strcmp(name, requests[i].name))
			break;
	if (i == sizeof(requests) / sizeof(requests[0]) || strtok_r(NULL, " ", &rest))
		return tgt_error(error, -EINVAL,
				 "a fault is cut [VOLUME], lose VOLUME or plan VOLUME PLAN");
	if (volume_name) {
		volume = tgt_volume_get(faults->registry, volume_name);
		if (!volume)
			return tgt_error(error, -ENOENT, "volume %.63s: no such volume",
					 volume_name);
	}
	status = requests[i].run(faults, volume, plan, error);
	if (volume)
		tgt_volume_put(volume);
	return status;
}

/* whole: the request was not truncated. A truncated plan may be a valid plan, but not the one
 * that was asked for. */
static void request_take(struct tgt_faults *faults, char *text, bool whole,
			 const struct sockaddr_un *from, socklen_t from_bytes)
{
	char asked[REQUEST_BYTES + 1], error[TGT_ERROR_BYTES], answer[TGT_ERROR_BYTES + 8];
	int status;

	strcpy(asked, text);
	if (whole)
		status = request_run(faults, text, error);
	else
		status = tgt_error(error, -EMSGSIZE, "the request is longer than %u bytes",
				   REQUEST_BYTES);
	if (status < 0) {
		tgt_log(TGT_LOG_WARNING, "fault \"%s\": refused: %s", asked, error);
		snprintf(answer, sizeof(answer), "error %s", error);
	} else {
		tgt_log(TGT_LOG_WARNING, "fault \"%s\": done, as was asked for", asked);
		snprintf(answer, sizeof(answer), "ok");
	}
	/* A client that does not wait for its answer gets none. */
	sendto(faults->fd, answer, strlen(answer), MSG_DONTWAIT | MSG_NOSIGNAL,
	       (const struct sockaddr *)from, from_bytes);
}

void tgt_faults_step(struct tgt_faults *faults)
{
	struct sockaddr_un from;
	char text[REQUEST_BYTES + 1];
	ssize_t bytes;
	bool whole;

	for (unsigned int i = 0; faults && i < STEP_MAX; i++) {
		socklen_t from_bytes = sizeof(from);

		bytes = recvfrom(faults->fd, text, REQUEST_BYTES, MSG_DONTWAIT | MSG_TRUNC,
				 (struct sockaddr *)&from, &from_bytes);
		if (bytes < 0)
			return;
		whole = bytes <= REQUEST_BYTES;
		if (!whole)
			bytes = REQUEST_BYTES;
		for (ssize_t c = 0; c < bytes; c++)
			if (text[c] < ' ' || text[c] > '~')
				text[c] = '?'; /* the text for the log */
		text[bytes] = '\0';
		request_take(faults, text, whole, &from, from_bytes);
	}
}

/* -- the socket -------------------------------------------------------------------------------- */

/* Replaces the socket of a predecessor, which may still drain, or was killed. Any other file
 * stays. */
static int socket_bind(struct tgt_faults *faults, char *error)
{
	const char *path = faults->address.sun_path;
	struct stat st;

	if (lstat(path, &st) == 0 && (!S_ISSOCK(st.st_mode) || unlink(path)))
		return tgt_error(error, -EEXIST,
				 "fault_socket: %s: exists, and is not a socket of rblkd", path);
	/* The file gets the mode of the socket. */
	if (fchmod(faults->fd, S_IRUSR | S_IWUSR) ||
	    bind(faults->fd, (const struct sockaddr *)&faults->address, sizeof(faults->address)) ||
	    lstat(path, &st))
		return tgt_error(error, -errno, "fault_socket: %s: %s", path, strerror(errno));
	faults->device = st.st_dev;
	faults->inode = st.st_ino;
	return 0;
}

int tgt_faults_create(const char *path, struct tgt_registry *registry,
		      struct tgt_reactor **reactors, unsigned int reactor_count,
		      struct tgt_faults **out, char *error)
{
	struct tgt_faults *faults = calloc(1, sizeof(*faults));
	int status;

	if (!faults)
		return tgt_error(error, -ENOMEM, "fault_socket: out of memory");
	faults->registry = registry;
	faults->reactors = reactors;
	faults->reactor_count = reactor_count;
	faults->address.sun_family = AF_UNIX;
	static_assert(sizeof(((struct tgt_config *)0)->fault_socket) <=
			      sizeof(faults->address.sun_path),
		      "a path that was configured fits");
	strcpy(faults->address.sun_path, path);
	faults->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (faults->fd < 0)
		status = tgt_error(error, -errno, "fault_socket: %s", strerror(errno));
	else
		status = socket_bind(faults, error);
	if (status < 0) {
		tgt_faults_destroy(faults);
		return status;
	}
	tgt_log(TGT_LOG_WARNING, "accepting faults at %s: this daemon is for tests", path);
	*out = faults;
	return 0;
}

int tgt_faults_fd(const struct tgt_faults *faults)
{
	return faults ? faults->fd : -1;
}

void tgt_faults_destroy(struct tgt_faults *faults)
{
	struct stat st;

	if (!faults)
		return;
	if (faults->inode && lstat(faults->address.sun_path, &st) == 0 &&
	    st.st_dev == faults->device && st.st_ino == faults->inode)
		unlink(faults->address.sun_path);
	if (faults->fd >= 0)
		close(faults->fd);
	free(faults);
}
