/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no private data breaks the validators of login, acceptance and refusal, and what passes
 * them has the bounds that callers rely on without checking again. Method: the first byte chooses
 * the validator, the rest is what the peer sent.
 */
#include "tests/fuzz/fuzz.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

static void check_login(const struct rblk_wire_login *login, size_t size)
{
	u8 zero[sizeof(login->session_id)] = { 0 };

	if (rblk_check_login(login, size))
		return;
	FUZZ_ASSERT(size >= sizeof(*login));
	FUZZ_ASSERT(rblk_le16(login->queue_index) < rblk_le16(login->queue_count));
	FUZZ_ASSERT(rblk_le16(login->queue_count) <= RBLK_QUEUES_MAX);
	FUZZ_ASSERT(rblk_le16(login->credits) >= RBLK_CREDITS_MIN);
	FUZZ_ASSERT(rblk_le16(login->credits) <= RBLK_CREDITS_MAX);
	FUZZ_ASSERT(rblk_le32(login->incarnation) > rblk_le32(login->fence_incarnation));
	FUZZ_ASSERT(rblk_le32(login->reply_bytes) >= sizeof(struct rblk_wire_completion));
	FUZZ_ASSERT(login->session_epoch);
	FUZZ_ASSERT(memcmp(login->session_id, zero, sizeof(zero)));
}

static void check_accept(const struct rblk_wire_accept *accept, size_t size)
{
	if (rblk_check_accept(accept, size))
		return;
	FUZZ_ASSERT(size >= sizeof(*accept));
	FUZZ_ASSERT(!(rblk_le32(accept->features) & ~RBLK_FEATURES_ALL));
	FUZZ_ASSERT(rblk_le16(accept->credits) >= RBLK_CREDITS_MIN);
	FUZZ_ASSERT(rblk_le16(accept->credits) <= RBLK_CREDITS_MAX);
	FUZZ_ASSERT(rblk_le16(accept->max_batch) - 1u < RBLK_BATCH_MAX);
	FUZZ_ASSERT(rblk_le32(accept->command_bytes) >= RBLK_COMMAND_BYTES_MIN);
	FUZZ_ASSERT(rblk_le32(accept->command_bytes) <= RBLK_COMMAND_BYTES_MAX);
	FUZZ_ASSERT(rblk_le32(accept->max_io_bytes) - 1u < RBLK_IO_BYTES_MAX);
}

static void check_reject(const struct rblk_wire_reject *reject, size_t size)
{
	if (rblk_check_reject(reject, size))
		return;
	FUZZ_ASSERT(size >= sizeof(*reject));
	FUZZ_ASSERT(rblk_le16(reject->reason) != RBLK_REJECT_NONE);
	FUZZ_ASSERT(rblk_reject_text(rblk_le16(reject->reason))[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t choice = fuzz_take(&data, &size, 1);
	void *copy = fuzz_copy(data, size);

	if (choice % 3 == 0)
		check_login(copy, size);
	else if (choice % 3 == 1)
		check_accept(copy, size);
	else
		check_reject(copy, size);
	free(copy);
	return 0;
}
