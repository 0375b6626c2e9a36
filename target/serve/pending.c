/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pending: an OPEN, a FENCE of a volume or a RESERVE that waits for something on other reactors. Made and ended here;
 * reactor.c tries each in every turn. The reactor's thread only.
 */
#include "target/serve/session_command.h"

#include <stdlib.h>
#include "target/serve/barrier.h"

struct tgt_pending *tgt_pending_create(struct tgt_reactor *reactor, size_t bytes, struct tgt_request *request,
				       struct tgt_volume *volume, bool barrier)
{
	struct tgt_pending *pending = calloc(1, bytes);

	if (pending && barrier)
		pending->barrier = tgt_barrier_begin(reactor);
	if (!pending || (barrier && !pending->barrier)) {
		tgt_volume_put(volume);
		free(pending);
		return NULL;
	}
	pending->reactor = reactor;
	pending->request = request;
	pending->volume = volume;
	if (request)
		request->held = pending;
	TAILQ_INSERT_TAIL(&reactor->pending, pending, link);
	return pending;
}

void tgt_pending_end(struct tgt_pending *pending)
{
	TAILQ_REMOVE(&pending->reactor->pending, pending, link);
	if (pending->barrier)
		tgt_barrier_end(pending->barrier);
	tgt_volume_put(pending->volume);
	free(pending);
}
