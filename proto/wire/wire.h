/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The whole wire format, version 2. proto/README.md is the specification; it changes in the commit
 * that changes these. Compiles in the kernel and in user space; no state, no I/O.
 */
#ifndef RBLK_WIRE_H
#define RBLK_WIRE_H

#include "proto/wire/types.h"
#include "proto/wire/login.h"
#include "proto/wire/message.h"
#include "proto/wire/payload.h"
#include "proto/wire/discover.h"

#endif
