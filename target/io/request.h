/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A request: one command from its arrival to its reply. Lives in the slot that its tag names, in
 * an array that its queue allocates at login; its reactor's thread only. The life of a request
 * reads from top to bottom in request.c; request_state.c and request_check.c serve it.
 */
#ifndef RBLK_TARGET_REQUEST_H
#define RBLK_TARGET_REQUEST_H

#include "target/serve/reactor_impl.h"
#include "target/store/store.h"

struct tgt_handle;

enum tgt_request_state {
	TGT_REQUEST_FREE = 0, /* nobody owns it; the tag may be used */
	TGT_REQUEST_RECEIVED, /* being checked: this turn's call chain owns it */
	TGT_REQUEST_WAITING,  /* for data memory; in queue->waiting */
	TGT_REQUEST_DATA_IN,  /* RDMA READs to post (in queue->fetching) or posted (owned by the
				 fabric) */
	TGT_REQUEST_STORING,  /* the store owns io and data; or (checksum) in reactor->resumed */
	TGT_REQUEST_HELD,     /* an administrative command that waits for something to end */
	TGT_REQUEST_DATA_OUT, /* RDMA WRITEs to post, then the completion; in queue->done */
	TGT_REQUEST_REPLYING, /* the completion to post; in queue->done, or queue->chained (F2) */
	TGT_REQUEST_STATES
};

/* Where the data is. */
enum tgt_home {
	TGT_HOME_NONE,
	TGT_HOME_POOL,	  /* a block of the reactor's pool, ours */
	TGT_HOME_REPORT,  /* likewise of those for reports */
	TGT_HOME_CAPSULE, /* in the receive buffer, which is held */
	TGT_HOME_DIRECT,  /* the store's own memory */
	TGT_HOME_ARENA,	  /* a measuring connection's own memory */
};

struct tgt_request {
	struct tgt_io io;	       /* first, so that the store's io leads back here */
	TAILQ_ENTRY(tgt_request) link; /* in the one list that its state says */
	struct tgt_queue *queue;       /* fixed */
	uint16_t tag;		       /* fixed: its slot */
	uint8_t state;		       /* enum tgt_request_state */
	uint8_t opcode;
	uint8_t flags;	    /* enum rblk_command_flag */
	uint8_t home;	    /* enum tgt_home */
	uint16_t status;    /* enum rblk_status */
	bool aborted;	    /* ABORT has come: stop at the next piece */
	bool holds_capsule; /* a receive buffer is held for it */
	bool orphan;	    /* STORING, and counted as the volume's orphan: its queue is closed */
	bool chained;	    /* REPLYING: in queue->chained, not in queue->done */

	/* Of the command, decoded. */
	uint32_t sequence;
	uint32_t blocks;
	uint64_t lba;
	uint64_t address;
	uint64_t argument;
	uint32_t rkey;
	uint32_t length; /* of the segment */
	uint32_t digest; /* told; then: of the data read */

	struct tgt_handle *handle; /* counted */
	struct tgt_volume *opening; /* OPEN that is HELD: a reference */
	char *data;
	uint32_t data_bytes;
	uint32_t lkey;
	uint32_t moved;		/* bytes for which a READ or WRITE was posted */
	uint32_t reads_pending; /* RDMA READs posted and not completed */
	uint32_t capsule_buffer;
	uint64_t done_bytes; /* checksum: of the range */
	uint64_t result;
	uint64_t received_ns, submitted_ns;
	uint32_t queued_us, stored_us;
};

/* -- request_state.c --------------------------------------------------------------------------- */

/*
 * The one place where a request's state changes. False: there is no such step; it was logged, the
 * queue is closed, and the request is as it was but for what closing does to it in its old state.
 * The caller leaves it alone then.
 */
bool tgt_request_set_state(struct tgt_request *request, enum tgt_request_state state)
	__attribute__((warn_unused_result));

/* -- request_check.c --------------------------------------------------------------------------- */

/* May this command be done? From RECEIVED; takes a reference on the volume's handle once it is
 * found, whatever the answer. */
enum rblk_status tgt_request_check(struct tgt_request *request, uint32_t handle_id);

/* It changes what a volume holds. */
static inline bool tgt_opcode_writes(uint8_t opcode)
{
	return opcode == RBLK_OP_WRITE || opcode == RBLK_OP_DISCARD ||
	       opcode == RBLK_OP_WRITE_ZEROES;
}

/* -- request.c --------------------------------------------------------------------------------- */

/* `command` has passed its validator and belongs in this slot, which is free. `capsule`: its data
 * in receive buffer `buffer`, or NULL. */
void tgt_request_begin(struct tgt_request *request, const struct rblk_wire_command *command,
		       char *capsule, uint32_t capsule_bytes, uint32_t buffer);

/* The RDMA READs of a request in DATA_IN have all completed. */
void tgt_request_data_in(struct tgt_request *request);
/* Memory may be there again: true if the request could go on. */
bool tgt_request_retry_memory(struct tgt_request *request);
/* The next piece of a checksum (reactor->resumed). */
void tgt_request_resume(struct tgt_request *request);

/* Queue the completion; from RECEIVED, WAITING, DATA_IN, STORING or HELD. */
void tgt_request_complete(struct tgt_request *request, enum rblk_status status);
/* As the successful end of a command that reports: request->data goes out first. */
void tgt_request_report(struct tgt_request *request);
/* F2: the READs into the store's memory have been posted; the reply follows in queue->chained. */
void tgt_request_chained(struct tgt_request *request);
/* Wait for something to end; the caller lists it if true. */
bool tgt_request_hold(struct tgt_request *request) __attribute__((warn_unused_result));

/* ABORT: end it if it has not begun. True if it will be answered ABORTED. */
bool tgt_request_abort(struct tgt_request *request);

/* The completion has been posted: give everything back but what the posted work still uses. */
void tgt_request_finish(struct tgt_request *request);
/* The connection is lost while the store has it. */
void tgt_request_orphan(struct tgt_request *request);
/* The connection is lost: give everything back. Not while a store or the fabric owns the data. */
void tgt_request_drop(struct tgt_request *request);

#endif
