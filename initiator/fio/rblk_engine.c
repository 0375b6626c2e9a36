/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fio's I/O engine "rblk": each job drives one session of librblk on one volume. fio calls these
 * functions, of one job always from that job's thread (or process); everything about the protocol
 * is librblk's, the summed counters are engine_stats.c's. engine.h says what the other parts have.
 *
 *	fio --ioengine=external:/usr/lib/.../librblk_fio.so --rblk_uri=rblk://10.0.0.2/disk ...
 */
#include "fio.h"

#include "initiator/fio/engine.h"
#include "initiator/fio/engine_stats.h"

/* An io_u's state in the engine: the argument of the library's callback. */
struct engine_io {
	struct engine *engine;
	struct io_u *io_u;
	uint64_t start_ns;
};

/*
 * One job's engine: td->io_ops_data. Created by engine_init(), freed by engine_cleanup(), used by
 * the job's thread only.
 */
struct engine {
	struct rblk_session *session;
	struct rblk_volume *volume;
	struct rblk_stats opened; /* the session's counters when the volume had been opened */
	struct engine_stats stats;
	struct engine_io *ios; /* iodepth of them */

	/*
	 * Completed io_us not yet fetched by event(): a ring of `depth`, which is enough because an
	 * io_u is in it at most once. getevents() moves `first`; what event() then reads is not
	 * overwritten, because no completion is processed before fio comes back.
	 */
	struct io_u **done;
	unsigned int depth, first, count, handed;

	bool closing;	   /* callbacks are ignored from now on */
	bool lost_is_told, unsupported_is_told; /* the failure of the session, of an operation, was printed */
};

static uint64_t engine_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* -- beginning and end ------------------------------------------------------------------------- */

/* Usually before the job's thread exists. */
static int engine_setup(struct thread_data *td)
{
	const struct engine *engine = td->io_ops_data;

	return engine_measure(td, engine ? engine->volume : NULL);
}

/*
 * fio's own defaults submit and reap one I/O at a time, which would cost a message each however
 * deep the queue. Where the job does not say otherwise, submit when there is nothing else to do
 * (fio then calls commit() before it waits) and take all completions that are there.
 */
static void engine_batch(struct thread_data *td)
{
	if (!fio_option_is_set(&td->o, iodepth_batch))
		td->o.iodepth_batch = td->o.iodepth;
	if (!fio_option_is_set(&td->o, iodepth_batch_complete_max))
		td->o.iodepth_batch_complete_max = td->o.iodepth;
}

static void engine_free(struct engine *engine)
{
	if (engine->session)
		rblk_session_close(engine->session);
	free(engine->done);
	free(engine->ios);
	free(engine);
}

/* fio's init(), on the job's thread: its session. */
static int engine_init(struct thread_data *td)
{
	const struct engine_options *o = td->eo;
	char error[RBLK_ERROR_BYTES] = "";
	struct engine *engine;
	int result;

	if (!o->uri)
		return engine_fail(td, -EINVAL, "rblk_uri",
				   "rblk_uri: missing: rblk://host[:port]/volume");
	engine = calloc(1, sizeof(*engine));
	if (!engine)
		return engine_fail(td, -ENOMEM, "init", "out of memory");
	engine->depth = td->o.iodepth;
	engine->ios = calloc(engine->depth, sizeof(*engine->ios));
	engine->done = calloc(engine->depth, sizeof(*engine->done));
	if (!engine->ios || !engine->done) {
		engine_free(engine);
		return engine_fail(td, -ENOMEM, "init", "out of memory");
	}
	result = engine_open(td, &engine->session, &engine->volume, error);
	if (result) {
		engine_free(engine);
		return engine_fail(td, result, "rblk_uri", error);
	}
	rblk_session_stats(engine->session, &engine->opened, sizeof(engine->opened));
	engine_batch(td);
	td->io_ops_data = engine;
	return 0;
}

/* fio's cleanup(), also after a failed init. fio has freed its io_us already. */
static void engine_cleanup(struct thread_data *td)
{
	const struct engine_options *o = td->eo;
	struct engine *engine = td->io_ops_data;
	char error[RBLK_ERROR_BYTES];

	if (!engine)
		return;
	rblk_session_stats(engine->session, &engine->stats.session, sizeof(engine->stats.session));
	engine_stats_subtract(&engine->stats.session, &engine->opened);
	if (o->stats_path && engine_stats_add(o->stats_path, &engine->stats, error))
		log_err("rblk: rblk_stats: %s\n", error);
	engine->closing = true;
	engine_free(engine);
}

/* -- memory ------------------------------------------------------------------------------------ */

/* There is no iomem_free(): the target may be writing until the session is closed, which frees it.
 */
static int engine_iomem_alloc(struct thread_data *td, size_t bytes)
{
	struct engine *engine = td->io_ops_data;

	td->orig_buffer = rblk_buffer_alloc(engine->session, bytes);
	if (td->orig_buffer)
		return 0;
	log_err("rblk: %s\n", rblk_session_error(engine->session));
	return 1;
}

static int engine_io_u_init(struct thread_data *td, struct io_u *io_u)
{
	struct engine *engine = td->io_ops_data;
	struct engine_io *io = &engine->ios[io_u->index];

	io->engine = engine;
	io->io_u = io_u;
	io_u->engine_data = io; /* shares its place with index */
	return 0;
}

/* -- I/O --------------------------------------------------------------------------------------- */

static void engine_done(void *arg, const struct rblk_result *result)
{
	struct engine_io *io = arg;
	struct engine *engine = io->engine;

	if (engine->closing)
		return;
	engine->stats.ios++;
	engine->stats.latency_us_total += (engine_now_ns() - io->start_ns) / 1000;
	io->io_u->error = (unsigned int)-result->error;
	engine->done[(engine->first + engine->handed + engine->count) % engine->depth] = io->io_u;
	engine->count++;
}

/* The session's failure is printed once, however many I/Os fail with it. */
static void engine_tell_lost(struct engine *engine)
{
	if (engine->lost_is_told || rblk_session_state(engine->session) != RBLK_SESSION_FAILED)
		return;
	engine->lost_is_told = true;
	log_err("rblk: %s\n", rblk_session_error(engine->session));
}

/* fio says only that an operation is not supported. Printed once, too. */
static void engine_tell_unsupported(struct engine *engine, const struct io_u *io_u)
{
	if (engine->unsupported_is_told)
		return;
	engine->unsupported_is_told = true;
	log_err("rblk: %s: the volume cannot %s\n", rblk_volume_info(engine->volume)->name,
		ddir_sync(io_u->ddir) ? "flush" : "discard");
}

static int engine_start(struct thread_data *td, struct io_u *io_u)
{
	const struct engine_options *o = td->eo;
	struct engine *engine = td->io_ops_data;
	struct engine_io *io = io_u->engine_data;

	io->start_ns = engine_now_ns();
	switch (io_u->ddir) {
	case DDIR_READ:
		return rblk_read(engine->volume, io_u->xfer_buf, io_u->xfer_buflen, io_u->offset, 0,
				 engine_done, io);
	case DDIR_WRITE:
		return rblk_write(engine->volume, io_u->xfer_buf, io_u->xfer_buflen, io_u->offset,
				  o->fua ? RBLK_IO_FUA : 0, engine_done, io);
	case DDIR_TRIM:
		return rblk_discard(engine->volume, io_u->xfer_buflen, io_u->offset, engine_done,
				    io);
	case DDIR_SYNC:
	case DDIR_DATASYNC:
		return rblk_flush(engine->volume, engine_done, io);
	default:
		return -EOPNOTSUPP;
	}
}

static enum fio_q_status engine_queue(struct thread_data *td, struct io_u *io_u)
{
	struct engine *engine = td->io_ops_data;
	int result;

	fio_ro_check(td, io_u);
	result = engine_start(td, io_u);
	/* fio repeats a sync that was answered BUSY at once, and reaps nothing in between. */
	while (result == -EAGAIN && ddir_sync(io_u->ddir)) {
		int waited = rblk_wait(engine->session, -1);

		if (waited < 0 && waited != -EINTR)
			break;
		result = engine_start(td, io_u);
	}
	if (!result)
		return FIO_Q_QUEUED;
	if (result == -EAGAIN)
		return FIO_Q_BUSY;
	engine_tell_lost(engine);
	if (result == -EOPNOTSUPP) /* FUA was asked for when the volume was opened */
		engine_tell_unsupported(engine, io_u);
	io_u->error = (unsigned int)-result;
	return FIO_Q_COMPLETED;
}

static int engine_commit(struct thread_data *td)
{
	struct engine *engine = td->io_ops_data;
	int result = rblk_submit(engine->session);

	if (result >= 0)
		return 0;
	/* Each command was, or will be, called back with the error: fio gets it from them. */
	engine_tell_lost(engine);
	return 0;
}

static int engine_getevents(struct thread_data *td, unsigned int min, unsigned int max,
			    const struct timespec *t)
{
	int timeout_ms = t ? (int)(t->tv_sec * 1000 + t->tv_nsec / 1000000) : -1;
	struct engine *engine = td->io_ops_data;
	int result;

	engine->first = (engine->first + engine->handed) % engine->depth;
	engine->handed = 0;
	result = rblk_poll(engine->session, 0);
	while (result >= 0 && engine->count < min) {
		result = rblk_wait(engine->session, timeout_ms);
		/* fio ends by itself: it starts no more, and waits for these. */
		if (result == -EINTR)
			result = 0;
		if (!result && t)
			break;
	}
	engine_tell_lost(engine);
	if (result < 0 && !engine->count && min)
		return result;
	engine->handed = engine->count < max ? engine->count : max;
	engine->count -= engine->handed;
	return (int)engine->handed;
}

static struct io_u *engine_event(struct thread_data *td, int event)
{
	struct engine *engine = td->io_ops_data;

	return engine->done[(engine->first + (unsigned int)event) % engine->depth];
}

/* -- files: there are none, a job's volume stands for its one file ----------------------------- */

static int engine_open_file(struct thread_data *td, struct fio_file *file)
{
	return 0;
}

static int engine_close_file(struct thread_data *td, struct fio_file *file)
{
	return 0;
}

static int engine_invalidate(struct thread_data *td, struct fio_file *file)
{
	return 0; /* nothing is cached on this side */
}

/* The table of engine_options.c. */
extern struct fio_option engine_option_table[];

/* fio finds it by this name. */
extern struct ioengine_ops ioengine __attribute__((visibility("default")));
struct ioengine_ops ioengine = {
	.name = "rblk",
	.version = FIO_IOOPS_VERSION,
	/* Offloaded submission would do I/O from threads that do not own the session. */
	.flags = FIO_RAWIO | FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NODISKUTIL | FIO_NO_OFFLOAD,
	.setup = engine_setup,
	.init = engine_init,
	.cleanup = engine_cleanup,
	.iomem_alloc = engine_iomem_alloc,
	.io_u_init = engine_io_u_init,
	.queue = engine_queue,
	.commit = engine_commit,
	.getevents = engine_getevents,
	.event = engine_event,
	.open_file = engine_open_file,
	.close_file = engine_close_file,
	.invalidate = engine_invalidate,
	.option_struct_size = sizeof(struct engine_options),
	.options = engine_option_table,
};
