/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where the code is looked at from outside. In the product a point is nothing, or where <sys/sdt.h> is known
 * (RBLK_HAVE_SDT) a static tracepoint: USDT, provider "rblk", a no-op instruction until a tracer attaches:
 * bpftrace -e 'usdt:/usr/sbin/rblkd:rblk:request_state { ... }'. In the simulator, whose build names a header
 * in RBLK_TRACE_HOOKS, it is a call (tests/sim/seen.h). A point stands behind its block's declarations.
 */
#ifndef RBLK_CORE_TRACE_H
#define RBLK_CORE_TRACE_H

#ifdef RBLK_TRACE_HOOKS
#include RBLK_TRACE_HOOKS
#else

/* a session's event, until the function ends: ACCEPTED, LOST, ...; the queue's index; what else it says, by event */
#define rblk_trace_session(session, event, index, what) ((void)0)
/* a queue of it is LIVE: by that target instance */
#define rblk_trace_instance(session, index, instance) ((void)0)
/* an action of it, which its caller is to carry out */
#define rblk_trace_action(session, action) ((void)0)

/* the target: the verdict on a login */
#define rblk_trace_login(login, verdict) ((void)0)
/* a queue is being closed, for that reason or none */
#define rblk_trace_queue_close(queue, reason) ((void)0)
/* a barrier begins, at so many reactors; was asked whether it is over; ends */
#define rblk_trace_barrier_begin(reactor) ((void)0)
#define rblk_trace_barrier(over) ((void)0)
#define rblk_trace_barrier_end(over) ((void)0)
/* what the reply cache says of a numbered operation */
#define rblk_trace_operation(operation, retry, answer) ((void)0)
/* a range lock is about to end; a request, before it is free; memory of the pool that is given out, and that comes
 * back */
#define rblk_trace_range_lock_end(range_lock) ((void)0)
#define rblk_trace_finish(request) ((void)0)
#define rblk_trace_pool_alloc(block, bytes) ((void)0)
#define rblk_trace_pool_free(block, bytes) ((void)0)

/* librblk: a session that ends has closed what it had open */
#define rblk_trace_logout(session) ((void)0)
/* librblk: a command was answered */
#define rblk_trace_answered(queue, tag, status) ((void)0)

/*
 * the module: a request asked for a tag that a queue lends; is about to go to the queue; a command counts as sent; a
 * session's own command that nobody waits for is about to be (the simulator may change it); RESERVE or RESERVATIONS is
 * about to be; its caller goes on, with that error; its queue may carry the next one; a RESERVE that was left is
 * answered or lost; a FENCE is answered; an OPEN has succeeded; why a connection is lost, in a function that takes a format
 */
#define rblk_trace_borrow(queue, io, got) ((void)0)
#define rblk_trace_dispatch(io, queue) ((void)0)
#define rblk_trace_send(command) ((void)0)
#define rblk_trace_call(queue, sc) ((void)0)
#define rblk_trace_reserve(queue, sc) ((void)0)
#define rblk_trace_reserved(queue, sc, error) ((void)0)
#define rblk_trace_put_queue(session, queue) ((void)0)
#define rblk_trace_left_reserve(call) ((void)0)
#define rblk_trace_fence_answered(command) ((void)0)
#define rblk_trace_opened(queue, volume) ((void)0)
#define rblk_trace_queue_lost(format) ((void)0)

#ifdef RBLK_HAVE_SDT
#include <sys/sdt.h>
/* request_state: the queue's session and index, tag, opcode, state left, state entered */
#define rblk_trace_state(request, entered)                                                                  \
	DTRACE_PROBE6(rblk, request_state, (request)->io_queue->session_number, (request)->io_queue->index, \
		      (request)->tag, (request)->opcode, (request)->state, entered)
/* reply: session, queue, completions in a reply message */
#define rblk_trace_reply(io_queue, completions) \
	DTRACE_PROBE3(rblk, reply, (io_queue)->session_number, (io_queue)->index, completions)
#else
#define rblk_trace_state(request, entered) ((void)0)
#define rblk_trace_reply(io_queue, completions) ((void)0)
#endif

#endif

#endif
