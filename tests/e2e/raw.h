/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An initiator that keeps no rules: the bare fabric, so that a test can send what librblk never
 * would. One connection, stepped by the test's thread; every wait has a limit and aborts the test.
 */
#ifndef RBLK_TESTS_E2E_RAW_H
#define RBLK_TESTS_E2E_RAW_H

#include "proto/fabric/fabric.h"
#include "proto/wire/wire.h"

#define RAW_MEMORY (1u << 20)
#define RAW_SEND 0u	    /* messages are built here */
#define RAW_RECEIVES 65536u /* receive buffers */
#define RAW_REPLY_BYTES 2048u
#define RAW_DATA 524288u /* the data of READ and WRITE */
#define RAW_WAIT_MS 120000 /* a guard against hangs: machines may crawl */

struct raw {
	struct fab *fab;
	struct fab_conn *conn;
	struct fab_mr *mr;
	char *memory;
	struct rblk_wire_login login; /* as it is sent; a test may change it before raw_connect */
	uint8_t login_bytes;	      /* how many bytes of it are sent; likewise */
	uint32_t receives;	      /* how many are kept posted; likewise */
	struct rblk_wire_accept accept;
	struct rblk_wire_reject reject;
	bool established, rejected, gone, drained;
	uint32_t sequence;			/* of the next command */
	unsigned int sends;			/* posted and not completed */
	unsigned int replies;			/* completions seen */
	struct rblk_wire_completion last[1200]; /* by tag; sequence + 1 in .sequence: 0 is none */
	struct rblk_wire_completion event;	/* the last */
	uint32_t reply_bytes_seen;		/* of the longest reply message */
};

/* A login with a random session id, queue 0 of 1, epoch 1, incarnation 1. */
void raw_init(struct raw *raw);
/* Connect to "127.0.0.1:port". True: accepted; false: rejected (raw->reject). */
bool raw_connect(struct raw *raw, const char *host);
/* Without waiting for the answer. */
void raw_connect_begin(struct raw *raw, const char *host);
bool raw_connect_wait(struct raw *raw);
void raw_close(struct raw *raw); /* frees all; raw_init() before it is used again */

/* The message under construction: descriptor `n` after `capsule` bytes of data. */
struct rblk_wire_command *raw_command(struct raw *raw, uint32_t capsule, unsigned int n);
/* Fill a descriptor: the next sequence number, its index and these fields; the rest is zero. */
void raw_fill(struct raw *raw, struct rblk_wire_command *command, unsigned int n, uint8_t opcode,
	      uint16_t tag);
/* Its segment: so many bytes at RAW_DATA. */
void raw_segment(struct raw *raw, struct rblk_wire_command *command, uint32_t bytes);
void raw_send(struct raw *raw, uint32_t bytes);
/* Anything else that a queue pair can send; wr_id and flags are set here. Waits until it is sent, or
 * the target has ended the connection. */
void raw_post(struct raw *raw, struct ibv_send_wr *wr);

/* One step of the fabric. It waits a moment if there is nothing to do; raw_poll() does not. */
void raw_step(struct raw *raw);
void raw_poll(struct raw *raw);
/* Wait for the completion with this tag; its status. */
uint16_t raw_wait(struct raw *raw, uint16_t tag);
/* Wait for it or for the end of the connection. */
void raw_wait_either(struct raw *raw, uint16_t tag);
/* Wait until the target has ended the connection. */
void raw_wait_gone(struct raw *raw);

/* Sends one command without data; its status. */
uint16_t raw_simple(struct raw *raw, uint8_t opcode, uint16_t tag);
/* Likewise, with these numbers in its fields. */
uint16_t raw_simple_numbers(struct raw *raw, uint8_t opcode, uint16_t tag, uint64_t lba,
			    uint64_t argument);
/* OPEN; the handle, which no other call of these has, 0 if it failed. */
uint32_t raw_open(struct raw *raw, const char *volume);
uint32_t raw_open_flags(struct raw *raw, const char *volume, uint32_t flags);
/* OPEN by this handle, and CLOSE of it; the status. */
uint16_t raw_open_as(struct raw *raw, const char *volume, uint32_t handle);
uint16_t raw_close_handle(struct raw *raw, uint32_t handle);
/* Sends OPEN with tag 0, and CLOSE with this one, and does not wait. */
void raw_open_begin(struct raw *raw, const char *volume, uint32_t flags, uint32_t handle);
void raw_close_begin(struct raw *raw, uint16_t tag, uint32_t handle);
/* Sends a READ or WRITE of `blocks` at `lba` with RAW_DATA; does not wait. */
void raw_io(struct raw *raw, uint8_t opcode, uint16_t tag, uint32_t handle, uint64_t lba,
	    uint32_t blocks, uint32_t bytes);

#endif
