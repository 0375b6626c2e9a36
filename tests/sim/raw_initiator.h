/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An initiator that survives: it loses connections, logs in again with higher incarnations, fences
 * by FENCE on another queue, restarts its session with a higher epoch, and sends again what was not
 * answered, as the specification allows and no earlier (F4, F5). Its commands go to the same model
 * as librblk's. It works at the level of the wire (wire_connection.h), because it also does what librblk never
 * does: it logs in while the old connection is well, sends commands on connections that were fenced,
 * asks for logins that must be refused, and sends wrong digests.
 *
 * raw_initiator.c owns its connections and what is known of them, raw_work.c its block commands,
 * raw_compare.c what is special about COMPARE_AND_WRITE, raw_reserve.c RESERVE,
 * raw_control.c all others,
 * raw_mischief.c what it should not do.
 */
#ifndef RBLK_TESTS_SIM_RAW_INITIATOR_H
#define RBLK_TESTS_SIM_RAW_INITIATOR_H

#include <netinet/in.h>
#include "tests/sim/actor.h"
#include "tests/sim/fiber.h"
#include "tests/sim/guard.h"
#include "tests/sim/host.h"
#include "tests/sim/model.h"
#include "tests/sim/reserver.h"
#include "tests/sim/wire_connection.h"

#define SIM_RAW_CONNECTIONS 8u
#define SIM_RAW_QUEUES 3u
#define SIM_RAW_CONTROLS 6u
#define SIM_RAW_REQUESTS 16u
/* Of the largest volume. */
#define SIM_RAW_SECTORS 512u

struct sim_raw_initiator;

/* What a well-behaved initiator would not do at this time, or would never do. */
enum sim_mischief {
	SIM_MISCHIEF_SUPERSEDE,
	SIM_MISCHIEF_FENCE,
	SIM_MISCHIEF_RENEW,
	SIM_MISCHIEF_HANG_UP,
	SIM_MISCHIEF_PROBE,
	SIM_MISCHIEF_PROBE_COUNT,
	SIM_MISCHIEF_ABORT,
	SIM_MISCHIEF_CLOSE,
	SIM_MISCHIEF_REOPEN,
	SIM_MISCHIEF_LIST,
	SIM_MISCHIEF_REFUSED,
	SIM_MISCHIEF_RESTART,
	SIM_MISCHIEF_CHECKSUM,
	SIM_MISCHIEF_EXTENTS,
	SIM_MISCHIEF_SIMPLE,
	SIM_MISCHIEFS
};

enum sim_raw_request_state {
	SIM_RAW_REQUEST_FREE,
	SIM_RAW_REQUEST_READY, /* to be sent */
	SIM_RAW_REQUEST_SENT,
	SIM_RAW_REQUEST_LOST, /* its connection has drained; it waits for the fence (F5) */
};

/* A block command, until it is answered for good. */
struct sim_raw_request {
	struct sim_order order; /* first */
	struct sim_raw_initiator *raw;
	enum sim_raw_request_state state;
	struct sim_command *command; /* the model's */
	enum sim_command_kind kind;
	uint64_t sector, sectors;
	bool fua, capsule, invalidate, digest, immediate;
	bool wrong_digest; /* nothing of it may be stored */
	bool zombie;	   /* sent where the target has fenced: must not be answered, nor done */
	bool lost_once;	   /* an earlier attempt may have done something */
	uint64_t id;	   /* of a WRITE or COMPARE: what its sectors say */
	uint64_t expected[SIM_COMPARE_SECTORS]; /* COMPARE: what they said before */
	uint64_t operation, operation_epoch;	/* COMPARE: its number (F8); 0: none yet */
	uint8_t *memory;
	struct fab_mr *mr; /* of its memory alone, for one attempt */
	unsigned int number;
	uint64_t not_before_ns;
	uint64_t epoch; /* of the last attempt, and: */
	uint32_t incarnation;
	uint16_t queue;
	uint32_t handle;
	bool abort_told, abort_result; /* ABORT's answer came first */
	uint64_t reservation; /* its serial + 1, when it was sent and that was sure; or 0 */
};

/* Any other command, and block commands that must be refused. */
struct sim_control {
	struct sim_order order; /* first */
	struct sim_raw_initiator *raw;
	bool under_way;
	uint64_t epoch;
	uint16_t queue; /* by which it goes */
	uint32_t incarnation;
	uint32_t expected;	    /* bit per status that is an answer */
	uint32_t handle;	    /* OPEN, CLOSE: which is to be open, or closed */
	struct sim_opening opening; /* OPEN; and CLOSE of its handle was answered: */
	bool closed;
	struct sim_command *command; /* EXTENTS: the model's */
	/* ABORT: of whom, and how that ended. */
	struct sim_raw_request *victim;
	bool victim_answered, victim_aborted;
	/* CHECKSUM and its ABORT: the other one, while it is under way; then what it said. */
	struct sim_control *other;
	bool other_answered, other_aborted;
};

/* A RESERVE or RESERVATIONS; RESERVE until it is answered or nobody can tell. */
struct sim_reserve {
	struct sim_order order; /* first */
	struct sim_raw_initiator *raw;
	enum sim_raw_request_state state;
	struct rblk_wire_reservation asked;
	uint64_t operation, epoch; /* of the last attempt, and: */
	uint32_t incarnation;
	uint16_t queue;
	bool lost_once;
	uint64_t serial;
};

/* What is told and reported, registered as a whole. */
struct sim_raw_memory {
	struct sim_wire_memory connections[SIM_RAW_CONNECTIONS];
	uint8_t payloads[SIM_RAW_CONTROLS][RBLK_CAPSULE_ALIGN];
	uint8_t reports[SIM_RAW_CONTROLS][4096];
	uint8_t reserve_payload[RBLK_CAPSULE_ALIGN], reserve_report[4096];
};

/* A queue in the present epoch. */
struct sim_raw_slot {
	uint32_t incarnation; /* of the last login */
	uint32_t accepted;    /* the last that was; 0: none */
	uint32_t fenced;      /* acknowledged up to here */
	uint32_t owed;	      /* FENCE is to acknowledge up to here */
	uint64_t ask_at_ns;   /* for that, again */
	uint64_t try_at_ns;
	bool supersede; /* log in though the last one is well */
};

struct sim_raw_initiator {
	struct sim_actor actor; /* first */
	struct sim_fiber fiber;
	struct sim_guard guard;
	struct sim_host *host;
	unsigned int volume;

	/* How it works. */
	unsigned int ops_left, depth;
	uint32_t mischief, flush, fua, read, zeroes, digest, compare; /* of a million */
	uint32_t mischiefs; /* bit per enum sim_mischief: those that it is up to */
	uint32_t features;
	uint16_t queue_count, credits;
	uint32_t connect_timeout_ms;
	uint64_t command_timeout_ns, think_ns;

	struct fab *fab;
	struct fab_mr *guard_mr, *memory_mr;
	struct sim_raw_memory *memory;
	struct sim_wire_connection connections[SIM_RAW_CONNECTIONS];
	struct sockaddr_in address;

	uint32_t session; /* the model's number of this life of the process */
	uint8_t session_id[16];
	uint64_t epoch;
	bool begun;	    /* queue 0 was accepted in this epoch */
	uint8_t target[16]; /* instance that has accepted it */
	struct sim_raw_slot slots[SIM_RAW_QUEUES];

	uint32_t handle; /* 0: not open */
	uint32_t wanted; /* that the OPEN under way names; 0: none, or it is closed behind it */
	uint32_t again;  /* that the next OPEN names, if it is not 0: it may be open */
	uint32_t handles; /* so many were used */
	unsigned int life; /* of the volume, when it was opened */
	bool opening;
	uint64_t open_at_ns;
	uint64_t blocks;
	uint32_t block_bytes, volume_flags;

	bool named; /* the target knows its name, in this epoch */
	struct sim_reserver reserver; /* where nobody reserves: not often */
	struct sim_reserve reserve;
	uint64_t operation;		      /* the last number, in this epoch (F8) */
	uint64_t known[SIM_RAW_SECTORS];      /* what a sector said last, or UINT64_MAX */
	struct sim_raw_request requests[SIM_RAW_REQUESTS];
	struct sim_control controls[SIM_RAW_CONTROLS];
	unsigned int under_way, completed, number;
	uint64_t verified; /* sectors, at the end */
	bool calm, finished;
	const char *doing;
};

/* -- raw_initiator.c --------------------------------------------------------------------------- */

void sim_raw_start(struct sim_raw_initiator *raw, unsigned int machine);
void sim_raw_fini(struct sim_raw_initiator *raw);

/* A random connection that takes commands; of queue 0, if so. NULL: there is none. */
struct sim_wire_connection *sim_raw_live(struct sim_raw_initiator *raw, bool queue_0);
/* The target has acknowledged the fence of `queue` up to this incarnation of the present epoch. */
void sim_raw_fenced(struct sim_raw_initiator *raw, uint16_t queue, uint32_t incarnation);
/* Restart the session. */
void sim_raw_renew(struct sim_raw_initiator *raw);
/* The process is killed and started again, with a new session id. Commands of its former life may
 * still be with the target. */
void sim_raw_restart(struct sim_raw_initiator *raw);
/* A login that must be refused. */
void sim_raw_probe(struct sim_raw_initiator *raw, bool old_epoch);
/* Another: with more queues than its session has. */
void sim_raw_probe_count(struct sim_raw_initiator *raw);

/* -- raw_work.c -------------------------------------------------------------------------------- */

/* Begin new block commands and send those that may go. */
void sim_raw_work(struct sim_raw_initiator *raw);
/* Everything is done: read the volume once more. True when that is done, too. */
bool sim_raw_verify(struct sim_raw_initiator *raw);
/* The process has been killed: what was not answered is left to the target. */
void sim_raw_abandon(struct sim_raw_initiator *raw);
/* The target has said that these incarnations are fenced: is it true? */
void sim_raw_check_fence(struct sim_raw_initiator *raw, uint16_t queue, uint32_t incarnation);
/* On a connection that was fenced: a WRITE that must not be done. */
void sim_raw_haunt(struct sim_raw_initiator *raw, struct sim_wire_connection *connection);

/* -- raw_compare.c ----------------------------------------------------------------------------- */

/* The request is over; done: with success. Tells the model what the volume holds now. */
void sim_raw_learn(const struct sim_raw_request *request, bool done);
void sim_raw_forget(struct sim_raw_initiator *raw);
/* Expect what is known of its range. False: too little is. */
bool sim_compare_expect(struct sim_raw_request *request);
/* A number for a command that is not idempotent; 0: not now (F8). */
uint64_t sim_raw_operation(struct sim_raw_initiator *raw);
/* It has a number of this epoch. */
bool sim_compare_may_go(struct sim_raw_request *request);
/* Its epoch is over, and it was not answered: nobody can tell what became of it (F8). */
bool sim_compare_is_unknown(const struct sim_raw_request *request);

/* -- raw_reserve.c ----------------------------------------------------------------------------- */

/* Begin, send and send again. */
void sim_raw_reserve(struct sim_raw_initiator *raw);
/* Nobody hears of the RESERVE under way. It may still be done while the target has connections of
 * `session`, unless that is 0. */
void sim_reserve_abandon(struct sim_raw_initiator *raw, uint32_t session);
/* A block command is sent, and was answered: as the reservation has it? */
void sim_reserve_begins(struct sim_raw_request *request);
void sim_reserve_judge(const struct sim_raw_request *request, uint16_t status);

/* -- raw_control.c ----------------------------------------------------------------------------- */

/* Open the volume if it is not, confirm events. */
void sim_raw_manage(struct sim_raw_initiator *raw);
void sim_raw_fence(struct sim_raw_initiator *raw, struct sim_wire_connection *by, uint16_t queue,
		   uint32_t incarnation);
/* An request was answered: ABORT must have told the truth about it. */
void sim_raw_check_abort(struct sim_raw_request *request, bool aborted);

/* Whatever is asked for, a target may be short of something, or about to end. */
#define SIM_ANSWERS_ALWAYS \
	(1u << RBLK_E_BUSY | 1u << RBLK_E_DRAINING | 1u << RBLK_E_NO_RESOURCES | 1u << RBLK_E_GONE)
#define SIM_ANSWERS_WELL (SIM_ANSWERS_ALWAYS | 1u << RBLK_OK)

/* A command by `connection`, to be filled in and sent; of `expected` a bit per status. NULL: no room. */
struct sim_control *sim_control_new(struct sim_raw_initiator *raw, struct sim_wire_connection *connection,
				    uint8_t opcode, uint32_t expected);
/* Where its report goes. */
void sim_control_report(struct sim_control *control, const struct sim_wire_connection *connection, uint32_t bytes);
void sim_control_send(struct sim_control *control, struct sim_wire_connection *connection);
__attribute__((noreturn)) void sim_control_fail(const struct sim_control *control,
						 const char *what);

/* -- raw_mischief.c ---------------------------------------------------------------------------- */

/* Something that no well-behaved initiator would do just now, or do at all. */
void sim_raw_mischief(struct sim_raw_initiator *raw);

#endif
