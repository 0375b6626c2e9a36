/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Volume handles of a session, and the reactor's channels behind them. The reactor's thread only.
 */
#ifndef RBLK_TARGET_HANDLE_H
#define RBLK_TARGET_HANDLE_H

#include "target/serve/session.h"

/* The handle that has the slot of the number, `closing` or not, or NULL. */
struct tgt_handle *tgt_handle_at(const struct tgt_session *session, uint32_t id);
/* The open volume of the handle, or NULL: never opened, or closed. In a remote session also: not used
 * there yet. */
struct tgt_handle *tgt_handle_find(const struct tgt_session *session, uint32_t id);
/* For a command: a remote session opens the handle if its session has it open. Otherwise NULL and the
 * status. */
struct tgt_handle *tgt_handle_use(struct tgt_session *session, uint32_t id,
				  enum rblk_status *status);

/* Closes another number's handle in the slot of `id`. False: it has not ended yet. */
bool tgt_handle_vacate(struct tgt_session *session, uint32_t id);
/*
 * RBLK_OK and *handle, which may be open already; or why not. The slot is vacated. flags: enum rblk_open_flag;
 * restricted: reading only is the rules'. Takes over the reference to `volume` in every case.
 */
enum rblk_status tgt_handle_open(struct tgt_session *session, struct tgt_volume *volume, uint32_t id,
				 uint32_t flags, bool restricted, struct tgt_handle **handle);
/*
 * Closes the handle; it is freed now, or when its last user ends, on any reactor. RBLK_OK: it is
 * freed already. RBLK_E_BUSY: handle->closer is answered when it is. Any other status: nothing has
 * happened.
 */
enum rblk_status tgt_handle_close(struct tgt_handle *handle);
/* Has it a volume open whose FLUSH fails until all sessions have closed it? */
bool tgt_handles_troubled(const struct tgt_session *session);
/* Has it a volume open that is not served any more? Another one may have its name. */
bool tgt_handles_gone(const struct tgt_session *session);
/* How many are open, those that CLOSE has named not counted. */
unsigned int tgt_handles_kept(const struct tgt_session *session);
/* Those that nothing uses, if the session only lingers. */
void tgt_handle_close_idle(struct tgt_session *session);
/* All handles of a session that has no queue any more. */
void tgt_handle_close_all(struct tgt_session *session);

/* Has the session the volume open? */
bool tgt_handle_session_uses(const struct tgt_session *session, const struct tgt_volume *volume);

/* A reload removed or changed the volume: note events, release idle handles. */
void tgt_handle_volume_removed(struct tgt_reactor *reactor, struct tgt_volume *volume);
void tgt_handle_volume_changed(struct tgt_reactor *reactor, struct tgt_volume *volume);

/* The reactor's channel to the volume, for one user more; it may be OPENING. Consumes the reference.
 * NULL: logged. */
struct tgt_channel *tgt_handle_channel_get(struct tgt_reactor *reactor, struct tgt_volume *volume);
void tgt_handle_channel_put(struct tgt_reactor *reactor, struct tgt_channel *channel);

#endif
