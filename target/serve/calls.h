/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The calls of a reactor by other threads: messages that it carries out in its turn (peers.h). */
#ifndef RBLK_TARGET_CALLS_H
#define RBLK_TARGET_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include "target/serve/peers.h"

struct fab_request;
struct tgt_lease;
struct tgt_origin;

/* -- the reactor's thread: for tgt_reactor_call(); without a volume where none is named ---------- */

tgt_reactor_run tgt_reactor_list_changed;
/* The rulebook has others: sessions that lose a right to what they have open end. */
tgt_reactor_run tgt_reactor_rules_changed;
/* For `rblk fault`: end the connections, or the sessions, that have the volume open (NULL: all). */
tgt_reactor_run tgt_reactor_cut, tgt_reactor_forget;
/*
 * For `rblkctl clear`: clear the volume's registrations and reservation, as a RESERVE by a registrant would; logged
 * (reserve.c).
 */
tgt_reactor_run tgt_reserve_clear;
/* The volume is lost (volume.h), and was taken out of the list: sessions that have it open end, to open it again. */
tgt_reactor_run tgt_reactor_volume_lost;
/* Logs what the reactor is doing: its sessions and their resources (status.c). */
tgt_reactor_run tgt_status_log;
/* A device was lost: check whether this reactor has one that does not exist any more. */
tgt_reactor_run tgt_reactor_check_devices;
/* Counts a login that was denied before it came, by TLS; a connection that failed before a login was there. */
tgt_reactor_run tgt_reactor_login_denied, tgt_reactor_login_malformed;
/*
 * Initiators that have the volume open are to go on at another target, at once, if they know one: they are told what
 * they are told of a drain. The others stay.
 */
tgt_reactor_run tgt_reactor_send_away;
/*
 * Stop taking logins and commands, finish what is in flight (at most drain_ms), close every
 * connection; tgt_reactor_drained() turns true, the thread ends and can be joined by destroy. Idempotent.
 */
tgt_reactor_run tgt_reactor_drain;

/* -- any thread -------------------------------------------------------------------------------- */

/* Decide about a login. Consumes the request, and the listener's lease (or NULL). False: no memory, and the request is still
 * the caller's. */
bool tgt_reactor_login(struct tgt_reactor *reactor, struct fab_request *request,
		       const struct tgt_origin *origin, const void *private_data, size_t private_bytes, struct tgt_lease *lease);
/* For `rblkctl kick`: end the session of that number, if it is at home here. False: no memory. */
bool tgt_reactor_kick(struct tgt_reactor *reactor, unsigned int session);

#endif
