/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: requests get the answers that JSON-RPC 2.0 prescribes, wrong ones the error that says what is
 * wrong, and no method is run for them. Method: a table of two methods that are counted, and the
 * specification's own kinds of mistakes.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include "target/watch/rpc.h"

static unsigned int runs;
static struct tgt_rpc_caller someone = {.pid = 7, .uid = 1000};

static json_t *run_echo(struct tgt_rpc_call *call)
{
	runs++;
	assert_ptr_equal(call->context, &runs);
	assert_int_equal(call->caller->uid, 1000);
	return json_pack("{s:O}", "word", json_object_get(call->params, "word"));
}

static json_t *run_fail(struct tgt_rpc_call *call)
{
	runs++;
	return tgt_rpc_fail(call, TGT_RPC_FAILED, "volume %s: busy", "data");
}

static const struct tgt_rpc_method methods[] = {
	{"echo", run_echo, {"word", NULL}},
	{"fail", run_fail, {NULL}},
	{NULL, NULL, {NULL}},
};

/* The answer without its end of line; NULL: none. */
static char *ask(const char *text)
{
	char *answer = tgt_rpc_answer(methods, &runs, &someone, text, strlen(text));

	if (!answer)
		return NULL;
	assert_int_equal(answer[strlen(answer) - 1], '\n');
	assert_null(memchr(answer, '\n', strlen(answer) - 1));
	answer[strlen(answer) - 1] = '\0';
	return answer;
}

static void check_answer(const char *text, const char *wanted)
{
	char *answer = ask(text);

	assert_non_null(answer);
	assert_string_equal(answer, wanted);
	free(answer);
}

static void check_error(const char *text, int code, const char *words)
{
	unsigned int before = runs;
	char *answer = ask(text);
	json_t *object = answer ? json_loads(answer, 0, NULL) : NULL;
	const char *message = "";
	int got = 0;

	assert_non_null(object);
	assert_int_equal(json_unpack(object, "{s:{s:i, s:s}}", "error", "code", &got, "message", &message), 0);
	assert_int_equal(got, code);
	assert_non_null(strstr(message, words));
	assert_null(json_object_get(object, "result"));
	assert_int_equal(runs, before);
	json_decref(object);
	free(answer);
}

static void a_request_gets_its_result(void **state)
{
	(void)state;
	check_answer("{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"echo\",\"params\":{\"word\":\"hi\"}}\n",
		     "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{\"word\":\"hi\"}}");
	check_answer("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"fail\"}",
		     "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"error\":{\"code\":-32000,\"message\":\"volume "
		     "data: busy\"}}");
}

static void a_notification_is_run_and_not_answered(void **state)
{
	unsigned int before = runs;

	(void)state;
	assert_null(ask("{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":{\"word\":1}}"));
	assert_null(ask("{\"jsonrpc\":\"2.0\",\"method\":\"none\"}"));
	assert_null(ask("[{\"jsonrpc\":\"2.0\",\"method\":\"fail\"}]"));
	assert_int_equal(runs, before + 2);
}

static void a_batch_gets_an_array(void **state)
{
	(void)state;
	check_answer("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":{\"word\":1}},"
		     "{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":{\"word\":2}},"
		     "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"echo\",\"params\":{\"word\":3}}]",
		     "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"word\":1}},"
		     "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"word\":3}}]");
	check_error("[]", TGT_RPC_REQUEST, "empty batch");
	check_error("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", TGT_RPC_REQUEST, "too many requests");
}

static void wrong_requests_are_told_what_is_wrong(void **state)
{
	char deep[4096];

	(void)state;
	check_error("\n", TGT_RPC_PARSE, "not JSON");
	check_error("{", TGT_RPC_PARSE, "not JSON");
	check_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"echo\"}", TGT_RPC_PARSE,
		    "duplicate");
	check_error("\"echo\"", TGT_RPC_PARSE, "not JSON");
	check_error("{}", TGT_RPC_REQUEST, "not a request");
	check_error("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"echo\"}", TGT_RPC_REQUEST, "2.0");
	check_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", TGT_RPC_REQUEST, "not a request");
	check_error("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"echo\"}", TGT_RPC_REQUEST, "not a request");
	check_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ech\"}", TGT_RPC_METHOD,
		    "unknown method \"ech\"");
	check_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}", TGT_RPC_PARAMS,
		    "params is not an object");
	check_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":{\"world\":1}}",
		    TGT_RPC_PARAMS, "echo: unknown parameter \"world\"");
	memset(deep, '[', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	check_error(deep, TGT_RPC_PARSE, "not JSON");
}

static void foreign_text_is_made_utf8(void **state)
{
	json_t *text = tgt_rpc_text("a\xff\x1b b");

	(void)state;
	assert_string_equal(json_string_value(text), "a?? b");
	json_decref(text);
	text = tgt_rpc_text("gr\xc3\xbc\xc3\x9f");
	assert_string_equal(json_string_value(text), "gr\xc3\xbc\xc3\x9f");
	json_decref(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_gets_its_result),
		cmocka_unit_test(a_notification_is_run_and_not_answered),
		cmocka_unit_test(a_batch_gets_an_array),
		cmocka_unit_test(wrong_requests_are_told_what_is_wrong),
		cmocka_unit_test(foreign_text_is_made_utf8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
