/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no request to change the configuration breaks its parser, and none puts anything into the file but
 * the sections and keys that it names. Method: the input is the request's line; a changer of the test's edits a
 * document and counts headings and lines before and after.
 */
#include "tests/fuzz/fuzz.h"

#include "target/control/document.h"
#include "target/watch/alter.h"

static const char before[] = "# all\n[target]\nopen = no ; really\n\n[volume a]\npath = /a\n\n"
			     "[initiator i]\naddress = local\naddress = 192.0.2.1\nread = a\n";

static unsigned int lines(const char *text, bool headings)
{
	unsigned int count = 0;

	for (; *text; text = strchr(text, '\n') + 1) {
		count += headings ? text[strspn(text, " \t")] == '[' : 1;
		if (!strchr(text, '\n'))
			break;
	}
	return count;
}

/* More by at most one heading, an empty line before it, or a line of a key for each edit. */
static void check_edited(const struct tgt_change *change, const char *text)
{
	unsigned int added = 0, removed = 0;

	for (unsigned int i = 0; i < change->edit_count; i++) {
		added += change->edits[i].kind == TGT_EDIT_ADD;
		removed += change->edits[i].kind == TGT_EDIT_REMOVE;
		/* [target] may have been removed before. */
		added += change->edits[i].kind == TGT_EDIT_FIND && removed;
	}
	FUZZ_ASSERT(lines(text, true) <= lines(before, true) + added);
	FUZZ_ASSERT(lines(text, true) + removed >= lines(before, true));
	FUZZ_ASSERT(lines(text, false) <= lines(before, false) + 2 * change->edit_count);
}

static uint64_t change_begin(void *context, struct tgt_change *change, char *error)
{
	struct tgt_document document = {0};

	(void)context;
	error[0] = '\0';
	FUZZ_ASSERT(!tgt_document_make(&document, error));
	free(document.files[0].text);
	document.files[0].text = strdup(before);
	document.files[0].bytes = strlen(before);
	if (tgt_document_edit(&document, change->edits, change->edit_count, error) == 0)
		check_edited(change, document.files[0].text);
	else
		FUZZ_ASSERT(*error);
	FUZZ_ASSERT(strlen(document.files[0].text) == document.files[0].bytes);
	tgt_document_fini(&document);
	tgt_change_fini(change);
	return 1;
}

static bool change_ended(void *context, uint64_t number, struct tgt_change_result *result)
{
	(void)context;
	FUZZ_ASSERT(number == 1);
	*result = (struct tgt_change_result){.added = 1, .restart = "credits, queues"};
	return true;
}

static const struct tgt_changer changer = {.begin = change_begin, .ended = change_ended};

static json_t *run_change(struct tgt_rpc_call *call)
{
	return tgt_alter(call, &changer, TGT_CHANGE_EDIT);
}

static const struct tgt_rpc_method methods[] = {
	{"change", run_change, {"edits", "force", NULL}},
	{NULL, NULL, {NULL}},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t job = 0;
	const struct tgt_rpc_caller caller = {.pid = 1, .job = &job};
	char *text = fuzz_copy(data, size);
	char *line = tgt_rpc_answer(methods, NULL, &caller, text, size);

	/* What waits for a change is asked again. */
	if (job) {
		FUZZ_ASSERT(!line);
		line = tgt_rpc_answer(methods, NULL, &caller, text, size);
		FUZZ_ASSERT(!job);
	}
	free(line);
	free(text);
	return 0;
}
