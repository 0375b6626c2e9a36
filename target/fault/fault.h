/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The store that injects faults, for tests and for trying how initiators handle them: what control/main.c gives to
 * store/ (tgt_store_faults) if the program is built with RBLK_FAULTS. Nobody else includes this room.
 */
#ifndef RBLK_TARGET_FAULT_H
#define RBLK_TARGET_FAULT_H

#include "target/store/store.h"

extern const struct tgt_store_faults tgt_fault_store;

#endif
