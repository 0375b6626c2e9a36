/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A record's words on a disk's options, and on all its queues together. Pure functions. Called by disk.c.
 */
#ifndef RBLK_UBLK_SUMMARY_H
#define RBLK_UBLK_SUMMARY_H

#include "initiator/ublk/options.h"
#include "initiator/ublk/queue.h"
#include "initiator/ublk/record.h"

/* The disk is attached again as the record says. */
void ublk_summary_options(struct ublk_record *record, const struct ublk_disk_options *options);
/* A disk without queues is live. Then each queue is added: the state is the worst queue's. */
void ublk_summary_begin(struct ublk_record *record);
void ublk_summary_add(struct ublk_record *record, const struct ublk_queue_view *view);

#endif
