/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Between rados.c, which has the cluster, rados_osd.c, which has what OSDs do, and rados_api.c and rados_image.c,
 * which have what a process sees of it.
 */
#ifndef RBLK_TESTS_SIM_RADOS_IMPL_H
#define RBLK_TESTS_SIM_RADOS_IMPL_H

#include <rados/librados.h>
#include <rbd/librbd.h>
#include <sys/queue.h>
#include "tests/sim/disk.h"
#include "tests/sim/rados.h"

#define RADOS_OSDS 3u /* the first one has the object of the lock, the others the image */
#define RADOS_MONITOR RADOS_OSDS
#define RADOS_NAME_BYTES 256u
#define RADOS_OBJECT_BYTES 8192u
#define RADOS_WATCHES_MAX 32u
#define RADOS_LOCKERS_MAX 64u
#define RADOS_NOTE_BYTES 16384u
#define RADOS_ENTRIES_MAX 256u
#define RADOS_NOTIFIES_MAX 32u

struct sim_fiber;
struct sim_rados_thread;

struct rados_op;
TAILQ_HEAD(rados_ops, rados_op);

/* What a thread of librados is to call. */
struct rados_call {
	TAILQ_ENTRY(rados_call) link;
	void (*run)(struct rados_call *call); /* frees it */
};

/* A client, from rados_create() to the end of what it has sent. */
struct rados_client {
	unsigned int machine;
	uint32_t nonce; /* of its address: no other one has it */
	uint64_t map; /* that it has */
	bool dead;      /* its process is, or it has been shut down: nothing comes back */
	uint64_t sent_ns[RADOS_OSDS + 1]; /* the last one arrives: they stay in order */
	uint64_t delayed_ns[RADOS_OSDS + 1]; /* none arrives before */
	TAILQ_ENTRY(rados_client) link; /* of all of the world, which frees them */
	struct rados_ops ops;
	struct sim_rados_thread *finisher; /* runs callbacks; NULL: not connected */
	TAILQ_HEAD(, rados_call) calls;
	bool calling;
	void *calling_for; /* sim_rbd_begins() of its operation, while the callback has not returned */
	uint64_t watched[RADOS_WATCHES_MAX]; /* its watches, of which it wants to hear; 0: none */
};

/* One that a client asks an OSD or the monitors for. */
struct rados_op {
	TAILQ_ENTRY(rados_op) link; /* its client's */
	struct rados_client *client;
	unsigned int where;
	uint64_t map; /* the client's when it was sent: */
	uint64_t sent_ns;
	struct sim_event event;
	int (*run)(struct rados_op *op); /* there; RADOS_LATER: rados_op_answer() comes */
	int result;
	/* At the client: a fiber waits, or somebody is told. */
	bool done;
	struct sim_fiber *fiber;
	void (*ended)(struct rados_op *op); /* the agenda's time; never of a dead client */
	/* What `run` needs; of all operations: */
	enum sim_io_kind kind;
	uint64_t offset, bytes;
	uint8_t *data;	   /* its own: to be written, or what was read */
	uint8_t *buffer;   /* the caller's, for what was read */
	uint64_t *differs; /* likewise, where a comparison ends: `id`, from the object's beginning */
	void *completion;
	char name[RADOS_NAME_BYTES], tag[64], payload[RADOS_NAME_BYTES]; /* name: of I/O, whose it is */
	uint32_t number;   /* of a client */
	uint64_t id;	   /* of a watch, or a notify */
	bool shared;
	void *out;	   /* its own */
};
#define RADOS_LATER INT32_MIN

struct rados_watch {
	struct rados_client *client; /* NULL: unused */
	uint64_t id;
	rados_watchcb2_t asked;
	rados_watcherrcb_t lost;
	void *arg;
	struct sim_event expires;
};

struct rados_locker {
	struct rados_client *client;
	uint32_t nonce;
	unsigned int machine;
	char name[RADOS_NAME_BYTES], tag[64];
	bool shared;
};

/* An answer to a notify. */
struct rados_acks {
	unsigned int count, missing;
	struct rados_acked {
		bool answered;
		uint64_t watch;
		uint32_t bytes;
		char payload[RADOS_NAME_BYTES];
	} of[RADOS_WATCHES_MAX];
};

struct rados_entry {
	uint32_t nonce;
	uint64_t from, until; /* in maps from, and not from until on; 0: not yet */
	struct sim_event ends;
};

struct rados_notify {
	struct rados_op *op; /* NULL: unused */
	uint64_t id;
	struct rados_acks acks;
	struct sim_event expires;
};

/* -- the cluster ------------------------------------------------------------------------------- */

extern struct rados_cluster {
	bool on;
	struct sim_disk *image;
	uint64_t newest, committed_ns, last_id;
	uint32_t last_nonce;
	bool together; /* what waits for a commit is in that one */
	bool lazy; /* the blocklist's command does not wait for the map */
	uint64_t map_ns; /* OSDs get maps so late, at most */
	struct rados_osd {
		uint64_t map, stalled_from_ns, stalled_ns, done_ns;
		uint64_t sent_ns; /* of all that it has carried out of clients that nobody has shut out, the last one */
		struct sim_event gets_map;
		char name[8];
	} osds[RADOS_OSDS + 1];
	struct rados_entry entries[RADOS_ENTRIES_MAX];
	unsigned int entry_count;
	uint8_t note[RADOS_NOTE_BYTES]; /* of the object of the lock */
	uint64_t note_bytes;
	struct rados_locker lockers[RADOS_LOCKERS_MAX];
	unsigned int locker_count;
	struct rados_watch watches[RADOS_WATCHES_MAX];
	struct rados_notify notifies[RADOS_NOTIFIES_MAX];
	uint64_t shut_out_ns; /* the last client that was ended since it was blocked */
	uint64_t cut_ns[SIM_RADOS_MACHINES], stopped_ns[SIM_RADOS_MACHINES]; /* until then */
	uint64_t cut_from_ns[SIM_RADOS_MACHINES];
	TAILQ_HEAD(, rados_client) clients;
} rados_cluster;

/* An OSD has this map from now on. */
void rados_osd_gets(struct rados_osd *osd, uint64_t map);
bool rados_is_blocked(uint32_t nonce, uint64_t map);
/* Its client is told why, or not if that is 0. */
void rados_watch_end(struct rados_watch *watch, int why);
/* The machine's processes do not run until then. */
void sim_rados_stopped(unsigned int machine, uint64_t until_ns);
/* Nothing will be heard of the machine for a while: its watches may end. */
void rados_watches_doubt(unsigned int machine);

struct rados_client *rados_client_create(unsigned int machine);
/* Its process has no use for it any more. */
void rados_client_drop(struct rados_client *client);
struct rados_op *rados_op_create(struct rados_client *client, unsigned int where, int (*run)(struct rados_op *op));
void rados_op_free(struct rados_op *op);
/* It is on its way. */
void rados_op_send(struct rados_op *op);
/* There; of one that was RADOS_LATER. */
void rados_op_answer(struct rados_op *op, int result);
/* The delay of a message to or from the machine, beginning now. */
uint64_t rados_message_ns(unsigned int machine);
/* On the client's thread for callbacks. Drops the call if the client is dead. */
void rados_client_call(struct rados_client *client, struct rados_call *call);

/* -- what OSDs and monitors do ----------------------------------------------------------------- */

int rados_do_nothing(struct rados_op *op);
int rados_do_io(struct rados_op *op);
int rados_do_compare(struct rados_op *op);
int rados_do_map(struct rados_op *op); /* result: 0; the newest map in `id` */
int rados_do_blocklist(struct rados_op *op);
/* The object's bytes, if they begin with `payload`, of `offset` bytes; and what they are. */
int rados_do_replace(struct rados_op *op);
int rados_do_recall(struct rados_op *op);
int rados_do_lock(struct rados_op *op);
int rados_do_unlock(struct rados_op *op); /* of client `number`, or its own if that is 0 */
int rados_do_watch(struct rados_op *op);
int rados_do_unwatch(struct rados_op *op);
int rados_do_notify(struct rados_op *op);
int rados_do_ack(struct rados_op *op);
uint64_t sim_rados_image_bytes(void);
const struct rados_locker *rados_lockers(unsigned int *count);

/* All clients of a machine: its process is gone. */
void rados_clients_drop(unsigned int machine);
/* An operation whose callback has not returned, once; NULL: there is none. */
void *rados_called_for(unsigned int machine);

/* -- rados_api.c ------------------------------------------------------------------------------- */

void rados_api_reset(void);
/* Of the actor that runs. */
bool rados_process_is_dead(void);
/* Sends it and waits; its result. As an actor of a process that is not dead. */
int rados_op_call(struct rados_op *op);

/* -- rados_image.c ------------------------------------------------------------------------------ */

/* What the process has under way comes back now, with an error. As an actor of it. */
void rados_completions_end(unsigned int machine);
void rados_completions_reset(void);

/* -- rados_process.c ----------------------------------------------------------------------------- */

/* A thread of the process that runs; `parked`: it waits for ever, as a dead one. */
struct sim_rados_thread *sim_rados_thread_start(const char *name, void *(*run)(void *arg), void *arg);
void sim_rados_thread_wake(struct sim_rados_thread *thread);
/* Of the thread that runs: until it is woken. In a dead process a thread of its own stays for ever, others do not. */
void sim_rados_thread_wait(void);
/* Of the process that runs: its memory, which ends with it; zeroed. */
void *sim_rbd_calloc(size_t count, size_t bytes);
void sim_rbd_free(void *memory);

/* -- rados_module.c ----------------------------------------------------------------------------- */

/* The machine's process is a new one. */
void rados_module_begin(unsigned int machine);
/* What a thread had in its hands when the process died comes back. As an actor of it. */
void rados_module_lose(unsigned int machine);
/* The operation that is given to the module just now, and the name of its initiator. */
void *sim_rbd_begins(void);
const char *sim_rbd_initiator(void);

#endif
