/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packing commands into one message: how many fit, where in-capsule data lies, what the message
 * weighs; and when it is sent. The sender lays out what this decides: first the capsule ranges in the order of their
 * commands, then the descriptors, contiguous, at the end (message.h). Pure; no allocation, no I/O.
 */
#ifndef RBLK_CORE_BATCH_H
#define RBLK_CORE_BATCH_H

#include "proto/wire/wire.h"

/* Limits of one message: the target's (from the login), this device's and the sender's room. */
struct core_batch_limits {
	u32 message_bytes; /* the target's command_bytes */
	u16 commands;      /* the target's max_batch */
	u16 segments;      /* of a SEND: one or more per capsule range, one for the descriptors */
};

struct core_batch {
	struct core_batch_limits limits;
	u32 capsule_bytes;
	u16 commands;
	u16 segments; /* the descriptors' own included */
	u8 waited_by; /* enum core_waited_by, the most of its commands' */
};

/* Which commands wait for a command's SEND, in rising order (struct core_clock). */
enum core_waited_by { CORE_WAITED_BY_NONE, CORE_WAITED_BY_LARGE, CORE_WAITED_BY_ALL };

/* A command is large from so much data on: a small one would be late if it waited for that. */
#define CORE_BATCH_LARGE 16384u

/* The most in-capsule data that a single command may carry under these limits; 0: none. */
u32 core_batch_capsule_max(const struct core_batch_limits *limits);

void core_batch_init(struct core_batch *batch, const struct core_batch_limits *limits);

/*
 * Is there room for one more command with this much in-capsule data (0: none), which lies in so many
 * pieces of memory?
 */
bool core_batch_fits(const struct core_batch *batch, u32 capsule_bytes, u16 segments);

/* It fits: give the descriptor its place, index and capsule offset. */
void core_batch_add(struct core_batch *batch, struct rblk_wire_command *command,
		    u32 capsule_bytes, u16 segments);

static inline u32 core_batch_descriptor_bytes(const struct core_batch *batch)
{
	return batch->commands * (u32)sizeof(struct rblk_wire_command);
}

static inline u32 core_batch_bytes(const struct core_batch *batch)
{
	return batch->capsule_bytes + core_batch_descriptor_bytes(batch);
}

/*
 * When the doorbell of a queue is rung. While the device has a SEND that it has not completed, what comes waits, and is
 * sent together when that has completed, or when it is CORE_CLOCK_BYTES: messages and chains of them become longer with
 * the load. Only signalled SENDs are counted. Small commands do not wait for those of large ones, which may be long on
 * their way behind data, but large ones do; nobody waits for those with PRIORITY.
 * A SEND or its acknowledgement may be lost, and the device sends again only after long. That it has arrived, an
 * answer shows; after CORE_CLOCK_LATE_MS what waits goes all the same, as the target's device notices by what comes
 * behind a SEND that this is missing. Each end has its own timer.
 */
struct core_clock {
	u32 bytes; /* of what is to be sent, descriptors and in-capsule data, or more: some may be withdrawn, or sent */
	bool small; /* there may be a small command in it */
	bool owed;  /* the doorbell was to be rung, and waits */
	bool arrived; /* all that are counted below have, those apart that nobody waits for: an answer shows it */
	u32 last;     /* the number of the last one that anybody waits for */
	u16 sending[CORE_WAITED_BY_ALL + 1]; /* signalled SENDs that the device has not completed */
};

/* So much does not wait: 100 Gb/s carry it in 5 us, and a SEND completes no sooner. */
#define CORE_CLOCK_BYTES 65536u
/* Far longer than a SEND takes, far shorter than a device waits before it sends again. */
#define CORE_CLOCK_LATE_MS 10u

/* Begins with a new connection: the device has nothing. */
static inline void core_clock_init(struct core_clock *clock)
{
	memset(clock, 0, sizeof(*clock));
}

/* One more command is to be sent, without PRIORITY. */
void core_clock_add(struct core_clock *clock, const struct rblk_wire_command *command, u32 capsule_bytes);

/* Has it a SEND that what is to be sent waits for? */
bool core_clock_busy(const struct core_clock *clock);

/* The doorbell is to be rung. True: what has no PRIORITY waits. */
bool core_clock_waits(struct core_clock *clock);

/* A signalled SEND of such commands is posted. Its number is higher than the last one's, and may wrap around. */
void core_clock_sent(struct core_clock *clock, enum core_waited_by waited_by, u32 number);

/* Nothing is left to be sent. */
void core_clock_emptied(struct core_clock *clock);

/* A command has been answered, and its own number, or its SEND's, is this. True: ring now. */
bool core_clock_answered(struct core_clock *clock, u32 number);

/* The device has completed one. True: ring now. */
bool core_clock_completed(struct core_clock *clock, enum core_waited_by waited_by);

#endif
