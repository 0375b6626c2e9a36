/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A simulated machine's kernel with the module in it, as its user sees it (module.c): attaching volumes,
 * asking for I/O. Includes nothing of the kernel's.
 */
#ifndef RBLK_TESTS_SIM_KERNEL_MODULE_KERNEL_H
#define RBLK_TESTS_SIM_KERNEL_MODULE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tests/sim/model.h"

struct rblk_disk;
struct rblk_wire_reservation;
struct sim_actor;
struct sim_fiber;

/* -- beginning and end: all but the first once everything is detached ---------------------------- */

void sim_kernel_start(struct sim_actor *actor);
/* Whoever calls it loses its processor as often as its own threads do. */
void sim_kernel_preempts(struct sim_fiber *fiber);
/* Nothing may be left of the module. Its workers end; sim_kernel_stopped() says when all have. */
void sim_kernel_stop(void);
bool sim_kernel_stopped(void);
void sim_kernel_fini(void);
/* All pages there are. */
void *sim_kernel_pages(size_t *bytes);
/* block.c: no disk is left. */
void sim_blk_stop(void);
/* rdma.c: its RDMA device, of which nothing is left at the end; an interrupt of it. */
void sim_rdma_start(void);
void sim_rdma_stop(void);
void sim_rdma_interrupt(void);
/* disks.c: is the session of this queue of the module's over? */
bool sim_queue_is_over(const void *queue);
/* Its queue pair is destroyed. */
void sim_queue_goes(const void *queue);
/* The number of its session, as the model knows it. */
uint32_t sim_rdma_session(void);
/* All disks are detached: the next has a session of its own, though a program may keep the last one's network. */
void sim_rdma_renew(void);

/* Of a million answers to block commands: how many are kept back (fail_io_timeout). */
extern uint32_t sim_blk_fake_timeouts;

/* -- disks --------------------------------------------------------------------------------------- */

/* By which the target knows its session. */
#define SIM_MODULE_NAME "module"

/* The words of an attach. */
struct sim_attach {
	const char *volume;
	unsigned int portals, target; /* of that machine */
	bool silent_portal;	      /* the first never answers */
	unsigned int other;	      /* behind it, the first portal of this machine's target; 0: none */
	bool key;		      /* it proves its name, and wants a proof */
	unsigned int queues, poll_queues, credits, slot_bytes;
	unsigned int connect_ms, command_ms, reconnect_ms, fail_fast_ms, give_up_ms;
	bool digest;
};

/* NULL: it failed, and text (256) says why. Opened. */
struct rblk_disk *sim_disk_attach(const struct sim_attach *attach, char *text);
/* With `force` I/O that is under way fails. Its last user has closed it. */
void sim_disk_detach(struct rblk_disk *disk, bool force);

struct sim_disk_view {
	uint32_t block_bytes, max_bytes, flags, untorn_min_bytes, untorn_max_bytes;
	uint32_t handle; /* it was opened with, last */
	uint64_t blocks, epoch; /* of the session, in which its handle is valid */
	uint8_t cache_epoch[16];
	bool ready, lost, failed;
	bool read_only; /* as the block layer knows it, and: */
	bool write_cache; /* it has FLUSH and FUA */
	bool goes_on; /* what is sent is sent by a session that has fenced what was lost */
	bool unfenced; /* it has requests that wait for a fence */
	bool fence_late; /* a queue of its session is connected again, before the answer to its FENCE is known */
	unsigned int contexts, polled; /* hardware contexts: all, and the last ones, which are polled */
	uint8_t state; /* of its session */
};
void sim_disk_look(const struct rblk_disk *disk, struct sim_disk_view *view);
/* Its session, as the target knows it. */
void sim_disk_session(const struct rblk_disk *disk, uint8_t id[16], uint64_t *epoch);
/* Is that the handle of one of its session's disks, whose volume is open? */
bool sim_disk_session_has(const struct rblk_disk *disk, uint32_t handle);
/* For coverage: what do its session's requests wait for now? */
void sim_disk_sample(const struct rblk_disk *disk);
/* Any one of its session's. */
void sim_disk_kill_connection(struct rblk_disk *disk);
/* The last queue is to go to another portal. */
void sim_disk_move(struct rblk_disk *disk);
/*
 * One that has commands of two disks of one session, or `all` if there is another one without any of the first; false:
 * there is none.
 */
bool sim_disk_kill_shared(struct rblk_disk *disk, struct rblk_disk *other, bool all);
/* Of a million requests, and CLOSEs: how often a connection is killed while one is being sent on it. */
extern uint32_t sim_disk_kill_sending;
/* Of a million mappings of a request's pages for the device: how many fail. */
extern uint32_t sim_disk_unmapped;
/* Of a million attaches and ioctls: how many are killed by their user. */
extern uint32_t sim_disk_killed;
/* Whoever calls a function of the kernel next may be, soon half of the times: until sim_kernel_spare(). */
void sim_disk_kill_caller(uint64_t soon_ns);
/* Of a million attaches: how many find little memory. */
extern uint32_t sim_disk_starve;
/* F7: its user knows. */
void sim_disk_acknowledge(struct rblk_disk *disk);

/* Another user opens it, and closes it. False: it is about to be detached. */
bool sim_disk_open(struct rblk_disk *disk);
void sim_disk_close(struct rblk_disk *disk);

/* What became of an ioctl of pr_ops: of its last attempt. */
struct sim_disk_answer {
	int error;	 /* that the ioctl returns */
	bool answered;
	uint16_t status; /* enum rblk_status, then */
	bool lost;	 /* an attempt was, with its connection */
};
/* By a user who has it open. Waits. */
struct sim_disk_answer sim_disk_reserve(struct rblk_disk *disk,
					const struct rblk_wire_reservation *asked);
/* 0 or an error. *count: of `keys`; then of those that there are. */
int sim_disk_read_keys(struct rblk_disk *disk, uint64_t *keys, unsigned int *count);
int sim_disk_read_reservation(struct rblk_disk *disk, uint8_t *type, uint64_t *key);

/* The connection that a request was lost with. */
struct sim_disk_lost {
	bool lost;
	unsigned int queue;
	uint32_t incarnation;
	uint64_t epoch;
	uint8_t session_id[16];
};
/* fences.c: has the module yet to learn that the target has fenced it, and is that its business still (F5)? */
bool sim_disk_owes_fence(const struct rblk_disk *disk, const struct sim_disk_lost *lost);
/* The loss for which a request that is completed now has failed, if any. */
struct rblk_io;
struct sim_disk_lost sim_lost_with(const struct rblk_io *io, uint32_t incarnation);
struct rblk_session;
struct rblk_session_command;
/* For the disk's volume alone, that or a later incarnation. */
bool sim_volume_is_fenced(const struct rblk_disk *disk, const struct sim_disk_lost *lost);
void sim_fences_reset(void);
void sim_reserve_reset(void);

/* How a request has ended. */
struct sim_disk_result {
	bool done;	 /* with success */
	int error;	 /* the module's own, instead of an answer */
	uint16_t status; /* enum rblk_status */
	bool again;	 /* an earlier attempt was lost: it may have been done */
	struct sim_disk_lost lost;
};
typedef void (*sim_disk_done_fn)(void *arg, const struct sim_disk_result *result);

struct sim_disk_request {
	enum sim_command_kind kind;
	bool fua, untorn, priority, fail_fast, last; /* last: nothing comes behind it at once */
	uint64_t sector, sectors;
	uint32_t joined_bytes; /* of each of the untorn writes that it is; 0: it is one request, untorn or not */
	void *memory;
	unsigned int context;
	sim_disk_done_fn done;
	void *arg;
};
/* 0, or -EAGAIN: no request is free. */
int sim_disk_submit(struct rblk_disk *disk, const struct sim_disk_request *request);
void sim_disk_commit(struct rblk_disk *disk, unsigned int context);
void sim_disk_poll(struct rblk_disk *disk, unsigned int context);

/* -- module.c: its user is told ------------------------------------------------------------------- */

/* A request's command is sent, the first time or again; `arg` is the request's. */
void sim_module_sends(const void *arg);
/* OPEN is sent, by this handle of the session's; it has succeeded. */
void sim_module_opens(const void *session, uint32_t handle, const char *volume);
void sim_module_opened(const void *session, uint32_t handle, const char *volume, const uint8_t cache_epoch[16]);

#endif
