/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns waiting: everything in the library that blocks is here, and all of it is a loop over
 * rblk_poll() with poll(2) on the one readiness fd in between. A simulator links none of it.
 */
#include "initiator/session.h"

/* rblk.h promises that the program ends: in every build. */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include "initiator/io.h"
#include "initiator/volume.h"

/* -- one turn ---------------------------------------------------------------------------------- */

/* Armed first: what arrived in between makes it poll again instead. 0, or -EINTR: a signal's handler has run. */
static int sleep_until(struct rblk_session *session, u64 deadline_ns)
{
	struct pollfd fd = {.fd = session->fabs.fd, .events = POLLIN};
	int timer_ms = ini_timer_next_ms(session), timeout_ms = timer_ms;

	if (rblk_arm(session))
		return 0;
	if (deadline_ns != UINT64_MAX) {
		u64 now_ns = env_now_ns();
		u64 left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / 1000000 + 1 : 0;

		if (timer_ms < 0 || left_ms < (u64)timer_ms)
			timeout_ms = left_ms < INT32_MAX ? (int)left_ms : INT32_MAX;
	}
	session->stats.sleeps++;
	return poll(&fd, 1, timeout_ms) < 0 && errno == EINTR ? -EINTR : 0;
}

int ini_sync_turn(struct rblk_session *session, u64 deadline_ns)
{
	u64 before = session->activity + ini_fabs_activity(&session->fabs);
	int count = rblk_poll(session, 0);
	unsigned int work =
		(unsigned int)(session->activity + ini_fabs_activity(&session->fabs) - before);
	bool sleep = core_spin_turn(&session->spin, session->now_ns, work);

	if (count || work)
		return count;
	if (!sleep) {
		env_yield();
		return 0;
	}
	return sleep_until(session, deadline_ns);
}

/* READY, the callback of an I/O or of a session command, the error of a session that is being stopped. */
static bool something_to_come(const struct rblk_session *session)
{
	/* Events that followed from the callbacks of the last rblk_poll() are told by the next
	 * one. */
	if (session->events.told || (session->ended && session->failure.final))
		return true;
	if (!session->ready || ((session->logout_ns || core_session_over(&session->core)) && !session->ended))
		return true;
	if (session->parking.used || session->control.again)
		return true;
	/* Session commands; a KEEPALIVE among them is answered soon. */
	if (session->queues[0].tags.taken_reserved)
		return true;
	for (u16 i = 0; i < session->queue_count; i++)
		if (session->queues[i].tags.taken_io)
			return true;
	return false;
}

int rblk_wait(struct rblk_session *session, int timeout_ms)
{
	u64 deadline_ns = UINT64_MAX;
	int count;

	rblk_submit(session);
	if (timeout_ms >= 0)
		deadline_ns = env_now_ns() + (u64)timeout_ms * 1000000;
	for (;;) {
		count = ini_sync_turn(session, deadline_ns);
		if (count)
			return count;
		/* Without a limit and with nothing to come, this would wait forever. */
		if (timeout_ms < 0 ? !something_to_come(session) : env_now_ns() >= deadline_ns) {
			core_spin_leave(&session->spin);
			return 0;
		}
	}
}

int rblk_fd(const struct rblk_session *session)
{
	return session->fabs.fd;
}

/*
 * Answers wake it; completions of SENDs do so only where something waits for one: the callback of a
 * command that has its answer (F4), or a command that waits for it or for room.
 */
static bool awaits_sends(const struct rblk_session *session)
{
	for (u16 i = 0; i < session->queue_count; i++) {
		const struct ini_queue *queue = &session->queues[i];

		if (queue->state != INI_QUEUE_CLOSED && (queue->held.head || queue->pending_count))
			return true;
	}
	return false;
}

int rblk_arm(struct rblk_session *session)
{
	int armed;

	session->looks.events_due = true;
	if (session->publish)
		ini_session_publish(session);
	/*
	 * `told`: events that followed from the callbacks of the last rblk_poll(), which it did not count. Actions are
	 * due if rblk_session_stop(), or a queue that rblk_submit() has lost, came after it; a session command, if there
	 * is nothing to send for it.
	 */
	if (session->done.head || ini_control_due(session) || session->parking.done || session->events.told || session->ended ||
	    core_session_acts(&session->core) || ini_logout_due(session))
		return 1;
	session->sends_unheard = !awaits_sends(session);
	armed = ini_fabs_arm(&session->fabs, session->sends_unheard);
	if (armed < 0)
		ini_session_fail(session, armed, "%s: arm: %s", ini_session_peer(session),
				 ini_fabs_error(&session->fabs));
	return armed ? 1 : 0;
}

int rblk_timeout_ms(const struct rblk_session *session)
{
	return ini_timer_next_ms(session);
}

/* -- calls that block -------------------------------------------------------------------------- */

/* A turn of one. -EINTR: a signal has interrupted it, and the program wants such calls to end then. */
static int block(struct rblk_session *session)
{
	return ini_sync_turn(session, UINT64_MAX) == -EINTR && session->options.interruptible ? -EINTR : 0;
}

/*
 * A command that has begun and cannot be taken back ends with the session (F4, F5): the caller's
 * memory is its own then.
 */
static void interrupt(struct rblk_session *session)
{
	ini_session_fail(session, -EINTR, "%s: interrupted by a signal", ini_session_peer(session));
}

/* The result of `start`, which begins a command, once there is room for it. -EAGAIN: a signal came first. */
#define STARTED(session, start)                                           \
	({                                                                \
		int started_;                                             \
                                                                          \
		while ((started_ = (start)) == -EAGAIN && !block(session)) \
			;                                                 \
		started_;                                                 \
	})

/* -- sessions ---------------------------------------------------------------------------------- */

struct rblk_session *rblk_session_open(const char *uri, const struct rblk_options *options,
				       char *error)
{
	struct rblk_session *session = rblk_session_start(uri, options, error);
	int err;

	if (!session)
		return NULL;
	/* Bounded by the session's own timer, and what follows a failure by the fabric's drain. */
	while (!session->ready && !session->ended)
		if (block(session))
			interrupt(session);
	if (ini_session_usable(session))
		return session;
	while (!session->ended) /* it failed as soon as it was ready */
		ini_sync_turn(session, UINT64_MAX);
	err = session->failure.final;
	if (error)
		memcpy(error, session->failure.words, RBLK_ERROR_BYTES);
	rblk_session_close(session);
	errno = -err;
	return NULL;
}

void rblk_session_close(struct rblk_session *session)
{
	if (!session)
		return;
	/* rblk_poll() goes on behind the callback. */
	assert(!session->polling && "rblk_session_close(): called from a callback");
	session->polling++; /* from the callbacks below, either */
	/* The caller that closes the session needs no event. */
	session->events.callback = NULL;
	rblk_session_stop(session);
	/* Ends with the logout, which is short, and DRAINED, for which the fabric has a bound of its own. */
	while (!session->ended)
		ini_sync_turn(session, UINT64_MAX);
	ini_complete_deliver(session, 0);
	ini_vectors_fini(session);
	ini_volumes_fini(session);
	ini_session_free(session);
}

/* -- commands ---------------------------------------------------------------------------------- */

/* A session command's end, for the waiting call. */
struct control_wait {
	bool finished;
	int result;
	void *object; /* a volume, or a list */
};

static void volume_done(void *arg, struct rblk_volume *volume, int error)
{
	*(struct control_wait *)arg = (struct control_wait){ true, error, volume };
}

static void list_done(void *arg, struct rblk_volume_info *list, int count)
{
	*(struct control_wait *)arg = (struct control_wait){ true, count, list };
}

/*
 * Waits for a command that was started with result `err` (-EAGAIN: a signal came before it was sent). It ends when it is
 * answered, or when its time is over and the session fails.
 */
static int control_finish(struct rblk_session *session, struct control_wait *wait, int err)
{
	while (!err && !wait->finished)
		if (block(session))
			interrupt(session);
	return err == -EAGAIN ? -EINTR : err ? err : wait->result;
}

struct rblk_volume *rblk_volume_open(struct rblk_session *session, const char *name, u32 flags)
{
	struct control_wait wait = { 0 };
	int err = STARTED(session, rblk_volume_open_start(session, name, flags, volume_done, &wait));

	err = control_finish(session, &wait, err);
	if (err)
		errno = -err;
	return err ? NULL : wait.object;
}

int rblk_volume_close(struct rblk_volume *volume)
{
	struct rblk_session *session = rblk_volume_session(volume);
	struct control_wait wait = { 0 };
	int err = STARTED(session, rblk_volume_close_start(volume, volume_done, &wait));

	/* There is no caller left to tell. A session that logs out may be closing it: then it goes with the session. */
	if (err == -ENOTCONN) {
		if (!session->logout_ns)
			ini_volume_free(volume);
		return 0;
	}
	return control_finish(session, &wait, err);
}

int rblk_volume_refresh(struct rblk_volume *volume)
{
	struct rblk_session *session = rblk_volume_session(volume);
	struct control_wait wait = { 0 };
	int err = STARTED(session, rblk_volume_refresh_start(volume, volume_done, &wait));

	return control_finish(session, &wait, err);
}

int rblk_reserve(struct rblk_volume *volume, const struct rblk_pr_request *request)
{
	struct rblk_session *session = rblk_volume_session(volume);
	struct control_wait wait = { 0 };
	int err = STARTED(session, rblk_reserve_start(volume, request, volume_done, &wait));

	return control_finish(session, &wait, err);
}

int rblk_reservations(struct rblk_volume *volume, struct rblk_pr_state *state, size_t bytes,
		      struct rblk_pr_registrant *registrants, unsigned int max)
{
	struct rblk_session *session = rblk_volume_session(volume);
	struct control_wait wait = { 0 };
	int err = STARTED(session, rblk_reservations_start(volume, state, bytes, registrants, max, volume_done, &wait));

	return control_finish(session, &wait, err);
}

int rblk_list(struct rblk_session *session, struct rblk_volume_info **list, size_t info_bytes)
{
	struct control_wait wait = { 0 };
	int result = STARTED(session, rblk_list_start(session, info_bytes, list_done, &wait));

	result = control_finish(session, &wait, result);
	if (result >= 0)
		*list = wait.object;
	return result;
}

struct io_wait {
	bool finished;
	int error;
	u64 value;
};

static void io_done(void *arg, const struct rblk_result *result)
{
	struct io_wait *wait = arg;

	wait->error = result->error;
	wait->value = result->value;
	wait->finished = true;
}

int rblk_ping(struct rblk_session *session, uint64_t *target_cpu_ns)
{
	const struct rblk_wire_command command = { .opcode = RBLK_OP_PING };
	struct io_wait wait = { 0 };
	int err;

	if (!ini_session_usable(session))
		return -ENOTCONN;
	err = ini_control_start(session, &command, NULL, 0, 0, io_done, &wait, NULL);
	if (err)
		return err;
	rblk_submit(session);
	/* Ends: answered, or timed out and called back with that. */
	while (!wait.finished)
		if (block(session))
			interrupt(session);
	*target_cpu_ns = wait.value;
	return wait.error;
}

/* The target drops what it has not begun. A second signal does not wait for that; nor does one without a connection. */
static int io_interrupt(struct rblk_volume *volume, struct io_wait *wait)
{
	struct rblk_session *session = rblk_volume_session(volume);

	rblk_abort(volume, io_done, wait);
	while (!wait->finished) {
		bool again = block(session);

		if (!wait->finished && (again || core_session_route(&session->core, 0) < 0))
			interrupt(session);
	}
	return wait->error == -ECANCELED ? -EINTR : wait->error;
}

/* As control_finish(). */
static int io_finish(struct rblk_volume *volume, struct io_wait *wait, int err)
{
	struct rblk_session *session = rblk_volume_session(volume);

	if (err)
		return err == -EAGAIN ? -EINTR : err;
	rblk_submit(session);
	while (!wait->finished)
		if (block(session))
			return io_interrupt(volume, wait);
	return wait->error;
}

#define IO_RESULT(volume, wait, start) io_finish(volume, wait, STARTED(rblk_volume_session(volume), start))

int rblk_pread(struct rblk_volume *volume, void *data, size_t bytes, uint64_t offset)
{
	struct io_wait wait = { 0 };

	return IO_RESULT(volume, &wait, rblk_read(volume, data, bytes, offset, 0, io_done, &wait));
}

int rblk_pwrite(struct rblk_volume *volume, const void *data, size_t bytes, uint64_t offset,
		uint32_t flags)
{
	struct io_wait wait = { 0 };

	return IO_RESULT(volume, &wait, rblk_write(volume, data, bytes, offset, flags, io_done, &wait));
}

int rblk_preadv(struct rblk_volume *volume, const struct iovec *iov, int count, uint64_t offset)
{
	struct io_wait wait = { 0 };

	return IO_RESULT(volume, &wait, rblk_readv(volume, iov, count, offset, 0, io_done, &wait));
}

int rblk_pwritev(struct rblk_volume *volume, const struct iovec *iov, int count, uint64_t offset,
		 uint32_t flags)
{
	struct io_wait wait = { 0 };

	return IO_RESULT(volume, &wait, rblk_writev(volume, iov, count, offset, flags, io_done, &wait));
}

int rblk_fsync(struct rblk_volume *volume)
{
	struct io_wait wait = { 0 };

	return IO_RESULT(volume, &wait, rblk_flush(volume, io_done, &wait));
}

int rblk_pcompare_and_write(struct rblk_volume *volume, const void *data, size_t bytes,
			    uint64_t offset, uint32_t flags, uint64_t *difference)
{
	struct io_wait wait = { 0 };
	int err = IO_RESULT(volume, &wait,
			    rblk_compare_and_write(volume, data, bytes, offset, flags, io_done, &wait));

	if (err == -EILSEQ && difference)
		*difference = wait.value;
	return err;
}

int rblk_get_extents(struct rblk_volume *volume, uint64_t bytes, uint64_t offset,
		     struct rblk_extent *extents, unsigned int max)
{
	struct io_wait wait = { 0 };
	int err = IO_RESULT(volume, &wait,
			    rblk_extents(volume, bytes, offset, extents, max, io_done, &wait));

	return err ? err : (int)wait.value;
}
