/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From the parameters of a request to a change, and from its result to an answer. */
#include "target/watch/alter.h"

#include <stdlib.h>
#include <string.h>

/* -- edits ------------------------------------------------------------------------------------- */

/* False: no memory, or too many. The texts are copied; NULL: there is none. */
static bool edit_add(struct tgt_change *change, enum tgt_edit_kind kind, const char *section,
		     const char *key, const char *value)
{
	unsigned int count = change->edit_count;
	struct tgt_edit *edit;

	if (count == TGT_EDITS_MAX)
		return false;
	edit = reallocarray(change->edits, count + 1, sizeof(*edit));
	if (!edit)
		return false;
	change->edits = edit;
	edit += count;
	change->edit_count++;
	edit->kind = kind;
	edit->section = strdup(section);
	edit->key = key ? strdup(key) : NULL;
	edit->value = value ? strdup(value) : NULL;
	return edit->section && (edit->key || !key) && (edit->value || !value);
}

/* A value is a text, several (a line each), or null: no line. False after an error. */
static bool key_take(struct tgt_rpc_call *call, struct tgt_change *change, const char *section,
		     const char *key, const json_t *value)
{
	bool added = true;
	const json_t *one;
	size_t i;

	if (json_is_null(value)) {
		added = edit_add(change, TGT_EDIT_UNSET, section, key, NULL);
	} else if (json_is_string(value)) {
		added = edit_add(change, TGT_EDIT_SET, section, key, json_string_value(value));
	} else if (json_is_array(value) && json_array_size(value)) {
		json_array_foreach(value, i, one) {
			if (!json_is_string(one))
				break;
			added = added && edit_add(change, i ? TGT_EDIT_MORE : TGT_EDIT_SET, section,
						  key, json_string_value(one));
		}
		if (i < json_array_size(value))
			value = NULL;
	} else {
		value = NULL;
	}
	if (!value)
		tgt_rpc_fail(call, TGT_RPC_PARAMS, "[%.64s] %.64s: is neither a text, nor some texts, nor null",
			     section, key);
	else if (!added)
		tgt_rpc_fail(call, TGT_RPC_PARAMS, "more than %u edits at once, or out of memory", TGT_EDITS_MAX);
	return value && added;
}

/* {"edit": "add", "section": "volume data", "keys": {...}} */
static bool edit_take(struct tgt_rpc_call *call, struct tgt_change *change, json_t *object)
{
	static const struct {
		const char *word;
		enum tgt_edit_kind kind;
	} kinds[] = {{"add", TGT_EDIT_ADD}, {"set", TGT_EDIT_FIND}, {"remove", TGT_EDIT_REMOVE}};
	const char *word = NULL, *section = NULL, *key;
	json_t *keys = NULL, *value;
	unsigned int i = 3;

	if (json_unpack(object, "{s:s, s:s, s?o !}", "edit", &word, "section", &section, "keys",
			&keys) == 0)
		for (i = 0; i < 3 && strcmp(word, kinds[i].word); i++)
			;
	if (i == 3 || (keys && !json_is_object(keys)) ||
	    (keys && kinds[i].kind == TGT_EDIT_REMOVE)) {
		tgt_rpc_fail(call, TGT_RPC_PARAMS,
			     "an edit has edit (add, set or remove), section and, unless it "
			     "removes, keys");
		return false;
	}
	if (!edit_add(change, kinds[i].kind, section, NULL, NULL)) {
		tgt_rpc_fail(call, TGT_RPC_PARAMS, "more than %u edits at once, or out of memory", TGT_EDITS_MAX);
		return false;
	}
	json_object_foreach(keys, key, value)
		if (!key_take(call, change, section, key, value))
			return false;
	return true;
}

static bool edits_take(struct tgt_rpc_call *call, struct tgt_change *change)
{
	json_t *edits = json_object_get(call->params, "edits"), *edit;
	size_t i;

	if (!json_array_size(edits)) {
		tgt_rpc_fail(call, TGT_RPC_PARAMS, "edits is not an array of edits");
		return false;
	}
	json_array_foreach(edits, i, edit)
		if (!edit_take(call, change, edit))
			return false;
	return true;
}

/* False after an error. */
static bool volume_take(struct tgt_rpc_call *call, struct tgt_change *change)
{
	const char *name = json_string_value(json_object_get(call->params, "volume"));

	change->volume = name ? strdup(name) : NULL;
	if (!change->volume)
		tgt_rpc_fail(call, TGT_RPC_PARAMS, "volume is not a name");
	return change->volume;
}

/* -- changes ----------------------------------------------------------------------------------- */

static json_t *alter_begin(struct tgt_rpc_call *call, const struct tgt_changer *changer,
			   enum tgt_change_kind kind)
{
	struct tgt_change change = {.kind = kind,
				    .force = json_is_true(json_object_get(call->params, "force")),
				    .uid = call->caller->uid,
				    .pid = call->caller->pid};
	uint64_t number;

	if (kind == TGT_CHANGE_MOVE && !volume_take(call, &change))
		return NULL;
	if (kind == TGT_CHANGE_EDIT && !edits_take(call, &change)) {
		tgt_change_fini(&change);
		return NULL;
	}
	number = changer->begin(changer->context, &change, call->error);
	call->code = TGT_RPC_FAILED;
	return number ? tgt_rpc_later(call, number) : NULL;
}

static json_t *result_restart(const char *names)
{
	json_t *array = json_array();

	while (*names) {
		size_t length = strcspn(names, ",");

		json_array_append_new(array, json_stringn(names, length));
		names += length;
		names += strspn(names, ", ");
	}
	return array;
}

static json_t *text_or_null(const char *text)
{
	return text ? tgt_rpc_text(text) : json_null();
}

/* Frees the settings. */
static json_t *result_settings(struct tgt_settings *settings, bool unsaved)
{
	json_t *array = json_array(), *result;

	for (unsigned int i = 0; i < settings->count; i++) {
		const struct tgt_setting *setting = &settings->list[i];

		json_array_append_new(array, json_pack("{s:s, s:s, s:o, s:o, s:b}", "section", setting->section, "key",
						       setting->key, "value", text_or_null(setting->value), "in_files",
						       text_or_null(setting->filed), "default", setting->standard));
	}
	result = json_pack("{s:o, s:o, s:b}", "settings", array, "files_unreadable", text_or_null(settings->unreadable),
			   "unsaved_changes", unsaved);
	tgt_settings_free(settings);
	return result;
}

json_t *tgt_alter(struct tgt_rpc_call *call, const struct tgt_changer *changer,
		  enum tgt_change_kind kind)
{
	uint64_t number = call->caller->job ? *call->caller->job : 0;
	struct tgt_change_result result;

	if (!changer)
		return tgt_rpc_fail(call, TGT_RPC_FAILED, "this daemon does not change");
	if (!call->caller->job)
		return tgt_rpc_fail(call, TGT_RPC_PARAMS, "not in a batch: it may take long");
	if (!number)
		return alter_begin(call, changer, kind);
	if (!changer->ended(changer->context, number, &result))
		return tgt_rpc_later(call, number);
	*call->caller->job = 0;
	if (result.status < 0)
		return tgt_rpc_fail(call, TGT_RPC_FAILED, "%s", result.words);
	if (kind == TGT_CHANGE_MOVE)
		return json_pack("{s:i, s:i, s:b}", "left", (int)result.sessions_left, "stay",
				 (int)result.sessions_stay, "given_away", (int)result.given_away);
	if (result.settings)
		return result_settings(result.settings, result.unsaved);
	return json_pack("{s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:b}", "added", (int)result.added, "removed",
			 (int)result.removed, "changed", (int)result.changed, "not_served",
			 (int)result.unserved, "reason",
			 result.unserved ? tgt_rpc_text(result.words) : json_null(), "needs_restart",
			 result_restart(result.restart), "warning", text_or_null(result.warning[0] ? result.warning : NULL),
			 "unsaved_changes", (int)result.unsaved);
}
