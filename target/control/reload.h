/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From the served configuration to the wanted one: adds, removes and changes volumes, without
 * touching the others. Waits for locks, and so runs on the reloader's thread (reloader.h), but at
 * the start; the simulator calls it from its control thread, and never waits.
 */
#ifndef RBLK_TARGET_RELOAD_H
#define RBLK_TARGET_RELOAD_H

#include "target/base/change.h"
#include "target/base/daemon_event.h"
#include "target/base/settings.h"
#include "target/serve/reactor.h"
#include "target/store/volume.h"

struct tgt_rulebook;
struct tgt_unserved;

/* The objects that a reload works on, and how it waits. Fixed. */
struct tgt_reload {
	struct tgt_registry *registry;
	struct tgt_reactor **reactors;
	struct tgt_rulebook *rules; /* NULL: there are none */
	unsigned int reactor_count;
	struct tgt_unserved *unserved; /* gets the volumes that cannot be served; NULL: nobody asks */
	/*
	 * Sleeps for a moment, until something has ended, above all a former volume's last I/O.
	 * False: the time is over. NULL: do not wait.
	 */
	bool (*wait)(void *context);
	/*
	 * How many sessions have the volume open, or, if `connected`, of those that have a connection? words
	 * (TGT_ERROR_BYTES), if any has: "session 3 [ADDRESS] NAME has it open". A volume in use that would go, or a
	 * memory volume that would lose its data, is an error then. NULL: volumes in use may go.
	 */
	unsigned int (*used)(void *context, const char *volume, bool connected, char *words);
	struct tgt_change_result *result; /* gets what was done, and what was not; NULL: nobody asks */
	void *context;
};

/*
 * Applies `wanted` over `current` and leaves in *current what is now in force; *wanted is used up.
 * New volumes are opened before anything else is changed, and cannot be found until all of them are
 * open: if one cannot be opened, nothing is changed, and `error` (TGT_ERROR_BYTES) says why. If a
 * volume's path belongs to another volume now, or to itself with other settings, that has to be
 * released first: the new one is served as soon as that has ended, independently of the others, and
 * may be left unserved, for tgt_reload_mend(). Settings that only a restart can change are kept as
 * they are, and logged.
 */
int tgt_reload_apply(const struct tgt_reload *reload, struct tgt_config *current,
		     struct tgt_config *wanted, char *error);

/* -- reload_late.c ----------------------------------------------------------------------------- */

/* Takes out volumes that are lost, and tries to serve those of `current` that are not served. Returns how many
 * are not. */
unsigned int tgt_reload_mend(const struct tgt_reload *reload, const struct tgt_config *current);
/* One is late, and others may be for the same reason: those of `from` on that are not served begin to open together. */
void tgt_reload_open_ahead(const struct tgt_reload *reload, const struct tgt_config *current, unsigned int from);
/* "volume data: WHAT: its path and size", as an event, too. */
void tgt_reload_log(const struct tgt_volume *volume, const char *what, enum tgt_daemon_event_kind kind);
/* The same of one that is served at last. */
void tgt_reload_log_late(const struct tgt_reload *reload, const char *name, const char *what,
			 enum tgt_daemon_event_kind kind);
/* The reactors log which sessions have it open. False: it was not served. */
bool tgt_reload_drop(const struct tgt_reload *reload, const char *name, bool for_good);
/* As tgt_volume_add(), without a wait of its own: all that are late are tried in turn. */
int tgt_reload_add_late(const struct tgt_reload *reload, const struct tgt_volume_config *settings, char *error);
/* Initiators are told that the list of volumes has changed. */
void tgt_reload_tell(const struct tgt_reload *reload);

/* -- move.c ------------------------------------------------------------------------------------- */

/*
 * `rblkctl move`: initiators that know another target of the volume go on there (calls.h). Where targets serve it at
 * the same time, it stays for the others, and for those who come back. Else it is given away: it is not served here
 * for as long as another one needs to take it, and then again, unless one has; if a session does not leave, that is
 * an error without `force`. *result: how many have left, and have not.
 */
int tgt_reload_move(const struct tgt_reload *reload, struct tgt_config *current, const char *name, bool force,
		    struct tgt_change_result *result, char *error);

/* -- reload_begin.c ---------------------------------------------------------------------------- */

/* At the start, before there are reactors: serves volumes of `current`, but for at most `lacking` that cannot be served
 * yet. Each waits for another process's lock, all of them together only as long as the one that may wait longest. 0, or
 * a negative errno and the first reason in `error` (TGT_ERROR_BYTES). */
int tgt_reload_begin(const struct tgt_reload *reload, const struct tgt_config *current, unsigned int lacking,
		     char *error);

#endif
