/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The number of a request whose operation is not idempotent (F8): the session's reply cache is asked
 * before it begins and told how it ended. request.c and compare.c call this.
 */
#include "target/io/request.h"

#include "target/io/answers.h"
#include "target/io/lane.h"

bool tgt_request_begin_operation(struct tgt_request *request)
{
	struct tgt_answer answer = {.number = 0};

	switch (tgt_answers_begin(request->lane->answers, request->argument,
				  request->flags & RBLK_CMD_RETRY, &answer)) {
	case TGT_OPERATION_NEW:
		request->numbered = true;
		return true;
	case TGT_OPERATION_KNOWN:
		request->result = answer.result;
		tgt_request_complete(request, (enum rblk_status)answer.status);
		break;
	case TGT_OPERATION_INVALID:
		tgt_request_complete(request, RBLK_E_INVALID);
		break;
	}
	return false;
}

void tgt_request_tell_operation(struct tgt_request *request, enum rblk_status status)
{
	request->numbered = false;
	if (tgt_answers_keeps(status))
		tgt_answers_end(request->lane->answers, request->argument, status,
				request->result);
	else
		tgt_answers_forget(request->lane->answers, request->argument);
}
