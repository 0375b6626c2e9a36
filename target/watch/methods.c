/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The methods of the control socket. Whoever may connect to it may call all of them. */
#include "target/watch/methods.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "proto/wire/login.h"
#include "target/base/log.h"
#include "target/watch/alter.h"
#include "target/watch/daemon_events.h"
#include "target/watch/kick.h"
#include "target/watch/report.h"
#include "target/watch/reservations.h"

/* A view is used again for so long. */
#define VIEW_NS 100000000ull

const struct tgt_view *tgt_methods_view(struct tgt_methods *methods)
{
	uint64_t now_ns = env_now_ns();

	if (methods->view_ns && now_ns - methods->view_ns < VIEW_NS)
		return &methods->view;
	tgt_methods_fini(methods);
	if (tgt_view_take(&methods->source, &methods->view))
		return NULL;
	methods->view_ns = env_now_ns();
	return &methods->view;
}

void tgt_methods_fini(struct tgt_methods *methods)
{
	if (methods->view_ns)
		tgt_view_free(&methods->view);
	methods->view_ns = 0;
}

/* -- what there is ----------------------------------------------------------------------------- */

static json_t *status_addresses(const struct tgt_methods *methods)
{
	json_t *array = json_array();
	const char *address;

	for (unsigned int i = 0; (address = methods->address(methods->address_context, i)); i++)
		json_array_append_new(array, tgt_rpc_text(address));
	return array;
}

int tgt_methods_health(const struct tgt_methods *methods, const struct tgt_view *view, struct tgt_health *health)
{
	return tgt_health_take(view, &methods->busy, methods->changer, health);
}

static json_t *status_object(const struct tgt_methods *methods, const struct tgt_view *view)
{
	const struct tgt_view_totals *totals = &view->totals;

	return json_pack("{s:s, s:i, s:i, s:s, s:I, s:s, s:o, s:i, s:i, s:I, s:o, s:I, s:o, "
			 "s:o, s:i, s:b, s:o, s:o}",
			 "version", RBLK_VERSION, "protocol", RBLK_PROTOCOL_VERSION, "pid", (int)getpid(), "state",
			 atomic_load(&methods->draining) ? "draining" : "serving", "uptime_ns",
			 (json_int_t)(env_now_ns() - methods->started_ns), "log_level",
			 tgt_log_level_name(tgt_log_get_level()), "addresses", status_addresses(methods), "volumes",
			 (int)view->volume_count, "sessions", (int)view->session_count, "connections",
			 (json_int_t)totals->connections, "logins", tgt_report_logins(view), "fences",
			 (json_int_t)totals->fences, "connection_ends", tgt_report_ends(view), "reactors",
			 tgt_report_reactors(view), "reactors_silent", (int)view->missing, "unsaved_changes",
			 methods->changer && methods->changer->unsaved(methods->changer->context), "missing_volumes",
			 tgt_report_missing(view, TGT_UNSERVED_VOLUME, false), "missing_addresses",
			 tgt_report_missing(view, TGT_UNSERVED_ADDRESS, false));
}

json_t *tgt_methods_status(const struct tgt_methods *methods, const struct tgt_view *view, bool reasons)
{
	json_t *status = status_object(methods, view);
	struct tgt_health health;
	char *words;

	if (!status || tgt_methods_health(methods, view, &health)) {
		json_decref(status);
		return NULL;
	}
	words = tgt_health_words(&health, reasons);
	json_object_set_new(status, "health", tgt_rpc_text(words ? words : ""));
	json_object_set_new(status, "problems", tgt_health_report(&health, reasons));
	free(words);
	tgt_health_fini(&health);
	return status;
}

static json_t *method_status(struct tgt_rpc_call *call)
{
	const struct tgt_view *view = tgt_methods_view(call->context);

	return view ? tgt_methods_status(call->context, view, true) : NULL;
}

static json_t *method_sessions(struct tgt_rpc_call *call)
{
	const struct tgt_view *view = tgt_methods_view(call->context);

	return view ? json_pack("{s:o}", "sessions", tgt_report_sessions(view, true)) : NULL;
}

static json_t *method_volumes(struct tgt_rpc_call *call)
{
	const struct tgt_view *view = tgt_methods_view(call->context);

	return view ? json_pack("{s:o, s:o}", "volumes", tgt_report_volumes(view, true), "missing",
				tgt_report_missing(view, TGT_UNSERVED_VOLUME, true))
		    : NULL;
}

static json_t *method_counts(struct tgt_rpc_call *call)
{
	const struct tgt_view *view = tgt_methods_view(call->context);

	return view ? tgt_report_counts(view) : NULL;
}

/* -- what changes something ------------------------------------------------------------------- */

static json_t *method_log_level(struct tgt_rpc_call *call)
{
	const char *name = json_string_value(json_object_get(call->params, "level"));
	enum tgt_log_level level;

	if (!json_object_get(call->params, "level"))
		return json_pack("{s:s}", "log_level", tgt_log_level_name(tgt_log_get_level()));
	if (!name || !tgt_log_level_find(name, &level))
		return tgt_rpc_fail(call, TGT_RPC_PARAMS,
				    "level: \"%.64s\" is not one of error, warning, info, debug",
				    name ? name : "");
	/* Before and after: the line is seen whichever of the two levels hides it. */
	tgt_log(TGT_LOG_WARNING, "control: log level %s, as user %u (process %d) asked", name,
		(unsigned int)call->caller->uid, (int)call->caller->pid);
	tgt_log_set_level(level);
	return json_pack("{s:s}", "log_level", name);
}

static json_t *method_reload(struct tgt_rpc_call *call)
{
	return tgt_alter(call, ((struct tgt_methods *)call->context)->changer, TGT_CHANGE_RELOAD);
}

static json_t *method_change(struct tgt_rpc_call *call)
{
	return tgt_alter(call, ((struct tgt_methods *)call->context)->changer, TGT_CHANGE_EDIT);
}

static json_t *method_save(struct tgt_rpc_call *call)
{
	return tgt_alter(call, ((struct tgt_methods *)call->context)->changer, TGT_CHANGE_SAVE);
}

static json_t *method_move(struct tgt_rpc_call *call)
{
	return tgt_alter(call, ((struct tgt_methods *)call->context)->changer, TGT_CHANGE_MOVE);
}

static json_t *method_show(struct tgt_rpc_call *call)
{
	return tgt_alter(call, ((struct tgt_methods *)call->context)->changer, TGT_CHANGE_SHOW);
}

static json_t *method_reservations(struct tgt_rpc_call *call)
{
	return tgt_reservations_method(call, &((struct tgt_methods *)call->context)->source);
}

static json_t *method_clear(struct tgt_rpc_call *call)
{
	return tgt_clear_method(call, &((struct tgt_methods *)call->context)->source);
}

static json_t *method_kick(struct tgt_rpc_call *call)
{
	struct tgt_methods *methods = call->context;
	const struct tgt_view *view;
	json_t *result;

	/* Whoever came since the last view is meant, too, and the next one is without those who went. */
	tgt_methods_fini(methods);
	view = tgt_methods_view(methods);
	result = view ? tgt_kick(call, &methods->source, view) : NULL;
	tgt_methods_fini(methods);
	return result;
}

static json_t *method_drain(struct tgt_rpc_call *call)
{
	struct tgt_methods *methods = call->context;
	const struct tgt_view *view = tgt_methods_view(methods);
	const struct tgt_config *config = methods->source.config;

	/* A second SIGTERM would end it at once. */
	if (!atomic_exchange(&methods->draining, true)) {
		tgt_log(TGT_LOG_WARNING, "control: draining, as user %u (process %d) asked",
			(unsigned int)call->caller->uid, (int)call->caller->pid);
		kill(getpid(), SIGTERM);
	}
	/* The caller tells a person what ends, and how long that may take. */
	return json_pack("{s:s, s:i, s:I}", "state", "draining", "sessions", view ? (int)view->session_count : 0, "drain_ns",
			 config ? (json_int_t)config->drain_ms * 1000000 : 0);
}

const struct tgt_rpc_method tgt_methods[] = {
	{"status", method_status, {NULL}},
	{"sessions", method_sessions, {NULL}},
	{"volumes", method_volumes, {NULL}},
	{"counts", method_counts, {NULL}},
	{"events", tgt_daemon_events_method, {"after", NULL}},
	{"log-level", method_log_level, {"level", NULL}},
	{"reload", method_reload, {"force", NULL}},
	{"change", method_change, {"edits", "force", NULL}},
	{"save", method_save, {"force", NULL}},
	{"show", method_show, {NULL}},
	{"reservations", method_reservations, {"volume", NULL}},
	{"clear", method_clear, {"volume", "force", NULL}},
	{"kick", method_kick, {"initiator", "session", NULL}},
	{"move", method_move, {"volume", "force", NULL}},
	{"drain", method_drain, {NULL}},
	{NULL, NULL, {NULL}},
};
