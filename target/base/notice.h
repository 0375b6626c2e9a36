/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Notices: events of the daemon that a person wants to know, besides their line in the log: of
 * which kind, and about which volume and initiator. (People read "event"; in the code that word is
 * the protocol's, serve/event.h.) TGT_NOTICES_MAX are kept; watch/ sends them to the journal, and
 * shows them. Any thread. Peers can cause notices: of each kind, TGT_NOTICES_BURST a second are
 * kept, TGT_NOTICES_PEER of them about one peer, and the next one counts the others; and a kind that
 * has many makes room for the others first, and in it a peer that has more than half of them. A peer is an
 * address without its port, or an initiator where no address is told. Nothing on the data path is one, unless it fails.
 */
#ifndef RBLK_TARGET_BASE_NOTICE_H
#define RBLK_TARGET_BASE_NOTICE_H

#include "proto/wire/payload.h"
#include "target/base/log.h"

#define TGT_NOTICES_MAX 1000u
#define TGT_NOTICES_BURST 10u
#define TGT_NOTICES_PEER 5u

/* notice.c has their names and MESSAGE_IDs; rblkd(8) says what they mean. */
enum tgt_notice_kind {
	TGT_NOTICE_READY,
	TGT_NOTICE_DRAINING,
	TGT_NOTICE_SESSION_NAMED,
	TGT_NOTICE_SESSION_ENDED,
	TGT_NOTICE_CONNECTION_LOST,
	TGT_NOTICE_VIOLATION,
	TGT_NOTICE_REFUSED,
	TGT_NOTICE_IO_FAILED,
	TGT_NOTICE_WRITES_LOST,
	TGT_NOTICE_FLUSH_AGAIN,
	TGT_NOTICE_VOLUME_ADDED,
	TGT_NOTICE_VOLUME_REMOVED,
	TGT_NOTICE_VOLUME_CHANGED,
	TGT_NOTICE_RELOAD_FAILED,
	TGT_NOTICE_REACTOR_HANGS,
	TGT_NOTICE_DEVICE_REMOVED,
	TGT_NOTICE_VOLUME_MISSING,
	TGT_NOTICE_ADDRESS_MISSING,
	TGT_NOTICE_ADDRESS_ADDED,
	TGT_NOTICES
};

/* Names that are NULL are not known, or there are none. */
struct tgt_notice_about {
	enum tgt_notice_kind kind;
	const char *volume, *initiator, *address;
	int error; /* errno, positive; 0: none */
};

struct tgt_notice {
	uint64_t number;  /* from 1 on */
	uint64_t time_ns; /* CLOCK_REALTIME */
	enum tgt_notice_kind kind;
	enum tgt_log_level level;
	int error;
	unsigned int suppressed; /* of the same kind before it that were not kept */
	char volume[RBLK_NAME_BYTES], initiator[RBLK_NAME_BYTES], address[80]; /* "": none */
	char message[448];
};

/* Logs the message, too; limit (NULL: none) is that line's. */
void tgt_notice(const struct tgt_notice_about *about, struct tgt_log_limit *limit,
		enum tgt_log_level level, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The first `max` that are kept, and whose numbers are higher than `after`; returns how many. */
unsigned int tgt_notices_after(uint64_t after, struct tgt_notice *notices, unsigned int max);
/* The number of the last one; 0: there was none. */
uint64_t tgt_notices_last(void);
/* This eventfd becomes readable with each notice; -1: none does any more. */
void tgt_notices_wake(int eventfd);

const char *tgt_notice_name(enum tgt_notice_kind kind);
/* 32 hexadecimal digits, for the journal. */
const char *tgt_notice_id(enum tgt_notice_kind kind);

#endif
