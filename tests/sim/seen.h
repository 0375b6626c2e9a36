/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The points of proto/core/trace.h in the simulator: each is a call. Its files count what happens for the report
 * (coverage.h), and check what must hold. Included by the product's files, compiled for the simulator; see there what each says.
 */
#ifndef RBLK_SIM_SEEN_H
#define RBLK_SIM_SEEN_H

#include <stdbool.h>

struct core_session;
struct core_action;

enum sim_session_event {
	SIM_SESSION_ABANDONED,
	SIM_SESSION_STOPPED,
	SIM_SESSION_ACCEPTED,
	SIM_SESSION_REJECTED, /* what: the reason */
	SIM_SESSION_UNREACHED,
	SIM_SESSION_LOST,
	SIM_SESSION_DRAINED,
	SIM_SESSION_FENCED, /* what: the incarnation, 0: it has failed */
	SIM_SESSION_NAMED,  /* what: success */
	SIM_SESSION_MISLED,
	SIM_SESSION_TICK,
};

/* session_seen.c. The session before an event. */
struct sim_session_before {
	const struct core_session *session;
	enum sim_session_event event;
	unsigned int index, live;
	unsigned int state, home;
	unsigned long long epoch;
	unsigned char queues[64]; /* RBLK_QUEUES_MAX */
	bool open;		  /* commands may go on queue 0 */
};
struct sim_session_before sim_session_event(const struct core_session *session, enum sim_session_event event,
					    unsigned int index, unsigned int what);
void sim_session_after(const struct sim_session_before *before);
void sim_session_instance(const struct core_session *session, unsigned int index, const unsigned char *instance);
void sim_session_action(const struct core_session *session, const struct core_action *action);
#define rblk_trace_session(session, event, index, what)                                      \
	struct sim_session_before __attribute__((cleanup(sim_session_after), unused)) seen = \
		sim_session_event(session, SIM_SESSION_##event, index, what)
#define rblk_trace_instance sim_session_instance
#define rblk_trace_action sim_session_action

/* coverage.c */
struct tgt_request;
struct tgt_answer;
struct tgt_reactor;
struct tgt_queue;
struct rblk_wire_login;
struct core_login_verdict;
void sim_seen_state(const struct tgt_request *request, unsigned int entered);
void sim_seen_operation(unsigned int operation, bool retry, const struct tgt_answer *answer);
void sim_seen_barrier_begin(const struct tgt_reactor *reactor);
void sim_seen_barrier(bool over);
void sim_seen_barrier_end(bool over);
void sim_seen_login(const struct rblk_wire_login *login, const struct core_login_verdict *verdict);
void sim_seen_queue_close(const struct tgt_queue *queue, const char *reason);
#define rblk_trace_state sim_seen_state
#define rblk_trace_reply(io_queue, completions) ((void)0)
#define rblk_trace_operation sim_seen_operation
#define rblk_trace_barrier_begin sim_seen_barrier_begin
#define rblk_trace_barrier sim_seen_barrier
#define rblk_trace_barrier_end sim_seen_barrier_end
#define rblk_trace_login sim_seen_login
#define rblk_trace_queue_close sim_seen_queue_close

/* world_priority.c */
void sim_priority_seen(const struct tgt_request *request, unsigned int entered);

/* whitebox.c, pool_sim.c */
struct tgt_range_lock;
struct rblk_session;
void sim_seen_logout(const struct rblk_session *session);
void sim_seen_range_lock_end(const struct tgt_range_lock *range_lock);
void sim_seen_finish(const struct tgt_request *request);
void sim_seen_pool_alloc(const void *block, unsigned long bytes);
void sim_seen_pool_free(void *block, unsigned long bytes);
#define rblk_trace_logout sim_seen_logout
#define rblk_trace_range_lock_end sim_seen_range_lock_end
#define rblk_trace_finish sim_seen_finish
#define rblk_trace_pool_alloc sim_seen_pool_alloc
#define rblk_trace_pool_free sim_seen_pool_free

/* history.c */
struct ini_queue;
void sim_seen_answered(const struct ini_queue *queue, unsigned int tag, unsigned int status);
#define rblk_trace_answered sim_seen_answered

/* kernel/disks.c */
struct rblk_io;
struct rblk_queue;
struct rblk_command;
struct rblk_call;
struct rblk_session_command;
struct rblk_session;
void sim_seen_borrow(const struct rblk_queue *queue, struct rblk_io *io, bool got);
void sim_seen_dispatch(struct rblk_io *io, struct rblk_queue *queue);
void sim_seen_send(struct rblk_command *command);
void sim_seen_call(struct rblk_queue *queue, struct rblk_session_command *sc);
void sim_seen_reserve(const struct rblk_queue *queue, const struct rblk_session_command *sc);
void sim_seen_reserved(const struct rblk_queue *queue, const struct rblk_session_command *sc, int error);
void sim_seen_put_queue(const struct rblk_session *session, unsigned int queue);
void sim_seen_left_reserve(const struct rblk_call *call);
void sim_seen_fence_answered(const struct rblk_command *command);
struct rblk_wire_volume;
void sim_seen_opened(const struct rblk_queue *queue, const struct rblk_wire_volume *volume);
void sim_seen_queue_lost(const char *format, __builtin_va_list args);
#define rblk_trace_borrow sim_seen_borrow
#define rblk_trace_dispatch sim_seen_dispatch
#define rblk_trace_send sim_seen_send
#define rblk_trace_call(queue, sc)                     \
	struct rblk_session_command sent = *(sc);      \
	sim_seen_call(queue, &sent);                   \
	(sc) = &sent
#define rblk_trace_reserve sim_seen_reserve
#define rblk_trace_reserved sim_seen_reserved
#define rblk_trace_put_queue sim_seen_put_queue
#define rblk_trace_left_reserve sim_seen_left_reserve
#define rblk_trace_fence_answered sim_seen_fence_answered
#define rblk_trace_opened sim_seen_opened
#define rblk_trace_queue_lost(format)              \
	do {                                       \
		va_list words;                     \
		va_start(words, format);           \
		sim_seen_queue_lost(format, words); \
		va_end(words);                     \
	} while (0)

#endif
