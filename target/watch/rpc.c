/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads requests, runs methods, and writes answers, as the specification of JSON-RPC 2.0 says. */
#include "target/watch/rpc.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *tgt_rpc_fail(struct tgt_rpc_call *call, enum tgt_rpc_code code, const char *format, ...)
{
	va_list args;

	call->code = code;
	va_start(args, format);
	vsnprintf(call->error, sizeof(call->error), format, args);
	va_end(args);
	return NULL;
}

json_t *tgt_rpc_later(struct tgt_rpc_call *call, uint64_t job)
{
	*call->caller->job = job;
	call->later = true;
	return NULL;
}

json_t *tgt_rpc_text(const char *text)
{
	json_t *string = json_string(text);
	char clean[TGT_ERROR_BYTES];
	size_t i;

	if (string)
		return string;
	for (i = 0; text[i] && i < sizeof(clean) - 1; i++)
		clean[i] = text[i] < ' ' || text[i] > '~' ? '?' : text[i];
	clean[i] = '\0';
	return json_string(clean);
}

/* Takes over `id`; NULL: unknown. */
static json_t *answer_error(json_t *id, int code, const char *words)
{
	return json_pack("{s:s, s:o, s:{s:i, s:o}}", "jsonrpc", "2.0", "id", id ? id : json_null(),
			 "error", "code", code, "message", tgt_rpc_text(words));
}

static const struct tgt_rpc_method *method_find(const struct tgt_rpc_method *methods,
						const char *name)
{
	for (; methods->name; methods++)
		if (!strcmp(methods->name, name))
			return methods;
	return NULL;
}

/* False after an error. */
static bool params_known(struct tgt_rpc_call *call, const struct tgt_rpc_method *method)
{
	const char *key;
	json_t *value;

	json_object_foreach(call->params, key, value) {
		unsigned int i;

		for (i = 0; method->params[i] && strcmp(method->params[i], key); i++)
			;
		if (method->params[i])
			continue;
		tgt_rpc_fail(call, TGT_RPC_PARAMS, "%s: unknown parameter \"%.64s\"", method->name,
			     key);
		return false;
	}
	return true;
}

/* Runs it. The result, or NULL with code and error. */
static json_t *request_run(const struct tgt_rpc_method *methods, const char *name,
			   struct tgt_rpc_call *call)
{
	const struct tgt_rpc_method *method = method_find(methods, name);
	json_t *result;

	if (!method)
		return tgt_rpc_fail(call, TGT_RPC_METHOD, "unknown method \"%.64s\"", name);
	if (!json_is_object(call->params))
		return tgt_rpc_fail(call, TGT_RPC_PARAMS, "%s: params is not an object", name);
	if (!params_known(call, method))
		return NULL;
	tgt_rpc_fail(call, TGT_RPC_INTERNAL, "%s: out of memory", name);
	result = method->run(call);
	return result;
}

/* One request. NULL: no answer is wanted. */
static json_t *request_answer(const struct tgt_rpc_method *methods, void *context,
			      const struct tgt_rpc_caller *caller, json_t *request)
{
	json_t *version = json_object_get(request, "jsonrpc");
	json_t *name = json_object_get(request, "method");
	json_t *id = json_object_get(request, "id");
	json_t *params = json_object_get(request, "params");
	struct tgt_rpc_call call = {.context = context, .caller = caller};
	json_t *result;

	if (!json_is_object(request) || !json_is_string(version) ||
	    strcmp(json_string_value(version), "2.0") || !json_is_string(name) ||
	    (id && !json_is_string(id) && !json_is_integer(id) && !json_is_null(id)))
		return answer_error(NULL, TGT_RPC_REQUEST,
				    "not a request of JSON-RPC 2.0: jsonrpc \"2.0\", method and, "
				    "but for notifications, id are needed");
	call.params = params ? json_incref(params) : json_object();
	result = request_run(methods, json_string_value(name), &call);
	json_decref(call.params);
	if (!id || call.later) {
		json_decref(result);
		return NULL;
	}
	if (!result)
		return answer_error(json_incref(id), call.code, call.error);
	return json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result);
}

static json_t *batch_answer(const struct tgt_rpc_method *methods, void *context,
			    const struct tgt_rpc_caller *caller, json_t *batch)
{
	const struct tgt_rpc_caller one = {.pid = caller->pid, .uid = caller->uid};
	json_t *answers, *request, *answer;
	size_t i;

	if (!json_array_size(batch))
		return answer_error(NULL, TGT_RPC_REQUEST, "an empty batch");
	if (json_array_size(batch) > TGT_RPC_BATCH_MAX)
		return answer_error(NULL, TGT_RPC_REQUEST, "too many requests in one batch");
	answers = json_array();
	json_array_foreach(batch, i, request) {
		answer = request_answer(methods, context, &one, request);
		if (answer)
			json_array_append_new(answers, answer);
	}
	if (json_array_size(answers))
		return answers;
	json_decref(answers);
	return NULL;
}

char *tgt_rpc_answer(const struct tgt_rpc_method *methods, void *context,
		     const struct tgt_rpc_caller *caller, const char *text, size_t bytes)
{
	json_t *request, *answer;
	json_error_t error;
	char words[TGT_ERROR_BYTES], *line, *longer;
	size_t length;

	request = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
	if (!request) {
		snprintf(words, sizeof(words), "not JSON: %s", error.text);
		answer = answer_error(NULL, TGT_RPC_PARSE, words);
	} else if (json_is_array(request)) {
		answer = batch_answer(methods, context, caller, request);
	} else {
		answer = request_answer(methods, context, caller, request);
	}
	json_decref(request);
	if (!answer)
		return NULL;
	line = json_dumps(answer, JSON_COMPACT);
	json_decref(answer);
	if (!line)
		return NULL;
	length = strlen(line);
	longer = realloc(line, length + 2);
	if (!longer) {
		free(line);
		return NULL;
	}
	memcpy(longer + length, "\n", 2);
	return longer;
}
