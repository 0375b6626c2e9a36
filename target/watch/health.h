/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The problems of the daemon, as one list, which is made of a view, of the events and of the last
 * reload. Nothing else decides what a problem is: rblkctl status, /healthz, /readyz, the page, and
 * the metric of the alert say what it says. The thread of the room's services.
 */
#ifndef RBLK_TARGET_WATCH_HEALTH_H
#define RBLK_TARGET_WATCH_HEALTH_H

#include <jansson.h>
#include "target/base/change.h"
#include "target/watch/view.h"

/* In the order in which they are told. */
enum tgt_problem_kind {
	TGT_PROBLEM_REACTOR_SILENT,
	TGT_PROBLEM_FLUSH_FAILED,
	TGT_PROBLEM_VOLUME_DELETED,
	TGT_PROBLEM_VOLUME_SHORT,
	TGT_PROBLEM_VOLUME_MISSING,
	TGT_PROBLEM_DISK_FULL,
	TGT_PROBLEM_VOLUME_FAILING,
	TGT_PROBLEM_ADDRESS_MISSING,
	TGT_PROBLEM_DEVICE_LOST,
	TGT_PROBLEM_RELOAD_FAILED,
	TGT_PROBLEM_REACTOR_BUSY,
	TGT_PROBLEM_CLIENT_AWAITED,
	TGT_PROBLEM_LOGINS_REFUSED,
	TGT_PROBLEMS
};

/* Failures of a disk, refused logins and the loss of a device are problems for so long. */
#define TGT_PROBLEM_NS 600000000000ull
/* A client whose connections are lost comes back within this time, or is a problem. */
#define TGT_PROBLEM_GONE_NS 5000000000ull
/* More refused logins than these in that time. */
#define TGT_PROBLEM_LOGINS 10u
/* A reactor that has worked for more than this part of the last seconds. */
#define TGT_PROBLEM_BUSY 0.95
#define TGT_PROBLEM_BUSY_NS 10000000000ull

/* How often its thread looks how long reactors have worked, whether or not anybody asks. */
#define TGT_BUSY_LOOK_NS 2000000000ull
/* More than TGT_PROBLEM_BUSY_NS have. */
#define TGT_BUSY_LOOKS 7u

/* The last looks. {0}: there was none. */
struct tgt_busy {
	struct tgt_busy_look {
		uint64_t at_ns, busy_ns[TGT_REACTORS_MAX];
	} looks[TGT_BUSY_LOOKS];
	uint64_t count; /* so far; the ring's place of the next one */
	/* By reactor: whether it was at its limit at the last look, and when its last event was (0: there was
	 * none). */
	bool at_limit[TGT_REACTORS_MAX];
	uint64_t told_ns[TGT_REACTORS_MAX];
};

/* Until the next look is due, by env_now_ns(). */
int tgt_busy_timeout_ms(const struct tgt_busy *busy, uint64_t now_ns);
/*
 * At least TGT_BUSY_LOOK_NS after the last one. A reactor (of `reactors`) that has come to its limit is an event, at
 * most once in TGT_PROBLEM_NS.
 */
void tgt_busy_add(struct tgt_busy *busy, const struct tgt_busy_look *look, unsigned int reactors);

struct tgt_problem {
	enum tgt_problem_kind kind;
	const char *key; /* "volume", "initiator" or "address": what `name` is of. NULL: nothing */
	char name[256];
	/* "volume logs: missing" tells everybody, and `reason`, which may have paths, the rest: ",
	 * /dev/sdx: No such ..." */
	char what[512], reason[TGT_ERROR_BYTES + 64];
};

/* More are counted, and not listed. */
#define TGT_PROBLEMS_LISTED 64u

struct tgt_health {
	unsigned int counts[TGT_PROBLEMS], count;
	unsigned int failures;	  /* of them are errors; others are warnings */
	struct tgt_problem *list; /* owned; in the order of their kinds */
	unsigned int listed;
};

/* changer: may be NULL. 0 or -ENOMEM; the caller finis it after success. */
int tgt_health_take(const struct tgt_view *view, const struct tgt_busy *busy,
		    const struct tgt_changer *changer, struct tgt_health *health);
void tgt_health_fini(struct tgt_health *health);

/* "ok", or "2 problems: volume logs: missing, ...; ..."; with the reasons or, for whoever reaches
 * HTTP, without them. The caller frees it; NULL: no memory. */
char *tgt_health_words(const struct tgt_health *health, bool reasons);
/* The list, likewise. A new reference. */
json_t *tgt_health_report(const struct tgt_health *health, bool reasons);
/* Those of one volume that is served, however many others there are. A new reference. */
json_t *tgt_health_volume_report(const struct tgt_view_volume *volume, bool reasons);
/* That of one that is missing. A new reference. */
json_t *tgt_health_missing_report(const struct tgt_unserved_one *one, enum tgt_unserved_kind kind);
const char *tgt_problem_name(enum tgt_problem_kind kind);

#endif
