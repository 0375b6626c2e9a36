/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The reply cache of replay.h. */
#include "target/io/replay.h"

#include <assert.h>
#include "proto/core/trace.h"

static struct tgt_answer *answer_slot(struct tgt_replay *answers, uint64_t number)
{
	return &answers->answers[number % RBLK_OPERATIONS_MAX];
}

void tgt_replay_init(struct tgt_replay *answers)
{
	pthread_mutex_init(&answers->lock, NULL);
}

void tgt_replay_fini(struct tgt_replay *answers)
{
	pthread_mutex_destroy(&answers->lock);
}

static enum tgt_operation answer_begin(struct tgt_answer *slot, uint64_t number, bool retry)
{
	if (slot->under_way && number == slot->number && retry)
		return TGT_OPERATION_LATER;
	/* A command that is under way has the slot: an initiator uses number n only after
	 * n - RBLK_OPERATIONS_MAX was answered. */
	if (slot->under_way || number < slot->number)
		return TGT_OPERATION_INVALID;
	if (number == slot->number)
		return retry ? TGT_OPERATION_KNOWN : TGT_OPERATION_INVALID;
	*slot = (struct tgt_answer){.number = number, .under_way = true};
	return TGT_OPERATION_NEW;
}

enum tgt_operation tgt_replay_begin(struct tgt_replay *answers, uint64_t number, bool retry,
				     struct tgt_answer *answer)
{
	struct tgt_answer *slot = answer_slot(answers, number);
	enum tgt_operation operation;

	pthread_mutex_lock(&answers->lock);
	operation = answer_begin(slot, number, retry);
	if (operation == TGT_OPERATION_KNOWN)
		*answer = *slot;
	pthread_mutex_unlock(&answers->lock);
	rblk_trace_operation(operation, retry, answer);
	return operation;
}

/* Other answers say that nothing was done. */
static bool answer_is_kept(enum rblk_status status)
{
	return status == RBLK_OK || status == RBLK_E_IO || status == RBLK_E_NO_SPACE ||
	       status == RBLK_E_MEDIUM || status == RBLK_E_COMPARE || status == RBLK_E_RESERVED;
}

void tgt_replay_end(struct tgt_replay *answers, uint64_t number, enum rblk_status status,
		     uint64_t result)
{
	struct tgt_answer *slot = answer_slot(answers, number);

	pthread_mutex_lock(&answers->lock);
	assert(slot->number == number && slot->under_way);
	/* One that is not kept becomes the number below: this number may come again, but older ones of its slot may not. */
	if (answer_is_kept(status))
		*slot = (struct tgt_answer){.number = number, .status = (uint16_t)status, .result = result};
	else
		*slot = (struct tgt_answer){.number = number - 1};
	pthread_mutex_unlock(&answers->lock);
}
