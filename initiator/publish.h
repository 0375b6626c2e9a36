/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The page (page.h) that a session publishes about itself while it lasts, if it was asked to.
 * Created and freed with the session, used by its thread.
 */
#ifndef RBLK_INITIATOR_PUBLISH_H
#define RBLK_INITIATOR_PUBLISH_H

#include "initiator/rblk.h"
#include "proto/wire/types.h"

struct ini_page_volume;
struct ini_publish;

/*
 * said: options.statistics, or NULL: the environment is asked. *publish is NULL if no page is wanted. 0, or negative
 * errno with `error` (RBLK_ERROR_BYTES); where only the environment wants one, it is no error that there is none.
 */
int ini_publish_create(const char *said, const char *uri, const char *initiator,
		       struct ini_publish **publish, char *error);
void ini_publish_destroy(struct ini_publish *publish); /* NULL: nothing */

/* A volume was opened: its place in the page; NULL: there is none left, or no page. */
struct ini_page_volume *ini_publish_open(struct ini_publish *publish, const char *name);
void ini_publish_close(struct ini_page_volume *place); /* NULL: nothing */

/* A command of the volume is about to be called back. */
struct ini_publish_command {
	u8 opcode;
	bool answered;
	int error;
	u64 bytes; /* of its range */
	u64 ns;	   /* that it took, if it was answered */
};
void ini_publish_count(struct ini_page_volume *place, const struct ini_publish_command *command);

/* The numbers that no command counts. */
void ini_publish_state(struct ini_publish *publish, enum rblk_session_state state);
void ini_publish_outstanding(struct ini_page_volume *place, u32 count);

#endif
