/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages between a session and its remote sessions on other reactors. Either may have ended when a message arrives,
 * so the session is found again there. The thread of the sender's reactor, then that of the receiver's.
 */
#ifndef RBLK_TARGET_SESSION_MESSAGE_H
#define RBLK_TARGET_SESSION_MESSAGE_H

#include "target/serve/peers.h"
#include "target/serve/session.h"

struct tgt_session_message;

/* At the reactor that has it; session: NULL: it has ended. Frees the message, or answers. */
typedef void tgt_session_run(struct tgt_reactor *reactor, struct tgt_session *session, struct tgt_session_message *message);

/* Embedded in what is sent, first. tgt_session_address() sets it. */
struct tgt_session_message {
	struct tgt_message message; /* first */
	struct tgt_reactor *from, *to;
	uint8_t id[16];
	uint64_t epoch;
	bool to_remote;
	tgt_session_run *run;
};

/* From the session to its remote session there, or from a remote session to the session there. */
void tgt_session_address(struct tgt_session_message *message, const struct tgt_session *from, struct tgt_reactor *to,
			 tgt_session_run *run);
void tgt_session_send(struct tgt_session_message *message);
/* One that has arrived goes back, to be run by `run`. */
void tgt_session_answer(struct tgt_session_message *message, tgt_session_run *run);

/* The session, or the remote session of one, that this reactor has; NULL: none. */
struct tgt_session *tgt_session_at(struct tgt_reactor *reactor, const uint8_t id[16],
				   uint64_t epoch, bool remote);

#endif
