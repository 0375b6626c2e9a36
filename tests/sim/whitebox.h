/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What only the target's own structs say: which queue a storage I/O belongs to, where a volume in memory
 * is, which number a connection's next command has.
 */
#ifndef RBLK_TESTS_SIM_WHITEBOX_H
#define RBLK_TESTS_SIM_WHITEBOX_H

#include "proto/fabric/fabric.h"
#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/host.h"

/*
 * Section 8: an OPEN for writing of the host's volume has succeeded. Connections that ended before it was sent
 * have nothing left there: no storage I/O, and no READs into memory.
 */
void sim_whitebox_opened(const struct sim_host *host, unsigned int volume,
			 const struct sim_opening *opening);

/*
 * Section 6.2: the answer of an ACQUIRE, PREEMPT or CLEAR is here, and sure. No write of an
 * initiator that may not write is with the store; reads: nor a READ of one that was removed.
 */
void sim_whitebox_reserved(const struct sim_host *host, unsigned int volume, bool reads);
/*
 * Section 6.2: a RESERVE is answered, or RESERVATIONS. A restart of the target finds what is in force; surely: so does
 * a restart after a crash of its machine.
 */
void sim_whitebox_kept(const struct sim_host *host, unsigned int volume, bool surely);
/*
 * F5: a FENCE of the session's queue, of this epoch and incarnation, counts as acknowledged. The target has no
 * connection of it any more, nor has a disk a write that came by one.
 */
void sim_whitebox_fenced(uint32_t session, uint64_t epoch, unsigned int queue, uint32_t incarnation);
/* The disk is given this: may its initiator write? */
void sim_whitebox_stores(const struct sim_disk *disk, const struct sim_io *io);

/* The name of the initiator whose operation of a store this is. */
struct tgt_io;
const char *sim_whitebox_initiator(const struct tgt_io *io);

/* Its UUID; zeroes: it is not served. */
void sim_whitebox_uuid(const struct sim_host *host, unsigned int volume, uint8_t uuid[16]);

/* The size of the host's volume, as it serves it now; 0: it does not. */
uint64_t sim_whitebox_bytes(const struct sim_host *host, unsigned int volume);

/* Does the host serve its volume, and for reading alone? */
bool sim_whitebox_read_only(const struct sim_host *host, unsigned int volume);

/* How many handles the session has open there; the numbers of the first of them are in `handles`. */
#define SIM_WHITEBOX_HANDLES 64u
unsigned int sim_whitebox_handles(const struct sim_host *host, const uint8_t session[16], uint64_t epoch,
				  uint32_t handles[SIM_WHITEBOX_HANDLES]);

/* Which queue of its session the target's end of a connection is. */
unsigned int sim_whitebox_queue(const struct sim_conn *conn);

/*
 * Where nothing is on its way, both ends of an initiator's connection go on counting from just
 * below the end of their numbers: commands (`sequence`: of the next), or the session's events (`event`:
 * the last, which it has confirmed).
 */
void sim_whitebox_leap_commands(struct fab_conn *conn, uint32_t *sequence);
void sim_whitebox_leap_events(struct fab_conn *conn, uint32_t *event);

#endif
