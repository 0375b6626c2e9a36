/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the question of what a target serves: LIST, part after part, each checked and appended to an
 * array in the step of the caller's struct.
 */
#include <stdlib.h>
#include "initiator/session.h"
#include "initiator/volume.h"
#include "proto/wire/wire_check.h"

/* Version 0.1's: no version has a shorter struct; and none will be as long as the other. */
#define INFO_BYTES_MIN (offsetof(struct rblk_volume_info, changed) + sizeof(bool))
#define INFO_BYTES_MAX 4096

/* A list on its way; its session's thread. */
struct ini_listing {
	struct ini_again again;
	struct rblk_session *session;
	u8 *infos; /* RBLK_VOLUMES_MAX + RBLK_LIST_MAX of info_bytes each; goes to the caller */
	size_t info_bytes;
	u32 count;
	const void *report;
	rblk_list_callback done;
	void *arg;
};

static void listing_finish(struct ini_listing *listing, int error)
{
	struct ini_listing end = *listing;

	free(listing);
	end.session->events.told++;
	if (error) {
		free(end.infos);
		end.done(end.arg, NULL, error);
	} else {
		end.done(end.arg, (struct rblk_volume_info *)end.infos, (int)end.count);
	}
}

/* One answer. 1: there is more; 0: that was all; or -EPROTO. */
static int listing_take(struct ini_listing *listing, u64 result)
{
	const struct rblk_wire_volume *reports = listing->report;
	u32 total = (u32)(result >> 32), count = (u32)result;
	struct rblk_wire_volume report;
	struct rblk_volume_info info;

	if (count > RBLK_LIST_MAX || total > RBLK_VOLUMES_MAX)
		return -EPROTO;
	for (u32 i = 0; i < count; i++) {
		memcpy(&report, &reports[i], sizeof(report));
		if (rblk_check_volume(&report, sizeof(report), listing->session->queues[0].features))
			return -EPROTO;
		ini_volume_info(listing->session, &report, &info);
		/* A program of another version has another step; members unknown here stay zero. */
		if (info.size > listing->info_bytes)
			info.size = listing->info_bytes;
		memcpy(listing->infos + listing->count++ * listing->info_bytes, &info, info.size);
	}
	/* A list that shrinks while it is read ends with an empty part. */
	return count && listing->count < total && listing->count <= RBLK_VOLUMES_MAX;
}

static int listing_ask(struct ini_listing *listing);

static void listing_answered(void *arg, const struct rblk_result *result)
{
	struct ini_listing *listing = arg;
	struct rblk_session *session = listing->session;
	const struct rblk_result lost = {.error = -ECONNRESET};
	int status;

	if (ini_control_again(session, &listing->again, result))
		return;
	status = result->error ? result->error : listing_take(listing, result->value);

	if (!result->error && status < 0)
		ini_session_note(session, "%s: the target's list of volumes is malformed",
				 ini_session_peer(session));
	/* The answer's tag is free again, so that there is one for the next; but the connection may be
	 * lost by now. */
	if (status > 0) {
		status = listing_ask(listing);
		if (!status || ini_control_again(session, &listing->again, &lost))
			return;
	}
	listing_finish(listing, status);
}

static int listing_ask(struct ini_listing *listing)
{
	const struct rblk_wire_command command = {.opcode = RBLK_OP_LIST,
						  .lba = rblk_to_le64(listing->count)};

	return ini_control_start(listing->session, &command, NULL, 0, INI_REPORT_BYTES,
				 listing_answered, listing, &listing->report);
}

static void listing_again(struct ini_again *again)
{
	struct ini_listing *listing = (struct ini_listing *)again; /* its first member */
	const struct rblk_result lost = {.error = -ECONNRESET};
	int err = listing_ask(listing);

	if (err && !ini_control_again(listing->session, again, &lost))
		listing_finish(listing, listing->session->failure.final);
}

int rblk_list_start(struct rblk_session *session, size_t info_bytes, rblk_list_callback done,
		    void *arg)
{
	struct ini_listing *listing;
	int err = done ? ini_control_ready(session) : -EINVAL;

	if (info_bytes < INFO_BYTES_MIN || info_bytes > INFO_BYTES_MAX)
		return -EINVAL;
	if (err)
		return err;
	listing = calloc(1, sizeof(*listing));
	if (!listing)
		return -ENOMEM;
	listing->session = session;
	listing->again.run = listing_again;
	listing->info_bytes = info_bytes;
	listing->done = done;
	listing->arg = arg;
	listing->infos = calloc(RBLK_VOLUMES_MAX + RBLK_LIST_MAX, info_bytes);
	err = listing->infos ? listing_ask(listing) : -ENOMEM;
	if (err) {
		free(listing->infos);
		free(listing);
	}
	return err;
}
