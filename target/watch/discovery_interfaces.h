/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * On which network interfaces discovery answers, and when they have changed. Any thread.
 */
#ifndef RBLK_TARGET_WATCH_DISCOVERY_INTERFACES_H
#define RBLK_TARGET_WATCH_DISCOVERY_INTERFACES_H

#include <stdbool.h>

struct ifaddrs;

/* Is this one up, and configured? wanted: names, which blanks or commas separate, or "all" that can multicast. */
bool tgt_discovery_interface_wanted(const char *wanted, const struct ifaddrs *at);

/* A descriptor that is readable when interfaces or addresses have changed. -1 after a warning: nobody tells. */
int tgt_discovery_changes_open(void);
/* Reads what it has. True: something has changed, so that a scan is due. */
bool tgt_discovery_changes_read(int changes);

#endif
