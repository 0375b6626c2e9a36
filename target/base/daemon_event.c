/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The daemon events that are kept, see daemon_event.h. If they are TGT_DAEMON_EVENTS_MAX, the oldest of the kind that
 * has most makes room, and of the peer that has more than half of these: what comes often, because a peer wants it to, never
 * pushes out what comes seldom. The lock is held for two walks along them and a copy of COPIED of them.
 */
#include "target/base/daemon_event.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include "proto/core/env.h"
#include "target/base/text.h"

#define WINDOW_NS 1000000000u
#define COPIED 8u

/* The ids are random, and never change: journals are searched for them. */
static const struct event_kind {
	const char *name, *id;
} kinds[] = {
	[TGT_DAEMON_EVENT_READY] = {"ready", "aaf20398ee1e45fcb5a8099eb12a599c"},
	[TGT_DAEMON_EVENT_DRAINING] = {"draining", "8e4f1a9f8e93485593f9eadcb3b9a908"},
	[TGT_DAEMON_EVENT_SESSION_NAMED] = {"session_named", "4e9ec45f671047fa8295222945241c0f"},
	[TGT_DAEMON_EVENT_SESSION_ENDED] = {"session_ended", "1840a1f880d04bafb5720e6a7f97f254"},
	[TGT_DAEMON_EVENT_CONNECTION_LOST] = {"connection_lost", "52b10dc8e01a4176b75005f911b2faad"},
	[TGT_DAEMON_EVENT_VIOLATION] = {"violation", "0f44b1a2f0a84733ae318028d49ef851"},
	[TGT_DAEMON_EVENT_REFUSED] = {"refused", "be270ebc371847908497194b8f6b5462"},
	[TGT_DAEMON_EVENT_FULL] = {"full", "3671951e627e425ca89b010e943482ec"},
	[TGT_DAEMON_EVENT_IO_FAILED] = {"io_failed", "17e200b5bc1946939a97e263f122e069"},
	[TGT_DAEMON_EVENT_WRITES_LOST] = {"writes_lost", "7cbf7289a4a54283ade23603e5710975"},
	[TGT_DAEMON_EVENT_FLUSH_AGAIN] = {"flush_again", "4d6f128e9c3e41738bc99947fc238f3b"},
	[TGT_DAEMON_EVENT_VOLUME_ADDED] = {"volume_added", "dab2b1a06e9f49a98106a7a6c61528ec"},
	[TGT_DAEMON_EVENT_VOLUME_REMOVED] = {"volume_removed", "f2e51860223549a783614103a7ab4785"},
	[TGT_DAEMON_EVENT_VOLUME_CHANGED] = {"volume_changed", "eab5fe623c4b4fb8a31bc70cb25c1066"},
	[TGT_DAEMON_EVENT_RELOAD_FAILED] = {"reload_failed", "a31674c1f2d44a4181e9de03bd12881b"},
	[TGT_DAEMON_EVENT_REACTOR_HANGS] = {"reactor_hangs", "909a609946fd4b489a4130f75d4ce533"},
	[TGT_DAEMON_EVENT_REACTOR_BUSY] = {"reactor_busy", "ace0f8047bef486daf230e7f5d3bbf6e"},
	[TGT_DAEMON_EVENT_DEVICE_REMOVED] = {"device_removed", "916a85ef87174c44958d6c4d313e9b5c"},
	[TGT_DAEMON_EVENT_VOLUME_MISSING] = {"volume_missing", "d8a57b4114e54b7a93edcd54865a3dec"},
	[TGT_DAEMON_EVENT_ADDRESS_MISSING] = {"address_missing", "f847be014328408ca9b54a626d0349f9"},
	[TGT_DAEMON_EVENT_ADDRESS_ADDED] = {"address_added", "b5f186fb713d465782a2db1839a46efc"},
};
static_assert(sizeof(kinds) / sizeof(kinds[0]) == TGT_DAEMON_EVENTS, "every kind has a name");

/* Who it is about, without the port; "": nobody. A peer calls itself what it likes, so its address comes first. */
struct event_peer {
	char name[sizeof(((struct tgt_daemon_event *)NULL)->address)];
};

struct event_slot {
	TAILQ_ENTRY(event_slot) kept_link, kind_link;
	struct event_peer peer;
	struct tgt_daemon_event event;
};

struct event_kept {
	TAILQ_HEAD(event_list, event_slot)
	slots; /* by number */
	unsigned int count;
	/* The counts of this second: */
	uint64_t begun_ns;
	unsigned int used, suppressed;
	const struct event_slot *taken[TGT_DAEMON_EVENTS_BURST]; /* the first `used`; none of them is replaced in it */
};

/* `lock` owns all of it. */
static struct {
	pthread_mutex_t lock;
	uint64_t last;		 /* number */
	int wake;		 /* eventfd, -1: none */
	struct event_list kept;	 /* by number; each is in its kind's list, too */
	unsigned int count;
	struct event_kept kinds[TGT_DAEMON_EVENTS];
	struct event_slot slots[TGT_DAEMON_EVENTS_MAX]; /* the first `count` are in use */
} events = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = -1};

/* Text that does not fit is cut off. */
static void text_keep(char *to, size_t bytes, const char *from)
{
	size_t length = from ? strnlen(from, bytes - 1) : 0;

	if (length)
		memcpy(to, from, length);
	to[length] = '\0';
}

static struct event_peer peer_of(const char *address, const char *initiator)
{
	struct event_peer peer;
	char *port;

	text_keep(peer.name, sizeof(peer.name), address && *address ? address : initiator);
	port = address && *address ? strrchr(peer.name, ':') : NULL;
	if (port)
		*port = '\0';
	return peer;
}

static bool same_peer(const struct event_peer *a, const struct event_peer *b)
{
	return !strcmp(a->name, b->name);
}

/* Lock held. */
static bool kind_takes(struct event_kept *kind, const struct event_peer *peer, uint64_t now_ns)
{
	unsigned int of_peer = 0;

	if (!kind->begun_ns || now_ns - kind->begun_ns >= WINDOW_NS) {
		kind->begun_ns = now_ns;
		kind->used = 0;
	}
	for (unsigned int i = 0; i < kind->used && *peer->name; i++)
		of_peer += same_peer(peer, &kind->taken[i]->peer);
	if (kind->used >= TGT_DAEMON_EVENTS_BURST || of_peer >= TGT_DAEMON_EVENTS_PEER) {
		kind->suppressed++;
		return false;
	}
	return true;
}

/* Lock held. The oldest of a peer that has more than half of them, or of all. */
static struct event_slot *kind_oldest(struct event_kept *kind)
{
	const struct event_peer *most = NULL;
	struct event_slot *slot, *first = NULL;
	unsigned int votes = 0, count = 0;

	/* Who has more than half of the votes is left at the end. */
	TAILQ_FOREACH(slot, &kind->slots, kind_link) {
		if (!votes)
			most = &slot->peer;
		votes = same_peer(&slot->peer, most) ? votes + 1 : votes - 1;
	}
	TAILQ_FOREACH(slot, &kind->slots, kind_link) {
		if (!same_peer(&slot->peer, most))
			continue;
		first = first ? first : slot;
		count++;
	}
	return count > kind->count / 2 ? first : TAILQ_FIRST(&kind->slots);
}

/* Lock held. In no list. */
static struct event_slot *slot_get(void)
{
	struct event_kept *most = &events.kinds[0];
	struct event_slot *slot;

	if (events.count < TGT_DAEMON_EVENTS_MAX)
		return &events.slots[events.count++];
	for (unsigned int i = 1; i < TGT_DAEMON_EVENTS; i++) {
		if (events.kinds[i].count > most->count)
			most = &events.kinds[i];
	}
	slot = kind_oldest(most);
	TAILQ_REMOVE(&most->slots, slot, kind_link);
	TAILQ_REMOVE(&events.kept, slot, kept_link);
	most->count--;
	return slot;
}

/* Lock held. A list that was never used has no end yet. */
static void slot_keep(struct event_slot *slot, struct event_kept *kind)
{
	if (!events.kept.tqh_last)
		TAILQ_INIT(&events.kept);
	if (!kind->slots.tqh_last)
		TAILQ_INIT(&kind->slots);
	slot->event.number = ++events.last;
	TAILQ_INSERT_TAIL(&events.kept, slot, kept_link);
	TAILQ_INSERT_TAIL(&kind->slots, slot, kind_link);
	kind->count++;
}

static void event_keep(const struct tgt_daemon_event_about *about, enum tgt_log_level level,
		       const char *message)
{
	struct event_kept *kind = &events.kinds[about->kind];
	struct event_peer peer = peer_of(about->address, about->initiator);
	uint64_t now_ns = env_now_ns(), time_ns = tgt_time_now_ns();
	struct event_slot *slot;
	struct tgt_daemon_event *event;

	pthread_mutex_lock(&events.lock);
	if (kind_takes(kind, &peer, now_ns)) {
		slot = slot_get();
		kind->taken[kind->used++] = slot;
		slot->peer = peer;
		event = &slot->event;
		event->time_ns = time_ns;
		event->kind = about->kind;
		event->level = level;
		event->error = about->error;
		event->suppressed = kind->suppressed;
		kind->suppressed = 0;
		text_keep(event->volume, sizeof(event->volume), about->volume);
		text_keep(event->initiator, sizeof(event->initiator), about->initiator);
		text_keep(event->address, sizeof(event->address), about->address);
		text_keep(event->message, sizeof(event->message), message);
		slot_keep(slot, kind);
		if (events.wake >= 0)
			eventfd_write(events.wake, 1);
	}
	pthread_mutex_unlock(&events.lock);
}

static _Atomic bool journaled;

void tgt_daemon_events_journaled(bool are)
{
	atomic_store(&journaled, are);
}

/* said: NULL: the log's line is the event's, too. */
static void event_tell(const char *said, const struct tgt_daemon_event_about *about, struct tgt_log_limit *limit,
		       enum tgt_log_level level, const char *format, va_list args)
{
	char message[1024];

	vsnprintf(message, sizeof(message), format, args);
	/* The line that it is in the journal is the event itself. */
	if (atomic_load(&journaled) && said)
		tgt_log(TGT_LOG_DEBUG, "%s", message);
	else if (atomic_load(&journaled))
		;
	else if (limit)
		tgt_log_limited(limit, level, "%s", message);
	else
		tgt_log(level, "%s", message);
	event_keep(about, level, said ? said : message);
}

void tgt_daemon_event(const struct tgt_daemon_event_about *about, struct tgt_log_limit *limit,
		      enum tgt_log_level level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	event_tell(NULL, about, limit, level, format, args);
	va_end(args);
}

void tgt_daemon_event_said(const char *said, const struct tgt_daemon_event_about *about, struct tgt_log_limit *limit,
			   enum tgt_log_level level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	event_tell(said, about, limit, level, format, args);
	va_end(args);
}

/* From the end: who asks has mostly seen all but the last. */
static const struct event_slot *slot_after(uint64_t after)
{
	const struct event_slot *slot, *found = NULL;

	if (!events.count)
		return NULL;
	TAILQ_FOREACH_REVERSE(slot, &events.kept, event_list, kept_link) {
		if (slot->event.number <= after)
			break;
		found = slot;
	}
	return found;
}

static unsigned int events_copy(uint64_t after, struct tgt_daemon_event *out, unsigned int max)
{
	const struct event_slot *slot;
	unsigned int count = 0;

	pthread_mutex_lock(&events.lock);
	for (slot = slot_after(after); slot && count < max && count < COPIED;
	     slot = TAILQ_NEXT(slot, kept_link))
		out[count++] = slot->event;
	pthread_mutex_unlock(&events.lock);
	return count;
}

unsigned int tgt_daemon_events_after(uint64_t after, struct tgt_daemon_event *out, unsigned int max)
{
	unsigned int count = 0, copied;

	while ((copied = events_copy(after, out + count, max - count))) {
		count += copied;
		after = out[count - 1].number;
	}
	return count;
}

uint64_t tgt_daemon_events_last(void)
{
	uint64_t last;

	pthread_mutex_lock(&events.lock);
	last = events.last;
	pthread_mutex_unlock(&events.lock);
	return last;
}

unsigned int tgt_daemon_events_count(enum tgt_daemon_event_kind kind, uint64_t since_ns, struct tgt_daemon_event *last)
{
	const struct event_slot *slot;
	unsigned int count = 0;

	pthread_mutex_lock(&events.lock);
	/* A list that was never used has no end yet. */
	if (events.kinds[kind].count) {
		TAILQ_FOREACH(slot, &events.kinds[kind].slots, kind_link) {
			if (slot->event.time_ns < since_ns)
				continue;
			count += 1 + slot->event.suppressed;
			*last = slot->event;
		}
		/* Those after the last one, which the next one will tell. */
		count += count ? events.kinds[kind].suppressed : 0;
	}
	pthread_mutex_unlock(&events.lock);
	return count;
}

void tgt_daemon_events_wake(int eventfd)
{
	pthread_mutex_lock(&events.lock);
	events.wake = eventfd;
	pthread_mutex_unlock(&events.lock);
}

const char *tgt_daemon_event_name(enum tgt_daemon_event_kind kind)
{
	return kinds[kind].name;
}

const char *tgt_daemon_event_id(enum tgt_daemon_event_kind kind)
{
	return kinds[kind].id;
}
