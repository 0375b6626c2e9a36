/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A disk with a volatile cache: what it holds now, what of it would survive a loss of power, and
 * what is in flight. It takes its time, stalls, fails, transfers less than it was asked to, and
 * tears at sector boundaries what is in flight when its machine goes down, but what came as untorn, within its unit,
 * is whole or absent then, also in the cache. The lock that a process
 * takes on it lasts until the last of its I/O has ended, as the kernel's flock does (F6).
 */
#ifndef RBLK_TESTS_SIM_DISK_H
#define RBLK_TESTS_SIM_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "tests/sim/clock.h"

#define SIM_SECTOR 512u

struct tgt_ring;
struct tgt_ring_op;
struct sim_disk;
struct sim_failed_sync_file;
struct sim_reservation;

/* Machines that can reach one disk. */
#define SIM_DISK_MACHINES 10u

/* An open file description: lives until it is closed and the last I/O through it has ended. */
struct sim_file {
	struct sim_disk *disk;
	unsigned int machine; /* whose kernel has it */
	bool open, read_only;
	bool dead; /* its process is: what it still does has no effect */
	unsigned int inflight;
	int fd;
};

enum sim_io_kind { SIM_IO_READ, SIM_IO_WRITE, SIM_IO_SYNC, SIM_IO_ZERO };

/* One request in flight. Made by ring_sim.c, freed when it has ended. */
struct sim_io {
	TAILQ_ENTRY(sim_io) link; /* disk->inflight */
	struct sim_file *file;
	enum sim_io_kind kind;
	bool durable; /* RWF_DSYNC */
	bool untorn;  /* RWF_ATOMIC */
	bool fua;     /* what it is part of is to be durable: its failure may be that of a flush */
	uint64_t offset, bytes;
	uint8_t *buffer;       /* the submitter's; read and written when the disk comes to it */
	uint8_t *copy;	       /* the submitter is dead: what it wanted to write */
	struct tgt_ring *ring; /* NULL: nobody waits any more */
	struct tgt_ring_op *op;
	uint64_t sync_order; /* SYNC: versions up to this become durable */
	bool lost;	     /* it has failed, and may have lost what others have written */
	int result;
	struct sim_event event;
};

/* A content of a sector. */
struct sim_version {
	struct sim_version *older;
	uint64_t order;
	uint64_t untorn; /* the same number for all sectors of an untorn WRITE, and no other; 0: of another */
	bool unsaved; /* a SYNC could not write it: none tries again, none keeps it */
	uint8_t data[SIM_SECTOR];
};

/* How it behaves; parts are of a million. */
struct sim_disk_fault_rates {
	uint32_t fail, shorten, again, stall, early;
	uint32_t saved; /* of a SYNC that fails: sectors that it has written all the same */
	uint64_t delay_min_ns, delay_max_ns, stall_ns;
};

struct sim_disk {
	char path[32];
	uint64_t bytes, full_bytes; /* now, and when it has grown */
	uint32_t block_bytes, alignment;
	uint32_t untorn_bytes; /* the longest untorn WRITE; 0: there is none */
	bool can_discard, can_extents;
	bool volatile_cache; /* else what has ended is durable */
	bool cache_turns;    /* with each loss of power it gets one, or has none any more */
	struct sim_version **durable; /* per sector; NULL: zeroes */
	struct sim_version **cached;  /* per sector, newest first; NULL: as durable */
	uint64_t order;		     /* of the last version */
	const uint8_t *boot_id;	     /* the machine's */
	struct sim_file *holder[SIM_DISK_MACHINES]; /* of the lock, which is each machine's own (F6) */
	TAILQ_HEAD(, sim_io) inflight;
	struct sim_disk_fault_rates fault_rates;
	bool calm; /* faults have stopped */
	uint64_t opened; /* the model's number: the last OPEN for writing that has succeeded was sent */
	struct sim_failed_sync_file
		*failed_sync_file; /* what the target leaves of it for its next process; NULL: nothing */
	const bool *remembers_failed_syncs;	       /* there is a folder for that */
	bool forgotten;	       /* mounted anew since a process has last opened it for writing */
	/* A failed SYNC has lost something; whoever asked for it learns of the failure, or is dead. */
	void (*lost)(void *user);
	void (*told)(void *user, bool alive);
	/* A process opens it, and nothing vouches that nothing was lost before. */
	void (*doubted)(void *user);
	void *user;
	const struct sim_reservation *reservation;
};

struct sim_disk *sim_disk_create(const char *path, uint64_t bytes, uint32_t block_bytes);
void sim_disk_destroy(struct sim_disk *disk);
struct sim_disk *sim_disk_find(const char *path);

/* Takes over `io`, all of whose fields but link, event and result are set. */
void sim_disk_start(struct sim_io *io);
/* By a machine's client of a cluster that has the disk, at its OSD where: done when this comes back. */
void sim_disk_at_once(struct sim_disk *disk, const void *where, unsigned int machine, enum sim_io_kind kind,
		      uint64_t offset, uint64_t bytes, uint8_t *data);
/* Its submitter's memory goes away: go on without it. */
void sim_disk_orphan(struct sim_io *io);
/* A WRITE of data that begins with this word is in flight. */
bool sim_disk_is_writing(const struct sim_disk *disk, uint64_t word);
/* It would be read as zeroes now. */
bool sim_disk_is_zero(const struct sim_disk *disk, uint64_t offset, uint64_t bytes);
/* What it would be read as now. */
const uint8_t *sim_disk_sector(const struct sim_disk *disk, uint64_t sector);
/* Something in flight reads or writes this memory of a living process. */
bool sim_disk_uses(const void *memory, size_t bytes);
/* Through this file, by a thread that waits for it. 0 or -EIO. */
int sim_disk_sync(struct sim_file *file);
/* What was written can be read until the power fails, but a SYNC has failed to write it. */
bool sim_disk_has_unsaved(const struct sim_disk *disk);
/* The power is lost: everything in flight ends somewhere, and the cache may be gone. */
void sim_disk_crash(struct sim_disk *disk);

/*
 * A machine whose target serves another one's disk, and cannot know what that one may still write: it may not be given
 * any I/O (F10). UINT_MAX: there is none.
 */
extern unsigned int sim_stranger;

/* NULL: locked by another process of this machine (F6). */
struct sim_file *sim_file_open(struct sim_disk *disk, bool read_only);
void sim_file_close(struct sim_file *file);
struct sim_file *sim_file_of_fd(int fd);

/* -- failed_sync_file_sim.c -------------------------------------------------------------------- */

/* The process that serves the disk is dead: its failed-sync file stays as it is. */
void sim_failed_sync_file_kill(struct sim_disk *disk);
/* There is one, of this boot; and its process has made everything durable at its end. */
bool sim_failed_sync_file_is_there(const struct sim_disk *disk);
bool sim_failed_sync_file_is_clean(const struct sim_disk *disk);
void sim_failed_sync_file_free(struct sim_disk *disk);

/* -- ring_sim.c ---------------------------------------------------------------------------- */

/* `io` has ended with io->result. */
void sim_ring_done(struct tgt_ring *ring, struct sim_io *io);
/* The process is gone: nothing it has submitted comes back, its memory must not be touched. */
/* Messages that it has not run, and will not be woken for. */
bool sim_ring_has_messages(const struct tgt_ring *ring);
void sim_ring_kill(struct tgt_ring *ring);
unsigned int sim_ring_count(void);

#endif
