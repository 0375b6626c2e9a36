/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The shared state of reservations.h, under one mutex that no I/O takes.
 */
#include "target/store/reservations.h"

#include <errno.h>
#include <string.h>
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/store/reservation_file.h"
#include "target/store/reservation_image.h"

int tgt_reservations_init(struct tgt_reservations *reservations, const char *folder,
			  const uint8_t uuid[16], const struct tgt_reservation_note *note, char *error)
{
	const char *fault;
	uint64_t change;
	int err = 0;

	memset(reservations, 0, sizeof(*reservations));
	reservations->folder = folder;
	reservations->shared = note;
	memcpy(reservations->uuid, uuid, sizeof(reservations->uuid));
	TAILQ_INIT(&reservations->subscribers);
	if (folder)
		err = tgt_reservation_load(folder, uuid, &reservations->now, error);
	if (err)
		return err;
	if (pthread_mutex_init(&reservations->lock, NULL))
		return tgt_error(error, -ENOMEM, "out of memory");
	fault = note ? tgt_reservations_commit_note(reservations, note, &change) : NULL;
	return fault ? tgt_error(error, -EBADMSG, "its reservation: %s", fault) : 0;
}

void tgt_reservations_fini(struct tgt_reservations *reservations)
{
	pthread_mutex_destroy(&reservations->lock);
}

/* -- subscribers ------------------------------------------------------------------------------- */

void tgt_reservations_join(struct tgt_reservations *reservations,
			   struct tgt_reservations_subscriber *subscriber, void *owner)
{
	pthread_mutex_lock(&reservations->lock);
	subscriber->owner = owner;
	/* The reactor has no open handle yet, and new ones look up what is in force then. */
	subscriber->seen = reservations->changes;
	TAILQ_INSERT_TAIL(&reservations->subscribers, subscriber, link);
	pthread_mutex_unlock(&reservations->lock);
}

void tgt_reservations_leave(struct tgt_reservations *reservations,
			    struct tgt_reservations_subscriber *subscriber)
{
	pthread_mutex_lock(&reservations->lock);
	TAILQ_REMOVE(&reservations->subscribers, subscriber, link);
	pthread_mutex_unlock(&reservations->lock);
}

uint64_t tgt_reservations_now(struct tgt_reservations *reservations, bool *aborts)
{
	uint64_t change;

	pthread_mutex_lock(&reservations->lock);
	change = reservations->changes;
	*aborts = reservations->aborts;
	pthread_mutex_unlock(&reservations->lock);
	return change;
}

bool tgt_reservations_seen(struct tgt_reservations *reservations,
			   const struct tgt_reservations_subscriber *subscriber)
{
	bool seen;

	pthread_mutex_lock(&reservations->lock);
	seen = subscriber->seen == reservations->changes;
	pthread_mutex_unlock(&reservations->lock);
	return seen;
}

void tgt_reservations_saw(struct tgt_reservations *reservations, struct tgt_reservations_subscriber *subscriber,
			  uint64_t change)
{
	pthread_mutex_lock(&reservations->lock);
	subscriber->seen = change;
	pthread_mutex_unlock(&reservations->lock);
}

/* -- looking ----------------------------------------------------------------------------------- */

uint8_t tgt_reservations_refused(struct tgt_reservations *reservations, const char *initiator,
				 bool *registered)
{
	uint8_t refused;

	pthread_mutex_lock(&reservations->lock);
	refused = tgt_reservation_refused(&reservations->now, initiator, registered);
	pthread_mutex_unlock(&reservations->lock);
	return refused;
}

uint32_t tgt_reservations_report(struct tgt_reservations *reservations,
				 struct rblk_wire_reservation_report *report, uint32_t max)
{
	struct rblk_wire_registrant *list = (void *)(report + 1);
	const struct tgt_reservation *now = &reservations->now;
	uint32_t count;

	pthread_mutex_lock(&reservations->lock);
	count = now->count < max ? now->count : max;
	report->generation = rblk_to_le32(now->generation);
	report->type = now->type;
	report->persists = now->persist;
	report->registrants = rblk_to_le32(count);
	report->total = rblk_to_le32(now->count);
	for (uint32_t i = 0; i < count; i++) {
		const struct tgt_registrant *registrant = &now->registrants[i];

		list[i].key = rblk_to_le64(registrant->key);
		memcpy(list[i].initiator, registrant->initiator, sizeof(list[i].initiator));
		list[i].holder = now->type && tgt_reservation_holds(now, registrant);
	}
	pthread_mutex_unlock(&reservations->lock);
	return (uint32_t)(sizeof(*report) + count * sizeof(*list));
}

bool tgt_reservations_first(struct tgt_reservations *reservations, struct tgt_registrant *registrant)
{
	bool any;

	pthread_mutex_lock(&reservations->lock);
	any = reservations->now.count > 0;
	if (any)
		*registrant = reservations->now.registrants[0];
	pthread_mutex_unlock(&reservations->lock);
	return any;
}

/* -- changing ---------------------------------------------------------------------------------- */

enum rblk_status tgt_reservations_begin(struct tgt_reservations *reservations,
					const struct tgt_reserve *reserve,
					struct tgt_reservation *next, bool *changed)
{
	enum rblk_status status = RBLK_E_BUSY;

	*changed = false;
	if (reserve->flags & RBLK_RESERVE_PERSIST && !reservations->folder && !reservations->shared)
		return RBLK_E_UNSUPPORTED;
	pthread_mutex_lock(&reservations->lock);
	if (!reservations->busy) {
		*next = reservations->now;
		status = tgt_reservation_change(next, reserve, changed);
		/* Also one that finds nothing to do: whoever has done it may have ended before others knew. */
		*changed |= !status && (reservations->unsaved || reservations->shared);
		next->serial += reservations->shared;
		next->persist |= reservations->shared && next->count;
		reservations->busy = *changed;
	}
	pthread_mutex_unlock(&reservations->lock);
	return status;
}

bool tgt_reservations_keeps(struct tgt_reservations *reservations,
			    const struct tgt_reservation *next)
{
	bool keeps;

	pthread_mutex_lock(&reservations->lock);
	keeps = reservations->folder &&
		(next->persist || reservations->now.persist || reservations->unsaved);
	pthread_mutex_unlock(&reservations->lock);
	return keeps;
}

void tgt_reservations_kept(struct tgt_reservations *reservations, bool unsaved)
{
	pthread_mutex_lock(&reservations->lock);
	reservations->unsaved = unsaved;
	pthread_mutex_unlock(&reservations->lock);
}

static void hosts_tell(const struct tgt_reservations *reservations, const struct tgt_reservation *before,
		       const struct tgt_reservation *now, const struct tgt_reservation_by *by)
{
	for (unsigned int i = 0; i < before->count && tgt_notice_tell; i++) {
		const char *initiator = before->registrants[i].initiator;
		enum tgt_notice notice = memcmp(initiator, by->initiator, sizeof(by->initiator))
						 ? tgt_reservation_notice(before, now, by->action, initiator)
						 : TGT_NOTICE_NONE;

		if (notice)
			tgt_notice_tell(reservations->uuid, initiator, notice);
	}
}

uint64_t tgt_reservations_commit(struct tgt_reservations *reservations, const struct tgt_reservation *next,
				 const struct tgt_reservation_by *by)
{
	struct tgt_reservations_subscriber *subscriber;
	struct tgt_reservation before;
	bool unseen = false, newer;
	uint64_t change;

	pthread_mutex_lock(&reservations->lock);
	before = reservations->now;
	newer = !reservations->shared || next->serial > before.serial;
	TAILQ_FOREACH(subscriber, &reservations->subscribers, link) {
		unseen |= subscriber->seen < reservations->changes;
		subscriber->told &= !newer;
	}
	if (newer) {
		reservations->now = *next;
		reservations->aborts = by->aborts || (reservations->aborts && unseen);
		reservations->changes++;
	}
	change = reservations->changes;
	pthread_mutex_unlock(&reservations->lock);
	if (newer)
		hosts_tell(reservations, &before, next, by);
	return change;
}

const char *tgt_reservations_commit_note(struct tgt_reservations *reservations, const struct tgt_reservation_note *note,
					 uint64_t *change)
{
	struct tgt_reservation next;
	struct tgt_reservation_by by;
	const char *fault = tgt_reservation_note_decode(note, &next, &by);

	if (!fault)
		*change = tgt_reservations_commit(reservations, &next, &by);
	return fault;
}

bool tgt_reservations_hear(struct tgt_reservations *reservations, const struct tgt_reservation_note *note,
			   const char *volume)
{
	uint64_t change;
	const char *fault = note ? tgt_reservations_commit_note(reservations, note, &change) : NULL;

	if (fault)
		tgt_log(TGT_LOG_ERROR, "volume %s: another gateway's reservation: %s", volume, fault);
	return !fault;
}

bool tgt_reservations_tell(struct tgt_reservations *reservations, uint64_t change,
			   bool (*tell)(void *owner, void *context), void *context)
{
	struct tgt_reservations_subscriber *subscriber;
	bool seen = true;

	/* While the lock is held, the reactor that is told cannot leave, so it cannot end. */
	pthread_mutex_lock(&reservations->lock);
	TAILQ_FOREACH(subscriber, &reservations->subscribers, link) {
		if (subscriber->seen >= change)
			continue;
		seen = false;
		if (!subscriber->told)
			subscriber->told = tell(subscriber->owner, context);
	}
	pthread_mutex_unlock(&reservations->lock);
	return seen;
}

void tgt_reservations_end(struct tgt_reservations *reservations)
{
	pthread_mutex_lock(&reservations->lock);
	reservations->busy = false;
	pthread_mutex_unlock(&reservations->lock);
}
