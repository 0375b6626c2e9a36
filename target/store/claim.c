/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The turns of claim.h. Claims and blocked writes are ordered by a serial number: a claim has its
 * own, and a write that is blocked has that of the last claim before it. Each waits for earlier
 * ones that overlap it. When one ends, a message goes to the ports concerned, and their threads
 * check which ones may go on. None goes on inside another one's call, so that submit.c's lists do
 * not change while they are walked.
 */
#include "target/store/claim.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include "proto/core/trace.h"
#include "target/base/quota.h"
#include "target/store/ring.h"

/* The message to a port's thread. It outlives the port if it is in flight when the port ends. */
struct tgt_claim_look {
	struct tgt_message message; /* first: leads back here */
	struct tgt_claims_port *port;	   /* NULL: it has ended. Its thread's */
	bool running;		   /* owned by its thread: `port` is being handled */
	bool posted;		   /* under the volume's lock */
};

static bool overlaps(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

/* -- who waits for whom; the volume's lock is held --------------------------------------------- */

static void port_wake(struct tgt_claims_port *port)
{
	struct tgt_claim_look *look = port->look;

	if (look->posted)
		return;
	look->posted = true;
	tgt_ring_send(port->ring, &look->message);
}

/* The first claim up to this serial that overlaps the range, or NULL. */
static struct tgt_claim *claim_before(struct tgt_claims *claims, uint64_t serial, uint64_t offset,
				      uint64_t bytes)
{
	struct tgt_claim *claim;

	TAILQ_FOREACH(claim, &claims->list, link) {
		if (claim->serial > serial)
			break;
		if (overlaps(claim->offset, claim->bytes, offset, bytes))
			return claim;
	}
	return NULL;
}

/* On the port's thread: does the port have a write that the claim must wait for? */
static bool port_writes(const struct tgt_claims_port *port, const struct tgt_claim *claim)
{
	const struct tgt_write *write;

	TAILQ_FOREACH(write, &port->writes, link)
		if (overlaps(write->offset, write->bytes, claim->offset, claim->bytes))
			return true;
	TAILQ_FOREACH(write, &port->blocked, link)
		if (write->stamp < claim->serial &&
		    overlaps(write->offset, write->bytes, claim->offset, claim->bytes))
			return true;
	return false;
}

static bool claim_may_go(struct tgt_claims *claims, const struct tgt_claim *claim)
{
	return !claim->granted && !claim->unseen &&
	       !claim_before(claims, claim->serial - 1, claim->offset, claim->bytes);
}

/* -- on the port's thread ---------------------------------------------------------------------- */

/* A write that was blocked and may go on: it is in flight now. */
static struct tgt_write *next_write(struct tgt_claims_port *port)
{
	struct tgt_write *write;

	TAILQ_FOREACH(write, &port->blocked, link) {
		if (claim_before(port->volume, write->stamp, write->offset, write->bytes))
			continue;
		TAILQ_REMOVE(&port->blocked, write, link);
		port->blocked_count--;
		write->state = TGT_WRITE_UNDER_WAY;
		TAILQ_INSERT_TAIL(&port->writes, write, link);
		return write;
	}
	return NULL;
}

/* A claim of this port that is held now. Answers other claims for this port's writes. */
static struct tgt_claim *next_claim(struct tgt_claims_port *port)
{
	struct tgt_claim *claim;

	TAILQ_FOREACH(claim, &port->volume->list, link) {
		bool cleared = claim->unseen & port->bit && !port_writes(port, claim);

		if (cleared)
			claim->unseen &= ~port->bit;
		if (claim->port != port) {
			if (cleared && !claim->unseen)
				port_wake(claim->port);
			continue;
		}
		if (claim_may_go(port->volume, claim)) {
			claim->granted = true;
			return claim;
		}
	}
	return NULL;
}

/* One at a time, because each may change the lists, and even end the port. */
static bool look_once(struct tgt_claims_port *port)
{
	struct tgt_claims *claims = port->volume;
	struct tgt_claim *claim = NULL;
	struct tgt_write *write;

	pthread_mutex_lock(&claims->lock);
	write = next_write(port);
	if (!write)
		claim = next_claim(port);
	pthread_mutex_unlock(&claims->lock);
	if (write)
		port->unblocked(write);
	else if (claim)
		claim->grant(claim);
	return write || claim;
}

/* In the reap of the port's ring. */
static void port_look(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct tgt_claim_look *look = (struct tgt_claim_look *)message;

	if (look->port) {
		struct tgt_claims *claims = look->port->volume;

		pthread_mutex_lock(&claims->lock);
		look->posted = false;
		pthread_mutex_unlock(&claims->lock);
		look->running = true;
		while (look->port && look_once(look->port))
			;
		look->running = false;
	} else {
		look->posted = false;
	}
	if (!look->port && !look->posted)
		free(look);
}

/* -- volumes and ports ------------------------------------------------------------------------- */

void tgt_claims_init(struct tgt_claims *claims)
{
	pthread_mutex_init(&claims->lock, NULL);
	TAILQ_INIT(&claims->list);
	TAILQ_INIT(&claims->ports);
}

void tgt_claims_fini(struct tgt_claims *claims)
{
	assert(TAILQ_EMPTY(&claims->list) && TAILQ_EMPTY(&claims->ports));
	pthread_mutex_destroy(&claims->lock);
}

int tgt_claims_attach(struct tgt_claims *claims, struct tgt_claims_port *port,
		      struct tgt_ring *ring, void (*unblocked)(struct tgt_write *write))
{
	port->look = calloc(1, sizeof(*port->look));
	if (!port->look)
		return -ENOMEM;
	port->look->port = port;
	port->look->message.run = port_look;
	port->volume = claims;
	port->ring = ring;
	port->unblocked = unblocked;
	TAILQ_INIT(&port->writes);
	TAILQ_INIT(&port->blocked);
	pthread_mutex_lock(&claims->lock);
	port->bit = ~claims->bits & (claims->bits + 1);
	claims->bits |= port->bit;
	if (port->bit)
		TAILQ_INSERT_TAIL(&claims->ports, port, link);
	pthread_mutex_unlock(&claims->lock);
	if (port->bit)
		return 0;
	/* More than there are reactors. */
	free(port->look);
	return -ENOMEM;
}

void tgt_claims_detach(struct tgt_claims_port *port)
{
	struct tgt_claims *claims = port->volume;
	struct tgt_claim_look *look = port->look;
	struct tgt_claim *claim;
	bool kept;

	if (!look)
		return;
	assert(TAILQ_EMPTY(&port->writes) && TAILQ_EMPTY(&port->blocked));
	pthread_mutex_lock(&claims->lock);
	TAILQ_REMOVE(&claims->ports, port, link);
	claims->bits &= ~port->bit;
	TAILQ_FOREACH(claim, &claims->list, link) {
		bool cleared = claim->unseen & port->bit;

		claim->unseen &= ~port->bit;
		if (cleared && !claim->unseen)
			port_wake(claim->port);
	}
	kept = look->posted || look->running;
	pthread_mutex_unlock(&claims->lock);
	look->port = NULL;
	port->look = NULL;
	if (!kept)
		free(look);
}

/* -- writes ------------------------------------------------------------------------------------ */

bool tgt_claims_any(const struct tgt_claims_port *port)
{
	return atomic_load(&port->volume->count);
}

void tgt_write_goes_on(struct tgt_claims_port *port, struct tgt_write *write, uint64_t offset,
		       uint64_t bytes)
{
	write->offset = offset;
	write->bytes = bytes;
	write->state = TGT_WRITE_UNDER_WAY;
	TAILQ_INSERT_TAIL(&port->writes, write, link);
}

/* A claim overlaps it: it waits. */
static bool write_block(struct tgt_claims_port *port, struct tgt_write *write, uint64_t offset,
			uint64_t bytes)
{
	struct tgt_claims *claims = port->volume;
	bool blocked;

	pthread_mutex_lock(&claims->lock);
	blocked = claim_before(claims, UINT64_MAX, offset, bytes);
	if (blocked) {
		write->offset = offset;
		write->bytes = bytes;
		write->stamp = claims->serial;
		write->state = TGT_WRITE_BLOCKED;
		TAILQ_INSERT_TAIL(&port->blocked, write, link);
		port->blocked_count++;
	}
	pthread_mutex_unlock(&claims->lock);
	return blocked;
}

/*
 * A claim of another reactor may come after this thread has read the count and before the write is
 * in the list. It waits for this thread's answer, which comes after both.
 */
bool tgt_write_begin(struct tgt_claims_port *port, struct tgt_write *write, uint64_t offset,
		     uint64_t bytes)
{
	if (tgt_claims_any(port) && write_block(port, write, offset, bytes))
		return false;
	tgt_write_goes_on(port, write, offset, bytes);
	return true;
}

bool tgt_write_begin_now(struct tgt_claims_port *port, struct tgt_write *write, uint64_t offset,
			 uint64_t bytes)
{
	if (tgt_claims_any(port))
		return false;
	tgt_write_goes_on(port, write, offset, bytes);
	return true;
}

/* A claim may have waited for this write. */
static void write_gone(struct tgt_claims_port *port, const struct tgt_write *write)
{
	struct tgt_claims *claims = port->volume;

	pthread_mutex_lock(&claims->lock);
	if (claim_before(claims, UINT64_MAX, write->offset, write->bytes))
		port_wake(port);
	pthread_mutex_unlock(&claims->lock);
}

void tgt_write_ended(struct tgt_claims_port *port, struct tgt_write *write)
{
	write->state = TGT_WRITE_NONE;
	TAILQ_REMOVE(&port->writes, write, link);
	if (tgt_claims_any(port))
		write_gone(port, write);
}

bool tgt_write_withdraw(struct tgt_claims_port *port, struct tgt_write *write)
{
	struct tgt_claims *claims = port->volume;

	if (write->state != TGT_WRITE_BLOCKED)
		return false;
	pthread_mutex_lock(&claims->lock);
	TAILQ_REMOVE(&port->blocked, write, link);
	port->blocked_count--;
	pthread_mutex_unlock(&claims->lock);
	write->state = TGT_WRITE_NONE;
	write_gone(port, write);
	return true;
}

/* -- claims ------------------------------------------------------------------------------------ */

static const struct tgt_quota claims_quota = {.most = TGT_CLAIMS_MAX, .kept = TGT_CLAIMS_KEPT};

/* May the host have one more? Under the lock. */
static bool claims_room(const struct tgt_claims *claims, uint64_t host)
{
	unsigned int used = atomic_load(&claims->count), own = 0;
	const struct tgt_claim *claim;

	/* Nobody is asked before that. */
	if (used >= claims_quota.most - claims_quota.kept)
		TAILQ_FOREACH(claim, &claims->list, link)
			own += claim->host == host;
	return tgt_quota_allows(&claims_quota, used, own);
}

int tgt_claim_begin(struct tgt_claims_port *port, struct tgt_claim *claim, uint64_t host,
		    uint64_t offset, uint64_t bytes)
{
	struct tgt_claims *claims = port->volume;
	struct tgt_claims_port *other;
	int held = -EBUSY;

	pthread_mutex_lock(&claims->lock);
	if (claims_room(claims, host)) {
		claim->port = port;
		claim->host = host;
		claim->offset = offset;
		claim->bytes = bytes;
		claim->serial = ++claims->serial;
		claim->unseen = claims->bits;
		TAILQ_INSERT_TAIL(&claims->list, claim, link);
		atomic_fetch_add(&claims->count, 1);
		if (!port_writes(port, claim))
			claim->unseen &= ~port->bit;
		TAILQ_FOREACH(other, &claims->ports, link)
			if (other != port)
				port_wake(other);
		claim->granted = false;
		claim->granted = claim_may_go(claims, claim);
		held = claim->granted;
	}
	pthread_mutex_unlock(&claims->lock);
	return held;
}

void tgt_claim_end(struct tgt_claim *claim)
{
	struct tgt_claims *claims = claim->port->volume;
	struct tgt_claim *later;
	struct tgt_claims_port *port;

	rblk_trace_claim_end(claim);
	pthread_mutex_lock(&claims->lock);
	TAILQ_REMOVE(&claims->list, claim, link);
	atomic_fetch_sub(&claims->count, 1);
	TAILQ_FOREACH(later, &claims->list, link)
		if (claim_may_go(claims, later))
			port_wake(later->port);
	TAILQ_FOREACH(port, &claims->ports, link)
		if (port->blocked_count)
			port_wake(port);
	pthread_mutex_unlock(&claims->lock);
}
