/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Addresses, sends and delivers the messages of session_message.h. */
#include "target/serve/session_message.h"

#include <string.h>

struct tgt_session *tgt_session_at(struct tgt_reactor *reactor, const uint8_t id[16],
				   uint64_t epoch, bool remote)
{
	struct tgt_session *session;

	TAILQ_FOREACH(session, &reactor->sessions, link)
		if (!session->home == !remote && session->epoch == epoch &&
		    !memcmp(session->id, id, sizeof(session->id)))
			return session;
	return NULL;
}

static void session_arrived(struct tgt_reactor *reactor, struct tgt_message *head)
{
	struct tgt_session_message *message = (struct tgt_session_message *)head;

	message->run(reactor, tgt_session_at(reactor, message->id, message->epoch, message->to_remote), message);
}

void tgt_session_address(struct tgt_session_message *message, const struct tgt_session *from, struct tgt_reactor *to,
			 tgt_session_run *run)
{
	message->message.run = session_arrived;
	message->from = from->reactor;
	message->to = to;
	memcpy(message->id, from->id, sizeof(message->id));
	message->epoch = from->epoch;
	message->to_remote = !from->home;
	message->run = run;
}

void tgt_session_send(struct tgt_session_message *message)
{
	tgt_reactor_send(message->to, &message->message);
}

void tgt_session_answer(struct tgt_session_message *message, tgt_session_run *run)
{
	struct tgt_reactor *to = message->from;

	message->from = message->to;
	message->to = to;
	message->to_remote = !message->to_remote;
	message->run = run;
	tgt_session_send(message);
}
