/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Claims of ranges of a volume: they make COMPARE_AND_WRITE one step. While a claim is held, no
 * write to its range is in flight and none begins, on any reactor. Claims and writes that overlap
 * take turns in the order in which they came, so neither starves the other.
 *
 * On a volume without a claim, a write only enters a list of its port, and uses nothing that
 * reactors share. A claim takes the volume's lock, and one message to each other reactor that
 * serves the volume, because only its thread knows which writes it has in flight.
 */
#ifndef RBLK_TARGET_STORE_CLAIM_H
#define RBLK_TARGET_STORE_CLAIM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct tgt_claim_look;
struct tgt_ring;

/* The most claims of a volume at a time, and those kept for hosts that have fewer, so that one host alone cannot keep the
 * others from COMPARE_AND_WRITE. */
#define TGT_CLAIMS_MAX 256u
#define TGT_CLAIMS_KEPT (TGT_CLAIMS_MAX / 8)

enum tgt_write_state {
	TGT_WRITE_NONE,	     /* in no list */
	TGT_WRITE_UNDER_WAY, /* in port->writes */
	TGT_WRITE_BLOCKED,   /* in port->blocked */
};

/* A write's entry; a member of the struct that writes. Its port's thread only. */
struct tgt_write {
	TAILQ_ENTRY(tgt_write) link;
	uint64_t offset, bytes;
	uint64_t stamp; /* BLOCKED: the last claim that came before it */
	enum tgt_write_state state;
};
TAILQ_HEAD(tgt_write_list, tgt_write);

/* Allocated and freed by its holder, on its port's thread. claim.c owns the fields, under the
 * volume's lock. */
struct tgt_claim {
	TAILQ_ENTRY(tgt_claim) link; /* claims->list, the oldest first */
	struct tgt_claims_port *port;
	uint64_t offset, bytes;
	uint64_t host; /* the same number for all sessions of a host, on any reactor */
	uint64_t serial;
	uint64_t unseen; /* ports that may have earlier writes to its range in flight: a bit each */
	bool granted;
	void (*grant)(struct tgt_claim *claim); /* set by the holder: the claim is held now */
};
TAILQ_HEAD(tgt_claim_list, tgt_claim);
TAILQ_HEAD(tgt_claims_ports, tgt_claims_port);

/* A volume's. */
struct tgt_claims {
	pthread_mutex_t lock;	    /* of all below, and of fields of ports; innermost */
	_Atomic unsigned int count; /* of `list`: writes look at it without the lock */
	struct tgt_claim_list list;
	struct tgt_claims_ports ports;
	uint64_t bits;	 /* of `ports` */
	uint64_t serial; /* of the last claim */
};

/* A port's part; a member of it. */
struct tgt_claims_port {
	struct tgt_claims *volume;
	struct tgt_ring *ring;	       /* of its thread */
	struct tgt_write_list writes;  /* under way */
	struct tgt_write_list blocked; /* wait for claims, in the order in which they came */
	void (*unblocked)(struct tgt_write *write); /* called when the write is in flight; fixed */
	struct tgt_claim_look *look;	       /* the message to its thread */
	TAILQ_ENTRY(tgt_claims_port) link; /* claims->ports */
	/* Under the volume's lock: */
	uint64_t bit;
	unsigned int blocked_count;
};

void tgt_claims_init(struct tgt_claims *claims);
void tgt_claims_fini(struct tgt_claims *claims); /* no port and no claim is left */

/* A port of the volume begins and ends, with nothing under way; on its thread. 0 or -ENOMEM. */
int tgt_claims_attach(struct tgt_claims *claims, struct tgt_claims_port *port,
		      struct tgt_ring *ring, void (*unblocked)(struct tgt_write *write));
/* No effect if it was detached before. */
void tgt_claims_detach(struct tgt_claims_port *port);

/* -- writes ------------------------------------------------------------------------------------ */

/*
 * A write to [offset, offset + bytes) begins. True: it is in flight until tgt_write_end(). False: a
 * claim overlaps it; port->unblocked() is called when it is in flight.
 */
bool tgt_write_begin(struct tgt_claims_port *port, struct tgt_write *write, uint64_t offset,
		     uint64_t bytes);
/* Is there any claim on the volume? If not, this thread may write at once. */
bool tgt_claims_any(const struct tgt_claims_port *port);
/* As tgt_write_begin(), for a write that cannot wait: false if there is any claim at all; then
 * it has not begun. */
bool tgt_write_begin_now(struct tgt_claims_port *port, struct tgt_write *write, uint64_t offset,
			 uint64_t bytes);
/* A part of a write in flight; the write may end before its part. */
void tgt_write_goes_on(struct tgt_claims_port *port, struct tgt_write *part, uint64_t offset,
		       uint64_t bytes);
/* It is in flight. */
void tgt_write_ended(struct tgt_claims_port *port, struct tgt_write *write);
/* No effect unless it is in flight. */
static inline void tgt_write_end(struct tgt_claims_port *port, struct tgt_write *write)
{
	if (write->state == TGT_WRITE_UNDER_WAY)
		tgt_write_ended(port, write);
}
/* True: it was blocked, and is not any more; `unblocked` is not called. */
bool tgt_write_withdraw(struct tgt_claims_port *port, struct tgt_write *write);

/* -- claims ------------------------------------------------------------------------------------ */

/* 1: it is held. 0: claim->grant() is called later, on this thread. -EBUSY: there are too many, of
 * this host or of all. */
int tgt_claim_begin(struct tgt_claims_port *port, struct tgt_claim *claim, uint64_t host,
		    uint64_t offset, uint64_t bytes);
/* Ends it; also one that waits: then `grant` is not called. */
void tgt_claim_end(struct tgt_claim *claim);

#endif
