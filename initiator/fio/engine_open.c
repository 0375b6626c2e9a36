/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The volume of a job of fio: opening it, and learning its size before the job begins.
 * rblk_engine.c calls these.
 */
#include "fio.h"
#include "smalloc.h"

#include <sys/wait.h>
#include "initiator/fio/engine.h"

#define ENGINE_CREDITS_MIN 4u /* the least that librblk grants */

int engine_fail(struct thread_data *td, int error, const char *where, const char *text)
{
	log_err("rblk: %s\n", text);
	td_verror(td, -error, where);
	return 1;
}

static uint32_t engine_credits(const struct thread_data *td)
{
	const struct engine_options *o = td->eo;
	uint32_t credits = o->credits ? o->credits : td->o.iodepth;

	if (credits < ENGINE_CREDITS_MIN)
		return ENGINE_CREDITS_MIN;
	return credits < ENGINE_CREDITS_MAX ? credits : ENGINE_CREDITS_MAX;
}

int engine_open(const struct thread_data *td, struct rblk_session **session,
		struct rblk_volume **volume, char *error)
{
	const struct engine_options *o = td->eo;
	struct rblk_options options = {
		.size = sizeof(options),
		.credits = engine_credits(td),
		.queues = o->queues,
		.polling = o->polling,
		.policy = o->policy,
		.initiator_name = o->name,
		.key_file = o->key_file,
		.device = o->device,
		.source = o->source,
		.tos = o->tos,
		.ack_timeout = o->ack_timeout,
		.tls = o->tls,
		.digest = o->digest,
		.priority = o->priority,
		.no_reconnect = !o->give_up_ms,
		.give_up_ms = o->give_up_ms,
		.fail_fast_ms = o->fail_fast_ms,
	};
	uint32_t flags = td_write(td) || td_trim(td) ? 0 : RBLK_VOLUME_OPEN_READ_ONLY;
	int result;

	if (o->fua)
		flags |= RBLK_VOLUME_OPEN_NEED_FUA;
	*session = rblk_session_open(o->uri, &options, error);
	if (!*session)
		return errno ? -errno : -EIO;
	*volume = rblk_volume_open(*session, NULL, flags);
	if (*volume)
		return 0;
	result = errno ? -errno : -EIO;
	snprintf(error, RBLK_ERROR_BYTES, "%s%s", rblk_session_error(*session),
		 o->fua && result == -EOPNOTSUPP ? ": rblk_fua" : "");
	rblk_session_close(*session);
	*session = NULL;
	return result;
}

/* The child of engine_probe() tells its parent this; smaller than a pipe's atomic write. */
struct engine_probe {
	int result;
	char error[RBLK_ERROR_BYTES];
	struct rblk_volume_info info;
};
static_assert(sizeof(struct engine_probe) <= 4096, "one write to a pipe");

static void engine_probe_child(const struct thread_data *td, int fd)
{
	struct engine_probe probe = {0};
	struct rblk_session *session;
	struct rblk_volume *volume;
	ssize_t written;

	probe.result = engine_open(td, &session, &volume, probe.error);
	if (!probe.result) {
		probe.info = *rblk_volume_info(volume);
		rblk_session_close(session);
	}
	written = write(fd, &probe, sizeof(probe));
	_exit(written != sizeof(probe));
}

/*
 * Learn the volume's size before the job starts, in a process of its own: fio's jobs are forked
 * from this one, and a process cannot pass an open RDMA device to its children.
 */
static int engine_probe(const struct thread_data *td, struct engine_probe *probe)
{
	ssize_t length;
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid < 0) {
		length = -errno;
		close(fds[0]);
		close(fds[1]);
		return (int)length;
	}
	if (!pid)
		engine_probe_child(td, fds[1]);
	close(fds[1]);
	do
		length = read(fds[0], probe, sizeof(*probe));
	while (length < 0 && errno == EINTR);
	close(fds[0]);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return length == sizeof(*probe) ? 0 : -EIO;
}

/* Check every block size that the job may use here, instead of failing its I/O. */
static int engine_check_sizes(struct thread_data *td, const struct rblk_volume_info *info)
{
	unsigned long long largest = td_max_bs(td);
	char text[RBLK_ERROR_BYTES];

	for_each_rw_ddir(ddir)
	{
		if (td->o.min_bs[ddir] % info->block_bytes == 0 && td->o.max_bs[ddir] % info->block_bytes == 0 &&
		    !td->o.bs_unaligned)
			continue;
		snprintf(text, sizeof(text),
			 "%s: block sizes must be multiples of the volume's, %u bytes", info->name,
			 info->block_bytes);
		return engine_fail(td, -EINVAL, "block size", text);
	}
	if (td->o.start_offset % info->block_bytes) {
		snprintf(text, sizeof(text), "%s: offset=%llu is no multiple of the volume's block size, %u bytes",
			 info->name, td->o.start_offset, info->block_bytes);
		return engine_fail(td, -EINVAL, "offset", text);
	}
	if (largest > info->max_io_bytes) {
		snprintf(text, sizeof(text),
			 "%s: a block size of %llu bytes is more than the target's maximum, %u",
			 info->name, largest, info->max_io_bytes);
		return engine_fail(td, -EINVAL, "block size", text);
	}
	return 0;
}

/* fio names the files of an engine without files after the job; this makes its messages clearer. */
static void engine_name_file(struct thread_data *td, struct fio_file *file, const char *name)
{
	char *copy = td->o.filename ? NULL : smalloc_strdup(name);

	if (!copy)
		return;
	sfree(file->file_name);
	file->file_name = copy;
}

int engine_measure(struct thread_data *td, const struct rblk_volume *volume)
{
	const struct engine_options *o = td->eo;
	struct engine_probe probe = {0};
	int result;

	if (!o->uri)
		return engine_fail(td, -EINVAL, "rblk_uri",
				   "rblk_uri: missing: rblk://host[:port]/volume");
	if (td->files_index > 1 || td->o.nr_files > 1)
		return engine_fail(td, -EINVAL, "nrfiles", "nrfiles: a job has one volume");
	if (volume) {
		probe.info = *rblk_volume_info(volume);
	} else {
		result = engine_probe(td, &probe);
		if (result)
			return engine_fail(td, result, "probe", "the volume's size: no answer");
		if (probe.result)
			return engine_fail(td, probe.result, "rblk_uri", probe.error);
	}
	if (engine_check_sizes(td, &probe.info))
		return 1;
	if (!td->files_index)
		add_file(td, probe.info.name, 0, 0);
	td->files[0]->real_file_size = probe.info.bytes;
	td->files[0]->filetype = FIO_TYPE_BLOCK;
	engine_name_file(td, td->files[0], probe.info.name);
	return 0;
}
