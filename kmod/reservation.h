/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reservations of a volume (specification, section 6.2) as the block layer's pr_ops. Used by
 * disk.c.
 */
#ifndef RBLK_KMOD_RESERVATION_H
#define RBLK_KMOD_RESERVATION_H

#include <linux/pr.h>

extern const struct pr_ops rblk_pr_ops;

#endif
