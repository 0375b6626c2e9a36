/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk ping: ping.c is the verb. Between two of it round trips go over the fabric alone, without rblkd: ping_fabric.c is the end that
 * measures, ping_serve.c the one that answers. This is their protocol, which no other program speaks: one connection for each kind of
 * round trip. Its private data names the kind, the acceptance a page that may be read and written until the connection
 * ends. A message is answered by one with the same sequence.
 */
#ifndef RBLK_CMD_PING_H
#define RBLK_CMD_PING_H

#include "initiator/cmd/cmd.h"
#include "initiator/uri.h"
#include "proto/wire/types.h"

/* A summary of all samples, so that percentiles are exact. */
struct latency_summary {
	uint64_t min_ns, max_ns, p50_ns, p99_ns;
	double average_ns;
};
/* Sorts samples. count: at least one. */
void latency_summarize(uint64_t *samples_ns, size_t count, struct latency_summary *summary);

#define PING_BYTES_MAX 4096 /* one transfer, and the page */
#define PING_MAGIC 0x316e6970u /* "pin1"; a changed protocol has another */

enum ping_kind {
	PING_SEND_POLLED,     /* SEND and RECV; both ends poll */
	PING_SEND_EVENTS,     /* SEND and RECV; both ends sleep */
	PING_RDMA_SIGNALLED,  /* RDMA READ, then RDMA WRITE, each signalled */
	PING_RDMA_UNSIGNALLED, /* unsignalled RDMA WRITE, RDMA READ behind it */
	PING_KINDS
};

/* Private data of the request; of a rejection, too, if the request was understood, and there is no room. */
struct ping_hello {
	__le32 magic;
	__le32 kind; /* enum ping_kind */
};
RBLK_ASSERT_SIZE(struct ping_hello, 8);

/* Private data of the acceptance. */
struct ping_welcome {
	__le32 magic;
	__le32 rkey; /* of PING_BYTES_MAX at `address` */
	__le64 address;
};
RBLK_ASSERT_SIZE(struct ping_welcome, 16);

/* Both ways. */
struct ping_message {
	__le64 sequence;
	__le64 cpu_ns; /* in an answer: processor time that its sender has used so far */
	__u8 reserved[48];
};
RBLK_ASSERT_SIZE(struct ping_message, 64);

/* A connection to another `rblk ping`; one thread. */
struct ping_fabric;
/* NULL after an error message. Waits up to connect->timeout_ms, as each round trip does. */
struct ping_fabric *ping_fabric_open(const struct ini_uri_host *host, const struct cmd_connect *connect, enum ping_kind kind,
				     size_t bytes);
/* One round trip of the connection's kind: 0, or negative errno with ping_fabric_error(). */
int ping_fabric_round(struct ping_fabric *fabric, uint64_t *ns);
/* The same for the processor time that the other end has used so far. */
int ping_fabric_cpu(struct ping_fabric *fabric, uint64_t *cpu_ns);
const char *ping_fabric_error(const struct ping_fabric *fabric);
void ping_fabric_close(struct ping_fabric *fabric);

/* Answers at the host's address of this machine until it fails or the process is ended. enum cmd_exit */
int ping_serve(const struct ini_uri_host *host, const struct cmd_connect *connect);

#endif
