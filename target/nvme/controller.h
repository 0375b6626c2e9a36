/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Controllers: what the queues of an NVMe host's association have in common. One is created when its admin queue is
 * accepted, and is a session of rblk's: its id is the session's. Queues come from several threads and have references.
 * What is neither atomic nor under a lock is fixed before Connect of the admin queue is answered, and so before another
 * queue can know it.
 */
#ifndef RBLK_TARGET_NVME_CONTROLLER_H
#define RBLK_TARGET_NVME_CONTROLLER_H

#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include "proto/wire/wire.h"
#include "target/nvme/wire.h"

/* So many at a time; sessions are bounded before (--sessions, and each host's share). */
#define NVME_CONTROLLERS_MAX 4096u

/* Aborts that are not answered: ACL. */
#define NVME_ABORTS_MAX 4u

enum nvme_abort_state {
	NVME_ABORT_FREE,     /* nobody's */
	NVME_ABORT_ASKED,    /* the thread of its queue is to find it */
	NVME_ABORT_TAKEN,    /* that queue's */
	NVME_ABORT_ANSWERED, /* the admin queue is to find it */
};

/* Under abort.c's lock. */
struct nvme_abort {
	enum nvme_abort_state state;
	uint16_t queue, id; /* of the command */
	bool dropped;	    /* ANSWERED */
	struct nvme_slot *slot; /* the admin queue's */
};

/* Errors that the log keeps: ELPE. */
#define NVME_ERRORS_MAX 16u

/* The error log, under errors.c's lock. Lives in its controller. */
struct nvme_errors {
	uint64_t count; /* of all errors; the newest is last[(count - 1) % NVME_ERRORS_MAX] */
	struct nvme_error last[NVME_ERRORS_MAX];
};

/* Notices of reservations that a controller keeps. */
#define NVME_NOTICES_MAX 16u

/* Under notice.c's lock but for `waiting` and `mask`, which are read without. */
struct nvme_notices {
	uint64_t count; /* of all that there were */
	unsigned int first;
	_Atomic unsigned int waiting;
	_Atomic uint32_t mask; /* the host does not want to have these: 1 << type */
	struct nvme_notice kept[NVME_NOTICES_MAX];
};

/* Those of a host and subsystem stand in a line (path.c); I/O is refused but by the one that is in charge. */
enum nvme_path_state {
	NVME_PATH_NEW,	     /* its Connect is not answered: not in the line */
	NVME_PATH_WAITS,     /* behind another one */
	NVME_PATH_DUE,	     /* the first now: its admin queue is to open the volume again */
	NVME_PATH_OPENS,     /* that OPEN, or Connect's, waits for older writes */
	NVME_PATH_OPTIMIZED, /* in charge */
	NVME_PATH_LEFT,	     /* it has ended, another one has its place, or there was none */
};

/* Under path.c's lock; `state` is read without. */
struct nvme_path {
	TAILQ_ENTRY(nvme_controller) link; /* in the line */
	_Atomic enum nvme_path_state state;
	uint8_t transport; /* its portal: this, */
	struct sockaddr_storage address; /* and an address of this end */
};

/* The host, and the subsystem that it wants, as Connect names them. */
struct nvme_identity {
	__u8 host_id[16];
	char host[NVME_NQN_BYTES], subsystem[NVME_NQN_BYTES];
};

struct nvme_controller {
	_Atomic unsigned int references;
	uint16_t id;
	uint16_t queues; /* of the session, its own included */
	__u8 session_id[16];
	struct nvme_identity identity;
	bool discovery;
	struct rblk_wire_volume volume; /* as it was when it was opened */
	_Atomic uint64_t operations;	/* F8: numbers used */
	_Atomic bool enabled;		/* CC.EN */
	_Atomic bool proven;		/* the host's name, by its secret: each of its queues has to */
	uint64_t number;		/* older ones have lower numbers */
	struct nvme_path path;
	_Atomic bool connected[RBLK_QUEUES_MAX]; /* its queues */
	_Atomic unsigned int aborts_open;	 /* not FREE */
	struct nvme_abort aborts[NVME_ABORTS_MAX];
	struct nvme_errors errors;
	char registrant[RBLK_NAME_BYTES]; /* its host, as reservations name it */
	struct nvme_notices notices;
	_Atomic bool over;		/* its admin queue has ended: so do the others; */
	_Atomic bool replaced;		/* and that, because its host has connected again, there */
};

/* -- errors.c ------------------------------------------------------------------------------------ */

/* Fills data (zeroed) with the newest first, as many as there is room for. How many there were in all. Any thread. */
uint64_t nvme_errors_read(struct nvme_errors *errors, uint8_t *data, uint64_t bytes);

/* -- controller.c -------------------------------------------------------------------------------- */

/* NULL: no memory, or too many. It has one reference. name: of its host, as an initiator. */
struct nvme_controller *nvme_controller_create(const struct nvme_identity *identity, const char name[RBLK_NAME_BYTES],
					       const struct rblk_wire_accept *accept, const __u8 session_id[16],
					       uint16_t queues);
/* Calls this for each, under the table's lock. */
void nvme_controller_each(void (*call)(struct nvme_controller *controller, void *arg), void *arg);
/* With a reference. NULL: there is none of this host and subsystem with that id. */
struct nvme_controller *nvme_controller_get(uint16_t id, const struct nvme_identity *identity);
void nvme_controller_put(struct nvme_controller *controller);
/* No queue of it goes on: each thread ends its own (fabric.c). */
void nvme_controller_end(struct nvme_controller *controller);
/* Changes whenever a queue of one has to end, one is due (path.c), an abort has come or is answered, or a
 * reservation has (notice.c). If it is not `seen`, threads have been woken for it. */
unsigned int nvme_controller_news(unsigned int seen);
/* There is such news: threads that sleep hear of it. */
void nvme_controller_tell(void);
/* An eventfd that ends the sleep of a thread with queues, until it leaves. One for each fab. */
void nvme_controller_listen(int eventfd);
void nvme_controller_leave(int eventfd);

#endif
