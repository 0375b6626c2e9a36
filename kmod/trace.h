/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tracepoints: submit, register, send, invalidate, complete, event, state.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rblk

#if !defined(RBLK_KMOD_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define RBLK_KMOD_TRACE_H

#include <linux/tracepoint.h>
#include <rdma/ib_verbs.h>

#include "kmod/command.h"
#include "kmod/disk.h"
#include "kmod/queue.h"

TRACE_EVENT(rblk_submit,
	TP_PROTO(struct rblk_io *io),
	TP_ARGS(io),
	TP_STRUCT__entry(
		__field(int, device) __field(unsigned int, queue) __field(u16, tag)
		__field(u8, opcode) __field(u8, flags) __field(u64, lba) __field(u32, blocks)
		__field(int, memory) __field(u64, sector)
	),
	TP_fast_assign(
		__entry->device = rblk_disk_of(rblk_io_rq(io))->index;
		__entry->queue = io->command.queue->index;
		__entry->tag = io->command.tag;
		__entry->opcode = io->command.wire.opcode;
		__entry->flags = io->command.wire.flags;
		__entry->lba = rblk_le64(io->command.wire.lba);
		__entry->blocks = rblk_le32(io->command.wire.blocks);
		__entry->memory = io->command.memory;
		__entry->sector = blk_rq_pos(rblk_io_rq(io));
	),
	TP_printk("rblk%d queue %u tag %u opcode %u flags %#x lba %llu blocks %u memory %d sector %llu",
		  __entry->device, __entry->queue, __entry->tag, __entry->opcode, __entry->flags,
		  __entry->lba, __entry->blocks, __entry->memory, __entry->sector)
);

TRACE_EVENT(rblk_complete,
	TP_PROTO(struct rblk_io *io),
	TP_ARGS(io),
	TP_STRUCT__entry(
		__field(int, device) __field(unsigned int, queue) __field(u16, tag)
		__field(u16, status) __field(int, error) __field(u32, queued_us)
		__field(u32, stored_us)
	),
	TP_fast_assign(
		__entry->device = rblk_disk_of(rblk_io_rq(io))->index;
		__entry->queue = io->command.queue->index;
		__entry->tag = io->command.tag;
		__entry->status = io->command.status;
		__entry->error = io->command.error;
		__entry->queued_us = io->command.queued_us;
		__entry->stored_us = io->command.stored_us;
	),
	TP_printk("rblk%d queue %u tag %u status %u error %d queued %u us stored %u us",
		  __entry->device, __entry->queue, __entry->tag, __entry->status, __entry->error,
		  __entry->queued_us, __entry->stored_us)
);

TRACE_EVENT(rblk_send,
	TP_PROTO(const struct rblk_queue *queue, unsigned int commands, u32 capsule_bytes),
	TP_ARGS(queue, commands, capsule_bytes),
	TP_STRUCT__entry(
		__field(int, session) __field(unsigned int, queue) __field(unsigned int, commands)
		__field(u32, capsule_bytes)
	),
	TP_fast_assign(
		__entry->session = queue->session->number;
		__entry->queue = queue->index;
		__entry->commands = commands;
		__entry->capsule_bytes = capsule_bytes;
	),
	TP_printk("session %d queue %u commands %u capsule %u bytes",
		  __entry->session, __entry->queue,
		  __entry->commands, __entry->capsule_bytes)
);

/* A command's own pages get a key, behind which the SEND that names it is posted. */
TRACE_EVENT(rblk_register,
	TP_PROTO(struct rblk_io *io),
	TP_ARGS(io),
	TP_STRUCT__entry(
		__field(int, device) __field(unsigned int, queue) __field(u16, tag)
		__field(u32, bytes) __field(u32, pages) __field(u32, key)
	),
	TP_fast_assign(
		__entry->device = rblk_disk_of(rblk_io_rq(io))->index;
		__entry->queue = io->command.queue->index;
		__entry->tag = io->command.tag;
		__entry->bytes = io->command.bytes;
		__entry->pages = DIV_ROUND_UP(((u32)io->mr->iova & (io->mr->page_size - 1)) +
						      io->command.bytes, io->mr->page_size);
		__entry->key = io->mr->rkey;
	),
	TP_printk("rblk%d queue %u tag %u bytes %u pages %u key %#x", __entry->device,
		  __entry->queue, __entry->tag, __entry->bytes, __entry->pages, __entry->key)
);

/* That key ends: by the target's reply (remote), or by a work request of ours. */
TRACE_EVENT(rblk_invalidate,
	TP_PROTO(struct rblk_io *io, bool remote),
	TP_ARGS(io, remote),
	TP_STRUCT__entry(
		__field(int, device) __field(unsigned int, queue) __field(u16, tag)
		__field(u32, key) __field(bool, remote)
	),
	TP_fast_assign(
		__entry->device = rblk_disk_of(rblk_io_rq(io))->index;
		__entry->queue = io->command.queue->index;
		__entry->tag = io->command.tag;
		__entry->key = io->mr->rkey;
		__entry->remote = remote;
	),
	TP_printk("rblk%d queue %u tag %u key %#x %s", __entry->device, __entry->queue,
		  __entry->tag, __entry->key, __entry->remote ? "remote" : "local")
);

TRACE_EVENT(rblk_event,
	TP_PROTO(const struct rblk_queue *queue, u16 event),
	TP_ARGS(queue, event),
	TP_STRUCT__entry(__field(int, session) __field(u16, event)),
	TP_fast_assign(
		__entry->session = queue->session->number;
		__entry->event = event;
	),
	TP_printk("session %d event %u", __entry->session, __entry->event)
);

TRACE_EVENT(rblk_state,
	TP_PROTO(const struct rblk_session *session, int from, int to),
	TP_ARGS(session, from, to),
	TP_STRUCT__entry(__field(int, session) __field(int, from) __field(int, to)),
	TP_fast_assign(
		__entry->session = session->number;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("session %d %s -> %s", __entry->session, core_session_state_name(__entry->from),
		  core_session_state_name(__entry->to))
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH kmod
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
