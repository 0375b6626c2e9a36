/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * This process as a gateway of one image (F5, F6 and F10, by Ceph itself). Each gateway of an image holds a lock of
 * RADOS on the object "rblk.ID" in the image's pool, and watches that object. The lock names the address of the
 * gateway's client as the OSD saw it. It is shared, or exclusive where one gateway at a time is to serve the image. It
 * does not end with its holder. A gateway that must know that the others have nothing under way any more asks them by a
 * notify, blocklists those that are silent, waits until its own client has that map, and only then goes on. (An OSD
 * that has not seen the map yet still carries out what a dead client's machine delivers, but not after an operation of
 * a client that has it.) The holders of the lock are asked, not the watchers: a dead gateway's watch is gone after some
 * seconds, while its writes may still be on the way.
 */
#include "target/rbd/rbd.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOCK_NAME "rblk"
/* A gateway that does not answer for so long is shut out. One that lives answers in milliseconds. */
#define ASK_MS 2000u
/* The limit of one question: less, so that one late answer is not taken for silence. librados takes whole seconds. */
#define ASK_ONCE_MS 1000u
#define ASK_AGAIN_NS 200000000
#define ASK_ROUND_MS (ASK_ONCE_MS + ASK_AGAIN_NS / 1000000)
/*
 * A gateway that answers, but does not become quiet for so long, is shut out, too. Well above the time that the cluster
 * takes to notice an OSD's end (osd_heartbeat_grace, 20 s), and below the time after which initiators give up.
 */
#define QUIET_MS 40000u
/* How long a gateway that ends tries to give its lock back: less than drain_time. */
#define UNLOCK_MS 10000u
/* After so long without a word the cluster takes a watcher for dead. */
#define WATCH_S 10u
#define LOCKERS_BYTES 16384
#define LOCKERS_MAX 64u
/* If so many are registered when a gateway enters, it looks for dead ones. With fewer, the next OPEN finds them. */
#define LOCKERS_CROWD 8
/* Changed with the questions that gateways ask: those with another tag do not serve an image together. */
#define LOCK_TAG "rblk gateways 2"
#define NEEDS_OSD "rblkd's user needs osd 'profile rbd'"
#define WATCH_AGAIN_NS 1000000000ull

enum locker_state {
	LOCKER_SILENT,
	LOCKER_LIVES,
	LOCKER_QUIET, /* it lives, and has nothing under way of what it was asked for */
	LOCKER_GONE,  /* it has left, or another gateway has shut it out */
};

/* A holder of the lock; the strings are in `text` of struct lockers. */
struct locker {
	const char *client, *address, *name;
	enum locker_state state;
};
struct lockers {
	struct locker list[LOCKERS_MAX];
	int count, exclusive;
	/* Bits of the pasts asked for. held: NVMe hosts whose I/O is a locker's; hosts: all, if all pasts are hosts,
	 * else 0. */
	uint64_t held, hosts;
	char text[3][LOCKERS_BYTES]; /* clients, cookies, addresses; in each the strings follow each other */
};

/* -- this gateway ------------------------------------------------------------------------------ */

/* librados' thread. Without a watch other gateways would take this one for dead. */
static void gateway_watch_lost(void *arg, uint64_t handle, int err)
{
	struct rbd_gateway *gateway = arg;

	(void)handle;
	if (err == -ESHUTDOWN)
		tgt_rbd_client_fenced(gateway->client, NULL);
	else
		tgt_rbd_keeper_later(&gateway->again, 0);
}

static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER; /* of all gateways' handles; for moments */

static int gateway_watch(struct rbd_gateway *gateway)
{
	uint64_t watch;
	int err = rados_watch3(gateway->io, gateway->object, &watch, tgt_rbd_asked, gateway_watch_lost, WATCH_S,
			       gateway);

	pthread_mutex_lock(&watch_lock);
	gateway->watch = watch;
	gateway->watching = !err;
	pthread_mutex_unlock(&watch_lock);
	return err;
}

static void gateway_unwatch(struct rbd_gateway *gateway)
{
	bool watching = gateway->watching; /* only this thread changes it */

	/* Before the handle ends: tgt_rbd_gateway_heard() must not look at it any more. */
	pthread_mutex_lock(&watch_lock);
	gateway->watching = false;
	pthread_mutex_unlock(&watch_lock);
	if (watching)
		rados_unwatch2(gateway->io, gateway->watch);
}

bool tgt_rbd_gateway_heard(struct rbd_gateway *gateway, uint64_t *ago_ms)
{
	int ms;

	pthread_mutex_lock(&watch_lock);
	ms = gateway->watching ? rados_watch_check(gateway->io, gateway->watch) : -1;
	pthread_mutex_unlock(&watch_lock);
	*ago_ms = (uint64_t)(ms > 0 ? ms : 0);
	return ms >= 0;
}

/* A thread of the keeper's. */
static void gateway_watch_again(struct rbd_task *task)
{
	struct rbd_gateway *gateway = (struct rbd_gateway *)task; /* its first member */
	int err;

	if (atomic_load(&gateway->leaving))
		return;
	gateway_unwatch(gateway);
	err = gateway_watch(gateway);
	if (err == -ESHUTDOWN)
		tgt_rbd_client_fenced(gateway->client, NULL);
	else if (err && err != -ENOENT)
		tgt_rbd_keeper_later(task, WATCH_AGAIN_NS);
	else if (err && !tgt_rbd_client_pool_gone(gateway->io, gateway->store))
		tgt_rbd_client_unlocked(gateway->client); /* the object is gone, and its lock with it */
}

/* -- the others -------------------------------------------------------------------------------- */

/* The string at *at, which moves to the next one; NULL: no string ends before `end`. */
static const char *text_next(const char **at, const char *end)
{
	const char *text = *at, *zero = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;

	if (zero)
		*at = zero + 1;
	return zero ? text : NULL;
}

/* 0: the locker has no lock any more. */
static int locker_break(const struct rbd_gateway *gateway, const struct locker *locker)
{
	int err = rados_break_lock(gateway->io, gateway->object, LOCK_NAME, locker->client, locker->name);

	return err == -ENOENT ? 0 : err;
}

/* Breaks the locks of this process's former clients: the present one has shut them out (client.c). */
static int lockers_drop_former(const struct rbd_gateway *gateway, struct lockers *lockers)
{
	int count = 0, err = 0;

	for (int i = 0; i < lockers->count && !err; i++)
		if (tgt_rbd_client_was(gateway->client, lockers->list[i].name))
			err = locker_break(gateway, &lockers->list[i]);
		else
			lockers->list[count++] = lockers->list[i];
	lockers->count = count;
	return err;
}

/* 0 or negative errno. */
static int lockers_list(const struct rbd_gateway *gateway, struct lockers *lockers)
{
	size_t bytes[3] = {LOCKERS_BYTES, LOCKERS_BYTES, LOCKERS_BYTES}, tag_bytes;
	const char *at[3] = {lockers->text[0], lockers->text[1], lockers->text[2]};
	char tag[64];
	ssize_t count;

	tag_bytes = sizeof(tag);
	lockers->count = 0;
	count = rados_list_lockers(gateway->io, gateway->object, LOCK_NAME, &lockers->exclusive, tag, &tag_bytes,
				   lockers->text[0], &bytes[0], lockers->text[1], &bytes[1], lockers->text[2],
				   &bytes[2]);
	if (count < 0)
		return count == -ENOENT ? 0 : (int)count;
	if (count > (ssize_t)LOCKERS_MAX)
		return -E2BIG;
	for (; lockers->count < count; lockers->count++) {
		struct locker *locker = &lockers->list[lockers->count];

		locker->state = LOCKER_SILENT;
		locker->client = text_next(&at[0], lockers->text[0] + bytes[0]);
		locker->name = text_next(&at[1], lockers->text[1] + bytes[1]);
		locker->address = text_next(&at[2], lockers->text[2] + bytes[2]);
		if (!locker->client || !locker->name || !locker->address)
			return -EBADMSG;
	}
	return lockers_drop_former(gateway, lockers);
}

/* Sets the locker's state by its answers. */
static void locker_answered(struct locker *locker, const struct notify_ack_t *acks, size_t count, uint64_t *all_held)
{
	size_t name_bytes = strlen(locker->name), quiet_bytes = strlen(RBD_ANSWER_QUIET);
	uint64_t held;

	for (size_t i = 0; i < count; i++) {
		const struct notify_ack_t *ack = &acks[i];

		if (ack->payload_len < name_bytes || memcmp(ack->payload, locker->name, name_bytes))
			continue;
		if (ack->payload_len == name_bytes && locker->state == LOCKER_SILENT)
			locker->state = LOCKER_LIVES;
		if (ack->payload_len != name_bytes + quiet_bytes + sizeof(held) ||
		    memcmp(ack->payload + name_bytes, RBD_ANSWER_QUIET, quiet_bytes))
			continue;
		locker->state = LOCKER_QUIET;
		memcpy(&held, ack->payload + name_bytes + quiet_bytes, sizeof(held));
		*all_held |= le64toh(held);
	}
}

/* Asks all once, and sets the state of those that have answered. Negative errno: nobody was asked. */
static int lockers_ask_once(const struct rbd_gateway *gateway, struct lockers *lockers, const void *question, int bytes)
{
	size_t ack_count = 0, timeout_count = 0, reply_bytes = 0;
	struct notify_timeout_t *timeouts = NULL;
	struct notify_ack_t *acks = NULL;
	char *reply = NULL;
	int err = rados_notify2(gateway->io, gateway->object, question, bytes, ASK_ONCE_MS, &reply, &reply_bytes);

	/* Somebody has not answered; the reply has the others' answers. */
	if (err == -ETIMEDOUT)
		err = 0;
	if (!err)
		err = reply ? rados_decode_notify_response(reply, reply_bytes, &acks, &ack_count, &timeouts,
							   &timeout_count)
			    : -EBADMSG;
	if (!err) {
		for (int i = 0; i < lockers->count; i++)
			locker_answered(&lockers->list[i], acks, ack_count, &lockers->held);
		rados_free_notify_response(acks, ack_count, timeouts);
	}
	rados_buffer_free(reply);
	return err;
}

static bool locker_is_self(const struct rbd_gateway *gateway, const struct locker *locker)
{
	return !strcmp(locker->name, tgt_rbd_client_name(gateway->client));
}

/* True: after asked_ms, with the answers so far, there is nothing more to wait for. */
static bool locker_is_settled(const struct locker *locker, uint64_t asked_ms, bool quiet)
{
	if (locker->state == LOCKER_SILENT)
		return asked_ms >= ASK_MS;
	return locker->state >= LOCKER_QUIET || !quiet || asked_ms >= QUIET_MS;
}

/* The I/O of all pasts asked for goes on at other gateways: none has to be quiet for it. */
static bool lockers_hold_all(const struct lockers *lockers)
{
	return lockers->hosts && lockers->held == lockers->hosts;
}

static bool lockers_are_settled(const struct rbd_gateway *gateway, const struct lockers *lockers, uint64_t asked_ms,
				bool quiet)
{
	for (int i = 0; i < lockers->count && !lockers_hold_all(lockers); i++)
		if (!locker_is_self(gateway, &lockers->list[i]) &&
		    !locker_is_settled(&lockers->list[i], asked_ms, quiet))
			return false;
	return true;
}

/* Finds lockers that have left meanwhile: they do not answer any more. */
static int lockers_look(const struct rbd_gateway *gateway, struct lockers *lockers)
{
	struct lockers *now = calloc(1, sizeof(*now));
	int err = now ? lockers_list(gateway, now) : -ENOMEM;

	for (int i = 0; i < lockers->count && !err; i++) {
		bool there = false;

		for (int j = 0; j < now->count; j++)
			there |= !strcmp(now->list[j].name, lockers->list[i].name);
		if (!there)
			lockers->list[i].state = LOCKER_GONE;
	}
	free(now);
	return err;
}

/*
 * Asks all until each has answered, for at most ASK_MS, and with `quiet` until each is quiet, for at most QUIET_MS. A
 * gateway that has just lost its watch, by a fault of an OSD say, is not asked until it watches again.
 */
static int lockers_ask(const struct rbd_gateway *gateway, struct lockers *lockers, const void *question, int bytes,
		       bool quiet)
{
	const struct timespec pause = {.tv_nsec = ASK_AGAIN_NS};
	uint64_t asked_ms = 0, then_ms = tgt_rbd_now_ms();

	for (;;) {
		int err = lockers_ask_once(gateway, lockers, question, bytes);
		uint64_t ms = tgt_rbd_now_ms() - then_ms;

		/* An OSD may have held the question. That time does not count: nobody was asked. */
		asked_ms += ms < ASK_ROUND_MS ? ms : ASK_ROUND_MS;
		then_ms += ms;
		if (err || lockers_are_settled(gateway, lockers, asked_ms, quiet))
			return err;
		nanosleep(&pause, NULL);
		err = lockers_look(gateway, lockers);
		if (err)
			return err;
	}
}

/* Shuts the locker out, and breaks its lock. */
static int locker_shoot(const struct rbd_gateway *gateway, const struct locker *locker, char *error)
{
	const char *why = locker->state == LOCKER_SILENT ? "is silent" : "has writes under way that do not end";
	int err = tgt_rbd_shoot(tgt_rbd_client_cluster(gateway->client), locker->name, locker->address, why, error);

	if (err)
		return err;
	/* Only when it is shut out: the lock is what others find it by. */
	err = locker_break(gateway, locker);
	if (!err)
		return 0;
	return tgt_rbd_host->error(error, err, "rbd: gateway %s is shut out, but its lock on object %s stays: %s",
				   locker->name, gateway->object, strerror(-err));
}

/* -- the fence ---------------------------------------------------------------------------------- */

static int fence_lockers(struct rbd_gateway *gateway, struct lockers *lockers, const void *question, int bytes,
			 bool quiet, const char **failed)
{
	bool registered = false;
	int err = lockers_list(gateway, lockers);

	*failed = "its gateways cannot be listed";
	for (int i = 0; i < lockers->count && !err; i++)
		registered |= locker_is_self(gateway, &lockers->list[i]);
	/* Without a lock, other gateways do not ask this one any more. */
	if (!err && !registered) {
		tgt_rbd_client_unlocked(gateway->client);
		err = -ESHUTDOWN;
	}
	if (err || lockers->count == 1)
		return err;
	*failed = "its other gateways cannot be asked";
	return lockers_ask(gateway, lockers, question, bytes, quiet);
}

/*
 * Asks all others, and shuts out those that are silent, or with `quiet` not quiet. *shot: some were shut out, or are
 * gone. hosts, held: as in struct lockers.
 */
static int fence_ask(struct rbd_gateway *gateway, const void *question, int bytes, bool quiet, uint64_t hosts,
		     uint64_t *held, bool *shot, char *error)
{
	struct lockers *lockers = calloc(1, sizeof(*lockers));
	const char *failed = NULL;
	int err;

	*shot = false;
	if (!lockers)
		return tgt_rbd_host->error(error, -ENOMEM, "out of memory");
	lockers->hosts = hosts;
	err = fence_lockers(gateway, lockers, question, bytes, quiet, &failed);
	*held = lockers->held;
	if (err && err != -ESHUTDOWN)
		tgt_rbd_host->error(error, err, "%s: %s", failed, strerror(-err));
	for (int i = 0; i < lockers->count; i++)
		*shot |= lockers->list[i].state == LOCKER_GONE;
	for (int i = 0; i < lockers->count && !err && !lockers_hold_all(lockers); i++)
		if (!locker_is_self(gateway, &lockers->list[i]) &&
		    lockers->list[i].state < (quiet ? LOCKER_QUIET : LOCKER_LIVES)) {
			err = locker_shoot(gateway, &lockers->list[i], error);
			*shot = true;
		}
	free(lockers);
	return err;
}

/* Gets the map even if this gateway has shut out nobody: another one may have, and with it the session's old writes. */
static int fence_map(struct rbd_gateway *gateway, int err, char *error)
{
	if (!err)
		err = tgt_rbd_client_map(gateway->client, error);
	if (err == -ESHUTDOWN)
		tgt_rbd_client_fenced(gateway->client, NULL);
	return err;
}

int tgt_rbd_gateway_fence(struct rbd_gateway *gateway, const struct tgt_past *pasts, unsigned int count, uint64_t *held,
			  char *error)
{
	struct rbd_question question = {.magic = RBD_QUESTION_MAGIC, .count = htole64(count)};
	uint64_t hosts = 0;
	bool all = true, shot;
	int err;

	for (unsigned int i = 0; i < count; i++) {
		question.pasts[i] = pasts[i];
		question.pasts[i].epoch = htole64(pasts[i].epoch);
		hosts |= (uint64_t)pasts[i].host << i;
		all &= pasts[i].host;
	}
	err = fence_ask(gateway, &question, (int)RBD_QUESTION_BYTES(count), count, all ? hosts : 0, held, &shot, error);
	return fence_map(gateway, err, error);
}

int tgt_rbd_gateway_tell(struct rbd_gateway *gateway, const struct tgt_reservation_note *note, char *error)
{
	struct rbd_news *news = calloc(1, sizeof(*news));
	bool shot = true;
	uint64_t held;
	int err = 0;

	if (!news)
		return tgt_rbd_host->error(error, -ENOMEM, "out of memory");
	memcpy(news->magic, RBD_NEWS_MAGIC, sizeof(news->magic));
	news->note = *note;
	/* Gateways that were asked before one was shut out may not have that map: all are asked again. */
	while (shot && !err)
		err = fence_ask(gateway, news, sizeof(*news), true, 0, &held, &shot, error);
	free(news);
	return fence_map(gateway, err, error);
}

/* -- entering ---------------------------------------------------------------------------------- */

static int gateway_object(const struct rbd_gateway *gateway)
{
	rados_write_op_t op = rados_create_write_op();
	int err;

	rados_write_op_create(op, LIBRADOS_CREATE_IDEMPOTENT, NULL);
	err = rados_write_op_operate(op, gateway->io, gateway->object, NULL, 0);
	rados_release_write_op(op);
	return err;
}

/* Others hold the lock: asks them, and shuts out those that are silent. 0: try again. */
static int gateway_contend(struct rbd_gateway *gateway, char *error)
{
	struct lockers *lockers = calloc(1, sizeof(*lockers));
	const char *why = ", whose rblkd is of another version: it must end first";
	int err = lockers ? lockers_list(gateway, lockers) : -ENOMEM;

	if (!err && lockers->count)
		err = lockers_ask(gateway, lockers, "alive?", 6, false);
	if (err)
		tgt_rbd_host->error(error, err, "rbd: object %s: its gateways cannot be asked whether they live: %s",
				    gateway->object, strerror(-err));
	else if (gateway->alone)
		why = ", and this one is to be alone (gateways = one)";
	else if (lockers->exclusive)
		why = ", which is alone (gateways = one)";
	for (int i = 0; !err && i < lockers->count; i++) {
		const struct locker *locker = &lockers->list[i];

		if (locker_is_self(gateway, locker))
			err = tgt_rbd_host->error(error, -EBUSY,
						  "in use by this process, for another volume or one that is being "
						  "closed");
		else if (locker->state != LOCKER_SILENT && locker->state != LOCKER_GONE)
			err = tgt_rbd_host->error(error, -EBUSY, "in use by gateway %s (%s)%s", locker->name,
						  locker->address, why);
	}
	for (int i = 0; !err && i < lockers->count; i++)
		if (lockers->list[i].state == LOCKER_SILENT)
			err = locker_shoot(gateway, &lockers->list[i], error);
	free(lockers);
	return err;
}

/* Another gateway may take the lock meanwhile, and be shut out in its turn: how often this one tries. */
#define CONTENTIONS_MAX 4

static int gateway_lock(struct rbd_gateway *gateway, char *error)
{
	int err = -EBUSY;

	for (int i = 0; i < CONTENTIONS_MAX; i++) {
		const char *name = tgt_rbd_client_name(gateway->client);

		err = gateway->alone
			      ? rados_lock_exclusive(gateway->io, gateway->object, LOCK_NAME, name, "rblkd", NULL, 0)
			      : rados_lock_shared(gateway->io, gateway->object, LOCK_NAME, name, LOCK_TAG, "rblkd",
						  NULL, 0);
		if (err == -EEXIST)
			err = -EBUSY; /* by this process, for another volume */
		if (err != -EBUSY)
			break;
		err = gateway_contend(gateway, error);
		if (err)
			return err;
		err = -EBUSY;
	}
	if (err)
		return tgt_rbd_host->error(error, err, "rbd: object %s cannot be locked: %s (" NEEDS_OSD ")",
					   gateway->object, strerror(-err));
	return 0;
}

/* Gateways that were killed stay registered until somebody fences them: this bounds their number. */
static int gateway_thin_out(struct rbd_gateway *gateway, char *error)
{
	struct lockers *lockers = calloc(1, sizeof(*lockers));
	int err = lockers ? lockers_list(gateway, lockers) : -ENOMEM;
	bool crowd = !err && lockers->count >= LOCKERS_CROWD;
	uint64_t held;

	free(lockers);
	if (err)
		return tgt_rbd_host->error(error, err, "rbd: object %s: its gateways cannot be listed: %s",
					   gateway->object, strerror(-err));
	return crowd ? tgt_rbd_gateway_fence(gateway, NULL, 0, &held, error) : 0;
}

int tgt_rbd_gateway_enter(struct rbd_gateway *gateway, bool alone, struct rbd_client *client, rados_ioctx_t io,
			  const char *image_id, char *error)
{
	int err;

	gateway->again.run = gateway_watch_again;
	gateway->alone = alone;
	gateway->client = client;
	gateway->io = io;
	snprintf(gateway->object, sizeof(gateway->object), "rblk.%s", image_id);
	err = gateway_object(gateway);
	/* Before the lock: a gateway that sees the lock also finds a watcher. */
	if (!err)
		err = gateway_watch(gateway);
	if (err)
		return tgt_rbd_host->error(error, err,
					   "rbd: object %s cannot be created or watched: %s (" NEEDS_OSD ")",
					   gateway->object, strerror(-err));
	err = gateway_lock(gateway, error);
	gateway->entered = !err;
	if (!err)
		err = gateway_thin_out(gateway, error);
	/* Even if this process has shut out nobody: another gateway may have, and have ended since. */
	if (!err)
		err = tgt_rbd_client_map(client, error);
	if (err)
		tgt_rbd_gateway_leave(gateway);
	else
		tgt_rbd_cut_off_begin(gateway);
	return err;
}

/*
 * If the lock stays, the next gateway takes this one for silent, and shuts it out: correct, but it takes time. A
 * gateway that was shut out leaves its lock to that one.
 */
static void gateway_unlock(const struct rbd_gateway *gateway)
{
	const struct timespec pause = {.tv_nsec = ASK_AGAIN_NS};
	const uint64_t began_ms = tgt_rbd_now_ms();
	bool said = false, over;
	int err;

	for (;;) {
		err = rados_unlock(gateway->io, gateway->object, LOCK_NAME, tgt_rbd_client_name(gateway->client));
		if (!err || err == -ENOENT || err == -ESHUTDOWN)
			return;
		over = tgt_rbd_now_ms() - began_ms >= UNLOCK_MS;
		if (over || !said)
			tgt_rbd_host->log(TGT_LOG_WARNING, "rbd: %s: the lock of this gateway stays: %s%s",
					  gateway->path, strerror(-err),
					  over ? ": the next one to serve the image shuts it out" : "; trying again");
		if (over)
			return;
		said = true;
		nanosleep(&pause, NULL);
	}
}

void tgt_rbd_gateway_leave(struct rbd_gateway *gateway)
{
	tgt_rbd_cut_off_end(gateway);
	if (gateway->entered)
		gateway_unlock(gateway);
	gateway->entered = false;
	atomic_store(&gateway->leaving, true); /* callbacks may queue `again` until the flush */
	tgt_rbd_keeper_forget(&gateway->again);
	gateway_unwatch(gateway);
	rados_watch_flush(tgt_rbd_client_cluster(gateway->client)); /* no callback comes any more */
	tgt_rbd_keeper_forget(&gateway->again);			    /* queued by the last ones */
	tgt_rbd_asked_end(gateway);
}
