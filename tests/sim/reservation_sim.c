/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * target/store/reservation_file.h in the memory of the simulated machines: what was saved is there
 * after any crash. Linked instead of target/store/reservation_file.c. Which of a seed's saves fail,
 * the world says: some of them change nothing, others may or may not outlive their machine. After one of
 * those most fail until faults stop, as with a file system that has failed.
 */
#include "target/store/reservation_file.h"
#include "target/store/folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "target/base/error.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/host.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

#define KEPT_MAX 16u

static struct kept {
	bool used;
	uint8_t uuid[16];
	struct tgt_reservation reservation;
	bool unsure; /* `before` may come back when the machine crashes: */
	unsigned int machine;
	struct tgt_reservation before;
} kept[KEPT_MAX];

uint32_t sim_reservation_fail; /* of a million saves */

void sim_reservation_files_reset(void)
{
	memset(kept, 0, sizeof(kept));
	sim_reservation_fail = 0;
}

int tgt_folder_make(const char *folder, char *error)
{
	(void)folder;
	(void)error;
	return 0;
}

/* Only for what is not kept here (path_sim.c). */
bool tgt_folder_is_anonymous(const char *folder)
{
	(void)folder;
	return false;
}

int tgt_folder_sync(const char *folder)
{
	sim_fail("%s: is made durable", folder);
}

int tgt_folder_replace(const char *path, const void *data, size_t bytes)
{
	(void)data;
	(void)bytes;
	sim_fail("%s: is written", path);
}

bool tgt_reservation_exists(const char *folder, const uint8_t uuid[16], char path[PATH_MAX])
{
	(void)uuid;
	(void)path;
	sim_fail("%s: is asked for", folder);
}

static struct kept *kept_of(const uint8_t uuid[16])
{
	struct kept *place = kept;

	while (place < kept + KEPT_MAX && place->used && memcmp(place->uuid, uuid, 16))
		place++;
	if (place == kept + KEPT_MAX)
		sim_fail("more volumes with reservations than the simulator counts");
	return place;
}

int tgt_reservation_load(const char *folder, const uint8_t uuid[16],
			 struct tgt_reservation *reservation, char *error)
{
	struct kept *place = kept_of(uuid);

	(void)folder;
	(void)error;
	place->unsure = false;
	memset(reservation, 0, sizeof(*reservation));
	if (place->used)
		*reservation = place->reservation;
	return 0;
}

static void place_fill(struct kept *place, const uint8_t uuid[16],
		       const struct tgt_reservation *reservation)
{
	place->used = true;
	memcpy(place->uuid, uuid, 16);
	if (reservation->persist && reservation->count)
		place->reservation = *reservation;
	else
		memset(&place->reservation, 0, sizeof(place->reservation));
}

int tgt_reservation_save(const char *folder, const uint8_t uuid[16],
			 const struct tgt_reservation *reservation, bool *replaced, char *error)
{
	struct kept *place = kept_of(uuid);
	bool fails = sim_chance(place->unsure && !sim_net.calm ? 900000 : sim_reservation_fail);

	(void)folder;
	*replaced = !fails || sim_chance(500000);
	if (fails)
		sim_reached("reservation",
			    *replaced ? "may be kept, or not" : "cannot be kept", NULL);
	if (fails && *replaced && !place->unsure) {
		place->unsure = true;
		place->machine = sim_actor_self()->machine;
		place->before = place->reservation;
	}
	if (*replaced)
		place_fill(place, uuid, reservation);
	if (!fails) {
		place->unsure = false;
		return 0;
	}
	return tgt_error(error, -EIO, "the simulator refuses");
}

/* As the next process will load it. */
static bool effective(const struct tgt_reservation *reservation)
{
	return reservation->persist && reservation->count;
}

static bool registrants_match(const struct tgt_reservation *a, const struct tgt_reservation *b)
{
	for (unsigned int i = 0; i < a->count; i++)
		if (a->registrants[i].key != b->registrants[i].key ||
		    a->registrants[i].holder != b->registrants[i].holder ||
		    memcmp(a->registrants[i].initiator, b->registrants[i].initiator, RBLK_NAME_BYTES))
			return false;
	return true;
}

bool sim_reservation_file_has(const uint8_t uuid[16], const struct tgt_reservation *now)
{
	const struct tgt_reservation *file = &kept_of(uuid)->reservation;

	if (!effective(now) || !effective(file))
		return !effective(now) && !effective(file);
	return now->generation == file->generation && now->type == file->type && now->count == file->count &&
	       registrants_match(now, file);
}

bool sim_reservation_file_is_sure(const uint8_t uuid[16])
{
	return !kept_of(uuid)->unsure;
}

void sim_reservation_files_crash(unsigned int machine)
{
	for (struct kept *place = kept; place < kept + KEPT_MAX; place++) {
		if (!place->unsure || place->machine != machine)
			continue;
		place->unsure = false;
		if (sim_chance(500000))
			continue;
		place->reservation = place->before;
		sim_reached("reservation", "was not kept", NULL);
	}
}
