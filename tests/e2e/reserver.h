/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An initiator of the bare fabric (raw.h) that reserves a volume and tries what it may do then.
 * Tags 0 to 6 are used here.
 */
#ifndef RBLK_TESTS_E2E_RESERVER_H
#define RBLK_TESTS_E2E_RESERVER_H

#include "tests/e2e/raw.h"

#define BLOCK 512u
#define BYTES 4096u    /* of each I/O */
#define REPORT 262144u /* in the raw memory */

struct reserver {
	struct raw raw;
	uint32_t volume;
	uint64_t operation;
};

/* name: NULL: the initiator stays anonymous. */
void reserver_connect(struct reserver *host, const char *address, const char *name,
		      const char *volume);
/* The message under construction: a command with its payload in the capsule. */
struct rblk_wire_command *reserver_with_payload(struct raw *raw, uint8_t opcode, uint16_t tag,
						const void *data, size_t bytes);
void reserver_identify(struct raw *raw, const char *name);

/* RESERVE, with tag 5. The macros wait for its answer, and return the status. */
void reserver_begin(struct reserver *host, const struct rblk_wire_reservation *reservation,
		    uint64_t operation, uint8_t flags);
#define RESERVE(host, ...)                                                                       \
	(reserver_begin(host, &(struct rblk_wire_reservation){__VA_ARGS__}, ++(host)->operation, \
			0),                                                                      \
	 raw_wait(&(host)->raw, 5))
#define REGISTER(host, key_then, ...)                                                     \
	RESERVE(host, .action = RBLK_RESERVE_REGISTER, .new_key = rblk_to_le64(key_then), \
		__VA_ARGS__)
#define ACQUIRE(host, own, kind) \
	RESERVE(host, .action = RBLK_RESERVE_ACQUIRE, .key = rblk_to_le64(own), .type = kind)

/* Reads the report into the raw memory. */
const struct rblk_wire_reservation_report *reserver_report(struct reserver *host, uint32_t bytes);
const struct rblk_wire_registrant *reserver_registrants(struct reserver *host);

/* pattern: of the bytes to WRITE. */
void reserver_io_begin(struct reserver *host, uint8_t opcode, uint16_t tag, uint64_t lba,
		       int pattern);
/* The status of a command without data; of a WRITE in the capsule. */
uint16_t reserver_no_data(struct reserver *host, uint8_t opcode);
uint16_t reserver_in_capsule(struct reserver *host);

/* Who may do what beside the holder: a registrant, and anybody else, who never writes. */
struct reserver_rights {
	uint8_t type;
	bool registrant_reads, registrant_writes, other_reads;
};
#define RESERVER_TYPES 6u
extern const struct reserver_rights reserver_rights[RESERVER_TYPES];
void reserver_assert_may(struct reserver *host, bool reads, bool writes);
void reserver_assert_reads(struct reserver *host, uint64_t lba, int pattern);

#endif
