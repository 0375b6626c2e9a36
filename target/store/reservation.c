/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The actions of reservation.h on an array of registrants in the order in which they came.
 */
#include "target/store/reservation.h"

#include <string.h>
#include "target/base/quota.h"

static bool type_of_all(uint8_t type)
{
	return type == RBLK_RESERVATION_WRITE_EXCLUSIVE_ALL ||
	       type == RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL;
}

static struct tgt_registrant *registrant_find(struct tgt_reservation *reservation,
					      const char *initiator)
{
	for (unsigned int i = 0; i < reservation->count; i++)
		if (!memcmp(reservation->registrants[i].initiator, initiator, RBLK_NAME_BYTES))
			return &reservation->registrants[i];
	return NULL;
}

bool tgt_reservation_holds(const struct tgt_reservation *reservation,
			   const struct tgt_registrant *registrant)
{
	return type_of_all(reservation->type) || registrant->holder;
}

/* -- who is refused what ----------------------------------------------------------------------- */

uint8_t tgt_reservation_refused(const struct tgt_reservation *reservation, const char *initiator,
				bool *registered)
{
	const struct tgt_registrant *registrant =
		initiator ? registrant_find((struct tgt_reservation *)reservation, initiator)
			  : NULL;

	*registered = registrant != NULL;
	switch ((enum rblk_reservation_type)reservation->type) {
	case RBLK_RESERVATION_NONE:
		return 0;
	case RBLK_RESERVATION_WRITE_EXCLUSIVE:
		return registrant && registrant->holder ? 0 : TGT_REFUSED_WRITE;
	case RBLK_RESERVATION_EXCLUSIVE_ACCESS:
		return registrant && registrant->holder ? 0 : TGT_REFUSED_READ | TGT_REFUSED_WRITE;
	case RBLK_RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS:
	case RBLK_RESERVATION_WRITE_EXCLUSIVE_ALL:
		return registrant ? 0 : TGT_REFUSED_WRITE;
	case RBLK_RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS:
	case RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL:
		return registrant ? 0 : TGT_REFUSED_READ | TGT_REFUSED_WRITE;
	}
	return TGT_REFUSED_READ | TGT_REFUSED_WRITE;
}

/* As NVMe's specification has it. */
enum tgt_notice tgt_reservation_notice(const struct tgt_reservation *before, const struct tgt_reservation *now,
				       uint8_t action, const char *initiator)
{
	bool alone = before->type == RBLK_RESERVATION_WRITE_EXCLUSIVE ||
		     before->type == RBLK_RESERVATION_EXCLUSIVE_ACCESS;

	switch (action) {
	case RBLK_RESERVE_CLEAR:
		return TGT_NOTICE_PREEMPTED;
	case RBLK_RESERVE_PREEMPT:
		if (!registrant_find((struct tgt_reservation *)now, initiator))
			return TGT_NOTICE_UNREGISTERED;
		return before->type && now->type != before->type ? TGT_NOTICE_RELEASED : TGT_NOTICE_NONE;
	default: /* those that others may write beside end with RELEASE, or with their holder */
		return before->type && !now->type && !alone ? TGT_NOTICE_RELEASED : TGT_NOTICE_NONE;
	}
}

/* -- steps of the actions ---------------------------------------------------------------------- */

static void reservation_end(struct tgt_reservation *reservation)
{
	reservation->type = RBLK_RESERVATION_NONE;
	for (unsigned int i = 0; i < reservation->count; i++)
		reservation->registrants[i].holder = false;
}

static void reservation_take(struct tgt_reservation *reservation, struct tgt_registrant *holder,
			     uint8_t type)
{
	reservation_end(reservation);
	reservation->type = type;
	holder->holder = !type_of_all(type);
}

/* The reservation ends with its holder. */
static void registrant_remove(struct tgt_reservation *reservation,
			      struct tgt_registrant *registrant)
{
	unsigned int index = (unsigned int)(registrant - reservation->registrants);
	bool holder = registrant->holder;

	reservation->count--;
	memmove(registrant, registrant + 1, (reservation->count - index) * sizeof(*registrant));
	memset(&reservation->registrants[reservation->count], 0, sizeof(*registrant));
	if (holder || !reservation->count)
		reservation_end(reservation);
}

static const struct tgt_quota registrants_quota = {.most = RBLK_REGISTRANTS_MAX, .each = TGT_REGISTRANTS_PER_HOST};

static enum rblk_status registrant_add(struct tgt_reservation *reservation,
				       const struct tgt_reserve *reserve)
{
	struct tgt_registrant *registrant = &reservation->registrants[reservation->count];
	unsigned int of_host = 0;

	for (unsigned int i = 0; i < reservation->count; i++)
		of_host += !memcmp(reservation->registrants[i].host, reserve->host,
				   TGT_REGISTRANT_HOST_BYTES);
	if (!tgt_quota_allows(&registrants_quota, reservation->count, of_host))
		return RBLK_E_NO_RESOURCES;
	memcpy(registrant->initiator, reserve->initiator, RBLK_NAME_BYTES);
	memcpy(registrant->host, reserve->host, TGT_REGISTRANT_HOST_BYTES);
	registrant->key = reserve->new_key;
	registrant->holder = false;
	reservation->count++;
	return RBLK_OK;
}

/* -- the actions: each returns a status, and whether it has changed anything --------------------
 */

static bool persist_change(struct tgt_reservation *reservation, uint8_t flags)
{
	bool before = reservation->persist;

	if (flags & RBLK_RESERVE_PERSIST)
		reservation->persist = true;
	else if (flags & RBLK_RESERVE_VOLATILE)
		reservation->persist = false;
	return reservation->persist != before;
}

static enum rblk_status reserve_register(struct tgt_reservation *reservation,
					 const struct tgt_reserve *reserve, bool *changed)
{
	struct tgt_registrant *own = registrant_find(reservation, reserve->initiator);
	uint64_t key = own ? own->key : 0;
	enum rblk_status status = RBLK_OK;

	/* A retry finds what it has done itself. */
	if (key != reserve->key && !(reserve->flags & RBLK_RESERVE_IGNORE_KEY) &&
	    !(reserve->retry && key == reserve->new_key))
		return RBLK_E_RESERVED;
	if (!own && !reserve->new_key)
		return reserve->retry || reserve->flags & RBLK_RESERVE_IGNORE_KEY ? RBLK_OK
										  : RBLK_E_RESERVED;
	if (!own)
		status = registrant_add(reservation, reserve);
	else if (!reserve->new_key)
		registrant_remove(reservation, own);
	else
		own->key = reserve->new_key;
	if (status)
		return status;
	*changed = persist_change(reservation, reserve->flags) || key != reserve->new_key;
	if (*changed)
		reservation->generation++;
	return RBLK_OK;
}

static enum rblk_status reserve_acquire(struct tgt_reservation *reservation,
					struct tgt_registrant *own,
					const struct tgt_reserve *reserve, bool *changed)
{
	if (reservation->type)
		return tgt_reservation_holds(reservation, own) && reservation->type == reserve->type
			       ? RBLK_OK
			       : RBLK_E_RESERVED;
	reservation_take(reservation, own, reserve->type);
	*changed = true;
	return RBLK_OK;
}

static enum rblk_status reserve_release(struct tgt_reservation *reservation,
					const struct tgt_registrant *own,
					const struct tgt_reserve *reserve, bool *changed)
{
	if (!reservation->type || !tgt_reservation_holds(reservation, own))
		return RBLK_OK;
	if (reserve->type && reserve->type != reservation->type)
		return RBLK_E_INVALID;
	reservation_end(reservation);
	*changed = true;
	return RBLK_OK;
}

static void reserve_clear(struct tgt_reservation *reservation, bool *changed)
{
	memset(reservation->registrants, 0, sizeof(reservation->registrants));
	reservation->count = 0;
	reservation->type = RBLK_RESERVATION_NONE;
	reservation->generation++;
	*changed = true;
}

/* other_key 0: with the types that all hold, all others. */
static enum rblk_status reserve_preempt(struct tgt_reservation *reservation,
					const struct tgt_reserve *reserve, bool *changed)
{
	bool all = type_of_all(reservation->type) && !reserve->other_key;
	bool take = all;

	if (!reserve->other_key && !all)
		return reserve->retry ? RBLK_OK : RBLK_E_INVALID;
	for (unsigned int i = reservation->count; i-- > 0;) {
		struct tgt_registrant *other = &reservation->registrants[i];

		if (!memcmp(other->initiator, reserve->initiator, RBLK_NAME_BYTES)) {
			/* It preempts itself: the reservation becomes one of the new type. */
			if (other->holder && other->key == reserve->other_key)
				take = true;
			continue;
		}
		if (!all && other->key != reserve->other_key)
			continue;
		take |= other->holder;
		registrant_remove(reservation, other);
		*changed = true;
	}
	if (!*changed && !take)
		return reserve->retry ? RBLK_OK : RBLK_E_RESERVED;
	*changed = true;
	if (take)
		reservation_take(reservation, registrant_find(reservation, reserve->initiator),
				 reserve->type);
	reservation->generation++;
	return RBLK_OK;
}

static enum rblk_status reserve_do(struct tgt_reservation *reservation,
				   const struct tgt_reserve *reserve, bool *changed)
{
	struct tgt_registrant *own = registrant_find(reservation, reserve->initiator);

	if (reserve->action == RBLK_RESERVE_REGISTER)
		return reserve_register(reservation, reserve, changed);
	if (!own && reserve->action == RBLK_RESERVE_CLEAR && reserve->retry)
		return RBLK_OK;
	if (!own || own->key != reserve->key)
		return RBLK_E_RESERVED;
	switch ((enum rblk_reservation_action)reserve->action) {
	case RBLK_RESERVE_REGISTER: /* above */
		break;
	case RBLK_RESERVE_ACQUIRE:
		return reserve_acquire(reservation, own, reserve, changed);
	case RBLK_RESERVE_RELEASE:
		return reserve_release(reservation, own, reserve, changed);
	case RBLK_RESERVE_PREEMPT:
		return reserve_preempt(reservation, reserve, changed);
	case RBLK_RESERVE_CLEAR:
		reserve_clear(reservation, changed);
		return RBLK_OK;
	}
	return RBLK_E_INVALID;
}

enum rblk_status tgt_reservation_change(struct tgt_reservation *reservation,
					const struct tgt_reserve *reserve, bool *changed)
{
	enum rblk_status status;

	*changed = false;
	status = reserve_do(reservation, reserve, changed);
	/* Nothing to keep: after a restart it is unknown, too. */
	if (!reservation->count)
		reservation->persist = false;
	return status;
}
