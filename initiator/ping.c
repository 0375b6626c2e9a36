/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the measuring of round trips, in the four ways in which fabrics are usually measured.
 * Two-sided pings are PING commands, which the target answers at once; one-sided ones read and
 * write the scratch memory that a measuring session was given, and involve no thread there.
 */
#include "initiator/session.h"

#include "proto/wire/wire_names.h"

/* How a ping waits: by polling, or asleep each time. */
static int ping_turn(struct rblk_session *session, bool asleep)
{
	u64 before = session->activity;
	int err = rblk_poll(session, 0);

	if (err < 0)
		return err;
	if (asleep && session->activity == before)
		return ini_sync_sleep(session);
	return 0;
}

struct ping_wait {
	bool finished;
	int error;
	u64 value;
};

static void ping_answered(void *arg, const struct rblk_result *result)
{
	struct ping_wait *wait = arg;

	wait->error = result->error;
	wait->value = result->value;
	wait->finished = true;
}

/* *value: what the target answers, its processor time. */
static int ping_two_sided(struct rblk_session *session, bool asleep, u64 *value)
{
	const struct rblk_wire_command command = { .opcode = RBLK_OP_PING };
	struct ping_wait wait = { 0 };
	int err = ini_control_start(session, &command, NULL, 0, 0, ping_answered, &wait, NULL);

	if (!err)
		err = rblk_submit(session);
	/* Ends: answered, or timed out and called back with that. */
	while (!wait.finished && err >= 0)
		err = ping_turn(session, asleep);
	*value = wait.value;
	return wait.finished ? wait.error : err;
}

static struct ibv_send_wr ping_wr(const struct rblk_session *session, struct ibv_sge *sge,
				  enum ibv_wr_opcode opcode, unsigned int flags)
{
	return (struct ibv_send_wr){
		.wr_id = ini_wr_id(INI_WR_PING, 0, 0),
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = flags,
		.wr.rdma = { .remote_addr = rblk_le64(session->scratch.address),
			     .rkey = rblk_le32(session->scratch.rkey) },
	};
}

/* Post `wr` and wait for the last one's completion. */
static int ping_post(struct rblk_session *session, struct ibv_send_wr *wr)
{
	u64 deadline_ns = env_now_ns() + session->options.command_timeout_ms * 1000000ull;
	struct ibv_send_wr *bad;
	int err;

	session->ping_done = false;
	err = fab_post_send(session->queues[0].conn, wr, &bad);
	while (!err && !session->ping_done) {
		err = ping_turn(session, false);
		if (!err && session->now_ns > deadline_ns) {
			ini_session_fail(session, -ETIMEDOUT, "%s: no answer to a ping",
					 ini_session_peer(session));
			return -ETIMEDOUT;
		}
	}
	if (!err && core_session_over(&session->core))
		return session->error;
	return err;
}

static int ping_one_sided(struct rblk_session *session, enum rblk_ping_kind kind, size_t bytes)
{
	struct ini_queue *queue = &session->queues[0];
	struct ibv_sge sge = {
		.addr = (uintptr_t)session->control->ping,
		.length = (u32)bytes,
		.lkey = ini_mr_lkey(&session->control_mr, queue->device),
	};
	struct ibv_send_wr write_wr = ping_wr(session, &sge, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
	struct ibv_send_wr read_wr = ping_wr(session, &sge, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED);
	int err;

	if (kind == RBLK_PING_RDMA_UNSIGNALLED) {
		/* The READ's completion implies that of the WRITE before it in the queue. */
		write_wr.send_flags = 0;
		write_wr.next = &read_wr;
		return ping_post(session, &write_wr);
	}
	err = ping_post(session, &read_wr);
	return err ? err : ping_post(session, &write_wr);
}

int rblk_ping(struct rblk_session *session, enum rblk_ping_kind kind, size_t bytes, uint64_t *ns)
{
	bool two_sided = kind == RBLK_PING_SEND_POLLED || kind == RBLK_PING_SEND_EVENTS;
	u64 start_ns, value;
	int err;

	if (kind > RBLK_PING_RDMA_UNSIGNALLED)
		return -EINVAL;
	if (!ini_session_usable(session))
		return -ENOTCONN;
	if (!two_sided && !session->scratch.length) {
		ini_session_note(session, "%s: the target has no scratch memory for this session",
				 ini_session_peer(session));
		return -EOPNOTSUPP;
	}
	if (!two_sided && (!bytes || bytes > rblk_le32(session->scratch.length)))
		return -EINVAL;
	start_ns = env_now_ns();
	if (two_sided)
		err = ping_two_sided(session, kind == RBLK_PING_SEND_EVENTS, &value);
	else
		err = ping_one_sided(session, kind, bytes);
	*ns = env_now_ns() - start_ns;
	return err;
}

int rblk_ping_target_cpu(struct rblk_session *session, uint64_t *cpu_ns)
{
	if (!ini_session_usable(session))
		return -ENOTCONN;
	return ping_two_sided(session, true, cpu_ns);
}
