/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NVMe hosts that reserve a volume, and a daemon that serves it to them and to initiators of rblk's own (reserver.h).
 */
#ifndef RBLK_TESTS_E2E_NVME_RESERVER_H
#define RBLK_TESTS_E2E_NVME_RESERVER_H

#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_host.h"
#include "tests/e2e/reserver.h"

#define OTHER_NQN NVME_UUID_PREFIX "00000000-0000-0000-0000-00000000000b"
#define TYPE(type) ((uint32_t)(type) << 8)
#define WE RBLK_RESERVATION_WRITE_EXCLUSIVE
#define NVME_RESERVER_ARGUMENTS "--listen", "nvme+tcp://127.0.0.1:0", "--cache", "buffered", "--reactors", "2"

extern struct e2e_daemon nvme_server;
extern struct e2e_file nvme_disk; /* "disk" */
extern char nvme_kept[64];	  /* the folder of its reservations */
extern uint8_t nvme_block[BYTES]; /* the data of reads and writes */

/* For cmocka; _with(): with one more option. */
int nvme_reserver_start(void **state);
int nvme_reserver_start_with(const char *option, const char *value);
int nvme_reserver_stop(void **state);
/* The daemon was started: hosts connect to it. */
void nvme_reserver_served(void);

/* A host's association; the other one: identifier 1. */
struct nvme_reserver {
	struct nvme_host admin, io;
};
void nvme_reserver_connect(struct nvme_reserver *host, const char *name, uint8_t id);
void nvme_reserver_connect_with(struct nvme_reserver *host, const char *name, uint8_t id, uint8_t from,
				uint8_t digests);
void nvme_reserver_close(struct nvme_reserver *host);

/* A status. word10: the action, and beside it bits and the type. */
struct nvme_host_command nvme_reserver_make(uint8_t opcode, uint32_t word10, struct nvme_reserve *keys);
uint16_t nvme_reserve(struct nvme_reserver *host, uint8_t opcode, uint32_t word10, uint64_t key, uint64_t other);
uint16_t nvme_register(struct nvme_reserver *host, uint32_t word10, uint64_t key, uint64_t next);
uint16_t nvme_acquire(struct nvme_reserver *host, uint32_t action, uint64_t key, uint64_t other, uint8_t type);
uint16_t nvme_release(struct nvme_reserver *host, uint32_t action, uint64_t key, uint8_t type);

struct nvme_report {
	struct nvme_reserve_report head;
	struct nvme_reserve_registrant registrants[16];
};
void nvme_report(struct nvme_reserver *host, struct nvme_report *report);
uint16_t nvme_report_bytes(struct nvme_reserver *host, struct nvme_report *report, uint32_t bytes);

uint16_t nvme_reserver_read(struct nvme_reserver *host);
uint16_t nvme_reserver_write(struct nvme_reserver *host, int pattern);
void nvme_reserver_may(struct nvme_reserver *host, bool reads, bool writes);

#endif
