/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A request to change the configuration of a running daemon: to read its files again, to edit it,
 * to write it back. watch/ takes such requests apart, control/ carries them out (reloader.h).
 */
#ifndef RBLK_TARGET_CHANGE_H
#define RBLK_TARGET_CHANGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "target/base/error.h"

/* In one change. */
#define TGT_EDITS_MAX 1024u

enum tgt_edit_kind {
	TGT_EDIT_ADD,	 /* a section, which must not be there */
	TGT_EDIT_REMOVE, /* a section */
	TGT_EDIT_FIND,	 /* a section must be there; [target] is made */
	TGT_EDIT_SET,	 /* a key of a section, in place of all its lines */
	TGT_EDIT_MORE,	 /* one more line of it */
	TGT_EDIT_UNSET,	 /* none of it */
};

struct tgt_edit {
	enum tgt_edit_kind kind;
	char *section; /* "volume data"; these texts belong to the edit, NULL: none */
	char *key, *value;
};

/* SHOW changes nothing: what is in force, and what the files have. MOVE sends sessions to another target. */
enum tgt_change_kind { TGT_CHANGE_RELOAD, TGT_CHANGE_EDIT, TGT_CHANGE_SAVE, TGT_CHANGE_SHOW, TGT_CHANGE_MOVE };

struct tgt_change {
	enum tgt_change_kind kind;
	/* Volumes in use may be removed, changes that are not saved may be lost, a file that somebody
	 * else has changed may be overwritten. */
	bool force;
	struct tgt_edit *edits; /* owned, as are their texts */
	unsigned int edit_count;
	char *volume; /* of MOVE; owned */
	uid_t uid; /* who asks, for the log */
	pid_t pid;
};

#define TGT_RESTART_BYTES 512

/* A setting that has a value, or whose files say so. Texts are owned. */
struct tgt_setting {
	char *section; /* "volume data" */
	char *key;
	char *value; /* in force; NULL: it has none, as the section is not in force */
	char *filed; /* by the files; NULL: likewise, or they cannot be read */
	bool standard; /* the default, by both, or by the one that has it */
};

struct tgt_settings {
	struct tgt_setting *list; /* in force, then what only the files have */
	unsigned int count;
	char *unreadable; /* why the files cannot be read; NULL: they can */
};

struct tgt_change_result {
	int status; /* 0, or negative errno: `words` says why, and what it was before is in force */
	unsigned int added, removed, changed; /* volumes */
	unsigned int unserved; /* volumes that could not be opened yet, or only as before */
	unsigned int reverted; /* those of them that are served as before */
	unsigned int sessions_left, sessions_stay; /* of MOVE */
	bool given_away;	       /* likewise: it is not served here any more, for now */
	bool unsaved;	       /* the files do not have all that is in force */
	char restart[TGT_RESTART_BYTES]; /* settings that only a restart changes: "credits, queues" */
	char words[TGT_ERROR_BYTES];	 /* of an error; or about what is unserved */
	char warning[TGT_ERROR_BYTES];	 /* the first rule for a volume that is not there; "": none */
	struct tgt_settings *settings;	 /* of SHOW: its taker's; else NULL */
};

/* The last time that the files were read again. */
struct tgt_last_reload {
	uint64_t time_ns; /* CLOCK_REALTIME; 0: they were not */
	bool failed;
	char words[TGT_ERROR_BYTES]; /* why */
};

/* Who carries out changes: on a thread of its own, in their order. Any thread may call these. */
struct tgt_changer {
	/* Takes over what the change owns, in any case. Its number; 0: error (TGT_ERROR_BYTES) says why not. */
	uint64_t (*begin)(void *context, struct tgt_change *change, char *error);
	/* It is over, and this is its result. */
	bool (*ended)(void *context, uint64_t number, struct tgt_change_result *result);
	/* There are changes that are not saved. */
	bool (*unsaved)(void *context);
	void (*last_reload)(void *context, struct tgt_last_reload *last);
	void *context;
	int fd; /* an eventfd that is written when one ends; who asks reads it */
};

void tgt_change_fini(struct tgt_change *change);
void tgt_settings_free(struct tgt_settings *settings); /* NULL: no effect */

#endif
