/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The name of an initiator that was given none. Reservations know initiators by their names, so it is the same at each start
 * and no other machine has it: the host's name, or "host-" and 24 digits that follow from the machine's id where that is no
 * name (too long, "(none)", "localhost"), or RBLK_NAME_UNNAMED where there is neither; an initiator of that name cannot
 * reserve.
 */
#ifndef RBLK_INITIATOR_OWN_NAME_H
#define RBLK_INITIATOR_OWN_NAME_H

#include <stdbool.h>
#include "proto/wire/payload.h"

/* True: it is the host's name. Any thread. */
bool ini_own_name(char name[RBLK_NAME_BYTES]);

#endif
