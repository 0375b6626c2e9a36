/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One of the session's own commands (OPEN, KEEPALIVE, ...), sent on a reserved tag, of which each
 * queue has RBLK_RESERVED_TAGS. Nobody waits for the answer, which is taken where it arrives; but
 * for RESERVE and RESERVATIONS, whose program does. That answer may take as long as a volume's
 * storage: a program that is killed leaves the command, and not the connection, which other disks
 * use.
 */
#ifndef RBLK_KMOD_CALL_H
#define RBLK_KMOD_CALL_H

#include "kmod/command.h"

struct rblk_call;
struct rblk_session;

/*
 * A command that nobody waits for has ended, answered or with call->command.error; its tag is free
 * when this returns. Any context.
 */
typedef void (*rblk_left_fn)(struct rblk_session *session, const struct rblk_call *call, void *arg);

/* queue->lock owns it while its tag is taken. */
struct rblk_call {
	struct rblk_command command;
	bool fences_all; /* a FENCE of all volumes, which storage may hold up */
	/* NULL: nobody waits, or any more: `left` is told its end */
	struct rblk_call_waiter *waiter;
	rblk_left_fn left; /* NULL: its end changes nothing */
	void *left_arg;
	unsigned int timeout_ms; /* 0: none, it may last as long as storage */
	/* jiffies: of that, or when KEEPALIVE asks whether the target lives */
	unsigned long end;
};

static inline struct rblk_call *rblk_command_call(struct rblk_command *command)
{
	return container_of(command, struct rblk_call, command);
}

/* The report of a call that was answered. */
const void *rblk_call_report(const struct rblk_call *call);
/* It has been answered, or cannot be any more. Any context. */
void rblk_call_finish(struct rblk_call *call);
/* The queue has been drained: each ends with -ENOTCONN. */
void rblk_call_fail_all(struct rblk_queue *queue);

/* The command and its answer. */
struct rblk_session_command {
	u8 opcode, flags;
	u64 epoch; /* of the session, in which `volume` is valid; 0: it names none */
	u32 volume;
	u64 lba, argument;
	const void *payload;
	size_t payload_bytes;
	void *report;
	size_t report_bytes;
	u16 status; /* out */
	u16 denied; /* out: RBLK_E_DENIED's reason */
	rblk_left_fn left; /* who is told the end, if nobody waits for it */
	void *left_arg;
	bool was_left; /* out: it stays outstanding; left() has left_arg */
};

/* A polled queue has no interrupts: drive_work polls it this often while it has such commands. */
#define RBLK_CALL_POLL_MS 4u

/*
 * Send one that nobody waits for: sc->left() is told its end. `payload` goes in the capsule
 * (payload_bytes, zero filled to RBLK_CAPSULE_ALIGN). If its end does not come in time (0: there is
 * none), the connection is reported as lost: only drive_work, which looks at the times, sends such.
 * Any context. 0 or negative errno. -ENOTCONN: there is no connection, or none of that epoch, or
 * the target has not proven itself yet. -EBUSY: no tag is free.
 */
int rblk_call_send(struct rblk_queue *queue, const struct rblk_session_command *sc,
		   unsigned int timeout_ms);
/*
 * Looks for one that is not answered in time. *asks, if one without a time has lasted for
 * command_ms: KEEPALIVE is due, as with a keepalive_ms of 0 nobody else finds out that the target
 * is gone. By drive_work.
 */
void rblk_call_late(struct rblk_queue *queue, bool *asks);

/*
 * The same, and wait for its end: the report, if any, is copied to `report`. Sleeps, killably. 0 or
 * negative errno, as above, or by the answer. -EINTR: it was left.
 */
int rblk_call_run(struct rblk_queue *queue, struct rblk_session_command *sc);

#endif
