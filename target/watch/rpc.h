/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * JSON-RPC 2.0: from the text of a request to the text of its answer, by a table of methods. No I/O.
 * Whoever sends requests is not trusted: everything is bounded, and wrong requests get an error.
 */
#ifndef RBLK_TARGET_WATCH_RPC_H
#define RBLK_TARGET_WATCH_RPC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "target/base/error.h"

/* The longest request, with its end of line. */
#define TGT_RPC_REQUEST_BYTES 65536u
/* Requests in one batch. */
#define TGT_RPC_BATCH_MAX 16u

enum tgt_rpc_code {
	TGT_RPC_PARSE = -32700,
	TGT_RPC_REQUEST = -32600,
	TGT_RPC_METHOD = -32601,
	TGT_RPC_PARAMS = -32602,
	TGT_RPC_INTERNAL = -32603,
	TGT_RPC_FAILED = -32000, /* the method's own failure */
};

/* Who asks, as the kernel says. */
struct tgt_rpc_caller {
	pid_t pid;
	uid_t uid;
	/* For methods that take long: 0 at first. If it is another number after tgt_rpc_answer(), that
	 * goes on, and the same request is to be answered again later. NULL: they are refused. */
	uint64_t *job;
};

struct tgt_rpc_call {
	void *context;
	const struct tgt_rpc_caller *caller;
	json_t *params; /* an object; the call's, perhaps empty */
	bool later;		     /* no answer yet */
	enum tgt_rpc_code code;	     /* of a failure */
	char error[TGT_ERROR_BYTES]; /* likewise */
};

struct tgt_rpc_method {
	const char *name; /* NULL ends the table */
	/* The result, the caller's; NULL: call->code and call->error say why. */
	json_t *(*run)(struct tgt_rpc_call *call);
	const char *params[4]; /* names of those that it knows; NULL ends */
};

/* Sets code and error, returns NULL. */
json_t *tgt_rpc_fail(struct tgt_rpc_call *call, enum tgt_rpc_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* There is no answer yet; the method is called again, with this number in caller->job. Returns NULL. */
json_t *tgt_rpc_later(struct tgt_rpc_call *call, uint64_t job);

/*
 * The answer to one line, with its end of line, which the caller frees with free(); NULL: there is
 * none to be given (notifications), or no memory.
 */
char *tgt_rpc_answer(const struct tgt_rpc_method *methods, void *context,
		     const struct tgt_rpc_caller *caller, const char *text, size_t bytes);

/* A string, in UTF-8 even if `text`, which may be a peer's, is not. */
json_t *tgt_rpc_text(const char *text);

#endif
