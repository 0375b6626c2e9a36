/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The initiator's account of one queue incarnation's tags, credits and sequence numbers. A tag is a
 * credit: the right to have one command at the target. Tags [0, credits) are for I/O, the
 * RBLK_RESERVED_TAGS behind them for the commands that keep a session alive. Specification section
 * 4. Pure: the arrays are the caller's, no lock, no allocation; one owner at a time.
 */
#ifndef RBLK_CORE_TAGS_H
#define RBLK_CORE_TAGS_H

#include "proto/wire/wire.h"

#define CORE_TAGS_MAX (RBLK_CREDITS_MAX + RBLK_RESERVED_TAGS)

enum core_tag_state {
	CORE_TAG_FREE,
	CORE_TAG_TAKEN,    /* its command waits to be sent, for the first time or again */
	CORE_TAG_SENT,     /* the target has it, and the command's memory and keys */
	CORE_TAG_ANSWERED, /* the answer is here, the caller has not freed the tag yet */
};

struct core_tag {
	u32 sequence; /* of the command that was sent last, valid in SENT */
	u16 next;     /* in the free stack */
	u8 state;     /* enum core_tag_state */
};

/* Created by core_tags_init(); `tag` is the caller's array of core_tags_count() entries. */
struct core_tags {
	struct core_tag *tag;
	u16 credits;
	u16 free_io, free_reserved; /* heads of two stacks; CORE_TAGS_MAX: empty */
	u16 taken_io, taken_reserved; /* not free */
	u16 sent;                   /* in CORE_TAG_SENT, of both kinds */
	u32 next_sequence;
};

/* Why an answer does not match what was sent: each ends the connection. */
enum core_tags_error {
	CORE_TAGS_OK = 0,
	CORE_TAGS_UNKNOWN,   /* no such tag on this queue */
	CORE_TAGS_NOT_SENT,  /* no command of this tag is at the target: answered twice, or never sent */
	CORE_TAGS_SEQUENCE,  /* the answer is another command's */
};

/*
 * One tag by itself, for an owner that allocates tags in its own way (in the kernel, blk-mq). An
 * answer may be checked on another processor than the one that sent; the caller orders the two.
 */
/* TAKEN -> SENT, with release: whoever takes an answer to it sees what was stored before, the sequence too. */
void core_tag_send(struct core_tag *tag, u32 sequence);
/* SENT -> ANSWERED, by a reply or by an immediate. A NULL tag is one that the queue does not have. */
enum core_tags_error core_tag_answer(struct core_tag *tag, u32 sequence);
enum core_tags_error core_tag_answer_immediate(struct core_tag *tag);

static inline u32 core_tags_count(u16 credits)
{
	return (u32)credits + RBLK_RESERVED_TAGS;
}

/* All tags free, sequence 0: the beginning of an incarnation. */
void core_tags_init(struct core_tags *tags, struct core_tag *array, u16 credits);

/* FREE -> TAKEN. Returns the tag, or -EAGAIN: all credits (or reserved tags) are in use. */
int core_tags_take(struct core_tags *tags, bool reserved);

/* TAKEN -> SENT; returns the sequence number for the descriptor. In the order of the messages. */
u32 core_tags_send(struct core_tags *tags, u16 tag);

/* SENT -> ANSWERED, by a reply (which echoes the sequence) or by an immediate (which does not). */
enum core_tags_error core_tags_answer(struct core_tags *tags, u16 tag, u32 sequence);
enum core_tags_error core_tags_answer_immediate(struct core_tags *tags, u16 tag);

/* ANSWERED -> TAKEN: the answer was BUSY, the command will be sent again. */
void core_tags_retake(struct core_tags *tags, u16 tag);

/* Any state but SENT -> FREE. */
void core_tags_put(struct core_tags *tags, u16 tag);

/* The connection is drained: what was SENT is with the caller again, as ANSWERED. */
void core_tags_recall(struct core_tags *tags);

static inline bool core_tags_reserved(const struct core_tags *tags, u16 tag)
{
	return tag >= tags->credits;
}

const char *core_tags_error_text(enum core_tags_error error);

#endif
