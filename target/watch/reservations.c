/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reservations as JSON, from the volumes' own; a change goes by a message to a reactor. */
#include "target/watch/reservations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "target/base/log.h"
#include "target/serve/calls.h"
#include "target/watch/names.h"

/* NULL: nobody has registered, or no memory. */
static struct rblk_wire_reservation_report *report_take(struct tgt_volume *volume)
{
	struct rblk_wire_reservation_report *report =
		calloc(1, sizeof(*report) + RBLK_REGISTRANTS_MAX * sizeof(struct rblk_wire_registrant));

	if (!report)
		return NULL;
	tgt_reservations_report(&volume->reservations, report, RBLK_REGISTRANTS_MAX);
	if (rblk_le32(report->registrants))
		return report;
	free(report);
	return NULL;
}

/* Adds the volume, if anybody has registered. */
static void volume_add(json_t *array, struct tgt_volume *volume)
{
	struct rblk_wire_reservation_report *report = report_take(volume);
	const struct rblk_wire_registrant *registrants;
	json_t *list;
	char key[24];

	if (!report)
		return;
	registrants = (const void *)(report + 1);
	list = json_array();
	for (uint32_t i = 0; i < rblk_le32(report->registrants); i++) {
		snprintf(key, sizeof(key), "0x%llx", (unsigned long long)rblk_le64(registrants[i].key));
		json_array_append_new(list, json_pack("{s:o, s:s, s:b}", "initiator", tgt_rpc_text(registrants[i].initiator),
						      "key", key, "holder", registrants[i].holder != 0));
	}
	json_array_append_new(array, json_pack("{s:s, s:s, s:b, s:o}", "volume", volume->config.name, "type",
					       tgt_name_reservation(report->type), "persistent", report->persists != 0,
					       "registrants", list));
	free(report);
}

/* With a reference; NULL: the error is set. */
static struct tgt_volume *volume_of(struct tgt_rpc_call *call, const struct tgt_watch_source *source)
{
	const char *name = json_string_value(json_object_get(call->params, "volume"));
	struct tgt_volume *volume = name ? tgt_volume_get(source->registry, name) : NULL;

	if (!volume)
		tgt_rpc_fail(call, name ? TGT_RPC_FAILED : TGT_RPC_PARAMS,
			     name ? "there is no volume \"%.63s\"" : "volume: not the name of a volume%s", name ? name : "");
	return volume;
}

json_t *tgt_reservations_method(struct tgt_rpc_call *call, const struct tgt_watch_source *source)
{
	struct tgt_volume *one = NULL, **list;
	json_t *array = json_array();
	unsigned int count, total;

	if (json_object_get(call->params, "volume")) {
		one = volume_of(call, source);
		if (one)
			volume_add(array, one);
		else
			json_decref(array);
		if (one)
			tgt_volume_put(one);
		return one ? json_pack("{s:o}", "reservations", array) : NULL;
	}
	list = calloc(RBLK_VOLUMES_MAX, sizeof(*list));
	count = list ? tgt_volume_list(source->registry, 0, list, RBLK_VOLUMES_MAX, &total) : 0;
	for (unsigned int i = 0; i < count; i++) {
		volume_add(array, list[i]);
		tgt_volume_put(list[i]);
	}
	free(list);
	return json_pack("{s:o}", "reservations", array);
}

json_t *tgt_clear_method(struct tgt_rpc_call *call, const struct tgt_watch_source *source)
{
	struct tgt_volume *volume = volume_of(call, source);
	json_t *array = json_array(), *result = NULL;

	if (!volume) {
		json_decref(array);
		return NULL;
	}
	volume_add(array, volume);
	if (!json_array_size(array)) {
		tgt_rpc_fail(call, TGT_RPC_FAILED, "volume %s has no reservation, and nobody has registered", volume->config.name);
	} else if (!json_is_true(json_object_get(call->params, "force"))) {
		tgt_rpc_fail(call, TGT_RPC_FAILED,
			     "volume %s: its reservation may be what keeps two machines of a cluster from writing at once: make sure that "
			     "nobody relies on it, and clear it with --force",
			     volume->config.name);
	} else if (tgt_reactor_call(source->reactors[0], tgt_reserve_clear, tgt_volume_ref(volume))) {
		tgt_log(TGT_LOG_WARNING, "control: volume %s: clearing its reservation, as user %u (process %d) asked",
			volume->config.name, (unsigned int)call->caller->uid, (int)call->caller->pid);
		result = json_pack("{s:O}", "reservations", array);
	} else {
		tgt_volume_put(volume);
		tgt_rpc_fail(call, TGT_RPC_FAILED, "out of memory");
	}
	json_decref(array);
	tgt_volume_put(volume);
	return result;
}
