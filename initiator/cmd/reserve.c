/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* rblk reserve: shows and changes who is registered with a volume and what is reserved. */
#include "initiator/cmd/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct reserve_values {
	struct cmd_connect connect;
	bool json, ignore_key, abort, persist, is_volatile;
	const char *key, *new_key, *other_key, *type;
} values = {.connect = CMD_CONNECT_DEFAULTS};

static const struct cmd_option options[] = {
	{"own-key", 'k', CMD_OPTION_TEXT, offsetof(struct reserve_values, key), 0, 0, "KEY",
	 "this initiator's key (default: 0, it is not registered)"},
	{"new-key", 0, CMD_OPTION_TEXT, offsetof(struct reserve_values, new_key), 0, 0, "KEY",
	 "register: the key from now on (default: 0, unregister)"},
	{"other-key", 0, CMD_OPTION_TEXT, offsetof(struct reserve_values, other_key), 0, 0, "KEY",
	 "preempt: remove those that have this key"},
	{"type", 't', CMD_OPTION_TEXT, offsetof(struct reserve_values, type), 0, 0, "TYPE",
	 "acquire, preempt, release: the type of reservation"},
	{"ignore-key", 0, CMD_OPTION_FLAG, offsetof(struct reserve_values, ignore_key), 0, 0, NULL,
	 "register: whatever this initiator's key is"},
	{"abort", 0, CMD_OPTION_FLAG, offsetof(struct reserve_values, abort), 0, 0, NULL,
	 "preempt: also drop commands that have not begun"},
	{"persist", 0, CMD_OPTION_FLAG, offsetof(struct reserve_values, persist), 0, 0, NULL,
	 "register: reservations outlive the target's daemon"},
	{"volatile", 0, CMD_OPTION_FLAG, offsetof(struct reserve_values, is_volatile), 0, 0, NULL,
	 "register: they do not"},
	CMD_OPTION_JSON(struct reserve_values),
	CMD_CONNECT_OPTIONS(struct reserve_values),
	CMD_OPTION_HELP,
	CMD_OPTIONS_END,
};

static const char *const actions[] = {
	"show",
	[RBLK_PR_REGISTER] = "register",
	[RBLK_PR_ACQUIRE] = "acquire",
	[RBLK_PR_RELEASE] = "release",
	[RBLK_PR_PREEMPT] = "preempt",
	[RBLK_PR_CLEAR] = "clear",
};

static const char *const types[] = {
	[RBLK_PR_NONE] = "none",
	[RBLK_PR_WRITE_EXCLUSIVE] = "write-exclusive",
	[RBLK_PR_EXCLUSIVE_ACCESS] = "exclusive-access",
	[RBLK_PR_WRITE_EXCLUSIVE_REGISTRANTS] = "write-exclusive-registrants",
	[RBLK_PR_EXCLUSIVE_ACCESS_REGISTRANTS] = "exclusive-access-registrants",
	[RBLK_PR_WRITE_EXCLUSIVE_ALL] = "write-exclusive-all",
	[RBLK_PR_EXCLUSIVE_ACCESS_ALL] = "exclusive-access-all",
};

#define COUNT(names) (sizeof(names) / sizeof((names)[0]))

const char *cmd_reserve_type_name(size_t index)
{
	return index < COUNT(types) ? types[index] : NULL;
}

/* Its index, or -1. */
static int name_find(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return (int)i;
	return -1;
}

/* Keys are decimal or hexadecimal numbers: "31", "0x1f". NULL: 0. */
static int key_parse(const char *option, const char *text, uint64_t *key)
{
	char *end;

	*key = 0;
	if (!text)
		return CMD_OK;
	errno = 0;
	*key = strtoull(text, &end, 0);
	if (!errno && end != text && !*end && *text != '-' && *text != '+' && *text != ' ')
		return CMD_OK;
	cmd_error("--%s: \"%.64s\" is not a key: a number of 64 bits, like 17 or 0x11", option,
		  text);
	return CMD_USAGE;
}

static int request_parse(struct rblk_pr_request *request)
{
	int type = values.type ? name_find(types, COUNT(types), values.type) : 0;

	if (type < 0) {
		cmd_error("--type: \"%.64s\" is not a type: write-exclusive or exclusive-access, alone or with "
			  "-registrants or -all",
			  values.type);
		return CMD_USAGE;
	}
	request->type = (enum rblk_pr_type)type;
	request->flags = (values.ignore_key ? RBLK_PR_IGNORE_KEY : 0u) |
			 (values.abort ? RBLK_PR_ABORT : 0u) |
			 (values.persist ? RBLK_PR_PERSIST : 0u) |
			 (values.is_volatile ? RBLK_PR_VOLATILE : 0u);
	if (key_parse("own-key", values.key, &request->key) ||
	    key_parse("new-key", values.new_key, &request->new_key) ||
	    key_parse("other-key", values.other_key, &request->other_key))
		return CMD_USAGE;
	return CMD_OK;
}

/* CMD_OK, or CMD_USAGE after an error message: librblk refuses what other actions do not take. */
static int show_options_check(void)
{
	static const char *const changes[] = { "own-key", "new-key", "other-key", "type", "ignore-key", "abort", "persist", "volatile" };

	for (size_t i = 0; i < COUNT(changes); i++)
		if (cmd_options_not("with show", changes[i]))
			return CMD_USAGE;
	return CMD_OK;
}

/* Likewise: a target would refuse these, too, and could not say what is missing. */
static int request_check(const struct rblk_pr_request *request)
{
	const char *missing = NULL;

	if (request->action == RBLK_PR_REGISTER && !values.key && !values.new_key && !values.ignore_key)
		missing = "--new-key, the key to register, or --own-key, the one to end";
	if (request->action == RBLK_PR_ACQUIRE && !request->type)
		missing = "--type, the type of the reservation";
	if (!missing)
		return CMD_OK;
	cmd_error("reserve: %s needs %s", actions[request->action], missing);
	return CMD_USAGE;
}

static const char *reserve_reason(int error)
{
	switch (error) {
	case -EBADE:
		return "refused: the key is not this initiator's, or another one holds a "
		       "reservation";
	case -EINVAL:
		return "options that do not belong to this action, or the type is not the one in "
		       "force";
	case -EOPNOTSUPP:
		return "the target does not do this for the volume";
	case -EACCES:
		return "denied: this initiator has no name of its own (give it one with --name, or its host one), or may "
		       "only read the volume";
	case -EIO:
		return "the target could not keep it, nothing has changed";
	default:
		return cmd_reason(error);
	}
}

/* -- what there is ----------------------------------------------------------------------------- */

static int show_json(const char *uri, const struct rblk_volume_info *info,
		     const struct rblk_pr_state *state,
		     const struct rblk_pr_registrant *registrants)
{
	json_t *list = json_array();
	char key[CMD_TEXT_BYTES];

	for (unsigned int i = 0; i < state->count; i++) {
		snprintf(key, sizeof(key), "0x%" PRIx64, registrants[i].key);
		json_array_append_new(list, json_pack("{s:o s:s s:b}", "initiator",
						      cmd_json_text(registrants[i].initiator),
						      "reservation_key", key, "holder",
						      registrants[i].holder));
	}
	return cmd_json_print(json_pack(
		"{s:o s:s s:s s:b s:I s:o}", "uri", cmd_json_text(uri), "volume", info->name,
		"reservation_type", types[state->type], "persists", state->persists, "generation",
		(json_int_t)state->generation, "registrants", list));
}

static void show_text(const struct rblk_pr_state *state,
		      const struct rblk_pr_registrant *registrants)
{
	struct cmd_table *table;
	char key[CMD_TEXT_BYTES];

	printf("reservation %s, %u registrant%s, %s, generation %u\n", types[state->type],
	       state->total, state->total == 1 ? "" : "s", state->persists ? "persistent" : "volatile", state->generation);
	if (!state->count)
		return;
	table = cmd_table_create(3);
	cmd_table_row(table, "INITIATOR", "KEY", "HOLDER");
	for (unsigned int i = 0; i < state->count; i++) {
		snprintf(key, sizeof(key), "0x%" PRIx64, registrants[i].key);
		cmd_table_row(table, registrants[i].initiator, key,
			      registrants[i].holder ? "yes" : "no");
	}
	cmd_table_print(table, NULL);
	cmd_table_destroy(table);
}

static int reserve_show(const char *uri, struct rblk_volume *volume)
{
	struct rblk_pr_registrant registrants[RBLK_PR_REGISTRANTS_MAX];
	struct rblk_pr_state state;
	int err = rblk_reservations(volume, &state, sizeof(state), registrants,
				    RBLK_PR_REGISTRANTS_MAX);

	if (err)
		return cmd_error("%s: %s", uri, reserve_reason(err));
	if (values.json)
		return show_json(uri, rblk_volume_info(volume), &state, registrants);
	show_text(&state, registrants);
	return CMD_OK;
}

/* -- the verb ---------------------------------------------------------------------------------- */

static int reserve_volume(const char *uri, struct rblk_volume *volume,
			  const struct rblk_pr_request *request)
{
	int err = request->action ? rblk_reserve(volume, request) : 0;

	if (err)
		return cmd_error("%s: %s: %s", uri, actions[request->action], reserve_reason(err));
	/* Prints the state after the change. */
	return !request->action || values.json ? reserve_show(uri, volume) : CMD_OK;
}

static int reserve_run(char **operands, int count)
{
	struct rblk_options session_options = {.no_reconnect = true};
	struct rblk_pr_request request = RBLK_PR_REQUEST_INIT;
	int action = count > 1 ? name_find(actions, COUNT(actions), operands[1]) : 0;
	struct rblk_session *session;
	struct rblk_volume *volume;
	int status = CMD_FAILED;

	if (action < 0) {
		cmd_error("reserve: \"%.64s\" is not an action: show, register, acquire, release, "
			  "preempt or clear",
			  operands[1]);
		return CMD_USAGE;
	}
	if (cmd_uri_check(operands[0], true) || request_parse(&request) || (!action && show_options_check()))
		return CMD_USAGE;
	request.action = (enum rblk_pr_action)action;
	if (request_check(&request))
		return CMD_USAGE;
	session = cmd_session_open(operands[0], &values.connect, &session_options);
	if (!session)
		return CMD_FAILED;
	volume = cmd_volume_open(session, RBLK_VOLUME_OPEN_READ_ONLY);
	if (volume)
		status = reserve_volume(operands[0], volume, &request);
	rblk_session_close(session);
	return status;
}

const struct cmd_verb cmd_verb_reserve = {
	.name = "reserve",
	.operands = "VOLUME [show|register|acquire|release|preempt|clear]",
	.summary = "show or change the reservations of a volume",
	.options = options,
	.values = &values,
	.connects = true,
	.operands_least = 1,
	.operands_most = 2,
	.run = reserve_run,
};
