/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The framing of fabric_tcp: software RC over one TCP connection per queue pair. Private to
 * proto/fabric/fabric_tcp*.c. Everything is little-endian and naturally aligned; reserved bytes are
 * zero, and a peer that sets one is disconnected.
 *
 * The side that connects sends one struct fab_tcp_hello (REQUEST); the other answers with one
 * (ACCEPT or REJECT, then end of stream). After ACCEPT both directions carry frames: a struct
 * fab_tcp_frame, then `length` bytes of payload where the opcode has one.
 *
 *   opcode     sequence        key           address  immediate  payload
 *   SEND       of the request  -             -        -          the message
 *   SEND_IMM   of the request  -             -        yes        the message
 *   SEND_INV   of the request  to invalidate -        -          the message
 *   WRITE      of the request  remote        remote   -          the data
 *   WRITE_IMM  of the request  remote        remote   yes        the data
 *   READ       of the request  remote        remote   -          none; length is what is wanted
 *   READ_DATA  of the READ     -             -        -          the data, all of it
 *   ACK        -               -             -        -          none, length 0
 *   NAK        of the request  -             -        -          none; status says why
 *
 * Fields marked - are sent as zero and not looked at.
 *
 * Requests (SEND to READ) are numbered 1, 2, ... in each direction, modulo 2^32, and are executed
 * in that order. `ack` of every frame is the highest number executed: cumulative, so that it
 * travels with whatever is sent anyway; FAB_TCP_ACK_WANTED asks for an ACK frame where nothing else
 * goes. READ_DATA frames come in the order of their READs. A receiver that has no receive posted
 * stops reading (TCP's window replaces receiver-not-ready). NAK ends the connection: all before its
 * sequence was executed, it failed, nothing after it was processed.
 */
#ifndef RBLK_FABRIC_TCP_WIRE_H
#define RBLK_FABRIC_TCP_WIRE_H

#include "proto/wire/types.h"

#define FAB_TCP_MAGIC 0x50435452u /* "RTCP" as little-endian bytes */
#define FAB_TCP_VERSION 1
#define FAB_TCP_PRIVATE_MAX 240

enum fab_tcp_hello_kind {
	FAB_TCP_REQUEST = 1,
	FAB_TCP_ACCEPT = 2,
	FAB_TCP_REJECT = 3,
};

struct fab_tcp_hello {
	__le32 magic;
	__le16 version;
	__u8 kind;          /* enum fab_tcp_hello_kind */
	__u8 private_bytes; /* of private_data; the rest of it is zero */
	__u8 read_in;       /* READs that the sender of this answers at a time */
	__u8 read_out;      /* READs that it will have outstanding */
	__u8 reserved[6];
	__u8 private_data[FAB_TCP_PRIVATE_MAX];
};
RBLK_ASSERT_SIZE(struct fab_tcp_hello, 256);
RBLK_ASSERT_OFFSET(struct fab_tcp_hello, read_in, 8);
RBLK_ASSERT_OFFSET(struct fab_tcp_hello, private_data, 16);

enum fab_tcp_opcode {
	FAB_TCP_SEND = 1,
	FAB_TCP_SEND_IMM = 2,
	FAB_TCP_SEND_INV = 3,
	FAB_TCP_WRITE = 4,
	FAB_TCP_WRITE_IMM = 5,
	FAB_TCP_READ = 6,
	FAB_TCP_READ_DATA = 7,
	FAB_TCP_ACK = 8,
	FAB_TCP_NAK = 9,
	FAB_TCP_OPCODE_MAX
};

/* Why a request failed at the responder; named as InfiniBand's NAK codes. */
enum fab_tcp_nak {
	FAB_TCP_NAK_NONE = 0,
	FAB_TCP_NAK_INVALID = 1,   /* IBV_WC_REM_INV_REQ_ERR: longer than the receive, malformed */
	FAB_TCP_NAK_ACCESS = 2,    /* IBV_WC_REM_ACCESS_ERR: key, bounds or rights */
	FAB_TCP_NAK_OPERATION = 3, /* IBV_WC_REM_OP_ERR: the responder's own receive is unusable */
	FAB_TCP_NAK_MAX
};

#define FAB_TCP_ACK_WANTED 1u /* the only flag */

struct fab_tcp_frame {
	__u8 opcode; /* enum fab_tcp_opcode */
	__u8 flags;
	__u8 status; /* NAK: enum fab_tcp_nak; else 0 */
	__u8 reserved;
	__le32 length;
	__le32 sequence;
	__le32 ack;
	__le32 key;
	__u8 immediate[4]; /* as the work request has it, whatever its order */
	__le64 address;
};
RBLK_ASSERT_SIZE(struct fab_tcp_frame, 32);
RBLK_ASSERT_OFFSET(struct fab_tcp_frame, length, 4);
RBLK_ASSERT_OFFSET(struct fab_tcp_frame, ack, 12);
RBLK_ASSERT_OFFSET(struct fab_tcp_frame, key, 16);
RBLK_ASSERT_OFFSET(struct fab_tcp_frame, address, 24);

/* The longest message of one work request. */
#define FAB_TCP_MESSAGE_MAX (1u << 30)

#endif
