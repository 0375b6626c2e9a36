/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reservation that all gateways of an image share. The object of their lock holds it as a note with a serial
 * number. A gateway that changes the reservation replaces the note, if that is still the one that the change was made
 * from, then has every gateway that is registered by then put the change in force (gateway.c), and only then answers. A
 * gateway that comes later registers first, and then reads the note. So a change that is answered is in force
 * everywhere. If the gateway ends before it answers, the change may be in force at some gateways only, until another
 * one enters and reminds the others. The next change, the same one again perhaps, has to begin from that note.
 */
#include "target/rbd/rbd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "target/base/error.h"

/* librados returns this or less if bytes differ from those expected. */
#define DIFFERS (-4095)
/* Others answer in milliseconds. */
#define REMIND_MS 1000u
/* How long all are told again, as the monitors may be electing; after that the change is in force at some only. */
#define TELL_MS 5000u
#define TELL_AGAIN_NS 200000000

int tgt_rbd_recall(const struct rbd_gateway *gateway, struct tgt_reservation_note *note, char *error)
{
	int bytes;

	memset(note, 0, sizeof(*note));
	bytes = rados_read(gateway->io, gateway->object, (char *)note, sizeof(*note), 0);
	if (bytes >= 0)
		return 0; /* the volume checks it: one that is cut short has no right checksum */
	return tgt_rbd_host->error(error, bytes, "rbd: object %s: the reservation cannot be read: %s", gateway->object,
				   strerror(-bytes));
}

void tgt_rbd_remind(const struct rbd_gateway *gateway)
{
	struct rbd_news news = {.magic = RBD_NEWS_MAGIC, .note = gateway->noted};
	char *reply = NULL;
	size_t bytes;

	if (!news.note.serial)
		return;
	rados_notify2(gateway->io, gateway->object, (const char *)&news, sizeof(news), REMIND_MS, &reply, &bytes);
	rados_buffer_free(reply);
}

/* -EAGAIN says that another gateway has changed the reservation, so an -EAGAIN of librados' becomes -EIO. */
static int not_again(int err)
{
	return err == -EAGAIN ? -EIO : err;
}

/*
 * The write of the change has failed, and may have been done: reads the note, behind that write. 0: it is the change's;
 * -EAGAIN: it is another gateway's, as below. Another errno: it is as before, or cannot be read; then the volume is
 * lost, and reads it when it is opened again.
 */
static int note_doubt(const struct rbd_gateway *gateway, struct tgt_store_change *change, int err, char *error)
{
	struct tgt_reservation_note found;
	char reason[TGT_ERROR_BYTES];

	tgt_rbd_host->error(error, err, "%s", strerror(-err));
	if (tgt_rbd_recall(gateway, &found, reason)) {
		tgt_rbd_host->lost(gateway->store, "its reservation cannot be read");
		return not_again(err);
	}
	if (!memcmp(&found, &change->note, sizeof(found)))
		return 0;
	if (!memcmp(&found, &change->before, sizeof(change->before)))
		return not_again(err);
	change->note = found;
	return -EAGAIN;
}

/* An object without a note reads as zeroes. -EAGAIN: the note is another gateway's, and is now in change->note. */
static int note_replace(const struct rbd_gateway *gateway, struct tgt_store_change *change, char *error)
{
	rados_write_op_t op = rados_create_write_op();
	int err, differs = 0;

	rados_write_op_cmpext(op, (const char *)&change->before, sizeof(change->before), 0, &differs);
	rados_write_op_write_full(op, (const char *)&change->note, sizeof(change->note));
	err = rados_write_op_operate(op, gateway->io, gateway->object, NULL, 0);
	rados_release_write_op(op);
	if (err <= DIFFERS) {
		err = tgt_rbd_recall(gateway, &change->note, error);
		return err ? not_again(err) : -EAGAIN;
	}
	if (err && err != -ESHUTDOWN)
		err = note_doubt(gateway, change, err, error);
	change->kept = !err;
	return err;
}

static int note_tell(struct rbd_gateway *gateway, const struct tgt_reservation_note *note, char *error)
{
	const struct timespec pause = {.tv_nsec = TELL_AGAIN_NS};
	const uint64_t until_ms = tgt_rbd_now_ms() + TELL_MS;
	int err;

	while ((err = tgt_rbd_gateway_tell(gateway, note, error)) && err != -ESHUTDOWN && tgt_rbd_now_ms() < until_ms)
		nanosleep(&pause, NULL);
	return not_again(err);
}

/* The argument of changing_thread(). The change keeps the volume open, and so the gateway, until it is done. */
struct changing {
	struct rbd_gateway *gateway;
	struct tgt_store_change *change;
};

static void *changing_thread(void *arg)
{
	struct changing changing = *(struct changing *)arg;
	struct tgt_store_change *change = changing.change;
	char error[TGT_ERROR_BYTES] = "";
	int err;

	free(arg);
	err = note_replace(changing.gateway, change, error);
	if (!err)
		err = note_tell(changing.gateway, &change->note, error);
	if (err == -ESHUTDOWN)
		tgt_rbd_client_fenced(changing.gateway->client, NULL);
	if (err && err != -EAGAIN && err != -ESHUTDOWN)
		tgt_rbd_host->log(TGT_LOG_ERROR,
				  "rbd: %s: a changed reservation may not be in force at all gateways until it "
				  "is asked for again: %s",
				  changing.gateway->path, error);
	change->done(change, err); /* from here on the gateway may be gone */
	return NULL;
}

void tgt_rbd_change(struct rbd_gateway *gateway, struct tgt_store_change *change)
{
	struct changing *changing = calloc(1, sizeof(*changing));
	int err = -ENOMEM;

	change->kept = false;
	if (changing) {
		*changing = (struct changing){.gateway = gateway, .change = change};
		err = tgt_rbd_thread(changing_thread, changing);
	}
	if (!err)
		return;
	free(changing);
	change->done(change, not_again(err));
}
