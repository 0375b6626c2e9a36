/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the OSDs of rados.c's cluster do with an operation that they do not refuse: the image, and the object of
 * the lock, its watches and notifies.
 */
#include "tests/sim/rados_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/random.h"
#include "tests/sim/reservation.h"
#include "tests/sim/trace.h"

/* -- the image --------------------------------------------------------------------------------- */

uint64_t sim_rados_image_bytes(void)
{
	return rados_cluster.image->bytes;
}

int rados_do_nothing(struct rados_op *op)
{
	(void)op;
	return 0;
}

/*
 * What a reservation excludes, that was answered, nobody writes any more; where nobody has come since of those that
 * know who was shut out, a write of that one may be: as in lost.h.
 */
static void check_reserved(const struct rados_op *op, struct rados_osd *osd)
{
	const struct sim_reservation *reservation = rados_cluster.image->reservation;
	bool out = rados_is_blocked(op->client->nonce, rados_cluster.newest);

	if (op->kind != SIM_IO_READ && sim_reservation_excludes(reservation, op->name)) {
		sim_reached("reservation", "of gateways, excludes a write that was late", NULL);
		if (!out || osd->sent_ns > reservation->answered_ns)
			sim_fail("%s: %s writes, and a reservation does not allow it", osd->name, op->name);
	}
	if (!out && op->sent_ns > osd->sent_ns)
		osd->sent_ns = op->sent_ns;
}

int rados_do_io(struct rados_op *op)
{
	struct rados_osd *osd = &rados_cluster.osds[op->where];

	check_reserved(op, osd);
	sim_trace(osd->name, "client %u: io %d at %llu+%llu", op->client->nonce, op->kind,
		  (unsigned long long)op->offset, (unsigned long long)op->bytes);
	if (op->client->dead && op->kind == SIM_IO_WRITE)
		sim_reached("cluster", "a write outlives its process", NULL);
	sim_disk_at_once(rados_cluster.image, osd, op->client->machine, op->kind, op->offset, op->bytes, op->data);
	return 0;
}

/* `data`: what is expected, and then what is to be written if that is there. */
int rados_do_compare(struct rados_op *op)
{
	struct rados_osd *osd = &rados_cluster.osds[op->where];
	uint8_t found[512];

	sim_disk_at_once(rados_cluster.image, osd, op->client->machine, SIM_IO_READ, op->offset, op->bytes, found);
	for (op->id = 0; op->id < op->bytes; op->id++)
		if (found[op->id] != op->data[op->id])
			return -EILSEQ;
	check_reserved(op, osd);
	if (op->client->dead)
		sim_reached("cluster", "a write outlives its process", NULL);
	sim_disk_at_once(rados_cluster.image, osd, op->client->machine, SIM_IO_WRITE, op->offset, op->bytes,
			 op->data + op->bytes);
	return 0;
}

/* -- the object of the lock ----------------------------------------------------------------------- */

int rados_do_replace(struct rados_op *op)
{
	for (uint64_t i = 0; i < op->offset; i++)
		if ((i < rados_cluster.note_bytes ? rados_cluster.note[i] : 0) != (uint8_t)op->payload[i]) {
			sim_reached("cluster", "a note is not what its changer knows", NULL);
			return -4095 - (int)i;
		}
	memcpy(rados_cluster.note, op->data, op->bytes);
	rados_cluster.note_bytes = op->bytes;
	sim_trace("osd0", "client %u: a note", op->client->nonce);
	return 0;
}

int rados_do_recall(struct rados_op *op)
{
	memcpy(op->data, rados_cluster.note, rados_cluster.note_bytes);
	return (int)rados_cluster.note_bytes;
}

/* -- the lock ---------------------------------------------------------------------------------- */

const struct rados_locker *rados_lockers(unsigned int *count)
{
	*count = rados_cluster.locker_count;
	return rados_cluster.lockers;
}

int rados_do_lock(struct rados_op *op)
{
	struct rados_locker *locker;

	for (unsigned int i = 0; i < rados_cluster.locker_count; i++) {
		locker = &rados_cluster.lockers[i];
		if (locker->nonce == op->client->nonce && !strcmp(locker->name, op->name))
			return -EEXIST;
		if (!op->shared || !locker->shared || strcmp(locker->tag, op->tag))
			return -EBUSY;
	}
	if (rados_cluster.locker_count == RADOS_LOCKERS_MAX)
		sim_fail("the lock has too many holders");
	locker = &rados_cluster.lockers[rados_cluster.locker_count++];
	*locker = (struct rados_locker){
		.nonce = op->client->nonce, .machine = op->client->machine, .shared = op->shared};
	strcpy(locker->name, op->name);
	strcpy(locker->tag, op->tag);
	sim_trace("osd0", "client %u has the lock", locker->nonce);
	return 0;
}

int rados_do_unlock(struct rados_op *op)
{
	uint32_t nonce = op->number ? op->number : op->client->nonce;

	for (unsigned int i = 0; i < rados_cluster.locker_count; i++) {
		struct rados_locker *locker = &rados_cluster.lockers[i];

		if (locker->nonce != nonce || strcmp(locker->name, op->name))
			continue;
		sim_trace("osd0", "client %u has the lock no more%s", nonce, op->number ? ": it was broken" : "");
		*locker = rados_cluster.lockers[--rados_cluster.locker_count];
		return 0;
	}
	return -ENOENT;
}

/* -- watches ----------------------------------------------------------------------------------- */

/* For a client's callback. */
struct told {
	struct rados_call call; /* first */
	struct rados_client *client;
	struct sim_event event;
	rados_watchcb2_t asked;
	rados_watcherrcb_t lost;
	void *arg;
	uint64_t watch, notify, notifier;
	int why;
	uint32_t bytes;
	char payload[RADOS_NOTE_BYTES];
};

static void on_told(void *arg)
{
	struct told *told = arg;

	rados_client_call(told->client, &told->call);
}

static bool client_watches(const struct rados_client *client, uint64_t watch)
{
	for (unsigned int i = 0; i < RADOS_WATCHES_MAX; i++)
		if (client->watched[i] == watch)
			return true;
	return false;
}

static void told_run(struct rados_call *call)
{
	struct told *told = (struct told *)call;

	if (!client_watches(told->client, told->watch))
		sim_reached("cluster", "a client is told of a watch that it has ended", NULL);
	else if (told->asked)
		told->asked(told->arg, told->notify, told->watch, told->notifier, told->payload, told->bytes);
	else
		told->lost(told->arg, told->watch, told->why);
	free(told);
}

static struct told *told_create(const struct rados_watch *watch)
{
	struct told *told = calloc(1, sizeof(*told));

	if (!told)
		sim_fail("out of memory");
	told->call.run = told_run;
	told->client = watch->client;
	told->event = (struct sim_event){.run = on_told, .arg = told};
	told->arg = watch->arg;
	told->watch = watch->id;
	return told;
}

static void notify_settle(struct rados_notify *notify, int result)
{
	struct rados_op *op = notify->op;

	for (unsigned int i = 0; i < notify->acks.count && !result; i++)
		if (!notify->acks.of[i].answered)
			return;
	*(struct rados_acks *)op->out = notify->acks;
	notify->op = NULL;
	sim_event_cancel(&notify->expires);
	rados_op_answer(op, result);
}

/* why: 0, or what its client is told. */
void rados_watch_end(struct rados_watch *watch, int why)
{
	struct told *told;

	sim_trace("osd0", "client %u watches no more: %d", watch->client->nonce, why);
	sim_event_cancel(&watch->expires);
	if (why && !watch->client->dead) {
		told = told_create(watch);
		told->lost = watch->lost;
		told->why = why;
		sim_event_in(&told->event, rados_message_ns(watch->client->machine));
	}
	for (unsigned int i = 0; i < RADOS_NOTIFIES_MAX; i++) {
		struct rados_notify *notify = &rados_cluster.notifies[i];

		for (unsigned int j = 0; notify->op && j < notify->acks.count; j++)
			if (notify->acks.of[j].watch == watch->id && !notify->acks.of[j].answered)
				notify->acks.of[j--] = notify->acks.of[--notify->acks.count];
		if (notify->op)
			notify_settle(notify, 0);
	}
	watch->client = NULL;
}

/* Nothing was heard of its client: or was it, since? */
static void on_watch_expires(void *arg)
{
	struct rados_watch *watch = arg;
	unsigned int machine = watch->client->machine;

	if (!watch->client->dead && rados_cluster.cut_ns[machine] <= sim_now_ns() &&
	    rados_cluster.stopped_ns[machine] <= sim_now_ns())
		return;
	sim_reached("cluster", "a watch ends, as its client is silent", NULL);
	rados_watch_end(watch, -ENOTCONN);
}

#define WATCH_NS (10 * SIM_S)

/* Of a machine's clients: nothing will be heard of them for so long. */
void rados_watches_doubt(unsigned int machine)
{
	for (unsigned int i = 0; i < RADOS_WATCHES_MAX; i++)
		if (rados_cluster.watches[i].client && rados_cluster.watches[i].client->machine == machine)
			sim_event_by(&rados_cluster.watches[i].expires, sim_now_ns() + WATCH_NS);
}

int rados_do_watch(struct rados_op *op)
{
	for (unsigned int i = 0; i < RADOS_WATCHES_MAX; i++) {
		struct rados_watch *watch = &rados_cluster.watches[i];

		if (watch->client)
			continue;
		*watch = *(struct rados_watch *)op->out;
		watch->client = op->client;
		watch->expires = (struct sim_event){.run = on_watch_expires, .arg = watch};
		if (op->client->dead)
			sim_event_in(&watch->expires, WATCH_NS);
		return 0;
	}
	sim_fail("too many watches");
}

int rados_do_unwatch(struct rados_op *op)
{
	for (unsigned int i = 0; i < RADOS_WATCHES_MAX; i++)
		if (rados_cluster.watches[i].client && rados_cluster.watches[i].id == op->id) {
			rados_watch_end(&rados_cluster.watches[i], 0);
			return 0;
		}
	return -ENOENT;
}

void sim_rados_forget_watch(void)
{
	struct rados_watch *watch = &rados_cluster.watches[sim_below(RADOS_WATCHES_MAX)];

	for (unsigned int i = 0; i < RADOS_WATCHES_MAX && !watch->client; i++)
		watch = &rados_cluster.watches[(unsigned int)(watch - rados_cluster.watches + 1) % RADOS_WATCHES_MAX];
	if (!watch->client)
		return;
	sim_reached("cluster", "a watch is forgotten", NULL);
	rados_watch_end(watch, -ENOTCONN);
}

/* -- notify ------------------------------------------------------------------------------------- */

static void on_notify_expires(void *arg)
{
	sim_reached("cluster", "a notify is not answered by all", NULL);
	notify_settle(arg, -ETIMEDOUT);
}

static void notify_tell(struct rados_notify *notify, const struct rados_watch *watch)
{
	struct told *told;

	notify->acks.of[notify->acks.count++] = (struct rados_acked){.watch = watch->id};
	if (watch->client->dead)
		return;
	told = told_create(watch);
	told->asked = watch->asked;
	told->notify = notify->id;
	told->notifier = notify->op->client->nonce;
	told->bytes = (uint32_t)notify->op->bytes;
	memcpy(told->payload, notify->op->data, told->bytes);
	sim_event_in(&told->event, rados_message_ns(watch->client->machine));
}

int rados_do_notify(struct rados_op *op)
{
	struct rados_notify *notify = rados_cluster.notifies;

	while (notify->op)
		if (++notify == rados_cluster.notifies + RADOS_NOTIFIES_MAX)
			sim_fail("too many notifies");
	*notify = (struct rados_notify){.op = op, .id = ++rados_cluster.last_id};
	notify->expires = (struct sim_event){.run = on_notify_expires, .arg = notify};
	if (op->bytes > sizeof(((struct told *)0)->payload))
		sim_fail("a notify of %llu bytes", (unsigned long long)op->bytes);
	for (unsigned int i = 0; i < RADOS_WATCHES_MAX; i++)
		if (rados_cluster.watches[i].client)
			notify_tell(notify, &rados_cluster.watches[i]);
	sim_trace("osd0", "client %u: a notify to %u", op->client->nonce, notify->acks.count);
	sim_event_in(&notify->expires, op->offset * SIM_MS);
	notify_settle(notify, 0);
	return RADOS_LATER;
}

int rados_do_ack(struct rados_op *op)
{
	for (unsigned int i = 0; i < RADOS_NOTIFIES_MAX; i++) {
		struct rados_notify *notify = &rados_cluster.notifies[i];

		if (!notify->op || notify->id != op->offset)
			continue;
		for (unsigned int j = 0; j < notify->acks.count; j++) {
			struct rados_acked *ack = &notify->acks.of[j];

			if (ack->watch != op->id)
				continue;
			ack->answered = true;
			ack->bytes = (uint32_t)op->bytes;
			memcpy(ack->payload, op->payload, op->bytes);
		}
		notify_settle(notify, 0);
	}
	return 0;
}
