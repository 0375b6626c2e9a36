/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The host's side of DH-HMAC-CHAP, message by message, so that each may be wrong. What it computes is
 * target/nvme/chap.c's, which unit.nvme_chap checks against other programs' values.
 */
#ifndef RBLK_TESTS_E2E_NVME_CHAP_HOST_H
#define RBLK_TESTS_E2E_NVME_CHAP_HOST_H

#include "target/nvme/chap.h"
#include "tests/e2e/nvme_host.h"

struct nvme_chap_host {
	uint8_t key[NVME_CHAP_KEY_BYTES]; /* as it is in the file */
	bool plain;			  /* it is not transformed */
	const char *subsystem;
	uint8_t hashes, groups;		/* how many are offered: */
	uint8_t hash[3], group[6];
	bool mutual;			  /* the target has to prove itself */
	uint8_t target_key[NVME_CHAP_KEY_BYTES];

	/* Of the exchange. */
	uint16_t transaction;
	struct nvme_auth_challenge challenge;
	uint8_t challenge_bytes[NVME_HASH_MAX], target_public[NVME_DH_MAX];
	uint8_t shared[NVME_DH_MAX], own_challenge[NVME_HASH_MAX];
};

/* A message of any bytes: the status of Authentication Send. */
uint16_t nvme_chap_send(struct nvme_host *host, enum nvme_host_way way, const void *message, uint32_t bytes);
/* The next message, in as much room: the status. */
uint16_t nvme_chap_receive(struct nvme_host *host, void *message, uint32_t bytes);

uint32_t nvme_chap_negotiation(const struct nvme_chap_host *chap, uint8_t message[72]);
/* Negotiates, and takes the challenge. False: failure1. */
bool nvme_chap_begin(struct nvme_host *host, struct nvme_chap_host *chap);
/* The right reply to the challenge. */
uint32_t nvme_chap_reply(struct nvme_chap_host *chap, uint8_t message[16 + 2 * NVME_HASH_MAX + NVME_DH_MAX]);
/* Receives success1, and checks it; success2, if there has to be one. False: failure1. */
bool nvme_chap_end(struct nvme_host *host, struct nvme_chap_host *chap);
/* All of it. */
bool nvme_chap_run(struct nvme_host *host, struct nvme_chap_host *chap);
/* The explanation of failure1, which comes next; and that the connection ends. */
uint8_t nvme_chap_failure(struct nvme_host *host);

#endif
