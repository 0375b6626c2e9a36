/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The lists of parking.h. */
#include "initiator/parking.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ini_parking_init(struct ini_parking *parking, u32 capacity)
{
	parking->all = calloc(capacity, sizeof(*parking->all));
	if (!parking->all)
		return -ENOMEM;
	for (u32 i = 0; i < capacity; i++) {
		parking->all[i].next = parking->free;
		parking->free = &parking->all[i];
	}
	parking->capacity = capacity;
	parking->waiting_end = &parking->waiting;
	parking->done_end = &parking->done;
	return 0;
}

void ini_parking_fini(struct ini_parking *parking)
{
	free(parking->all);
	memset(parking, 0, sizeof(*parking));
}

/* -- lists ------------------------------------------------------------------------------------- */

struct ini_parked *ini_parking_take(struct ini_parking *parking)
{
	struct ini_parked *parked = parking->free;

	if (!parked)
		return NULL;
	parking->free = parked->next;
	parking->used++;
	memset(parked, 0, sizeof(*parked));
	return parked;
}

void ini_parking_wait(struct ini_parking *parking, struct ini_parked *parked,
		      enum ini_parked_state state)
{
	parked->state = (u8)state;
	parked->next = NULL;
	*parking->waiting_end = parked;
	parking->waiting_end = &parked->next;
	++*parked->counted;
	if (state == INI_PARKED_READY)
		parking->ready++;
}

struct ini_parked *ini_parking_unlink(struct ini_parking *parking, struct ini_parked **link)
{
	struct ini_parked *parked = *link;

	*link = parked->next;
	if (!parked->next)
		parking->waiting_end = link;
	--*parked->counted;
	if (parked->state == INI_PARKED_READY)
		parking->ready--;
	return parked;
}

void ini_parking_finish(struct ini_parking *parking, struct ini_parked *parked, int error)
{
	parked->state = INI_PARKED_DONE;
	parked->result = (struct rblk_result){.error = error};
	parked->next = NULL;
	*parking->done_end = parked;
	parking->done_end = &parked->next;
}

struct ini_parked *ini_parking_done(struct ini_parking *parking)
{
	struct ini_parked *parked = parking->done;

	if (!parked)
		return NULL;
	parking->done = parked->next;
	if (!parking->done)
		parking->done_end = &parking->done;
	return parked;
}

void ini_parking_free(struct ini_parking *parking, struct ini_parked *parked)
{
	parking->used--;
	parked->state = INI_PARKED_FREE;
	parked->next = parking->free;
	parking->free = parked;
}
