/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The history of one session in the words of the models in tests/model: a line for each event that
 * a model speaks of. Whoever sees the event reports it here: the initiator's state machine
 * (session_seen.c), the fabric, the disk, the target's process. tests/model/histories has spin
 * decide whether the model allows it. Without sim_history_start() nothing is kept.
 */
#ifndef RBLK_TESTS_SIM_HISTORY_H
#define RBLK_TESTS_SIM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "proto/wire/wire.h"

struct sim_brought;
struct sim_conn;
struct ibv_send_wr;

/* The history of the session that begins last is kept from now on, until sim_history_end(). */
void sim_history_start(void);
/* A session begins: what came before is forgotten. */
void sim_history_begin(bool target_runs, bool other_runs);
/* Its application has done its work; what follows is not part of it. */
void sim_history_end(void);
/* To stdout. */
void sim_history_print(void);

bool sim_history_is_kept(void);
/* A string that stays. */
void sim_history(const char *event, unsigned int queue, uint64_t x, uint64_t y);

/* The initiator posts a message. */
void sim_history_posted(const struct sim_conn *conn, const struct ibv_send_wr *wr);
/* A write of sectors that begin with this word is given to the disk by `queue`, or is carried out; by which target.
 */
void sim_history_stores(unsigned int queue, const uint8_t *data, unsigned int machine);
void sim_history_stored(const uint8_t *data, unsigned int machine);
/* The target answers a command that came by this queue. `status`: enum rblk_status. */
void sim_history_replied(unsigned int queue, const struct sim_brought *command, uint16_t status);

#endif
