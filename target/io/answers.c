/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The reply cache of answers.h. */
#include "target/io/answers.h"

#include <assert.h>

static struct tgt_answer *answer_place(struct tgt_answers *answers, uint64_t number)
{
	return &answers->answers[number % RBLK_OPERATIONS_MAX];
}

enum tgt_operation tgt_answers_begin(struct tgt_answers *answers, uint64_t number, bool retry,
				     const struct tgt_answer **answer)
{
	struct tgt_answer *place = answer_place(answers, number);

	/* A command that is under way has the place: an initiator uses number n only after
	 * n - RBLK_OPERATIONS_MAX was answered, and retries only what the fence has ended (F5). */
	if (place->under_way || number < place->number)
		return TGT_OPERATION_INVALID;
	if (number == place->number) {
		*answer = place;
		return retry ? TGT_OPERATION_KNOWN : TGT_OPERATION_INVALID;
	}
	*place = (struct tgt_answer){.number = number, .under_way = true};
	return TGT_OPERATION_NEW;
}

static struct tgt_answer *answer_under_way(struct tgt_answers *answers, uint64_t number)
{
	struct tgt_answer *place = answer_place(answers, number);

	assert(place->number == number && place->under_way);
	place->under_way = false;
	return place;
}

void tgt_answers_end(struct tgt_answers *answers, uint64_t number, enum rblk_status status,
		     uint64_t result)
{
	struct tgt_answer *place = answer_under_way(answers, number);

	place->status = (uint16_t)status;
	place->result = result;
}

void tgt_answers_forget(struct tgt_answers *answers, uint64_t number)
{
	/* One below: that number may come again, and the older ones of its place may not. */
	answer_under_way(answers, number)->number = number - 1;
}
