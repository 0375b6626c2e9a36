/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds the problems of health.h, and words them. */
#include "target/watch/health.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/words/units.h"
#include "target/base/daemon_event.h"
#include "target/base/text.h"
#include "target/watch/rpc.h"

static const struct problem_kind {
	const char *name;
	enum tgt_log_level level;
} kinds[] = {
	[TGT_PROBLEM_REACTOR_SILENT] = {"reactor_silent", TGT_LOG_ERROR},
	[TGT_PROBLEM_FLUSH_FAILED] = {"flush_failed", TGT_LOG_ERROR},
	[TGT_PROBLEM_VOLUME_DELETED] = {"volume_deleted", TGT_LOG_ERROR},
	[TGT_PROBLEM_VOLUME_SHORT] = {"volume_short", TGT_LOG_ERROR},
	[TGT_PROBLEM_VOLUME_MISSING] = {"volume_missing", TGT_LOG_ERROR},
	[TGT_PROBLEM_DISK_FULL] = {"disk_full", TGT_LOG_ERROR},
	[TGT_PROBLEM_VOLUME_FAILING] = {"volume_failing", TGT_LOG_ERROR},
	[TGT_PROBLEM_ADDRESS_MISSING] = {"address_missing", TGT_LOG_ERROR},
	[TGT_PROBLEM_DEVICE_LOST] = {"device_lost", TGT_LOG_ERROR},
	[TGT_PROBLEM_RELOAD_FAILED] = {"reload_failed", TGT_LOG_ERROR},
	[TGT_PROBLEM_REACTOR_BUSY] = {"reactor_busy", TGT_LOG_WARNING},
	[TGT_PROBLEM_CLIENT_AWAITED] = {"client_awaited", TGT_LOG_WARNING},
	[TGT_PROBLEM_LOGINS_REFUSED] = {"logins_refused", TGT_LOG_WARNING},
};

const char *tgt_problem_name(enum tgt_problem_kind kind)
{
	return kinds[kind].name;
}

/* Counts it. A place for its words, with the name; NULL: it is not listed. */
static struct tgt_problem *problem_add(struct tgt_health *health, enum tgt_problem_kind kind,
				       const char *key, const char *name)
{
	struct tgt_problem *problem;

	health->counts[kind]++;
	health->count++;
	health->failures += kinds[kind].level == TGT_LOG_ERROR;
	if (health->listed == TGT_PROBLEMS_LISTED)
		return NULL;
	problem = &health->list[health->listed++];
	problem->kind = kind;
	problem->key = key;
	snprintf(problem->name, sizeof(problem->name), "%s", name);
	return problem;
}

static void what(struct tgt_problem *problem, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void what(struct tgt_problem *problem, const char *format, ...)
{
	va_list args;

	if (!problem)
		return;
	va_start(args, format);
	vsnprintf(problem->what, sizeof(problem->what), format, args);
	va_end(args);
}

/* -- volumes ----------------------------------------------------------------------------------- */

/* A volume that is served has at most these: a failed flush, a deleted file, a truncated one, and a disk that is full
 * or fails. */
#define VOLUME_PROBLEMS_MAX 4u

static void find_flushes(const struct tgt_view *view, struct tgt_health *health)
{
	char time[TGT_TIME_BYTES];

	for (unsigned int i = 0; i < view->volume_count; i++) {
		const struct tgt_view_volume *volume = &view->volumes[i];

		if (!volume->flush_failed_ns)
			continue;
		what(problem_add(health, TGT_PROBLEM_FLUSH_FAILED, "volume", volume->name),
		     "volume %s: a flush failed at %s, FLUSH is refused until %s",
		     volume->name, tgt_time_words(volume->flush_failed_ns, time),
		     volume->opens ? "every session has closed it" : "a session has opened and closed it");
	}
}

static void find_deleted(const struct tgt_view *view, struct tgt_health *health)
{
	for (unsigned int i = 0; i < view->volume_count; i++) {
		const struct tgt_view_volume *volume = &view->volumes[i];
		struct tgt_problem *problem;

		if (!volume->deleted)
			continue;
		problem = problem_add(health, TGT_PROBLEM_VOLUME_DELETED, "volume", volume->name);
		if (volume->replaced)
			what(problem,
			     "volume %s: its file was replaced: rblkctl reload serves the new one, and ends the old one and its data",
			     volume->name);
		else if (volume->trashed)
			what(problem,
			     "volume %s: its image was moved to the trash: it is not served again after rblkd's end, "
			     "until it is restored",
			     volume->name);
		else
			what(problem, "volume %s: its file was deleted: its data is lost when rblkd stops, copy it away before",
			     volume->name);
		if (problem)
			snprintf(problem->reason, sizeof(problem->reason), " (%s)", volume->path ? volume->path : "");
	}
}

static void find_short(const struct tgt_view *view, struct tgt_health *health)
{
	for (unsigned int i = 0; i < view->volume_count; i++) {
		const struct tgt_view_volume *volume = &view->volumes[i];
		struct tgt_problem *problem;

		if (!volume->short_bytes)
			continue;
		problem = problem_add(health, TGT_PROBLEM_VOLUME_SHORT, "volume", volume->name);
		what(problem,
		     "volume %s: shorter than it is served: has %" PRIu64 " bytes, but %" PRIu64
		     " are served; reads of the rest fail until it has them again",
		     volume->name, volume->bytes - volume->short_bytes, volume->bytes);
		if (problem)
			snprintf(problem->reason, sizeof(problem->reason), " (%s)", volume->path ? volume->path : "");
	}
}

static bool is_full(const struct tgt_view_volume *volume)
{
	return volume->error == ENOSPC || volume->error == EDQUOT;
}

/* " since 12:55:23 UTC (230 reads, 71 writes)", of one " (1 read)"; returns how many. At least one has failed. */
static uint64_t failures_words(const struct tgt_view_volume *volume, char *words, size_t bytes)
{
	static const char *const kinds_words[TGT_IO_KINDS][2] = {
		[TGT_IO_READ] = {"read", "reads"},
		[TGT_IO_WRITE] = {"write", "writes"},
		[TGT_IO_FLUSH] = {"flush", "flushes"},
		[TGT_IO_DISCARD] = {"discard", "discards"},
		[TGT_IO_WRITE_ZEROES] = {"write of zeroes", "writes of zeroes"},
		[TGT_IO_EXTENTS] = {"map of extents", "maps of extents"},
	};
	FILE *out = fmemopen(words, bytes, "w");
	const char *before = " (";
	char time[TGT_TIME_BYTES];
	uint64_t sum = 0;

	words[0] = '\0';
	for (unsigned int kind = 0; kind < TGT_IO_KINDS; kind++)
		sum += volume->failures[kind];
	if (!out)
		return sum;
	if (sum > 1)
		fprintf(out, " since %s", tgt_time_words(volume->first_error_time_ns, time));
	for (unsigned int kind = 0; kind < TGT_IO_KINDS; kind++) {
		uint64_t count = volume->failures[kind];

		if (count)
			fprintf(out, "%s%" PRIu64 " %s", before, count, kinds_words[kind][count != 1]);
		before = count ? ", " : before;
	}
	fprintf(out, ")");
	fclose(out);
	return sum;
}

/* Failures of a volume's store, in the last minutes. */
static void find_failures(const struct tgt_view *view, enum tgt_problem_kind kind,
			  struct tgt_health *health)
{
	uint64_t now_ns = tgt_time_now_ns();
	char time[TGT_TIME_BYTES], words[320];
	uint64_t sum;

	for (unsigned int i = 0; i < view->volume_count; i++) {
		const struct tgt_view_volume *volume = &view->volumes[i];

		if (!volume->error_time_ns || is_full(volume) != (kind == TGT_PROBLEM_DISK_FULL) ||
		    (now_ns > volume->error_time_ns &&
		     now_ns - volume->error_time_ns > TGT_PROBLEM_NS))
			continue;
		sum = failures_words(volume, words, sizeof(words));
		what(problem_add(health, kind, "volume", volume->name),
		     "volume %s: %s%" PRIu64 " command%s failed%s, the last at %s: %s", volume->name,
		     kind == TGT_PROBLEM_DISK_FULL ? "its disk is full: " : "", sum, TGT_S(sum), words,
		     tgt_time_words(volume->error_time_ns, time),
		     strerror(volume->error));
	}
}

/* -- what is missing --------------------------------------------------------------------------- */

static void missing_add(const struct tgt_unserved_one *one, enum tgt_unserved_kind kind, struct tgt_health *health)
{
	bool is_volume = kind == TGT_UNSERVED_VOLUME;
	struct tgt_problem *problem =
		problem_add(health, is_volume ? TGT_PROBLEM_VOLUME_MISSING : TGT_PROBLEM_ADDRESS_MISSING,
			    is_volume ? "volume" : "address", one->name);
	const char *reason = one->reason;
	char object[300];

	if (!problem)
		return;
	snprintf(object, sizeof(object), "%s%s", is_volume ? "volume " : "", one->name);
	what(problem, "%s: missing", object);
	/* It begins with the object. */
	if (!strncmp(reason, object, strlen(object)))
		reason += strlen(object) + strspn(reason + strlen(object), ": ");
	snprintf(problem->reason, sizeof(problem->reason), ", %s, tried again every second", reason);
}

static void find_missing(const struct tgt_view *view, enum tgt_unserved_kind kind, struct tgt_health *health)
{
	for (unsigned int i = 0; i < view->unserved_counts[kind]; i++)
		missing_add(&view->unserved[kind][i], kind, health);
}

static void find_devices(struct tgt_health *health)
{
	struct tgt_daemon_event last;
	uint64_t now_ns = tgt_time_now_ns();
	char time[TGT_TIME_BYTES];

	if (tgt_daemon_events_count(TGT_DAEMON_EVENT_DEVICE_REMOVED, now_ns - TGT_PROBLEM_NS,
				    &last))
		what(problem_add(health, TGT_PROBLEM_DEVICE_LOST, NULL, ""),
		     "devices: one was lost at %s: %.400s", tgt_time_words(last.time_ns, time),
		     last.message);
}

/* -- peers ------------------------------------------------------------------------------------- */

static void find_clients(const struct tgt_view *view, struct tgt_health *health)
{
	char left[UNITS_TEXT_BYTES];

	for (unsigned int i = 0; i < view->session_count; i++) {
		const struct tgt_snapshot_session *session = &view->sessions[i];

		if (session->gone_ns > TGT_PROBLEM_GONE_NS && session->awaits_ns &&
		    session->handles)
			what(problem_add(health, TGT_PROBLEM_CLIENT_AWAITED, "initiator",
					 session->initiator),
			     "initiator %s: its connections are lost, its session waits for it %s "
			     "more",
			     session->initiator, units_format_span(session->awaits_ns, left));
	}
}

static void find_logins(struct tgt_health *health)
{
	uint64_t now_ns = tgt_time_now_ns();
	struct tgt_daemon_event last;
	unsigned int count =
		tgt_daemon_events_count(TGT_DAEMON_EVENT_REFUSED, now_ns - TGT_PROBLEM_NS, &last);
	char time[TGT_TIME_BYTES];

	if (count > TGT_PROBLEM_LOGINS)
		what(problem_add(health, TGT_PROBLEM_LOGINS_REFUSED, NULL, ""),
		     "logins: %u refused in the last ten minutes, the last at %s: %.400s", count,
		     tgt_time_words(last.time_ns, time), last.message);
}

/* -- the daemon -------------------------------------------------------------------------------- */

static void find_silent(const struct tgt_view *view, struct tgt_health *health)
{
	for (unsigned int i = 0; i < view->reactor_count; i++)
		if (!view->snapshots[i])
			what(problem_add(health, TGT_PROBLEM_REACTOR_SILENT, NULL, ""),
			     "reactor %u: does not answer, its sessions stand still", i);
}

int tgt_busy_timeout_ms(const struct tgt_busy *busy, uint64_t now_ns)
{
	uint64_t due_ns;

	if (!busy->count)
		return 0;
	due_ns = busy->looks[(busy->count - 1) % TGT_BUSY_LOOKS].at_ns + TGT_BUSY_LOOK_NS;
	return due_ns > now_ns ? (int)((due_ns - now_ns + 999999) / 1000000) : 0;
}

/* From the youngest look that is old enough to the last one. 0: it is too early. */
static double busy_share(const struct tgt_busy *busy, unsigned int reactor)
{
	const struct tgt_busy_look *last, *before;

	for (unsigned int back = 2; back <= busy->count && back <= TGT_BUSY_LOOKS; back++) {
		last = &busy->looks[(busy->count - 1) % TGT_BUSY_LOOKS];
		before = &busy->looks[(busy->count - back) % TGT_BUSY_LOOKS];
		if (last->at_ns - before->at_ns >= TGT_PROBLEM_BUSY_NS)
			return (double)(last->busy_ns[reactor] - before->busy_ns[reactor]) /
			       (double)(last->at_ns - before->at_ns);
	}
	return 0;
}

static void busy_words(unsigned int reactor, double share, char *words, size_t bytes)
{
	snprintf(words, bytes, "reactor %u: at its limit, busy for %.0f%% of the last ten seconds", reactor,
		 share * 100);
}

void tgt_busy_add(struct tgt_busy *busy, const struct tgt_busy_look *look, unsigned int reactors)
{
	char words[128];

	busy->looks[busy->count++ % TGT_BUSY_LOOKS] = *look;
	for (unsigned int i = 0; i < reactors; i++) {
		double share = busy_share(busy, i);
		bool comes = share > TGT_PROBLEM_BUSY && !busy->at_limit[i];

		busy->at_limit[i] = share > TGT_PROBLEM_BUSY;
		if (!comes || (busy->told_ns[i] && look->at_ns - busy->told_ns[i] < TGT_PROBLEM_NS))
			continue;
		busy->told_ns[i] = look->at_ns;
		busy_words(i, share, words, sizeof(words));
		tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_REACTOR_BUSY}, NULL,
				 TGT_LOG_WARNING, "%s", words);
	}
}

static void find_busy(const struct tgt_view *view, const struct tgt_busy *busy,
		      struct tgt_health *health)
{
	char words[128];

	for (unsigned int i = 0; i < view->reactor_count; i++) {
		double share = busy_share(busy, i);

		if (share <= TGT_PROBLEM_BUSY)
			continue;
		busy_words(i, share, words, sizeof(words));
		what(problem_add(health, TGT_PROBLEM_REACTOR_BUSY, NULL, ""), "%s", words);
	}
}

static void find_reload(const struct tgt_changer *changer, struct tgt_health *health)
{
	struct tgt_last_reload last = {0};
	struct tgt_problem *problem;
	char time[TGT_TIME_BYTES];

	if (changer)
		changer->last_reload(changer->context, &last);
	if (!last.failed)
		return;
	problem = problem_add(health, TGT_PROBLEM_RELOAD_FAILED, NULL, "");
	what(problem, "configuration: the reload at %s failed", tgt_time_words(last.time_ns, time));
	if (problem)
		snprintf(problem->reason, sizeof(problem->reason), ": %s", last.words);
}

/* -- all --------------------------------------------------------------------------------------- */

int tgt_health_take(const struct tgt_view *view, const struct tgt_busy *busy,
		    const struct tgt_changer *changer, struct tgt_health *health)
{
	memset(health, 0, sizeof(*health));
	health->list = calloc(TGT_PROBLEMS_LISTED, sizeof(*health->list));
	if (!health->list)
		return -ENOMEM;
	find_silent(view, health);
	find_flushes(view, health);
	find_deleted(view, health);
	find_short(view, health);
	find_missing(view, TGT_UNSERVED_VOLUME, health);
	find_failures(view, TGT_PROBLEM_DISK_FULL, health);
	find_failures(view, TGT_PROBLEM_VOLUME_FAILING, health);
	find_missing(view, TGT_UNSERVED_ADDRESS, health);
	find_devices(health);
	find_reload(changer, health);
	find_busy(view, busy, health);
	find_clients(view, health);
	find_logins(health);
	return 0;
}

void tgt_health_fini(struct tgt_health *health)
{
	free(health->list);
	memset(health, 0, sizeof(*health));
}

char *tgt_health_words(const struct tgt_health *health, bool reasons)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	if (!health->count)
		fprintf(out, "ok");
	else
		fprintf(out, "%u problem%s", health->count, TGT_S(health->count));
	for (unsigned int i = 0; i < health->listed; i++)
		fprintf(out, "%s%s%s", i ? "; " : ": ", health->list[i].what,
			reasons ? health->list[i].reason : "");
	if (health->count > health->listed)
		fprintf(out, "; and %u more", health->count - health->listed);
	fclose(out);
	return text;
}

json_t *tgt_health_report(const struct tgt_health *health, bool reasons)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < health->listed; i++) {
		const struct tgt_problem *problem = &health->list[i];
		char message[sizeof(problem->what) + sizeof(problem->reason)];
		json_t *object;

		snprintf(message, sizeof(message), "%s%s", problem->what,
			 reasons ? problem->reason : "");
		object = json_pack("{s:s, s:s, s:o}", "problem", kinds[problem->kind].name, "level",
				   tgt_log_level_name(kinds[problem->kind].level), "message",
				   tgt_rpc_text(message));
		if (object && problem->key)
			json_object_set_new(object, problem->key, tgt_rpc_text(problem->name));
		json_array_append_new(array, object);
	}
	return array;
}

json_t *tgt_health_volume_report(const struct tgt_view_volume *volume, bool reasons)
{
	struct tgt_problem list[VOLUME_PROBLEMS_MAX] = {0};
	const struct tgt_view view = {.volumes = (struct tgt_view_volume *)volume, .volume_count = 1};
	struct tgt_health health = {.list = list};

	find_flushes(&view, &health);
	find_deleted(&view, &health);
	find_short(&view, &health);
	find_failures(&view, TGT_PROBLEM_DISK_FULL, &health);
	find_failures(&view, TGT_PROBLEM_VOLUME_FAILING, &health);
	return tgt_health_report(&health, reasons);
}

json_t *tgt_health_missing_report(const struct tgt_unserved_one *one, enum tgt_unserved_kind kind)
{
	struct tgt_problem problem = {0};
	struct tgt_health health = {.list = &problem};

	missing_add(one, kind, &health);
	return tgt_health_report(&health, true);
}
