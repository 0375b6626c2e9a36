/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One of the session's own commands (OPEN, KEEPALIVE, ...): sent on a reserved tag and waited for.
 * Each queue has RBLK_RESERVED_TAGS of them. The answer to some may take as long as a volume's
 * storage: whoever does not wait so long, or is killed, leaves the command, and not the connection,
 * which other disks use.
 */
#ifndef RBLK_KMOD_CALL_H
#define RBLK_KMOD_CALL_H

#include "kmod/command.h"

struct rblk_call;
struct rblk_session;

/*
 * A command that was left has ended, answered or with call->command.error; its tag is free when
 * this returns. Any context.
 */
typedef void (*rblk_left_fn)(struct rblk_session *session, const struct rblk_call *call, void *arg);

/* For those whose end changes nothing. */
void rblk_call_forget(struct rblk_session *session, const struct rblk_call *call, void *arg);

struct rblk_call {
	struct rblk_command command;
	bool fences_all; /* queue->lock: a FENCE of all volumes, which storage may hold up */
	bool finished; /* stored with release: the command is the waiter's again */
	/*
	 * queue->lock; NULL, or nobody waits any more: its end gives the tag back, and is told to
	 * this one.
	 */
	rblk_left_fn left;
	void *left_arg;
	unsigned int timeout_ms; /* of one that was sent; 0: none */
	unsigned long end;	 /* jiffies: of that */
};

static inline struct rblk_call *rblk_command_call(struct rblk_command *command)
{
	return container_of(command, struct rblk_call, command);
}

/* The report of a call that was answered. */
const void *rblk_call_report(const struct rblk_call *call);
/* It has been answered, or cannot be any more. Any context. */
void rblk_call_finish(struct rblk_call *call);
/* The queue has been drained: waiting callers get -ENOTCONN, and so does left(). */
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
	u16 result; /* out: ABORT's, enum rblk_abort_result */
	/*
	 * of those whose answer may take as long as storage: who is told the end of one that was
	 * left
	 */
	rblk_left_fn left;
	void *left_arg;
	bool was_left; /* out: it stays outstanding; left() has left_arg */
};

#define RBLK_CALL_FOREVER UINT_MAX /* until it is answered or the connection is lost */
/* A polled queue has no interrupts: who waits for an answer polls it this often. */
#define RBLK_CALL_POLL_MS 4u

/*
 * Send one that nobody waits for: sc->left() is told its end. If that does not come in time (0:
 * there is none), the connection is reported as lost: only drive_work, which looks at the times,
 * sends such. Does not sleep. 0 or negative errno: -ENOTCONN and -EBUSY as below.
 */
int rblk_call_send(struct rblk_queue *queue, const struct rblk_session_command *sc,
		   unsigned int timeout_ms);
/* Looks for one that is not answered in time. Again after so many jiffies. */
unsigned long rblk_call_late(struct rblk_queue *queue);

/*
 * Send one and wait. `payload` goes in the capsule (payload_bytes, zero filled to
 * RBLK_CAPSULE_ALIGN); the report, if any, is copied to `report`. Sleeps, killably. 0 or negative
 * errno. -ETIMEDOUT, -EINTR: it was left, if it can be; else the connection is reported as lost.
 * -ENOTCONN: there is none, or none of that epoch, or the target has not proven itself yet. -EBUSY:
 * no tag is free.
 */
int rblk_call_run(struct rblk_queue *queue, struct rblk_session_command *sc,
		  unsigned int timeout_ms);

#endif
