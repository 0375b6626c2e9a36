/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The connection manager's private data: the login of a queue, the target's acceptance and its
 * refusal. Specification section 3. InfiniBand leaves 56 bytes for a request, so IDENTIFY and
 * AUTHENTICATE are commands on queue 0 (message.h), not fields here.
 */
#ifndef RBLK_WIRE_LOGIN_H
#define RBLK_WIRE_LOGIN_H

#include "proto/wire/types.h"

#define RBLK_MAGIC 0x6b6c6272u /* "rblk" as little-endian bytes */
#define RBLK_PROTOCOL_VERSION 2
#define RBLK_DEFAULT_PORT 4430

#define RBLK_PRIVATE_DATA_MAX 56 /* what InfiniBand leaves to a connection request */

#define RBLK_QUEUES_MAX 16  /* per session: more queue pairs only make connecting slow */
#define RBLK_CREDITS_MIN 4  /* fewer cannot keep one queue busy; a target refuses instead */
#define RBLK_CREDITS_MAX 1024

/*
 * Commands that keep a session alive (KEEPALIVE, FENCE, ABORT, IDENTIFY, AUTHENTICATE, OPEN, CLOSE,
 * LIST) have their own tags and receive buffers, beyond the granted credits: tags
 * [credits, credits + RBLK_RESERVED_TAGS). I/O may use only tags [0, credits).
 */
#define RBLK_RESERVED_TAGS 4

/* Receives beyond credits + RBLK_RESERVED_TAGS that an initiator posts for events. */
#define RBLK_EVENT_RECEIVES 1

/* The size of an initiator's receive buffers: one completion at least. */
#define RBLK_REPLY_BYTES_MIN 32u
#define RBLK_REPLY_BYTES_MAX (64u << 10)

/*
 * Feature bits: asked for in the login, agreed in the acceptance: a subset of what was asked. A bit
 * that the target does not know is not agreed; it is not an error.
 */
enum rblk_feature {
	RBLK_FEATURE_IMMEDIATE = 1u << 0,  /* reads may complete by RDMA WRITE WITH IMMEDIATE */
	RBLK_FEATURE_INVALIDATE = 1u << 1, /* replies may be SEND WITH INVALIDATE */
	RBLK_FEATURE_DIGEST = 1u << 2,     /* CRC32C of data in descriptors and completions */
	RBLK_FEATURE_EVENTS = 1u << 3,     /* the target may send events */
	/* 1u << 4 is reserved */
	RBLK_FEATURE_EXTENTS = 1u << 5, /* EXTENTS may be asked */
	RBLK_FEATURE_FENCE_DOMAIN = 1u << 6, /* OPEN reports the volume's fence domain (F10) */
	RBLK_FEATURE_VOLUME_FENCE = 1u << 7, /* FENCE may name a volume (F5) */
	RBLK_FEATURE_PRIORITY = 1u << 8, /* commands may have PRIORITY */
	RBLK_FEATURE_UNTORN = 1u << 9, /* volumes have untorn_*_bytes, and a WRITE may be UNTORN */
	RBLK_FEATURE_COMPARE_LIMIT = 1u << 10, /* OPEN reports the limit of COMPARE_AND_WRITE */
};
#define RBLK_FEATURES_ALL                                                                          \
	(RBLK_FEATURE_IMMEDIATE | RBLK_FEATURE_INVALIDATE | RBLK_FEATURE_DIGEST |                  \
	 RBLK_FEATURE_EVENTS | RBLK_FEATURE_EXTENTS | RBLK_FEATURE_FENCE_DOMAIN |                  \
	 RBLK_FEATURE_VOLUME_FENCE | RBLK_FEATURE_PRIORITY | RBLK_FEATURE_UNTORN |                 \
	 RBLK_FEATURE_COMPARE_LIMIT)

/* Initiator to target, in the connection request of every queue. */
struct rblk_wire_login {
	__le32 magic;           /* RBLK_MAGIC */
	__le16 version;         /* RBLK_PROTOCOL_VERSION */
	__le16 queue_index;     /* stable for the session's life, 0..queue_count-1 */
	__le32 incarnation;     /* of this queue: 1 at first, +1 with each reconnection */
	__le32 features;        /* wanted, enum rblk_feature */
	__u8 session_id[16];    /* random, chosen by the initiator, never all zero */
	__le64 session_epoch;	/* 1 at first; +1 when the session starts anew from nothing */
	__le16 queue_count;     /* of the session, 1..RBLK_QUEUES_MAX */
	__le16 credits;         /* wanted, RBLK_CREDITS_MIN..RBLK_CREDITS_MAX */
	__le32 reply_bytes;     /* size of each of the initiator's receive buffers */
	__le32 fence_incarnation; /* F5: of this queue, the last that the initiator had; 0: none */
	__u8 reserved[4];
};
RBLK_ASSERT_SIZE(struct rblk_wire_login, 56);
RBLK_ASSERT_OFFSET(struct rblk_wire_login, incarnation, 8);
RBLK_ASSERT_OFFSET(struct rblk_wire_login, session_id, 16);
RBLK_ASSERT_OFFSET(struct rblk_wire_login, session_epoch, 32);
RBLK_ASSERT_OFFSET(struct rblk_wire_login, credits, 42);
RBLK_ASSERT_OFFSET(struct rblk_wire_login, fence_incarnation, 48);

/* Target to initiator, in the acceptance. Both ends keep to what it grants for the queue's life. */
struct rblk_wire_accept {
	__le32 magic;
	__le16 version;
	__le16 credits;         /* granted: tags 0..credits-1 */
	__le32 incarnation;     /* echoed */
	__le32 features;        /* agreed: a subset of what was wanted */
	__u8 target_instance[16]; /* random, new whenever the target process starts */
	__le64 session_epoch;   /* echoed */
	__le32 command_bytes;   /* the longest message that the target receives */
	__le32 max_io_bytes;    /* the longest data of one command */
	__le32 keepalive_ms;    /* silence before a probe; twice that ends it; 0: never */
	__le16 max_batch;       /* commands in one message, 1..RBLK_BATCH_MAX */
	__u8 reserved[2];
};
RBLK_ASSERT_SIZE(struct rblk_wire_accept, 56);
RBLK_ASSERT_OFFSET(struct rblk_wire_accept, target_instance, 16);
RBLK_ASSERT_OFFSET(struct rblk_wire_accept, session_epoch, 32);
RBLK_ASSERT_OFFSET(struct rblk_wire_accept, max_io_bytes, 44);
RBLK_ASSERT_OFFSET(struct rblk_wire_accept, max_batch, 52);

/* Why a target refuses a login. The initiator prints rblk_reject_text(). */
enum rblk_reject_reason {
	RBLK_REJECT_NONE = 0,
	RBLK_REJECT_MALFORMED = 1,         /* private data missing, short, or a field is wrong */
	RBLK_REJECT_VERSION = 2,           /* detail: the version that the target speaks */
	RBLK_REJECT_FEATURES = 3,          /* detail: the bits that the target lacks or forbids */
	RBLK_REJECT_QUEUE_COUNT = 4,       /* detail: the most queues that the target allows */
	RBLK_REJECT_NO_SESSION = 5,        /* not known here, and this login does not begin it */
	RBLK_REJECT_STALE_EPOCH = 6,       /* detail: the session's epoch here (low 32 bits) */
	RBLK_REJECT_STALE_INCARNATION = 7, /* detail: the queue's incarnation here */
	RBLK_REJECT_NO_CREDITS = 8,        /* receive buffers are all promised to others */
	RBLK_REJECT_NO_RESOURCES = 9,      /* memory, queue pairs or session slots ran out */
	RBLK_REJECT_DRAINING = 10,         /* the target is shutting down */
	RBLK_REJECT_DENIED = 11,           /* detail: enum rblk_denied */
	RBLK_REJECT_MAX
};

/*
 * Why something is not allowed: the detail of RBLK_REJECT_DENIED, and the result of a completion with
 * RBLK_E_DENIED. The initiator prints rblk_denied_text(); it may be told a reason that it does not know.
 */
enum rblk_denied {
	RBLK_DENIED_UNSAID = 0,
	RBLK_DENIED_LOCAL = 1,   /* no rules: for the target's own machine only */
	RBLK_DENIED_ADDRESS = 2, /* no rule is for the address */
	RBLK_DENIED_RULES = 3,   /* the rules do not give it to this initiator there */
	RBLK_DENIED_UNPROVEN = 4, /* the name has a secret, and AUTHENTICATE has not proven it */
	RBLK_DENIED_PROOF = 5,	 /* a wrong proof, or the target has no secret for the name */
	RBLK_DENIED_NAME = 6,	 /* the session, or TLS, has proven another name */
	RBLK_DENIED_TLS = 7,	 /* over TCP, the target wants TLS */
	RBLK_DENIED_UNNAMED = 8, /* RESERVE: the initiator has no name of its own */
	RBLK_DENIED_MAX
};

struct rblk_wire_reject {
	__le32 magic;
	__le16 version; /* that the target speaks */
	__le16 reason;  /* enum rblk_reject_reason */
	__le32 detail;  /* its meaning depends on the reason */
	__u8 reserved[4];
};
RBLK_ASSERT_SIZE(struct rblk_wire_reject, 16);
RBLK_ASSERT_OFFSET(struct rblk_wire_reject, detail, 8);

#endif
