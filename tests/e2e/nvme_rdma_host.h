/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A small host of NVMe over RDMA, one queue on one connection of the bare fabric (which is fabric_tcp: rblkd_soft), so
 * that a test can send what no host would. Every wait has a limit and aborts the test.
 */
#ifndef RBLK_TESTS_E2E_NVME_RDMA_HOST_H
#define RBLK_TESTS_E2E_NVME_RDMA_HOST_H

#include "proto/fabric/fabric.h"
#include "target/nvme/rdma.h"

#define RDMA_HOST_ENTRIES 128u
#define RDMA_HOST_DATA (256u << 10)
#define RDMA_HOST_NQN NVME_UUID_PREFIX "00000000-0000-0000-0000-00000000000a"

struct rdma_host {
	struct fab *fab;
	struct fab_conn *conn;
	struct fab_mr *mr;
	char *memory; /* responses, capsules, data */
	struct nvme_rdma_ask ask; /* as it is sent; nvme_rdma_host_begin() fills it */
	uint8_t ask_bytes;
	uint8_t host_id; /* the last byte of its identifier */
	uint8_t from;	 /* it connects from 127.0.0.`from`; 0: from 127.0.0.1 */
	bool established, rejected, failed, gone, drained;
	struct nvme_rdma_accept accept;
	struct nvme_rdma_reject reject;
	uint16_t controller;
	uint16_t id;	    /* of the last command */
	unsigned int sent;  /* capsules */
	unsigned int heard; /* responses */
	struct nvme_completion last[65536 / 64]; /* by identifier */
	bool here[65536 / 64];
};

enum rdma_host_way { RDMA_HOST_NONE, RDMA_HOST_KEYED, RDMA_HOST_CAPSULE };

/* What the connection manager carries, for this queue. */
void rdma_host_begin(struct rdma_host *host, uint16_t queue, uint16_t entries);
/* Connects with that. True: it is established; host->rejected otherwise. */
bool rdma_host_dial(struct rdma_host *host, const char *address);
/* Both, and Connect: its status, without the bit for "do not retry". */
uint16_t rdma_host_connect(struct rdma_host *host, const char *address, const char *subsystem, const char *nqn,
			   uint16_t queue, uint16_t entries);
void rdma_host_fill_connect(struct rdma_host *host, struct nvme_connect *data, const char *subsystem, const char *nqn);
/* Sends it as it is, with so much data behind it; its identifier is returned. */
uint16_t rdma_host_send(struct rdma_host *host, const struct nvme_command *command, const void *data, uint32_t bytes);
/* Its SGL is set: for so many bytes of rdma_host_data(), or for what is in the capsule. */
uint16_t rdma_host_begin_command(struct rdma_host *host, struct nvme_command *command, enum rdma_host_way way,
				 const void *data, uint32_t bytes);
uint16_t rdma_host_await(struct rdma_host *host, uint16_t id);
uint16_t rdma_host_run(struct rdma_host *host, struct nvme_command *command, enum rdma_host_way way, const void *data,
		       uint32_t bytes);
/* READ, WRITE and the like of 512-byte blocks. KEYED: from or to rdma_host_data(). */
uint16_t rdma_host_io(struct rdma_host *host, uint8_t opcode, enum rdma_host_way way, uint64_t lba, const void *data,
		      uint32_t bytes);
char *rdma_host_data(const struct rdma_host *host);
uint32_t rdma_host_key(const struct rdma_host *host);
void rdma_host_set_sgl(struct nvme_command *command, uint64_t address, uint32_t bytes, uint32_t key, uint8_t sgl);
void rdma_host_enable(struct rdma_host *host);
/* Polls, without a wait. */
void rdma_host_poll(struct rdma_host *host);
/* The target ends the connection. */
void rdma_host_await_end(struct rdma_host *host);
void rdma_host_close(struct rdma_host *host);

#endif
