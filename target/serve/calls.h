/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The calls of a reactor by other threads: messages that it carries out in its turn (peers.h). */
#ifndef RBLK_TARGET_CALLS_H
#define RBLK_TARGET_CALLS_H

#include <stdbool.h>
#include <stddef.h>

struct fab_request;
struct tgt_snapshot_ask;
struct tgt_lease;
struct tgt_origin;
struct tgt_reactor;
struct tgt_volume;

/* -- any thread; each is carried out on the reactor's thread ------------ */

/* Decide about a login. Consumes the request, and the listener's lease (or NULL). False: no memory, and the request is still
 * the caller's. */
bool tgt_reactor_login(struct tgt_reactor *reactor, struct fab_request *request,
		       const struct tgt_origin *origin, const void *private_data, size_t private_bytes, struct tgt_lease *lease);
/* Takes over the caller's reference: the reactor closes what it has of the volume, then puts it. */
void tgt_reactor_volume_removed(struct tgt_reactor *reactor, struct tgt_volume *volume);
void tgt_reactor_volume_changed(struct tgt_reactor *reactor, struct tgt_volume *volume);
void tgt_reactor_list_changed(struct tgt_reactor *reactor);
/* The rulebook has others: sessions that lose a right to what they have open end. False: no memory. */
bool tgt_reactor_rules_changed(struct tgt_reactor *reactor);
/* Log its sessions and memory. */
void tgt_reactor_log_status(struct tgt_reactor *reactor);
/* Take a snapshot, and give it to the ask (snapshot.h). False: no memory; the ask is as it was. */
bool tgt_reactor_snapshot(struct tgt_reactor *reactor, struct tgt_snapshot_ask *ask);
/*
 * For `rblk fault`: end the connections, or the sessions, that have the volume open (NULL: all). Takes over the
 * caller's reference.
 */
void tgt_reactor_cut(struct tgt_reactor *reactor, struct tgt_volume *volume);
void tgt_reactor_forget(struct tgt_reactor *reactor, struct tgt_volume *volume);
/* For `rblkctl kick`: end the session of that number, if it is at home here. False: no memory. */
bool tgt_reactor_kick(struct tgt_reactor *reactor, unsigned int session);
/* A device was lost: check whether this reactor has one that does not exist any more. */
void tgt_reactor_check_devices(struct tgt_reactor *reactor);
/*
 * Stop taking logins and commands, finish what is in flight (at most drain_ms), close every
 * connection; tgt_reactor_drained() turns true, the thread ends and can be joined by destroy.
 */
void tgt_reactor_drain(struct tgt_reactor *reactor);

/* -- control thread ----------------------------------------------------------------------------- */

/* Asks the reactor for an answer, which it gives in its next turn. */
void tgt_reactor_ask(struct tgt_reactor *reactor);
/* It has answered every question. */
bool tgt_reactor_answered(const struct tgt_reactor *reactor);

/* -- the reactor's thread ---------------------------------------------------------------------- */

/* Logins and commands are refused from now on. Idempotent. */
void tgt_reactor_begin_drain(struct tgt_reactor *reactor);

#endif
