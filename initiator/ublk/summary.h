/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fills a record from a disk's options and from the views of its queues. Pure functions. Called by disk.c.
 */
#ifndef RBLK_UBLK_SUMMARY_H
#define RBLK_UBLK_SUMMARY_H

#include "initiator/ublk/options.h"
#include "initiator/ublk/queue.h"
#include "initiator/ublk/record.h"

/* The options, from which another server can attach the disk again. */
void ublk_summary_options(struct ublk_record *record, const struct ublk_disk_options *options);
/* Begin, then add each queue: the state is the worst queue's; without queues it is live. */
void ublk_summary_begin(struct ublk_record *record);
void ublk_summary_add(struct ublk_record *record, const struct ublk_queue_view *view);

#endif
