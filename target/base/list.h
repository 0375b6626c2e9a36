/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The lists of <sys/queue.h>, and the walk that the BSDs' has and glibc's has not: its body may take away the entry,
 * and no other one.
 */
#ifndef RBLK_TARGET_LIST_H
#define RBLK_TARGET_LIST_H

#include <sys/queue.h>

#define TAILQ_FOREACH_SAFE(entry, head, link, following) \
	for ((entry) = TAILQ_FIRST(head); (entry) && ((following) = TAILQ_NEXT(entry, link), true); (entry) = (following))

#endif
