/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Registrants that are NVMe hosts, as reservations name them, and the notices that they get of what others do to their
 * registration and to the reservation. Any thread.
 */
#ifndef RBLK_TARGET_REGISTRANT_H
#define RBLK_TARGET_REGISTRANT_H

#include <stdbool.h>
#include <stdint.h>
#include "proto/wire/payload.h"

/* The name of none but these begins so. */
#define TGT_REGISTRANT_HOST "hostid:"

/* It has both its identifier, which is only claimed, and a digest of its initiator's name, which an access rule or a
 * proof binds. Both names are zero filled. */
void tgt_registrant_name(const uint8_t host_id[16], const char initiator[RBLK_NAME_BYTES], char out[RBLK_NAME_BYTES]);

/* As NVMe numbers them. */
enum tgt_notice {
	TGT_NOTICE_NONE,
	TGT_NOTICE_UNREGISTERED, /* it was preempted */
	TGT_NOTICE_RELEASED,	 /* the reservation has ended, or has another type */
	TGT_NOTICE_PREEMPTED,	 /* all was cleared */
};

/* Who tells a registrant of a volume (target/nvme), on whatever thread; NULL: nobody. Fixed before there are any. */
extern void (*tgt_notice_tell)(const uint8_t volume[16], const char *registrant, enum tgt_notice notice);

/*
 * The paths of NVMe hosts (target/nvme) of volumes that several targets serve. A host sends what it has lost on one
 * path again on another one, and asks nobody: so one of its controllers at a time is in charge of a volume, at all
 * targets together. Any thread.
 */
struct tgt_paths {
	/* The controller that is this session is. */
	bool (*in_charge)(const uint8_t session[16]);
	/*
	 * A target has a controller of the host that is about to be, of that rank. True: one here is, or is about to
	 * be, with a higher one. False: one here that is about to be will have to ask again.
	 */
	bool (*keeps)(const uint8_t volume[16], const uint8_t host[16], uint64_t rank);
};
/* NULL: there are no such hosts. Fixed before there are any. */
extern const struct tgt_paths *tgt_paths;
/* As they call a host; and the rank of the controller that is that session. */
void tgt_registrant_digest(const char registrant[RBLK_NAME_BYTES], uint8_t digest[16]);
uint64_t tgt_registrant_rank(const uint8_t session[16]);

#endif
