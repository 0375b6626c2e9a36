/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns an attach, a change of the server and a detach by ublk. Keeper and server are initiator/ublk's.
 */
#include "initiator/cmd/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "initiator/cmd/discover.h"
#include "initiator/own_name.h"
#include "initiator/page.h"
#include "initiator/ublk/control.h"
#include "initiator/ublk/keeper.h"
#include "initiator/ublk/record.h"
#include "proto/secret/secret.h"

/* -- attach ------------------------------------------------------------------------------------ */

/* The first option that only the module has; NULL: none of them was given. */
static const char *options_wrong(const struct attach_options *o)
{
	if (o->poll_queues)
		return "--poll-queues";
	if (o->reconnect_ms)
		return "--reconnect";
	if (o->fail_fast_ms != ATTACH_UNSAID)
		return "--fail-fast";
	return NULL;
}

int attach_ublk_options(const char *uri, const struct attach_options *o, struct ublk_disk_options *own, char *reason)
{
	const char *wrong = options_wrong(o), *key = cmd_key_file(o->key);

	if (wrong) {
		snprintf(reason, ATTACH_REASON_BYTES, "%s: only the kernel module has it; see rblk-ublk(7)", wrong);
		return -EINVAL;
	}
	/* The record has room for it. */
	if (key && (key[0] != '/' || !attach_key_valid(key))) {
		snprintf(reason, ATTACH_REASON_BYTES, "key \"%.64s\": with ublk it is the whole path of a file%s", key,
			 key[0] == '/' ? ", without blanks, of less than " CMD_QUOTE(RBLK_KEY_NAME_BYTES) " characters"
				       : "");
		return -EINVAL;
	}
	*own = (struct ublk_disk_options){
		.uri = uri,
		.queues = (unsigned int)o->queues,
		.read_only = o->read_only,
		.accept_volatile = o->accept_volatile,
		.session = {
			.size = sizeof(own->session),
			.connect_timeout_ms = o->connect_ms ? (uint32_t)o->connect_ms : RBLK_ATTACH_CONNECT_S * 1000,
			.command_timeout_ms = o->command_ms ? (uint32_t)o->command_ms : RBLK_ATTACH_COMMAND_S * 1000,
			.give_up_ms = o->give_up_ms != ATTACH_UNSAID ? (uint32_t)o->give_up_ms : RBLK_ATTACH_GIVE_UP_S * 1000,
			.no_reconnect = !o->give_up_ms,
			.credits = o->credits ? (uint32_t)o->credits : UBLK_CREDITS,
			.queues = cmd_paths_hosts(uri), /* a path each */
			.polling = RBLK_POLL_NEVER,
			.initiator_name = o->initiator,
			.key_file = key,
			.source = o->source,
			.tos = (uint32_t)o->tos,
			.ack_timeout = (uint32_t)o->ack_timeout,
			.digest = o->digest,
			.priority = o->priority,
		},
	};
	return 0;
}

/* Reports why not. */
static bool ublk_usable(void)
{
	struct ublk_control control;
	int err = -ENOENT;

	if (!attach_way_missing(UBLK_CONTROL_PATH, "ublk_drv"))
		err = ublk_control_open(&control);
	if (!err) {
		ublk_control_close(&control);
		return true;
	}
	if (geteuid())
		cmd_error("%s: %s: only root can attach and detach", UBLK_CONTROL_PATH, strerror(-err));
	else if (err == -ENOENT)
		cmd_error("%s: does not exist: this kernel has no ublk (CONFIG_BLK_DEV_UBLK), or its module ublk_drv cannot be loaded",
			  UBLK_CONTROL_PATH);
	else if (err == -EOPNOTSUPP)
		cmd_error("%s: this kernel's ublk is too old: it has to be Linux 6.5 or newer", UBLK_CONTROL_PATH);
	else if (err == -EPERM || err == -ENOSYS)
		cmd_error("io_uring: %s: it is not allowed here (sysctl kernel.io_uring_disabled, or a container's filter)", strerror(-err));
	else
		cmd_error("%s: %s", UBLK_CONTROL_PATH, strerror(-err));
	return false;
}

#define UBLK_NAMES INI_RUN_FOLDER "/names"

int attach_ublk_lock(const char *name)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	int fd;

	mkdir(INI_RUN_FOLDER, 0755);
	fd = name[0] ? open(UBLK_NAMES, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	for (const char *c = name; *c; c++)
		lock.l_start = (uint32_t)(lock.l_start * 31 + (unsigned char)*c);
	while (fd >= 0 && fcntl(fd, F_OFD_SETLKW, &lock) && errno == EINTR)
		;
	return fd;
}

int attach_ublk_start(const char *name, const char *uri, const struct attach_options *options, char device[16])
{
	char reason[ATTACH_REASON_BYTES], found[RBLK_URI_BYTES], hint[CMD_HINT_BYTES], initiator[RBLK_NAME_BYTES];
	const char *disk = name[0] ? name : uri;
	struct ublk_disk_started started;
	struct ublk_disk_options own;

	if (attach_ublk_options(uri, options, &own, reason)) {
		cmd_error("%s%s%s", name, name[0] ? ": " : "", reason);
		return -1;
	}
	if (!ublk_usable())
		return -1;
	own.name = name;
	/* Also the next servers': the host may have another name by then. */
	if (!own.session.initiator_name) {
		ini_own_name(initiator);
		own.session.initiator_name = initiator;
	}
	if (discover_uri_is(uri)) {
		if (discover_uri_resolve(uri, discover_fabric_here(), found))
			return -1;
		own.uri = found;
		own.session.queues = cmd_paths_hosts(found);
	}
	if (ublk_keeper_start(&own, UBLK_DISK_NEW, &started)) {
		cmd_error("%s: %s", disk, started.words);
		if (cmd_key_hint(started.words, own.session.key_file, hint))
			cmd_note("%s: %s", disk, hint);
		return -1;
	}
	snprintf(device, 16, "ublkb%u", started.id);
	return 0;
}

/* -- take over --------------------------------------------------------------------------------- */

void attach_ublk_again(const struct ublk_record *r, struct ublk_disk_options *own)
{
	*own = (struct ublk_disk_options){
		.uri = r->uri,
		.name = r->name[0] ? r->name : NULL,
		.queues = (unsigned int)r->queues,
		.read_only = r->read_only,
		.accept_volatile = r->accept_volatile,
		.session = {
			.size = sizeof(own->session),
			.connect_timeout_ms = (uint32_t)r->connect_ms,
			.command_timeout_ms = (uint32_t)r->command_ms,
			.give_up_ms = (uint32_t)r->give_up_ms,
			.no_reconnect = !r->give_up_ms,
			.credits = (uint32_t)r->credits,
			.queues = cmd_paths_hosts(r->uri),
			.polling = RBLK_POLL_NEVER,
			.initiator_name = r->initiator[0] ? r->initiator : NULL,
			.key_file = r->key[0] ? r->key : NULL,
			.source = r->source[0] ? r->source : NULL,
			.tos = (uint32_t)r->tos,
			.ack_timeout = (uint32_t)r->ack_timeout,
			.digest = r->digest,
			.priority = r->priority,
		},
	};
}

int attach_ublk_take_over(struct attached *attached)
{
	struct ublk_disk_started started;
	struct ublk_disk_options own;
	char device[16], error[RBLK_SECRET_ERROR_BYTES];
	struct rblk_secrets *secrets;
	struct ublk_record record;

	if (!attached->server) {
		cmd_error("%s: the kernel module has it, without a server", attached->device);
		return -1;
	}
	if (!ublk_usable())
		return -1;
	if (ublk_record_read("", attached->index, &record)) {
		cmd_error("%s: is not attached any more", attached->device);
		return -1;
	}
	attach_ublk_again(&record, &own);
	/* The server that runs has read it long ago; it is not ended for one that cannot. */
	secrets = own.session.key_file ? rblk_secrets_read(own.session.key_file, error) : NULL;
	if (own.session.key_file && !secrets) {
		cmd_error("%s: key file %s: %s", attached->device, own.session.key_file, error);
		return -1;
	}
	rblk_secrets_put(secrets);
	if (ublk_keeper_start(&own, attached->index, &started)) {
		cmd_error("%s: %s", attached->device, started.words);
		return -1;
	}
	snprintf(device, sizeof(device), "%s", attached->device);
	return attached_read("", device, attached);
}

/* -- detach ------------------------------------------------------------------------------------ */

#define UBLK_END_MS 30000 /* sessions are closed, and a process that was killed gives its devices back */
#define UBLK_POLL_MS 50

/* The loss is in its record until all of its queues have acknowledged it. */
static bool server_has_all(const struct attached *attached)
{
	struct ublk_record record;

	return ublk_record_read("", attached->index, &record) || !record.writes_lost;
}

/* It has removed its record and then its device, or was killed; or the number is another disk's already. */
static bool server_ended(const struct attached *attached)
{
	struct attached now;
	char node[32];

	if (!attached_read("", attached->device, &now))
		return now.left || strcmp(now.attachment, attached->attachment);
	snprintf(node, sizeof(node), "/dev/ublkc%u", attached->index);
	return access(node, F_OK) != 0;
}

/* False: it takes too long. */
static bool server_wait(const struct attached *attached, bool (*wanted)(const struct attached *))
{
	const struct timespec pause = { .tv_nsec = UBLK_POLL_MS * 1000000L };

	for (int tries = 0; tries < UBLK_END_MS / UBLK_POLL_MS; tries++) {
		if (wanted(attached))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

/* To this very process: a record and a number may be another's by the time that the signal is sent. */
static int server_signal(const struct attached *attached, int signal)
{
	int fd = pidfd_open((pid_t)attached->server, 0), err = 0;
	struct ublk_record record;

	if (fd < 0)
		return -errno;
	if (ublk_record_read("", attached->index, &record) || !record.alive || (uint64_t)record.server != attached->server)
		err = -ESRCH;
	else if (pidfd_send_signal(fd, signal, NULL, 0))
		err = -errno;
	close(fd);
	return err;
}

/*
 * The I/O that waits for a server fails. False: the number is another device's by now; as long as it is not, no other
 * server has it.
 */
static bool ublk_stop(struct ublk_control *control, const struct ublk_record *record)
{
	struct ublksrv_ctrl_dev_info info;
	bool there = !ublk_control_info(control, record->id, &info) && info.ublksrv_flags == record->attachment;

	if (there)
		ublk_control_stop(control, record->id);
	return there;
}

/* Keeper and server have ended: what they have left goes. */
static int ublk_clean(struct ublk_control *control, const struct attached *attached)
{
	struct ublk_record record;
	bool there;

	if (ublk_record_read("", attached->index, &record) || record.alive)
		return -ENODEV; /* another command has already done it */
	there = ublk_stop(control, &record);
	ublk_record_remove("", attached->index);
	return there ? ublk_control_delete(control, attached->index) : 0;
}

/* Nobody uses it, and it has no dirty data: 0 and the claim in *fd. */
static int ublk_claim(const struct attached *attached, int *fd, char *answer)
{
	pid_t user;
	int use = ublk_disk_claim(attached->index, fd, &user), err = 0;

	if (use == UBLK_DISK_UNUSED) {
		/* A disk that is lost, or whose flushes fail for what is lost, gets no better by staying. */
		if (fsync(*fd) && strcmp(attached->state, "failed") && !attached->writes_lost) {
			err = -errno;
			snprintf(answer, ATTACH_ANSWER_BYTES, "%s: what was written to it cannot be made durable: %s; "
				 "detach it with --force, or wait until its target is back", attached->device, strerror(-err));
		}
	} else if (use < 0) {
		err = use;
		snprintf(answer, ATTACH_ANSWER_BYTES, "/dev/%s: %s", attached->device, strerror(-err));
	} else {
		err = -EBUSY;
		if (use == UBLK_DISK_OPEN)
			snprintf(answer, ATTACH_ANSWER_BYTES, "%s: in use: process %d has it open", attached->device, (int)user);
		else
			snprintf(answer, ATTACH_ANSWER_BYTES, "%s: in use", attached->device);
	}
	if (err && *fd >= 0)
		close(*fd);
	return err;
}

/* The kernel still has the disk, whose I/O waits for a server. */
static bool ublk_waits(const struct attached *attached, char *answer)
{
	char node[32];

	snprintf(node, sizeof(node), "/dev/%s", attached->device);
	if (access(node, F_OK))
		return false;
	snprintf(answer, ATTACH_ANSWER_BYTES, "%s: its I/O waits for a server: rblk attach --take-over %s starts one; "
		 "detach --force fails the I/O", attached->device, attached->device);
	return true;
}

static int ublk_end(struct ublk_control *control, const struct attached *attached, bool force, char *answer)
{
	struct ublk_record record;
	int fd = -1, err;

	if (force) {
		err = ublk_keeper_kill(attached->index);
		/* One that was killed while it waited for its own disk ends when that I/O has failed. */
		if (err == -ETIMEDOUT && !ublk_record_read("", attached->index, &record) && ublk_stop(control, &record))
			err = ublk_keeper_kill(attached->index);
		/* It is of another version, and which processes they are is not to be read. They end when their disk has. */
		if (err == -ESTALE && !ublk_record_read("", attached->index, &record) && ublk_stop(control, &record))
			return server_wait(attached, server_ended) ? 0 : -ETIMEDOUT;
		return err ? err : ublk_clean(control, attached);
	}
	if (attached->left)
		return ublk_waits(attached, answer) ? -ENOTCONN : ublk_clean(control, attached);
	err = ublk_claim(attached, &fd, answer);
	if (err)
		return err;
	err = ublk_control_stop(control, attached->index);
	if (fd >= 0)
		close(fd);
	/* The server ends when its disk has. */
	return !err && !server_wait(attached, server_ended) ? -ETIMEDOUT : err;
}

int attach_ublk_acknowledge(const struct attached *attached)
{
	int err = attached->writes_lost ? server_signal(attached, UBLK_SIGNAL_ACKNOWLEDGE) : 0;

	if (err || !attached->writes_lost)
		return err == -ESRCH ? -EAGAIN : err; /* the next server begins */
	return server_wait(attached, server_has_all) ? 1 : -ETIMEDOUT;
}

int attach_ublk_detach(const struct attached *attached, bool force, char *answer)
{
	struct ublk_control control;
	int err;

	answer[0] = '\0';
	err = ublk_control_open(&control);
	if (err) {
		snprintf(answer, ATTACH_ANSWER_BYTES, "%s: %s%s", UBLK_CONTROL_PATH, strerror(-err),
			 err == -EACCES || err == -EPERM ? ": only root can attach and detach" : "");
		return err;
	}
	err = ublk_end(&control, attached, force, answer);
	ublk_control_close(&control);
	if (err && !answer[0])
		snprintf(answer, ATTACH_ANSWER_BYTES, "%s: %s", attached->device, strerror(-err));
	return err;
}
