/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * This process as the gateway of one image (F6, by Ceph itself). Who serves an image holds a lock of RADOS on the
 * object "rblk.ID" beside it, which has the address of its client as the OSD saw it, and watches that object. A lock
 * does not end with its holder: the next one asks by notify, blocklists a holder that is silent, waits until its own
 * client has that map, and only then begins. (An OSD that has not seen the map yet still carries out what a dead
 * client's machine delivers, but not after an operation of a client that has it.) The lock decides, not the watchers: a
 * dead one's watch is gone after some seconds, while its writes may still be on the way.
 */
#include "target/rbd/rbd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOCK_NAME "rblk"
/* Who does not answer for so long is shut out. One that lives answers in milliseconds. */
#define ASK_MS 2000u
#define ASK_AGAIN_NS 200000000
/* The cluster takes a watcher for dead. */
#define WATCH_S 10u
/*
 * A blocklist's entry ends, and then what the machine of a dead gateway still has to deliver would be carried out: so
 * long that it will have been started anew.
 */
#define FENCE_S (30u * 24 * 3600)
#define LOCKERS_BYTES 4096
#define LOCKERS_MAX 8u
#define ADDRESS_BYTES 128
#define NEEDS_OSD "rblkd's user needs osd 'profile rbd'"
#define WATCH_AGAIN_NS 1000000000ull

/* Who holds the lock; strings in `text`. */
struct locker {
	const char *client, *address, *name;
};
struct lockers {
	struct locker list[LOCKERS_MAX];
	int count;
	char text[3][LOCKERS_BYTES]; /* clients, cookies, addresses: one behind the other */
};

/* -- this gateway ------------------------------------------------------------------------------ */

/* librados' thread: another gateway asks whether this one lives. */
static void gateway_asked(void *arg, uint64_t notify_id, uint64_t handle, uint64_t notifier, void *data, size_t bytes)
{
	struct rbd_gateway *gateway = arg;
	const char *name = tgt_rbd_client_name(gateway->client);

	(void)notifier;
	(void)data;
	(void)bytes;
	rados_notify_ack(gateway->io, gateway->object, notify_id, handle, name, (int)strlen(name));
}

/* Likewise. Others would take it for dead. */
static void gateway_watch_lost(void *arg, uint64_t handle, int err)
{
	struct rbd_gateway *gateway = arg;

	(void)handle;
	if (err == -ESHUTDOWN)
		tgt_rbd_client_fenced(gateway->client);
	else
		tgt_rbd_keeper_later(&gateway->again, 0);
}

static int gateway_watch(struct rbd_gateway *gateway)
{
	int err = rados_watch3(gateway->io, gateway->object, &gateway->watch, gateway_asked, gateway_watch_lost,
			       WATCH_S, gateway);

	gateway->watching = !err;
	return err;
}

static void gateway_unwatch(struct rbd_gateway *gateway)
{
	if (gateway->watching)
		rados_unwatch2(gateway->io, gateway->watch);
	gateway->watching = false;
}

/* The keeper's thread. */
static void gateway_watch_again(struct rbd_task *task)
{
	struct rbd_gateway *gateway = (struct rbd_gateway *)task; /* its first member */
	int err;

	if (atomic_load(&gateway->leaving))
		return;
	gateway_unwatch(gateway);
	err = gateway_watch(gateway);
	if (err == -ESHUTDOWN)
		tgt_rbd_client_fenced(gateway->client);
	else if (err)
		tgt_rbd_keeper_later(task, WATCH_AGAIN_NS);
}

/* -- the others -------------------------------------------------------------------------------- */

/* The string at *at, which steps to the next one; NULL: there is none before the end. */
static const char *text_next(const char **at, const char *end)
{
	const char *text = *at, *zero = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;

	if (zero)
		*at = zero + 1;
	return zero ? text : NULL;
}

/* 0 or negative errno. */
static int lockers_list(const struct rbd_gateway *gateway, struct lockers *lockers)
{
	size_t bytes[3] = {LOCKERS_BYTES, LOCKERS_BYTES, LOCKERS_BYTES}, tag_bytes;
	const char *at[3] = {lockers->text[0], lockers->text[1], lockers->text[2]};
	char tag[64];
	int exclusive;
	ssize_t count;

	tag_bytes = sizeof(tag);
	lockers->count = 0;
	count = rados_list_lockers(gateway->io, gateway->object, LOCK_NAME, &exclusive, tag, &tag_bytes,
				   lockers->text[0], &bytes[0], lockers->text[1], &bytes[1], lockers->text[2],
				   &bytes[2]);
	if (count < 0)
		return count == -ENOENT ? 0 : (int)count;
	if (count > (ssize_t)LOCKERS_MAX)
		return -E2BIG;
	for (; lockers->count < count; lockers->count++) {
		struct locker *locker = &lockers->list[lockers->count];

		locker->client = text_next(&at[0], lockers->text[0] + bytes[0]);
		locker->name = text_next(&at[1], lockers->text[1] + bytes[1]);
		locker->address = text_next(&at[2], lockers->text[2] + bytes[2]);
		if (!locker->client || !locker->name || !locker->address)
			return -EBADMSG;
	}
	return 0;
}

/* True: it has answered. Whoever asks may be a watcher, too. */
static bool locker_answered(const struct locker *locker, const struct notify_ack_t *acks, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (acks[i].payload_len == strlen(locker->name) &&
		    !memcmp(acks[i].payload, locker->name, acks[i].payload_len))
			return true;
	return false;
}

/* Asks all once. *alive: the first of the lockers that has answered, or NULL. Negative errno: nobody was asked. */
static int lockers_ask_once(const struct rbd_gateway *gateway, const struct lockers *lockers,
			    const struct locker **alive)
{
	size_t ack_count = 0, timeout_count = 0, bytes = 0;
	struct notify_timeout_t *timeouts = NULL;
	struct notify_ack_t *acks = NULL;
	char *reply = NULL;
	int err = rados_notify2(gateway->io, gateway->object, "alive?", 6, ASK_MS, &reply, &bytes);

	/* Somebody has not answered: the answers of the others are there. */
	if (err == -ETIMEDOUT)
		err = 0;
	if (!err)
		err = reply ? rados_decode_notify_response(reply, bytes, &acks, &ack_count, &timeouts, &timeout_count)
			    : -EBADMSG;
	if (!err) {
		for (int i = 0; i < lockers->count && !*alive; i++)
			if (locker_answered(&lockers->list[i], acks, ack_count))
				*alive = &lockers->list[i];
		rados_free_notify_response(acks, ack_count, timeouts);
	}
	rados_buffer_free(reply);
	return err;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/*
 * As lockers_ask_once(), for ASK_MS. A gateway whose watch was just lost, by a fault of an OSD say, is not among those
 * who are asked until it watches again.
 */
static int lockers_ask(const struct rbd_gateway *gateway, const struct lockers *lockers, const struct locker **alive)
{
	const struct timespec pause = {.tv_nsec = ASK_AGAIN_NS};
	uint64_t until_ms = now_ms() + ASK_MS;
	int err;

	*alive = NULL;
	for (;;) {
		err = lockers_ask_once(gateway, lockers, alive);
		if (err || *alive || now_ms() >= until_ms)
			return err;
		nanosleep(&pause, NULL);
	}
}

/* Bytes of what says the messenger's version before an address: "v1:", "v2:", "any:", or nothing. */
static size_t address_type(const char *text)
{
	if (!strncmp(text, "any:", 4))
		return 4;
	return !strncmp(text, "v1:", 3) || !strncmp(text, "v2:", 3) ? 3 : 0;
}

/*
 * "1.2.3.4:0/5678" of what may be "[v2:1.2.3.4:0/5678,v1:...]": an entry of the blocklist is for both. An address of
 * IPv6 has brackets of its own. -EBADMSG: it has no nonce, or 0, and an entry without one shuts out the whole machine.
 */
static int address_plain(const char *text, char plain[ADDRESS_BYTES])
{
	const char *from = text + (text[0] == '[' && address_type(text + 1)), *slash, *end;
	unsigned long long nonce;

	from += address_type(from);
	slash = strchr(from, '/');
	end = slash ? slash + 1 + strspn(slash + 1, "0123456789") : from;
	nonce = end > from ? strtoull(slash + 1, NULL, 10) : 0;
	if (!nonce || nonce > UINT32_MAX || (*end && *end != ',' && *end != ']') ||
	    end - from >= ADDRESS_BYTES || (size_t)(slash - from) != strcspn(from, ",/"))
		return -EBADMSG;
	snprintf(plain, ADDRESS_BYTES, "%.*s", (int)(end - from), from);
	return 0;
}

/* It is silent: nothing of it is carried out any more, and it holds no lock. */
static int locker_shoot(const struct rbd_gateway *gateway, const struct locker *locker, char *error)
{
	char address[ADDRESS_BYTES];
	int err = address_plain(locker->address, address);

	if (err)
		return tgt_rbd_host->error(
			error, err,
			"rbd: gateway %s (%s) is silent, and its address does not say which client it is: it is not "
			"shut out",
			locker->name, locker->address);
	err = rados_blocklist_add(tgt_rbd_client_cluster(gateway->client), address, FENCE_S);
	if (err)
		return tgt_rbd_host->error(
			error, err,
			"rbd: gateway %s (%s) is silent and cannot be shut out of the cluster: %s (rblkd's user "
			"needs mon 'profile rbd')",
			locker->name, address, strerror(-err));
	tgt_rbd_host->log(TGT_LOG_WARNING,
			  "rbd: gateway %s (%s) is silent: shut out of the cluster for %u days; leave that entry of "
			  "the blocklist "
			  "until its machine has been started anew",
			  locker->name, address, FENCE_S / 24 / 3600);
	/* Only now. Another one may have done it meanwhile. */
	err = rados_break_lock(gateway->io, gateway->object, LOCK_NAME, locker->client, locker->name);
	return err == -ENOENT ? 0 : err;
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

/* The lock is taken: who holds it is asked, and shut out if it is silent. 0: try again. */
static int gateway_contend(struct rbd_gateway *gateway, char *error)
{
	struct lockers lockers;
	const struct locker *alive;
	int err = lockers_list(gateway, &lockers);

	if (err)
		return tgt_rbd_host->error(error, err, "rbd: who serves the image cannot be found out (object %s): %s",
					   gateway->object, strerror(-err));
	for (int i = 0; i < lockers.count; i++)
		if (!strcmp(lockers.list[i].name, tgt_rbd_client_name(gateway->client)))
			return tgt_rbd_host->error(error, -EBUSY,
						   "in use by this process, for a volume that is being closed");
	err = lockers_ask(gateway, &lockers, &alive);
	if (err)
		return tgt_rbd_host->error(error, err,
					   "rbd: whether who serves the image lives cannot be asked (object %s): %s",
					   gateway->object, strerror(-err));
	if (alive)
		return tgt_rbd_host->error(error, -EBUSY, "in use by gateway %s (%s)", alive->name, alive->address);
	for (int i = 0; i < lockers.count && !err; i++)
		err = locker_shoot(gateway, &lockers.list[i], error);
	return err;
}

/* Others may take it meanwhile, and be shut out in their turn: a bound for who always comes late. */
#define CONTENTIONS_MAX 4

static int gateway_lock(struct rbd_gateway *gateway, char *error)
{
	int err = -EBUSY;

	for (int i = 0; i < CONTENTIONS_MAX; i++) {
		err = rados_lock_exclusive(gateway->io, gateway->object, LOCK_NAME,
					   tgt_rbd_client_name(gateway->client), "rblkd", NULL, 0);
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

int tgt_rbd_gateway_enter(struct rbd_gateway *gateway, struct rbd_client *client, rados_ioctx_t io,
			  const char *image_id, char *error)
{
	int err;

	gateway->again.run = gateway_watch_again;
	gateway->client = client;
	gateway->io = io;
	snprintf(gateway->object, sizeof(gateway->object), "rblk.%s", image_id);
	err = gateway_object(gateway);
	/* First: whoever sees the lock finds a watcher, too. */
	if (!err)
		err = gateway_watch(gateway);
	if (err)
		return tgt_rbd_host->error(error, err, "rbd: object %s: %s (" NEEDS_OSD ")", gateway->object,
					   strerror(-err));
	err = gateway_lock(gateway, error);
	if (err)
		goto err_unwatch;
	gateway->entered = true;
	/* Also if this process has shut out nobody: another one may have, and have ended since. */
	err = rados_wait_for_latest_osdmap(tgt_rbd_client_cluster(client));
	if (!err)
		return 0;
	tgt_rbd_host->error(error, err, "rbd: no map of the cluster: %s", strerror(-err));
err_unwatch:
	tgt_rbd_gateway_leave(gateway);
	return err;
}

void tgt_rbd_gateway_leave(struct rbd_gateway *gateway)
{
	if (gateway->entered)
		rados_unlock(gateway->io, gateway->object, LOCK_NAME, tgt_rbd_client_name(gateway->client));
	gateway->entered = false;
	atomic_store(&gateway->leaving, true); /* until the end callbacks queue `again` */
	tgt_rbd_keeper_forget(&gateway->again);
	gateway_unwatch(gateway);
	rados_watch_flush(tgt_rbd_client_cluster(gateway->client)); /* no callback comes any more, */
	tgt_rbd_keeper_forget(&gateway->again);			    /* nor what one has left */
}
