/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An NVMe host that speaks NVMe/TCP, as Linux's does: a controller by each of the portals that it knows, with
 * an admin queue and queues of I/O; keep-alive; paths by their ANA states. When anything of a controller fails, all of
 * its queues end, it is connected again, and what was not answered is sent again at once by the other path, or by the
 * next controller: without any fence, which is the target's. Its commands go to the same model as librblk's.
 *
 * nvme_host.c has its paths, nvme_pdu.c a queue's bytes, nvme_work.c its block commands.
 */
#ifndef RBLK_TESTS_SIM_NVME_HOST_H
#define RBLK_TESTS_SIM_NVME_HOST_H

#include "target/nvme/wire.h"
#include "tests/sim/fiber.h"
#include "tests/sim/host.h"
#include "tests/sim/model.h"
#include "tests/sim/socket_sim.h"

#define SIM_NVME_PATHS 3u
#define SIM_NVME_QUEUES 3u /* of a path, the admin queue among them */
#define SIM_NVME_REQUESTS 16u
#define SIM_NVME_BYTES 65536u /* of a command */
#define SIM_NVME_PORT 4420
/* Its session's number in the model: behind those of fabrics. */
#define SIM_NVME_SESSION 4000u

struct sim_nvme;
struct sim_nvme_path;

/* -- queues -------------------------------------------------------------------------------- */

enum sim_nvme_queue_state {
	SIM_NVME_DOWN,
	SIM_NVME_CONNECTING, /* its socket */
	SIM_NVME_GREETS,     /* ICReq is sent */
	SIM_NVME_CONNECTS,   /* Connect */
	SIM_NVME_LIVE,
};

struct sim_nvme_queue {
	struct sim_nvme_path *path;
	enum sim_nvme_queue_state state;
	unsigned int index; /* 0: the admin queue */
	struct sim_socket *socket;
	uint8_t digests; /* NVME_DIGEST_...: agreed */
	bool greeted;	 /* ICResp is here, and Connect is to be sent */
	uint32_t in_bytes;
	uint8_t in[SIM_NVME_BYTES + 4096] __attribute__((aligned(8))); /* of PDUs that are not whole */
};

/* -- block commands ------------------------------------------------------------------------ */

enum sim_nvme_request_state {
	SIM_NVME_FREE,
	SIM_NVME_READY, /* to be sent */
	SIM_NVME_SENT,
	SIM_NVME_LEFT, /* its process was killed: it may be done until a new path is in charge */
};

/* A block command, until it is answered for good. */
struct sim_nvme_request {
	enum sim_nvme_request_state state;
	struct sim_command *command; /* the model's */
	bool compare;		     /* NVMe's: to the model a READ of what it expects */
	bool capsule;		     /* its data */
	bool aborted;  /* its Abort was sent */
	bool repeated;		     /* one of its paths was lost before the answer */
	unsigned int number;
	uint64_t sector;
	uint16_t cid, serial;
	struct sim_nvme_queue *queue; /* SENT: by which */
	uint64_t sent_ns, not_before_ns;
	uint32_t bytes, placed; /* of its data; READ: that have come */
	uint8_t *memory;
};

/* -- paths --------------------------------------------------------------------------------- */

/* The commands of a controller's setup, in their order; all go by its admin queue, but Connects of others. */
enum sim_nvme_step {
	SIM_NVME_STEP_NONE, /* waits until it may connect */
	SIM_NVME_STEP_CONNECT,
	SIM_NVME_STEP_ENABLE,
	SIM_NVME_STEP_STATUS,
	SIM_NVME_STEP_CONTROLLER,
	SIM_NVME_STEP_NAMESPACE,
	SIM_NVME_STEP_FEATURES,
	SIM_NVME_STEP_EVENTS,
	SIM_NVME_STEP_ANA,
	SIM_NVME_STEP_QUEUES, /* of I/O are being connected */
	SIM_NVME_STEP_LIVE,
	SIM_NVME_STEP_ENDS, /* is shut down */
};

struct sim_nvme_path {
	struct sim_nvme *nvme;
	struct sim_host *host; /* the target; several are gateways of the volume */
	unsigned int number, portal;
	enum sim_nvme_step step;
	uint64_t again_ns;   /* when it is to connect */
	uint64_t step_ns;    /* since when it waits for this */
	uint64_t alive_ns;   /* when KEEP ALIVE is due */
	uint64_t asked_ns;   /* one is not answered, since; 0: there is none */
	bool asks;	     /* for the ANA state; */
	bool changed;	     /* which has changed, or may have */
	uint16_t controller; /* its id */
	uint8_t ana;	     /* 1: optimized */
	unsigned int denied; /* so often it was that, and refused I/O */
	unsigned int life;   /* of the volume, when it was connected (F9) */
	struct sim_nvme_queue queues[SIM_NVME_QUEUES];
	uint8_t page[4096]; /* what is read by an admin command */
};

struct sim_nvme {
	struct sim_actor actor; /* first */
	struct sim_fiber fiber;
	struct sim_host *host;
	unsigned int volume;

	/* How it works. */
	struct sim_load load;
	uint32_t abort, reboot; /* of a million: commands whose time is over, that are aborted; turns */
	uint32_t compare, rests; /* of a million: READs that are compared anew; turns in which it begins nothing */
	unsigned int path_count, queue_count;
	uint8_t digests;
	uint32_t keep_alive_ms, command_ms;
	uint64_t reconnect_ns, think_ns, connect_ns; /* connect_ns: that Connect may take longer */
	uint8_t host_id[16];

	struct sim_nvme_path paths[SIM_NVME_PATHS];
	uint64_t blocks;
	uint32_t block_bytes;
	bool has_zeroes, has_discard, has_compare;

	struct sim_nvme_request requests[SIM_NVME_REQUESTS];
	unsigned int under_way, completed, number;
	uint64_t verified; /* sectors, at the end */
	bool calm, finished;
	const char *doing;
};

/* -- nvme_host.c --------------------------------------------------------------------------- */

void sim_nvme_start(struct sim_nvme *nvme, unsigned int machine);
void sim_nvme_fini(struct sim_nvme *nvme);
/* How long it waits for an answer. */
uint64_t sim_nvme_patience_ns(const struct sim_nvme *nvme);
/* All of its queues end, and what was sent by them is to be sent again. */
void sim_nvme_lose(struct sim_nvme_path *path, const char *why);
/* Asks for this command of that queue's to be aborted. */
void sim_nvme_abort(const struct sim_nvme_queue *queue, uint16_t cid);
/* An answer on an admin queue, or to Connect. */
void sim_nvme_answered(struct sim_nvme_queue *queue, const struct nvme_completion *completion);

/* -- nvme_pdu.c ---------------------------------------------------------------------------- */

void sim_nvme_greet(struct sim_nvme_queue *queue);
/* With data in its capsule, or without. */
void sim_nvme_send(struct sim_nvme_queue *queue, struct nvme_command *command, const void *data, uint32_t bytes);
/* All that has come. False: the connection has ended. */
bool sim_nvme_receive(struct sim_nvme_queue *queue);

/* -- nvme_work.c --------------------------------------------------------------------------- */

/* Begin new block commands and send those that may go. */
void sim_nvme_work(struct sim_nvme *nvme);
/* Everything is done: read the volume once more. True when that is done, too. */
bool sim_nvme_verify(struct sim_nvme *nvme);
void sim_nvme_requests_lost(struct sim_nvme_path *path);
/* Its process is killed. */
void sim_nvme_requests_leave(struct sim_nvme *nvme);
/* A path is in charge: what was left is over (F5). */
void sim_nvme_requests_over(struct sim_nvme *nvme);
/* The one that this queue has under this identifier. */
struct sim_nvme_request *sim_nvme_request_of(struct sim_nvme_queue *queue, uint16_t cid);
void sim_nvme_request_answered(struct sim_nvme_queue *queue, const struct nvme_completion *completion);

#endif
