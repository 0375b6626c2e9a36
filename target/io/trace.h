/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Static tracepoints of the data path (USDT, provider "rblk"), a no-op instruction each until a
 * tracer attaches: bpftrace -e 'usdt:/usr/sbin/rblkd:rblk:request_state { ... }'.
 */
#ifndef RBLK_TARGET_TRACE_H
#define RBLK_TARGET_TRACE_H

#ifdef RBLK_HAVE_SDT
#include <sys/sdt.h>
/* queue's number in its session, tag, opcode, state left, state entered */
#define tgt_trace_state(session, queue, tag, opcode, from, to) \
	DTRACE_PROBE6(rblk, request_state, session, queue, tag, opcode, from, to)
/* a reply message: completions in it */
#define tgt_trace_reply(session, queue, completions) \
	DTRACE_PROBE3(rblk, reply, session, queue, completions)
#else
#define tgt_trace_state(session, queue, tag, opcode, from, to) ((void)0)
#define tgt_trace_reply(session, queue, completions) ((void)0)
#endif

#endif
