/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no text breaks the parser of the control socket, and each answer is one line of JSON-RPC 2.0 with either a
 * result or an error. Method: the input is the line; two methods look at all that a call has.
 */
#include "tests/fuzz/fuzz.h"

#include "target/watch/rpc.h"

static json_t *run_echo(struct tgt_rpc_call *call)
{
	const char *word = json_string_value(json_object_get(call->params, "word"));

	if (!word)
		return tgt_rpc_fail(call, TGT_RPC_PARAMS, "word: %s", "a text is needed");
	return json_pack("{s:o}", "word", tgt_rpc_text(word));
}

static json_t *run_fail(struct tgt_rpc_call *call)
{
	return tgt_rpc_fail(call, TGT_RPC_FAILED, "failed");
}

static const struct tgt_rpc_method methods[] = {
	{"echo", run_echo, {"word", NULL}},
	{"fail", run_fail, {NULL}},
	{NULL, NULL, {NULL}},
};

static void check_one(json_t *answer)
{
	json_t *error = json_object_get(answer, "error");

	FUZZ_ASSERT(json_is_object(answer));
	FUZZ_ASSERT(!strcmp(json_string_value(json_object_get(answer, "jsonrpc")), "2.0"));
	FUZZ_ASSERT(json_object_get(answer, "id"));
	FUZZ_ASSERT(!error != !json_object_get(answer, "result"));
	FUZZ_ASSERT(!error || (json_is_integer(json_object_get(error, "code")) &&
			       json_string_length(json_object_get(error, "message"))));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tgt_rpc_caller caller = {.pid = 1};
	char *text = fuzz_copy(data, size);
	char *line = tgt_rpc_answer(methods, NULL, &caller, text, size);
	json_t *answer, *one;
	size_t i;

	free(text);
	if (!line)
		return 0;
	FUZZ_ASSERT(strchr(line, '\n') == line + strlen(line) - 1);
	answer = json_loads(line, 0, NULL);
	free(line);
	FUZZ_ASSERT(answer);
	if (json_is_array(answer))
		json_array_foreach(answer, i, one)
			check_one(one);
	else
		check_one(answer);
	json_decref(answer);
	return 0;
}
