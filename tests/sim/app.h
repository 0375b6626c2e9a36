/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A simulated application: opens a session with librblk, opens one or two volumes, or one of them twice, reads, writes,
 * compares and writes, flushes and aborts commands at random, reserves volumes, and reports to the model. A lost
 * session is opened again, and the model checks the target's promises. At the end, when faults have
 * stopped, it reads the whole volume. Two of them may be threads of one process.
 */
#ifndef RBLK_TESTS_SIM_APP_H
#define RBLK_TESTS_SIM_APP_H

#include "initiator/durable.h"
#include "initiator/rblk.h"
#include "tests/sim/actor.h"
#include "tests/sim/fiber.h"
#include "tests/sim/guard.h"
#include "tests/sim/host.h"
#include "tests/sim/model.h"
#include "tests/sim/reserver.h"

struct sim_app;

#define SIM_APP_MOUNTS 2u
#define SIM_APP_EXTENTS 8u
/* Of the largest volume. */
#define SIM_APP_SECTORS 512u

/* What a process owes of a volume (F7). */
struct sim_owed {
	uint64_t wrote, covered; /* acknowledged writes that owe; of them, by a FLUSH that succeeded */
	uint8_t cache_epoch[16]; /* that the last OPEN has shown */
	bool known;		 /* there was one */
	bool cached;		 /* the volume was seen to have a volatile cache */
	bool doubtful;		 /* a write may owe or not: librblk knows when it was answered, an application only hears of it */
};

/* The applications of one process, which has one librblk. */
struct sim_process {
	struct ini_durables durables;
	struct sim_owed owed[SIM_HOST_VOLUMES];
	struct sim_app *apps[2];
	unsigned int app_count;
};

/* A volume that it has open. */
struct sim_mount {
	unsigned int volume; /* index at the host */
	struct rblk_volume *rblk;
	unsigned int life; /* of the volume, when its handle was opened */
	unsigned int own_life; /* what this session wrote since is durable, or FLUSH fails (F7) */
	uint64_t epoch;        /* of the session, when its handle was opened */
	struct sim_opening opening; /* it is, or may be, opened anew since then */
	bool opening_again;
	bool fresh;            /* it is being opened */
	bool lost;             /* it has to know of that before FLUSH succeeds again (F7) */
	uint8_t cache_epoch[16];
	uint64_t known[SIM_APP_SECTORS]; /* what a sector said last, or UINT64_MAX */
	bool cached, can_flush;	/* the volume has a volatile cache; and can flush it */
	uint64_t verified; /* sectors, at the end */
};

/* A command under way; `command` is NULL while the slot is free. */
struct sim_op {
	struct sim_app *app;
	struct sim_mount *mount;
	uint64_t covers; /* FLUSH: of owed->wrote when it began; UINT64_MAX: all, it may be */
	bool covered;	 /* a write under way: such a FLUSH has succeeded meanwhile, or the cache epoch has changed */
	bool aborted;	 /* it has been asked for */
	bool doomed;	 /* a FLUSH that was not answered when acknowledged writes may have been lost */
	struct sim_command *command;
	uint8_t *memory; /* lent; NULL: a command without data */
	unsigned int number;
	uint64_t begun_ns;    /* by its own clock */
	uint64_t began_at_ns; /* by none that goes wrong */
	uint64_t reservation; /* sim_reserver_moment(), when it began */
};

struct sim_app {
	struct sim_actor actor; /* first */
	struct sim_fiber fiber;
	struct sim_guard guard;
	struct sim_host *host;
	struct sim_mount mounts[SIM_APP_MOUNTS];
	unsigned int mount_count;
	struct rblk_options options;
	unsigned int portals; /* of the host that it names; the first may be one that never answers */
	bool silent_portal;
	/* A second target that it names behind the first, and a third one; NULL: none. */
	const struct sim_host *other, *third;
	unsigned int begins; /* at which of them */
	bool named;	   /* the URI has one name, which has the addresses of all these portals */

	/* How it works. */
	struct sim_load load;
	uint32_t ask;	   /* of a million turns: where is data? (EXTENTS) */
	uint32_t callback; /* of a million completions: begins the next command there */
	uint32_t abandon; /* of a million turns: closes the session with commands under way */
	uint32_t compare; /* of a million READs and WRITEs that could be one: is a COMPARE_AND_WRITE */
	uint32_t breaks;  /* of a million turns in which its volume's reservation changes: loses a connection */
	uint32_t abort;	  /* of a million turns and callbacks: aborts a command */
	uint32_t hung_breaks; /* of a million turns while a disk hangs: loses one connection, once */
	uint64_t think_ns;
	bool single; /* a message for each command */
	bool reserved; /* others, or itself, may keep it from its first volume */
	bool steady; /* it writes the first block of its volume, and keeps its session: for a history */

	struct sim_process *process; /* own_process, or another application's */
	struct sim_process own_process;
	struct rblk_session *session;
	uint32_t session_number;
	uint8_t session_id[16]; /* kept while sessions are renewed */
	uint64_t epoch;		/* of session_id; 0: there is none yet */
	struct sim_op ops[SIM_SLOTS];
	unsigned int under_way, completed, op_number;
	struct sim_command *look; /* EXTENTS under way: the model's; or NULL */
	struct rblk_extent extents[SIM_APP_EXTENTS];
	struct sim_reserver reserver; /* of its first volume */
	struct rblk_wire_reservation reserve_asked; /* while `reserving`, as what follows: */
	struct rblk_pr_state reserve_state;
	struct rblk_pr_registrant registrants[SIM_REGISTRANTS];
	uint64_t reserve_serial, reserve_epoch;
	uint32_t reserve_incarnation; /* of queue 0 when it was sent first */
	bool reserving;	   /* RESERVE or RESERVATIONS is under way, a command like others */
	bool refused;	   /* a command was, by a reservation, while it verifies */
	bool registered;   /* its memory is, with the session */
	bool closing;	   /* its session: what is under way is called back */
	bool working;	   /* called back now, it may begin commands */
	unsigned int failures; /* of this session: called back with RBLK_E_IO */
	unsigned int unsure;   /* or with the session's own end */
	bool calm;	   /* faults have stopped: it may verify and finish */
	bool alone;	   /* nobody else uses its volumes */
	bool benign;	   /* there are none at all: no session may be lost */
	bool gone;	   /* a volume is served no more, or not as it was */
	bool finished;
	const char *doing;
};

void sim_app_start(struct sim_app *app, unsigned int machine);
/* It is a thread of the other's process. Both have been started, and have not run yet. */
void sim_app_share(struct sim_app *app, struct sim_app *other);
void sim_app_fini(struct sim_app *app);

/* -- app_extents.c --------------------------------------------------------------------------- */

/* Unless it has asked already, or cannot. It is a command like others until it is called back. */
void sim_app_ask_extents(struct sim_app *app);

/* -- app_reserve.c --------------------------------------------------------------------------- */

/* Now and then, unless it does so already. */
void sim_app_reserve(struct sim_app *app);

/* -- app_compare.c --------------------------------------------------------------------------- */

/* The volume is open: nothing is known of what it holds. */
void sim_mount_forget(struct sim_mount *mount);
/* A command has ended: what does the volume hold now? `data` is a READ's. */
void sim_mount_learn(struct sim_mount *mount, const struct sim_command *command, bool done,
		     const uint8_t *data);
/* Make a COMPARE of a command that could be one, if what its range holds is known. */
void sim_mount_compare(const struct sim_app *app, const struct sim_mount *mount,
		       struct sim_command *command, uint64_t expected[SIM_COMPARE_SECTORS]);

#endif
