/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The page for people: page.html as it is, and what it asks for. The thread of watch.c. */
#ifndef RBLK_TARGET_WATCH_PAGE_H
#define RBLK_TARGET_WATCH_PAGE_H

#include "target/watch/methods.h"

/* Not the caller's. */
const char *tgt_page_text(void);
/* Its Content-Security-Policy: nothing but its own script and style, and this server's answers. */
const char *tgt_page_policy(void);
/*
 * A report of the daemon, its sessions, its volumes and initiators with their rates of the last seconds, and the curves
 * of one of them (history.h; null: there is none of that name). NULL: no memory.
 */
json_t *tgt_page_status(struct tgt_methods *methods, enum tgt_history_kind kind, const char *name);

#endif
