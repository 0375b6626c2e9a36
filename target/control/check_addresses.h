/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A part of check.h: whether the addresses and ports of a configuration (listen, http, discovery_port) can be had, each by
 * itself and all together. Main thread.
 */
#ifndef RBLK_TARGET_CHECK_ADDRESSES_H
#define RBLK_TARGET_CHECK_ADDRESSES_H

#include "target/base/settings.h"

/* Logs those that a start could not have ("http = 4430 and listen = rblk+tcp://:4430 take the same port"). Returns how
 * many. */
unsigned int tgt_check_addresses(const struct tgt_config *config);

#endif
