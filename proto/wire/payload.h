/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Data of the commands that are not block I/O: naming, authenticating, opening, listing,
 * reservations, extents. Specification section 6. An initiator's payload is in the
 * capsule; the target writes its report by RDMA WRITE into the command's segment.
 */
#ifndef RBLK_WIRE_PAYLOAD_H
#define RBLK_WIRE_PAYLOAD_H

#include "proto/wire/types.h"

#define RBLK_NAME_BYTES 64 /* of a volume or initiator name: at most 63 characters, zero filled */
#define RBLK_NAME_UNNAMED "unnamed" /* an initiator that knows no name of its own: it cannot reserve */
#define RBLK_VOLUMES_MAX 1024
#define RBLK_HANDLES_MAX 1024 /* open at one time in a session: each has a slot, the number's low bits */
#define RBLK_HANDLE_SLOT(handle) ((handle) & (RBLK_HANDLES_MAX - 1))
#define RBLK_LIST_MAX 64      /* volumes in one answer to LIST */
#define RBLK_BLOCK_BYTES_MIN 512u
#define RBLK_BLOCK_BYTES_MAX 4096u

/* In-capsule payloads are zero filled up to RBLK_CAPSULE_ALIGN. */

/* IDENTIFY: the initiator's name, for logs and access rules. */
struct rblk_wire_identify {
	char initiator[RBLK_NAME_BYTES]; /* configured name, else the host's, else RBLK_NAME_UNNAMED */
	char software[RBLK_NAME_BYTES];  /* program and version, printable ASCII */
	__u8 reserved[64];
};
RBLK_ASSERT_SIZE(struct rblk_wire_identify, 192);

#define RBLK_NONCE_BYTES 32
#define RBLK_PROOF_BYTES 32

/*
 * AUTHENTICATE, in two steps, on every queue (specification section 6.3). Step 1 brings the initiator's
 * nonce; the report brings the target's. Step 2 brings the initiator's proof, the report the target's.
 */
struct rblk_wire_authenticate {
	__le32 step; /* 1 or 2 */
	__u8 reserved0[4];
	__u8 nonce[RBLK_NONCE_BYTES]; /* the sender's */
	__u8 proof[RBLK_PROOF_BYTES]; /* zero in step 1 */
	char name[RBLK_NAME_BYTES];   /* the initiator's, and so which secret */
	__u8 reserved1[56];
};
RBLK_ASSERT_SIZE(struct rblk_wire_authenticate, 192);

/*
 * A proof is the HMAC-SHA256 of this; it is never sent. It has all that makes this connection what
 * both ends take it for: so a proof is worth nothing on another connection, and nothing of the
 * login can be changed on its way.
 */
struct rblk_wire_proof {
	char label[15]; /* RBLK_PROOF_LABEL */
	__u8 role;	/* 'I' or 'T': whose proof it is */
	__u8 channel[32]; /* of an encrypted transport; zero without */
	__u8 login[56];	  /* struct rblk_wire_login and */
	__u8 accept[56];  /* rblk_wire_accept as they were sent */
	__u8 initiator_nonce[RBLK_NONCE_BYTES];
	__u8 target_nonce[RBLK_NONCE_BYTES];
	char name[RBLK_NAME_BYTES];
};
RBLK_ASSERT_SIZE(struct rblk_wire_proof, 288);
RBLK_ASSERT_OFFSET(struct rblk_wire_proof, channel, 16);
RBLK_ASSERT_OFFSET(struct rblk_wire_proof, initiator_nonce, 160);
RBLK_ASSERT_OFFSET(struct rblk_wire_proof, name, 224);
#define RBLK_PROOF_LABEL "rblk proof 1" /* zero filled */

enum rblk_open_flag {
	RBLK_OPEN_READ_ONLY = 1u << 0,
	RBLK_OPEN_NEED_FLUSH = 1u << 1, /* refuse with UNSUPPORTED if the store cannot flush */
	RBLK_OPEN_NEED_FUA = 1u << 2,   /* likewise for FUA */
};
#define RBLK_OPEN_FLAGS_ALL 0x7u

struct rblk_wire_open {
	char name[RBLK_NAME_BYTES];
	__le32 flags; /* enum rblk_open_flag */
	__u8 reserved[60];
};
RBLK_ASSERT_SIZE(struct rblk_wire_open, 128);
RBLK_ASSERT_OFFSET(struct rblk_wire_open, flags, 64);

enum rblk_volume_flag {
	RBLK_VOLUME_READ_ONLY = 1u << 0,
	RBLK_VOLUME_FLUSH = 1u << 1,          /* FLUSH is performed */
	RBLK_VOLUME_FUA = 1u << 2,            /* FUA is performed */
	RBLK_VOLUME_VOLATILE_CACHE = 1u << 3, /* without FLUSH or FUA a crash may lose writes */
	RBLK_VOLUME_DISCARD = 1u << 4,
	RBLK_VOLUME_WRITE_ZEROES = 1u << 5,
	RBLK_VOLUME_COMPARE_AND_WRITE = 1u << 6,
	RBLK_VOLUME_RESERVATIONS = 1u << 7,
	RBLK_VOLUME_ROTATIONAL = 1u << 8,
	RBLK_VOLUME_CHECKSUM = 1u << 9,
	RBLK_VOLUME_RESERVATIONS_PERSIST = 1u << 10, /* the target can keep them over its restart */
};
#define RBLK_VOLUME_FLAGS_ALL 0x7ffu

/* A volume as OPEN and LIST report it. */
struct rblk_wire_volume {
	char name[RBLK_NAME_BYTES];
	__u8 uuid[16];          /* stable over restarts: the wwid */
	__u8 cache_epoch[16];   /* F7: changes when acknowledged, unflushed writes may be lost */
	__le64 blocks;          /* size */
	__le32 handle;          /* OPEN: the command's; LIST: 0 */
	__le32 block_bytes;     /* a power of two, RBLK_BLOCK_BYTES_MIN..MAX */
	__le32 physical_bytes;  /* smallest write that needs no read-modify-write */
	__le32 optimal_bytes;   /* preferred I/O size, 0 if unknown */
	__le32 flags;           /* enum rblk_volume_flag */
	__le32 max_io_bytes;    /* data of one command on this volume */
	__le32 max_capsule_bytes; /* in-capsule data of one WRITE */
	__le32 discard_granularity_bytes; /* 0 where there is no DISCARD */
	__le32 max_discard_blocks;        /* of one DISCARD or WRITE_ZEROES */
	__le16 max_compare_blocks; /* OPEN only, with RBLK_FEATURE_COMPARE_LIMIT; 0: only max_io_bytes limits them */
	__u8 reserved0[2];
	/* F10: OPEN only, with RBLK_FEATURE_FENCE_DOMAIN: where the target fences; zero: not beyond its process */
	__u8 fence_domain[16];
	/* With RBLK_FEATURE_UNTORN: the shortest and the longest UNTORN WRITE; both 0: there is none */
	__le32 untorn_min_bytes, untorn_max_bytes;
	__u8 reserved1[24];
};
RBLK_ASSERT_SIZE(struct rblk_wire_volume, 192);
RBLK_ASSERT_OFFSET(struct rblk_wire_volume, blocks, 96);
RBLK_ASSERT_OFFSET(struct rblk_wire_volume, flags, 120);
RBLK_ASSERT_OFFSET(struct rblk_wire_volume, max_discard_blocks, 136);
RBLK_ASSERT_OFFSET(struct rblk_wire_volume, max_compare_blocks, 140);
RBLK_ASSERT_OFFSET(struct rblk_wire_volume, fence_domain, 144);
RBLK_ASSERT_OFFSET(struct rblk_wire_volume, untorn_min_bytes, 160);

/*
 * Linux's rule for an untorn write of so many bytes at that offset: a power of two, aligned to its own length, within
 * the volume's limits. So it crosses no boundary that a disk may have.
 */
static inline bool rblk_untorn_valid(u64 offset, u64 bytes, u32 min_bytes, u32 max_bytes)
{
	return bytes && bytes >= min_bytes && bytes <= max_bytes && !(bytes & (bytes - 1)) && !(offset & (bytes - 1));
}

/* LIST: result of the completion: total number of volumes << 32 | number in this answer. */

enum rblk_reservation_action {
	RBLK_RESERVE_REGISTER = 1, /* key becomes new_key; new_key 0 unregisters */
	RBLK_RESERVE_ACQUIRE = 2,
	RBLK_RESERVE_RELEASE = 3,
	RBLK_RESERVE_PREEMPT = 4, /* removes the registrants that hold other_key */
	RBLK_RESERVE_CLEAR = 5,
};

/* The numbers of SPC's and Linux's types (enum pr_type). */
enum rblk_reservation_type {
	RBLK_RESERVATION_NONE = 0,
	RBLK_RESERVATION_WRITE_EXCLUSIVE = 1,
	RBLK_RESERVATION_EXCLUSIVE_ACCESS = 2,
	RBLK_RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS = 3,
	RBLK_RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS = 4,
	/* As 3 and 4, and every registrant is a holder. */
	RBLK_RESERVATION_WRITE_EXCLUSIVE_ALL = 5,
	RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL = 6,
};

enum rblk_reservation_flag {
	RBLK_RESERVE_IGNORE_KEY = 1u << 0, /* REGISTER: whatever key the registrant has, or none */
	RBLK_RESERVE_ABORT = 1u << 1,      /* PREEMPT: also drops the victims' commands not begun */
	/* REGISTER: from now on the volume's reservations outlive the target's process, or not. */
	RBLK_RESERVE_PERSIST = 1u << 2,
	RBLK_RESERVE_VOLATILE = 1u << 3,
};
#define RBLK_RESERVE_FLAGS_ALL 0xfu

struct rblk_wire_reservation {
	__le64 key;
	__le64 new_key;
	__le64 other_key;
	__u8 action; /* enum rblk_reservation_action */
	__u8 type;   /* enum rblk_reservation_type */
	__u8 flags;  /* enum rblk_reservation_flag */
	__u8 reserved[37];
};
RBLK_ASSERT_SIZE(struct rblk_wire_reservation, 64);
RBLK_ASSERT_OFFSET(struct rblk_wire_reservation, action, 24);
RBLK_ASSERT_OFFSET(struct rblk_wire_reservation, flags, 26);

struct rblk_wire_registrant {
	__le64 key;
	char initiator[RBLK_NAME_BYTES];
	__u8 holder; /* 1 if it holds the reservation */
	__u8 reserved[7];
};
RBLK_ASSERT_SIZE(struct rblk_wire_registrant, 80);

struct rblk_wire_reservation_report {
	__le32 generation; /* changes with every change of registrations */
	__u8 type;         /* enum rblk_reservation_type now in force */
	__u8 persists;     /* 1 if they outlive the target's process */
	__u8 reserved[2];
	__le32 registrants; /* that follow, as many as fit in the segment */
	__le32 total;       /* that there are */
};
RBLK_ASSERT_SIZE(struct rblk_wire_reservation_report, 16);
#define RBLK_REGISTRANTS_MAX 128 /* of one volume */

enum rblk_extent_flag {
	RBLK_EXTENT_HOLE = 1u << 0, /* no space is allocated */
	RBLK_EXTENT_ZERO = 1u << 1, /* reads as zeroes */
};
#define RBLK_EXTENT_FLAGS_ALL 0x3u

/* EXTENTS: one of several, in order and without gaps from the command's lba on. */
struct rblk_wire_extent {
	__le64 blocks; /* never 0 */
	__le32 flags;  /* enum rblk_extent_flag; 0: data */
	__u8 reserved[4];
};
RBLK_ASSERT_SIZE(struct rblk_wire_extent, 16);
RBLK_ASSERT_OFFSET(struct rblk_wire_extent, flags, 8);
#define RBLK_EXTENTS_MAX 256 /* in one answer to EXTENTS */

#endif
