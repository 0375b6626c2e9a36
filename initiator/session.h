/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The session and its parts: its beginning and end (session.c), the end that the program wants (logout.c), what drives its
 * state machine (drive.c), its timers (timer.c), commands that are not I/O (control.c), and the blocking calls on
 * top (sync.c). unit.calls checks that no file calls one above it. Nothing but sync.c ever sleeps; time comes from env_now_ns() and randomness from
 * env_random(), so that a simulator can drive rblk_session_start() and rblk_poll() through any
 * schedule.
 */
#ifndef RBLK_INITIATOR_SESSION_H
#define RBLK_INITIATOR_SESSION_H

#include "initiator/buffer.h"
#include "initiator/fabrics.h"
#include "initiator/names.h"
#include "initiator/parking.h"
#include "initiator/queue.h"
#include "initiator/rblk.h"
#include "initiator/uri.h"
#include "proto/core/env.h"
#include "proto/core/session.h"
#include "proto/core/spin.h"

struct ini_durables;
struct ini_publish;

/*
 * One registered block: payloads that are told, and reports, of queue 0's reserved tags; reports of
 * EXTENTS. The target may write to it at any time, whatever it has answered: a report is
 * copied first, and the copy is checked and used.
 */
#define INI_REPORT_BYTES (RBLK_LIST_MAX * (u32)sizeof(struct rblk_wire_volume))
#define INI_EXTENTS_QUERIES 4 /* at a time: what a target works on for one session */
struct ini_control {
	u8 payload[RBLK_RESERVED_TAGS][RBLK_CAPSULE_ALIGN];
	u8 report[RBLK_RESERVED_TAGS][INI_REPORT_BYTES];
	u8 extents[INI_EXTENTS_QUERIES][RBLK_EXTENTS_MAX * sizeof(struct rblk_wire_extent)];
	struct {
		u8 payload[RBLK_CAPSULE_ALIGN];
		u8 report[sizeof(struct rblk_wire_authenticate)];
	} authenticate[RBLK_QUEUES_MAX]; /* by queue */
};

/* A session command that is to be sent again; embedded in its owner's struct. */
struct ini_again {
	struct ini_again *next;
	void (*run)(struct ini_again *again);
};

/* An outstanding EXTENTS (volume not NULL), in one of the session's places. */
struct ini_extents {
	struct rblk_volume *volume;
	void *report; /* in ini_control */
	u32 report_bytes;
	u32 blocks; /* that were asked about */
	u64 offset;
	struct rblk_extent *extents; /* the caller's, as many as the report has at most */
	rblk_callback done;
	void *arg;
};

/* An outstanding COMPARE_AND_WRITE (volume not NULL): the program's side of it. For a RESERVE
 * (reserve.c) only the volume is set. */
struct ini_operation {
	struct rblk_volume *volume;
	u64 bytes; /* of the range */
	rblk_callback done;
	void *arg;
};

/*
 * Where the target is reached: one host of the URI, and the addresses that its name has. They are replaced while an
 * attempt there has failed, and may be none so far.
 */
struct ini_portal {
	char where[INI_URI_HOST_TEXT];	 /* host:port as the URI has it */
	const struct ini_uri_host *host; /* of session->uri */
	struct fab *fab;
	const struct sockaddr *source; /* of the portals' sources; NULL: as the routes say */
	struct ini_addresses addresses;
	u16 first;		   /* address that an attempt begins with: the last that worked */
	bool numeric;		   /* the host is an address */
	int name_error;		   /* the resolver's, of the last question */
	struct ini_lookup *lookup; /* a question on its way; NULL: none */
	int error;                    /* of the last attempt or connection there; 0: it is well, or untried */
	char words[RBLK_ERROR_BYTES]; /* the same */
};

/* Events that the program is told, of the session and its volumes, and those that the target tells (event.c). */
struct ini_events {
	rblk_event_callback callback; /* NULL: not wanted */
	void *arg;
	u32 untold;        /* the session's own, of enum rblk_session_event_type, a bit each */
	bool telling;      /* an event's callback runs */
	unsigned int told; /* callbacks besides I/O since rblk_poll() returned, which counts them */

	u32 seen, confirmed; /* numbers: of the target's last event, and of the last KEEPALIVE's */
	bool draining; /* the target is */
};

/* Session commands (control.c): their memory, and those that wait for a connection. */
struct ini_controls {
	struct ini_control *memory;
	size_t bytes;
	struct ini_mr mr;
	struct ini_again *again; /* those that wait */
	bool again_due;          /* of these, some were not tried yet */
};

/* The work requests that command.c is posting. */
struct ini_doorbell {
	struct ibv_send_wr wr[INI_CHAIN_MAX];
	struct ibv_sge sge[INI_CHAIN_MAX][INI_SEGMENTS_MAX];
};

/* Where the session's target may be reached. */
struct ini_portals {
	struct ini_portal of[CORE_PORTALS_MAX];
	u16 count;
	/* Hosts of a fabric that this machine lacks: after the others, only for their words. */
	u16 unknown_count;
	struct ini_addresses sources; /* options.source */
};

/* The session's errors, for the program (rblk_session_error()). */
struct ini_failure {
	int last;                     /* of a connection or a login, with the words */
	int final;                    /* why the session FAILED; 0 until then */
	char words[RBLK_ERROR_BYTES]; /* of the last one */
};

/* When was something last looked at that costs a call? */
struct ini_looks {
	u64 timers_ns;
	u64 devices_ns;
	u64 events_ns;   /* the fabric's */
	bool events_due; /* the caller slept, or is about to */
};

/* Who it is to its target. */
struct ini_identity {
	u8 session_id[16]; /* a secret */
	char name[RBLK_NAME_BYTES];
	struct rblk_secrets *secrets; /* that prove the name; NULL: it proves nothing, and nothing is proven to it */
	struct rblk_tls_context *tls; /* NULL: no connection is by TLS */
};

/* Calls of the program need these besides slots. */
struct ini_calls {
	struct ini_vector *vectors; /* free ones, of vector.c */
	struct ini_extents extents[INI_EXTENTS_QUERIES];
	struct ini_operation operations[RBLK_OPERATIONS_MAX]; /* F8: by number */
	u64 operation; /* the last number that was used */
};

/* Created by rblk_session_start(), freed by ini_session_free(). One thread at a time. */
struct rblk_session {
	struct rblk_options options; /* defaults filled in */
	struct ini_uri uri;
	struct ini_identity identity;
	struct ini_fabs fabs;
	struct ini_portals portals;

	struct core_session core; /* the states; session->core.state is the session's */
	bool ready;  /* named, and each queue was tried: the program was told */
	bool ended;  /* FAILED or ENDED, and every command is called back or about to be */
	u64 logout_ns; /* the program ends it, and it disconnects by then; 0: it does not */
	bool unsettled; /* a queue waits for callbacks to be made, or commands to be answered */
	struct ini_failure failure;

	struct ini_queue queues[RBLK_QUEUES_MAX];
	u16 queue_count;
	u16 next_queue; /* the queue that takes I/O now; changes with the doorbell: fuller messages */

	struct ini_list done; /* callbacks to make */
	struct ini_parking parking;
	struct ini_buffers buffers;
	struct rblk_volume *volumes;
	bool handle_slots[RBLK_HANDLES_MAX]; /* which they have */
	u32 handles; /* so many numbers were used */
	struct ini_durables *durables; /* the process's (durable.h) */
	u32 losses; /* durables->losses, as of the last look at the volumes */

	struct ini_controls control;
	struct ini_calls calls;

	struct ini_events events;
	unsigned int polling; /* calls of rblk_poll() that run, one within a callback of the other */

	u64 now_ns;       /* as of this turn */
	struct ini_looks looks;
	u64 activity;     /* completions and events so far: tells whether a turn did anything */
	struct core_spin spin; /* of sync.c */
	struct rblk_stats stats; /* counters that the connections do not keep */
	struct ini_publish *publish; /* NULL: it publishes nothing */
	struct ini_doorbell doorbell;
	bool sends_unheard; /* armed for answers alone: no SEND's completion makes the caller poll */
};

/* Where the state machine has the queue connected, or wants it to be. */
static inline struct ini_portal *ini_portal_of(const struct ini_queue *queue)
{
	struct rblk_session *session = queue->session;

	return &session->portals.of[session->core.queue[queue->index].portal];
}

/* May the program start commands? They may have to wait for a connection. */
static inline bool ini_session_usable(const struct rblk_session *session)
{
	return session->ready && !session->logout_ns && !core_session_over(&session->core);
}

/* -- failure.c --------------------------------------------------------------------------------- */

/* Fail the session permanently: message, queues to ERR. Only the first reason is kept. */
void ini_session_fail(struct rblk_session *session, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Message only: rblk_session_error() of a call that failed by itself. */
void ini_session_note(struct rblk_session *session, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* "10.0.0.2:4430" or, before there is a connection, the URI's host and port. Static per session. */
const char *ini_session_peer(const struct rblk_session *session);
/* The words are those of one portal: those of others that have failed follow. */
void ini_session_note_others(struct rblk_session *session);
/* The queue's connection is lost; words. */
void ini_queue_lose(struct ini_queue *queue, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The queue's portal has failed, as the session's words say. */
void ini_portal_failed(struct ini_queue *queue, int error);

/* -- session.c --------------------------------------------------------------------------------- */

/* One turn: events, completions, timers, what is pending. No callbacks. */
void ini_session_turn(struct rblk_session *session);
/* `ended`, or never connected; all callbacks are made, and volumes freed. */
void ini_session_free(struct rblk_session *session);

/* -- stats.c ----------------------------------------------------------------------------------- */

/* There is a page: what is not counted by command, for those who look at it. */
void ini_session_publish(struct rblk_session *session);

/* -- logout.c ---------------------------------------------------------------------------------- */

/* Once a turn: rblk_session_stop() goes on. */
void ini_logout_run(struct rblk_session *session);
/* The next turn does something for it. */
bool ini_logout_due(const struct rblk_session *session);

/* -- drive.c ----------------------------------------------------------------------------------- */

/* Do what the session's state machine wants done. */
void ini_drive(struct rblk_session *session);

/* -- event.c ----------------------------------------------------------------------------------- */

/* Process the fabric's events of the connections. */
void ini_event_poll(struct rblk_session *session);

/* -- tell.c ------------------------------------------------------------------------------------ */

/* Tell the program what has happened since the last call. Returns how many events it was told. */
unsigned int ini_tell_deliver(struct rblk_session *session);
/* An event message of the target. */
void ini_tell_received(struct rblk_session *session, const struct rblk_wire_completion *event);
/* Losses of acknowledged writes, anywhere in the process, that volumes of the session are to be told of. */
void ini_tell_losses(struct rblk_session *session);
/* The volume's users are about to be told that FLUSH fails, of all losses until now. */
void ini_tell_loss(struct rblk_volume *volume);

/* -- timer.c ----------------------------------------------------------------------------------- */

/* Deadlines, KEEPALIVE, retries. */
void ini_timer_run(struct rblk_session *session);
/* Milliseconds until it must run; -1: never. */
int ini_timer_next_ms(const struct rblk_session *session);

/* -- control.c --------------------------------------------------------------------------------- */

int ini_control_init(struct rblk_session *session);
void ini_control_fini(struct rblk_session *session);

/*
 * Start a command with a reserved tag of queue 0. payload (NULL: none) is copied, zero filled to a
 * capsule unit; report_bytes of room for a report (0: none). `command` gives opcode, volume, lba,
 * argument. -EAGAIN: all reserved tags are in use. *report is where the answer will be, valid until
 * the next control command is started. In `done` a tag is always free: the command's own.
 */
int ini_control_start(struct rblk_session *session, const struct rblk_wire_command *command,
		      const void *payload, size_t payload_bytes, u32 report_bytes,
		      rblk_callback done, void *arg, const void **report);
/*
 * May the program start one? 0, -ENOTCONN, or -EAGAIN: the last reserved tag is kept for KEEPALIVE,
 * and a command may take long (OPEN waits for the writes of ended connections).
 */
int ini_control_ready(const struct rblk_session *session);
int ini_control_keepalive(struct ini_queue *queue);
/* AUTHENTICATE, with the memory of this queue. Negative errno: it is not sent. */
int ini_control_authenticate(struct ini_queue *queue, const struct rblk_wire_command *command,
			     const struct rblk_wire_authenticate *payload, rblk_callback done);

/* -- authenticate.c ---------------------------------------------------------------------------- */

/* The queue is connected: ini_queue_accepted() follows when both ends have proven themselves. */
void ini_authenticate(struct ini_queue *queue);

/*
 * A session command whose connection was lost before it was answered: `run` is called when the session
 * is LIVE again, or over. False: its error is final.
 */
bool ini_control_again(struct rblk_session *session, struct ini_again *again,
		       const struct rblk_result *result);
/* One was added since the last turn's ini_control_resume(), and can run. */
bool ini_control_due(const struct rblk_session *session);
/* Run what waits for it. */
void ini_control_resume(struct rblk_session *session);

/* -- sync.c ------------------------------------------------------------------------------------ */

/* One turn with its callbacks; sleeps (at most until deadline_ns, UINT64_MAX: none) if it was idle. */
int ini_sync_turn(struct rblk_session *session, u64 deadline_ns);

#endif
