/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A machine with the kernel module: kmod/'s own files on a simulated kernel (kernel/), and a user of its disks,
 * which attaches one volume or two (in some worlds one volume twice) over one session, reads, writes and flushes on
 * several hardware contexts, polled or not, and reports to the model. In some worlds programs there reserve the
 * volumes, or write by one disk of a volume what has failed on the other. Detached, by force or not, they are attached
 * again. At the end, when faults have stopped, it reads everything. A world has one such machine at most, as it is one
 * kernel.
 */
#ifndef RBLK_TESTS_SIM_MODULE_H
#define RBLK_TESTS_SIM_MODULE_H

#include "tests/sim/actor.h"
#include "tests/sim/fiber.h"
#include "tests/sim/guard.h"
#include "tests/sim/host.h"
#include "tests/sim/kernel/module_kernel.h"
#include "tests/sim/model.h"
#include "tests/sim/reserver.h"

#define SIM_MODULE_DISKS 2u

struct sim_module;

/* A volume that is attached, or about to be. */
struct sim_module_disk {
	unsigned int volume; /* index at the host */
	struct rblk_disk *disk; /* NULL: it is not */
	struct sim_opening opening; /* of the OPEN that was answered last */
	unsigned int life;	/* of the volume, when it was opened */
	unsigned int own_life;	/* what was written since then is durable, or FLUSH fails (F7) */
	uint64_t epoch;		/* of the session, in which it was opened */
	uint32_t handle;
	uint8_t cache_epoch[16];
	bool lost;		/* FLUSH fails (F7) */
	uint64_t wrote, covered; /* acknowledged writes that owe; of them, by a FLUSH that succeeded */
	uint64_t verified;	/* sectors, at the end */
	bool gone;		/* its handle: it must be attached again */
	unsigned int callers;	/* programs that are in a call of pr_ops on it */
	unsigned int beginners; /* others than module.c that begin a request on it just now */
};

/* A program that reserves one of the volumes. */
struct sim_module_caller {
	struct sim_fiber fiber;
	struct sim_module *module; /* NULL: there is none */
	struct sim_module_disk *slot;
	struct sim_reserver reserver;
};

/* A program that writes by another disk what has failed on one of the same volume. */
struct sim_module_twin {
	struct sim_fiber fiber;
	struct sim_module *module; /* NULL: there is none */
	const struct sim_module_disk *failed; /* NULL, or of this one a WRITE was lost that it has yet to write */
	uint64_t sector, sectors;
};

/* A request under way; `command` is NULL while the slot is free. */
struct sim_module_op {
	struct sim_module *module;
	struct sim_module_disk *disk;
	struct sim_command *command;
	uint8_t *memory;
	unsigned int number, context;
	uint64_t begun_ns;
	bool polled;
	bool covered; /* a FLUSH has succeeded since it began */
	bool cached;  /* its volume has had a volatile cache all the time */
	uint64_t hopeless; /* a FLUSH that began when FLUSH failed: module->known then; 0: it did not */
	bool fail_fast;
	uint64_t reservation; /* sim_reserver_moment(), when it began */
};

/* A write that has failed without an answer: it may still be carried out, until the fence (F5). */
struct sim_module_loss {
	uint64_t id;
	unsigned int begun; /* the last number that had been begun when it was called back */
	uint32_t session;
	unsigned int volume;
	struct sim_disk_lost lost;
};
#define SIM_MODULE_LOSSES 16u

struct sim_module {
	struct sim_actor actor; /* first */
	struct sim_fiber fiber;
	struct sim_guard guard;
	struct sim_event interrupt;
	struct sim_host *host;
	struct sim_module_disk disks[SIM_MODULE_DISKS];
	unsigned int disk_count;
	struct sim_attach attach; /* all but the volume */

	/* How it works. */
	struct sim_load load;
	uint32_t fail_fast; /* of a million requests */
	uint32_t abandon; /* of a million turns: detaches with requests under way */
	uint32_t kill;	  /* of a million turns: kills a connection */
	uint32_t hung_breaks; /* of a million turns while a disk hangs: loses one connection, once */
	uint32_t hung_attaches; /* of a million turns then: has the disk that is well attached again */
	bool benign;	   /* nothing happens that is a reason for a disk to fail */
	uint32_t reserves; /* of a million turns of a program that does; 0: there is none */
	bool preempts;     /* it takes the reservation of others, above all */
	bool reserved;	   /* others, or itself, may keep it from its volumes */
	uint64_t think_ns;

	struct sim_module_caller callers[SIM_MODULE_DISKS];
	struct sim_module_twin twin;
	struct sim_module_op ops[SIM_SLOTS];
	struct sim_module_loss losses[SIM_MODULE_LOSSES]; /* the last ones */
	unsigned int loss_count;
	unsigned int under_way, completed, op_number;
	uint64_t known; /* times that users of a disk have come to know of a loss, or closed it; from 1 on */
	bool calm; /* faults have stopped: it may verify and finish */
	bool refused; /* a request was, by a reservation, while it verifies */
	bool halts;   /* nothing is begun any more */
	const char *doing;
};

void sim_module_start(struct sim_module *module, unsigned int number);
void sim_module_fini(struct sim_module *module);
/* Is it the one that runs now? */
bool sim_module_runs(void);

/* -- module_reserve.c ----------------------------------------------------------------------- */

/* In worlds that have reservations. */
void sim_module_callers_start(struct sim_module *module);
/* Calm, and they have unregistered. */
bool sim_module_callers_released(const struct sim_module *module);
/* It halts, and they have ended. */
bool sim_module_callers_finished(const struct sim_module *module);
void sim_module_callers_fini(struct sim_module *module);

/* -- module_twin.c -------------------------------------------------------------------------- */

/* In worlds that have two disks of one volume. */
void sim_module_twin_start(struct sim_module *module);
/* The request was lost with a connection, and ends with an error while its command is still there. */
void sim_module_twin_told(const struct sim_module_op *op);
/* It halts, and this has ended. */
bool sim_module_twin_finished(struct sim_module *module);
void sim_module_twin_fini(struct sim_module *module);

/* -- module_io.c ---------------------------------------------------------------------------- */

/* False: there is no room for it now. */
bool sim_module_begin(struct sim_module *module, struct sim_module_disk *disk,
		       struct sim_command command, bool last);
/* Any command, on any disk. */
bool sim_module_begin_any(struct sim_module *module, bool last);
/* It was opened, perhaps again, perhaps after a loss: what is durable now (F7)? */
void sim_module_refresh(struct sim_module *module);

#endif
