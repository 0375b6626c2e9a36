/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no reply message breaks its validator. In a message that passes, every completion lies
 * inside, has a tag that exists or is an event, and at most one key is invalidated. Method: the
 * first bytes are the queue's contract (features, tags), the rest is the message.
 */
#include "tests/fuzz/fuzz.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

static unsigned int check_one(const struct rblk_wire_completion *completion, u32 features,
			      u32 tags)
{
	u16 status = rblk_le16(completion->status);

	if (completion->flags & RBLK_CPL_EVENT) {
		FUZZ_ASSERT(features & RBLK_FEATURE_EVENTS);
		FUZZ_ASSERT(rblk_le16(completion->tag) == RBLK_TAG_EVENT);
		FUZZ_ASSERT(status > RBLK_EVENT_NONE && status < RBLK_EVENT_MAX);
		return 0;
	}
	FUZZ_ASSERT(rblk_le16(completion->tag) < tags);
	FUZZ_ASSERT(status < RBLK_E_MAX);
	FUZZ_ASSERT((status == RBLK_OK) == (rblk_status_errno(status) == 0));
	return !!(completion->flags & RBLK_CPL_INVALIDATED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct rblk_wire_completion *completions = NULL;
	u32 features = fuzz_take(&data, &size, 2) & RBLK_FEATURES_ALL;
	u32 tags = fuzz_take(&data, &size, 2) % (RBLK_CREDITS_MAX + RBLK_RESERVED_TAGS + 1);
	unsigned int invalidated = 0;
	u16 count = 0, i;
	void *message = fuzz_copy(data, size);

	if (rblk_check_reply(message, size, features, tags, &completions, &count) == RBLK_WIRE_OK) {
		FUZZ_ASSERT((const void *)completions == message);
		FUZZ_ASSERT(count >= 1 && count <= RBLK_REPLY_BATCH_MAX);
		FUZZ_ASSERT(count * sizeof(completions[0]) == size);
		for (i = 0; i < count; i++)
			invalidated += check_one(&completions[i], features, tags);
		FUZZ_ASSERT(invalidated <= 1);
	} else {
		FUZZ_ASSERT(!completions);
	}
	free(message);
	return 0;
}
