/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fence between gateways. What is asked of this process goes from reactor to reactor, each of which ends what it
 * has of the sessions; the last one then waits, as OPEN does, until every reactor has seen which connections have
 * ended, and for the volume's orphans. A store that does not reach its data asks that sessions leave, likewise.
 */
#include "target/serve/gateways.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "target/base/registrant.h"
#include "target/serve/barrier.h"
#include "target/serve/event.h"
#include "target/serve/handle.h"
#include "target/serve/host.h"
#include "target/serve/queue.h"
#include "target/serve/remote_queue.h"
#include "target/serve/rights.h"
#include "target/serve/session_command.h"
#include "target/serve/sessions.h"

/* Who asks takes silence for death, after seconds: by then it is told that it has to ask again. */
#define ASK_WAIT_NS 500000000ull
/* Questions of one host at a reactor. While the cluster does not answer they stay, and OPENs come again. */
#define FENCES_MAX 256u

/* -- asking ------------------------------------------------------------------------------------- */

/* Its reactor's, but for `fence` and `error`, which are the store's until the message is sent. */
struct tgt_gateways_fence {
	struct tgt_message message; /* first */
	struct tgt_store_fence fence;
	struct tgt_reactor *reactor;
	struct tgt_host *host;	   /* whose it is counted as while it is away; a reference */
	struct tgt_volume *volume; /* likewise a reference, which keeps the store open */
	int error;
	bool away, released;
};

static void fence_free(struct tgt_gateways_fence *fence)
{
	if (fence->released && !fence->away)
		free(fence);
}

static void fence_arrived(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct tgt_gateways_fence *fence = (struct tgt_gateways_fence *)message;

	tgt_volume_put(fence->volume);
	fence->host->fences--;
	tgt_host_put(reactor, fence->host);
	fence->away = false;
	fence_free(fence);
}

/* A thread of the store. */
static void fence_done(struct tgt_store_fence *store_fence, int error)
{
	struct tgt_gateways_fence *fence =
		(struct tgt_gateways_fence *)((char *)store_fence - offsetof(struct tgt_gateways_fence, fence));

	fence->error = error;
	tgt_ring_post(fence->reactor->ring, &fence->message);
}

static struct tgt_past past_of(const struct tgt_session *session)
{
	struct tgt_past past = {.epoch = session->epoch, .host = session->has_host_id};
	char registrant[RBLK_NAME_BYTES];

	memcpy(past.session, session->id, sizeof(past.session));
	/* A controller is never sent again by another one's epochs: its host is what has to be known. */
	if (past.host) {
		tgt_rights_registrant(session, registrant);
		tgt_registrant_digest(registrant, past.session);
		past.epoch = tgt_registrant_rank(session->id);
	}
	return past;
}

enum rblk_status tgt_gateways_fence_begin(const struct tgt_session *session, struct tgt_volume *volume,
					  struct tgt_gateways_fence **begun)
{
	struct tgt_gateways_fence *fence;

	if (session->host->fences >= FENCES_MAX)
		return RBLK_E_BUSY;
	fence = calloc(1, sizeof(*fence));
	if (!fence)
		return RBLK_E_NO_RESOURCES;
	fence->message.run = fence_arrived;
	fence->reactor = session->reactor;
	fence->host = session->host;
	tgt_host_ref(fence->host);
	fence->host->fences++;
	fence->volume = tgt_volume_ref(volume);
	fence->away = true;
	fence->fence.past = past_of(session);
	fence->fence.done = fence_done;
	tgt_ring_expect(session->reactor->ring);
	volume->store->ops->fence(volume->store, &fence->fence);
	*begun = fence;
	return RBLK_OK;
}

bool tgt_gateways_fence_is_done(const struct tgt_gateways_fence *fence)
{
	return !fence->away && !fence->error && !fence->fence.held;
}

bool tgt_gateways_fence_is_held(const struct tgt_gateways_fence *fence)
{
	return !fence->away && !fence->error && fence->fence.held;
}

void tgt_gateways_fence_end(struct tgt_gateways_fence *fence)
{
	fence->released = true;
	fence_free(fence);
}

/* -- being asked --------------------------------------------------------------------------------- */

/* Goes through the reactors. */
struct asked {
	struct tgt_message message; /* first */
	struct tgt_store_ask *ask;
	struct tgt_volume *volume; /* a reference */
	unsigned int next;	   /* the reactor that is to see it */
};

/*
 * The volume's store does not reach its data. Whoever has also another volume open would lose it by going: they stay.
 * Their homes know that; a remote session need not have all that is open. (An NVMe host knows its paths itself.)
 */
static bool session_may_go(const struct tgt_session *session, const struct tgt_volume *volume)
{
	const struct tgt_handle *handle;

	if (session->home || session->ending || session->has_host_id || !tgt_handle_session_uses(session, volume))
		return false;
	tgt_session_each_handle(handle, session) {
		const struct tgt_volume *other = tgt_handle_volume(handle);

		if (other && other != volume && !tgt_store_find(other->config.store)->elsewhere)
			return false;
	}
	return true;
}

static void asked_send_away(struct tgt_reactor *reactor, const struct asked *asked)
{
	struct tgt_session *session, *following;

	TAILQ_FOREACH_SAFE(session, &reactor->sessions, link, following) {
		if (!session_may_go(session, asked->volume))
			continue;
		if (asked->ask->leave == TGT_ASK_LEAVE) {
			session->events.draining = true;
			tgt_event_kick(session);
		}
		for (unsigned int i = 0; asked->ask->leave == TGT_ASK_CUT && i < RBLK_QUEUES_MAX; i++)
			tgt_queue_slot_close(&session->slots[i], "its volume's cluster does not answer");
	}
}

/* At the last one of them. */
struct asked_wait {
	struct tgt_pending pending; /* first; without a request */
	struct tgt_store_ask *ask;
	uint64_t until_ns;
	uint64_t orphans; /* that were there when the barrier was over */
};

static void asked_go_on(struct tgt_pending *pending)
{
	struct asked_wait *wait = (struct asked_wait *)pending;
	struct tgt_orphans *orphans = &pending->volume->orphans;

	if (pending->barrier && tgt_barrier_is_over(pending->barrier)) {
		tgt_barrier_end(pending->barrier);
		pending->barrier = NULL;
		wait->orphans = tgt_orphans_now(orphans);
	}
	wait->orphans = tgt_orphans_left(orphans, wait->orphans);
	if ((pending->barrier || wait->orphans) && pending->reactor->loop.now_ns < wait->until_ns)
		return;
	wait->ask->answer(wait->ask, !pending->barrier && !wait->orphans);
	tgt_pending_end(pending);
}

/* Takes over what `asked` has. */
static void asked_wait(struct tgt_reactor *reactor, struct asked *asked)
{
	/* Without memory its own reference is gone, and the volume is needed until the answer. */
	struct tgt_volume *volume = tgt_volume_ref(asked->volume);
	struct asked_wait *wait =
		(struct asked_wait *)tgt_pending_create(reactor, sizeof(*wait), NULL, asked->volume, true);

	if (!wait)
		asked->ask->answer(asked->ask, false);
	tgt_volume_put(volume);
	if (!wait)
		return;
	wait->pending.go_on = asked_go_on;
	wait->ask = asked->ask;
	wait->until_ns = reactor->loop.now_ns + ASK_WAIT_NS;
}

static bool session_is_past(const struct tgt_session *session, const struct tgt_store_ask *ask)
{
	for (unsigned int i = 0; i < ask->count; i++)
		if (!ask->pasts[i].host && session->epoch < ask->pasts[i].epoch &&
		    !memcmp(session->id, ask->pasts[i].session, sizeof(session->id)))
			return true;
	return false;
}

/*
 * With all that they have open, whichever volume was asked for: an initiator that has raised its epoch has given up
 * what it had in those before, as at a login (proto/README.md, section 3). A queue that its home is about to place
 * elsewhere is closed by the home's message, which goes before the barrier's.
 */
static void asked_end_sessions(struct tgt_reactor *reactor, const struct tgt_store_ask *ask)
{
	static const char reason[] = "its initiator has gone to another gateway";
	struct tgt_session *session, *following;

	TAILQ_FOREACH_SAFE(session, &reactor->sessions, link, following) {
		if (session->ending || !session_is_past(session, ask))
			continue;
		if (!session->home) {
			tgt_session_end(session, reason);
			continue;
		}
		for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++)
			if (session->slots[i].queue)
				tgt_queue_close(session->slots[i].queue, reason);
	}
}

static void asked_run(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct asked *asked = (struct asked *)message;
	const struct tgt_peers *peers = reactor->peers;

	if (atomic_load(&reactor->drained)) { /* and all others: nobody has anything under way */
		asked->ask->answer(asked->ask, true);
		tgt_volume_put(asked->volume);
		free(asked);
		return;
	}
	asked_end_sessions(reactor, asked->ask);
	if (asked->ask->leave)
		asked_send_away(reactor, asked);
	if (asked->ask->note)
		tgt_rights_changed(reactor, asked->volume);
	if (asked->next < atomic_load(&peers->count)) {
		tgt_reactor_send(peers->reactors[asked->next++], message);
		return;
	}
	asked_wait(reactor, asked);
	free(asked);
}

/* Any thread, with the registry's lock held: reactors are there until tgt_gateways_end() has had it. */
static void asked_begin(void *context, struct tgt_volume *volume, struct tgt_store_ask *ask)
{
	struct tgt_peers *peers = context;
	struct asked *asked = malloc(sizeof(*asked));

	if (!asked) {
		ask->answer(ask, false);
		tgt_volume_put(volume);
		return;
	}
	/*
	 * A host that is not held here has nothing to come: what its controllers still have are orphans behind the
	 * barrier.
	 */
	for (unsigned int i = 0; i < ask->count && tgt_paths; i++)
		if (ask->pasts[i].host &&
		    tgt_paths->keeps(volume->config.uuid, ask->pasts[i].session, ask->pasts[i].epoch))
			ask->held |= 1ull << i;
	*asked = (struct asked){.message.run = asked_run, .ask = ask, .volume = volume, .next = 1};
	tgt_reactor_send(peers->reactors[0], &asked->message);
}

void tgt_gateways_begin(struct tgt_reactor *reactor)
{
	tgt_registry_on_ask(reactor->registry, asked_begin, reactor->peers);
}

void tgt_gateways_end(struct tgt_reactor *reactor)
{
	tgt_registry_on_ask(reactor->registry, NULL, NULL);
}
