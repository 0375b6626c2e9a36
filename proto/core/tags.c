/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the transitions of tags, see tags.h. Two stacks threaded through the caller's array: the
 * tag freed last is taken first, because its slot is still in the cache.
 */
#include "proto/core/tags.h"

#ifdef __KERNEL__
#include <linux/bug.h>
#include <linux/errno.h>
#define tags_assert(condition) WARN_ON_ONCE(!(condition))
#else
#define tags_assert(condition) assert(condition)
#endif

#define TAG_NONE CORE_TAGS_MAX

static_assert(CORE_TAGS_MAX < RBLK_TAG_EVENT, "no tag looks like an event's");

void core_tags_init(struct core_tags *tags, struct core_tag *array, u16 credits)
{
	u32 count = core_tags_count(credits);
	u32 i;

	memset(tags, 0, sizeof(*tags));
	tags->tag = array;
	tags->credits = credits;
	for (i = 0; i < count; i++) {
		array[i].sequence = 0;
		array[i].state = CORE_TAG_FREE;
		array[i].next = (u16)(i + 1);
	}
	array[credits - 1].next = TAG_NONE;
	array[count - 1].next = TAG_NONE;
	tags->free_io = 0;
	tags->free_reserved = credits;
}

int core_tags_take(struct core_tags *tags, bool reserved)
{
	u16 *head = reserved ? &tags->free_reserved : &tags->free_io;
	u16 tag = *head;

	if (tag == TAG_NONE)
		return -EAGAIN;
	*head = tags->tag[tag].next;
	tags->tag[tag].state = CORE_TAG_TAKEN;
	if (reserved)
		tags->taken_reserved++;
	else
		tags->taken_io++;
	return tag;
}

void core_tag_send(struct core_tag *tag, u32 sequence)
{
	tags_assert(tag->state == CORE_TAG_TAKEN);
	tag->sequence = sequence;
	__atomic_store_n(&tag->state, CORE_TAG_SENT, __ATOMIC_RELEASE);
}

u32 core_tags_send(struct core_tags *tags, u16 tag)
{
	core_tag_send(&tags->tag[tag], tags->next_sequence++);
	tags->sent++;
	return tags->tag[tag].sequence;
}

enum core_tags_error core_tag_answer_immediate(struct core_tag *tag)
{
	if (!tag)
		return CORE_TAGS_UNKNOWN;
	if (__atomic_load_n(&tag->state, __ATOMIC_ACQUIRE) != CORE_TAG_SENT)
		return CORE_TAGS_NOT_SENT;
	tag->state = CORE_TAG_ANSWERED;
	return CORE_TAGS_OK;
}

enum core_tags_error core_tag_answer(struct core_tag *tag, u32 sequence)
{
	if (tag && __atomic_load_n(&tag->state, __ATOMIC_ACQUIRE) == CORE_TAG_SENT &&
	    tag->sequence != sequence)
		return CORE_TAGS_SEQUENCE;
	return core_tag_answer_immediate(tag);
}

/* `tag` comes from the peer: no assertion on it. */
static struct core_tag *tags_find(struct core_tags *tags, u16 tag)
{
	return tag < core_tags_count(tags->credits) ? &tags->tag[tag] : NULL;
}

enum core_tags_error core_tags_answer_immediate(struct core_tags *tags, u16 tag)
{
	enum core_tags_error error = core_tag_answer_immediate(tags_find(tags, tag));

	tags->sent -= !error;
	return error;
}

enum core_tags_error core_tags_answer(struct core_tags *tags, u16 tag, u32 sequence)
{
	enum core_tags_error error = core_tag_answer(tags_find(tags, tag), sequence);

	tags->sent -= !error;
	return error;
}

void core_tags_retake(struct core_tags *tags, u16 tag)
{
	tags_assert(tags->tag[tag].state == CORE_TAG_ANSWERED);
	tags->tag[tag].state = CORE_TAG_TAKEN;
}

void core_tags_put(struct core_tags *tags, u16 tag)
{
	bool reserved = core_tags_reserved(tags, tag);
	u16 *head = reserved ? &tags->free_reserved : &tags->free_io;

	tags_assert(tags->tag[tag].state == CORE_TAG_TAKEN ||
		    tags->tag[tag].state == CORE_TAG_ANSWERED);
	tags->tag[tag].state = CORE_TAG_FREE;
	tags->tag[tag].next = *head;
	*head = tag;
	if (reserved)
		tags->taken_reserved--;
	else
		tags->taken_io--;
}

void core_tags_recall(struct core_tags *tags)
{
	u32 i;

	for (i = 0; i < core_tags_count(tags->credits); i++)
		if (tags->tag[i].state == CORE_TAG_SENT)
			tags->tag[i].state = CORE_TAG_ANSWERED;
	tags->sent = 0;
}

const char *core_tags_error_text(enum core_tags_error error)
{
	switch (error) {
	case CORE_TAGS_OK:
		return "no error";
	case CORE_TAGS_UNKNOWN:
		return "an answer to a tag that this queue does not have";
	case CORE_TAGS_NOT_SENT:
		return "an answer to a command that is not outstanding";
	case CORE_TAGS_SEQUENCE:
		return "an answer with another command's sequence number";
	}
	return "unknown error";
}
