/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reservation that all gateways of an image share. The object of their lock has it, with a serial number. Who
 * changes it replaces that, if it still is what the change was made of, then has every gateway put it in force that is
 * registered from then on (gateway.c), and only then answers. One that comes later registers first, and reads it
 * then. So a change that is answered is in force everywhere; one whose gateway has ended in between may be in force
 * here and there, until a gateway comes, which reminds the others; and whoever changes something next, or asks for the
 * same again, has to begin from it.
 */
#include "target/rbd/rbd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "target/base/error.h"

/* librados returns this and less where bytes are not those expected. */
#define DIFFERS (-4095)
/* Others answer in milliseconds. */
#define REMIND_MS 1000u
/* So long all are told again, as the monitors may be about to elect: else it is in force at some until the next change.
 */
#define TELL_MS 5000u
#define TELL_AGAIN_NS 200000000

int tgt_rbd_recall(const struct rbd_gateway *gateway, struct tgt_reservation_note *note, char *error)
{
	int bytes;

	memset(note, 0, sizeof(*note));
	bytes = rados_read(gateway->io, gateway->object, (char *)note, sizeof(*note), 0);
	if (bytes == 0 || bytes == (int)sizeof(*note))
		return 0;
	return tgt_rbd_host->error(error, bytes < 0 ? bytes : -EBADMSG, "rbd: the reservation in object %s: %s",
				   gateway->object, bytes < 0 ? strerror(-bytes) : "it is cut short");
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

/* -EAGAIN is told for another gateway's change, and is an error of librados' as well. */
static int not_again(int err)
{
	return err == -EAGAIN ? -EIO : err;
}

/*
 * The cluster has not said whether it has the change: what it has is read, which comes behind that. 0: it is the change;
 * -EAGAIN: another one, as below; else there is none, or the volume is lost, and reads it when it is opened again.
 */
static int note_doubt(const struct rbd_gateway *gateway, struct tgt_store_change *change, int err, char *error)
{
	struct tgt_reservation_note found;
	char reason[TGT_ERROR_BYTES];

	tgt_rbd_host->error(error, err, "object %s: %s", gateway->object, strerror(-err));
	if (tgt_rbd_recall(gateway, &found, reason)) {
		tgt_rbd_host->lost(gateway->store, "what is noted of its reservation is not known");
		return not_again(err);
	}
	if (!memcmp(&found, &change->note, sizeof(found)))
		return 0;
	if (!memcmp(&found, &change->before, sizeof(change->before)))
		return not_again(err);
	change->note = found;
	return -EAGAIN;
}

/* An object without any reads as zeroes. -EAGAIN: it is another one; then the note is that. */
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

/* A thread's. It keeps the volume open, and with that the gateway, until it is done. */
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
		tgt_rbd_host->log(TGT_LOG_ERROR, "rbd: a reservation may not be in force at all gateways: %s", error);
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
