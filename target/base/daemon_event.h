/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Daemon events: what a person wants to know of the daemon, besides its line in the log: of which kind,
 * and about which volume and initiator. (People read "event"; in the code that word alone is the
 * protocol's, serve/event.h.) TGT_DAEMON_EVENTS_MAX are kept; watch/ sends them to the journal, and shows
 * them. Any thread. Peers can cause them: of each kind, TGT_DAEMON_EVENTS_BURST a second are kept,
 * TGT_DAEMON_EVENTS_PEER of them about one peer, and the next one counts the others; and a kind that
 * has many makes room for the others first, and in it a peer that has more than half of them. A peer is an
 * address without its port, or an initiator where no address is told. Nothing on the data path is one, unless it fails.
 */
#ifndef RBLK_TARGET_BASE_DAEMON_EVENT_H
#define RBLK_TARGET_BASE_DAEMON_EVENT_H

#include "proto/wire/payload.h"
#include "target/base/log.h"

#define TGT_DAEMON_EVENTS_MAX 1000u
#define TGT_DAEMON_EVENTS_BURST 10u
#define TGT_DAEMON_EVENTS_PEER 5u

/* daemon_event.c has their names and MESSAGE_IDs; rblkd(8) says what they mean. */
enum tgt_daemon_event_kind {
	TGT_DAEMON_EVENT_READY,
	TGT_DAEMON_EVENT_DRAINING,
	TGT_DAEMON_EVENT_SESSION_NAMED,
	TGT_DAEMON_EVENT_SESSION_ENDED,
	TGT_DAEMON_EVENT_CONNECTION_LOST,
	TGT_DAEMON_EVENT_VIOLATION,
	TGT_DAEMON_EVENT_REFUSED,
	TGT_DAEMON_EVENT_FULL,
	TGT_DAEMON_EVENT_IO_FAILED,
	TGT_DAEMON_EVENT_WRITES_LOST,
	TGT_DAEMON_EVENT_FLUSH_AGAIN,
	TGT_DAEMON_EVENT_VOLUME_ADDED,
	TGT_DAEMON_EVENT_VOLUME_REMOVED,
	TGT_DAEMON_EVENT_VOLUME_CHANGED,
	TGT_DAEMON_EVENT_RELOAD_FAILED,
	TGT_DAEMON_EVENT_REACTOR_HANGS,
	TGT_DAEMON_EVENT_REACTOR_BUSY,
	TGT_DAEMON_EVENT_DEVICE_REMOVED,
	TGT_DAEMON_EVENT_VOLUME_MISSING,
	TGT_DAEMON_EVENT_ADDRESS_MISSING,
	TGT_DAEMON_EVENT_ADDRESS_ADDED,
	TGT_DAEMON_EVENTS
};

/* Names that are NULL are not known, or there are none. */
struct tgt_daemon_event_about {
	enum tgt_daemon_event_kind kind;
	const char *volume, *initiator, *address;
	int error; /* errno, positive; 0: none */
};

struct tgt_daemon_event {
	uint64_t number;  /* from 1 on */
	uint64_t time_ns; /* CLOCK_REALTIME */
	enum tgt_daemon_event_kind kind;
	enum tgt_log_level level;
	int error;
	unsigned int suppressed; /* of the same kind before it that were not kept */
	char volume[RBLK_NAME_BYTES], initiator[RBLK_NAME_BYTES], address[80]; /* "": none */
	char message[448];
};

/* True: who has the journal send events, so they are no lines of the log, too, which goes there. */
void tgt_daemon_events_journaled(bool are);
/* Logs the message, too; limit (NULL: none) is that line's. */
void tgt_daemon_event(const struct tgt_daemon_event_about *about, struct tgt_log_limit *limit,
		      enum tgt_log_level level, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The same, where the log has figures for developers: `said` is the event's message. */
void tgt_daemon_event_said(const char *said, const struct tgt_daemon_event_about *about, struct tgt_log_limit *limit,
			   enum tgt_log_level level, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* The first `max` that are kept, and whose numbers are higher than `after`; returns how many. */
unsigned int tgt_daemon_events_after(uint64_t after, struct tgt_daemon_event *events, unsigned int max);
/* How many of that kind there were since that time (CLOCK_REALTIME), those that were not kept included; *last is the last one. */
unsigned int tgt_daemon_events_count(enum tgt_daemon_event_kind kind, uint64_t since_ns, struct tgt_daemon_event *last);
/* The number of the last one; 0: there was none. */
uint64_t tgt_daemon_events_last(void);
/* This eventfd becomes readable with each daemon event; -1: none does any more. */
void tgt_daemon_events_wake(int eventfd);

const char *tgt_daemon_event_name(enum tgt_daemon_event_kind kind);
/* 32 hexadecimal digits, for the journal. */
const char *tgt_daemon_event_id(enum tgt_daemon_event_kind kind);

#endif
