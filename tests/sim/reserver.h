/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who registers with a volume and reserves it, one thing at a time: what it asks for next, and what
 * its answers must be. Raw initiators (raw_reserve.c), applications (app_reserve.c) and the
 * module's user (module_reserve.c) are such, each with its own way to the target.
 */
#ifndef RBLK_TESTS_SIM_RESERVER_H
#define RBLK_TESTS_SIM_RESERVER_H

#include "tests/sim/host.h"
#include "tests/sim/model.h"

struct sim_reserver {
	const char *name; /* as which it is registered */
	unsigned int machine;
	struct sim_host *host;
	unsigned int volume;
	/* How it works. */
	uint32_t often; /* of a million turns: it changes the reservation; 0: it does not */
	bool preempts;	/* those who hold it, above all */
	bool persists;	/* it may ask for that */

	uint64_t key;  /* that it has registered, as far as it knows */
	bool refused;  /* its last RESERVE was */
	bool calm;     /* faults have stopped: it unregisters */
	bool released; /* and has done so */
	uint64_t not_before_ns, begun_ns; /* the one that is under way */
};

/* Is it time for another one? */
bool sim_reserver_wants(const struct sim_reserver *reserver);
/* Ask who is registered, rather than change it. */
bool sim_reserver_looks(const struct sim_reserver *reserver);
/* What it asks for; it counts as sent from here on. */
void sim_reserver_begin(struct sim_reserver *reserver, struct rblk_wire_reservation *asked);
/* It has ended, or has not begun: it waits a little. */
void sim_reserver_pause(struct sim_reserver *reserver);
/* retried: an earlier attempt may have been done. */
void sim_reserver_answered(struct sim_reserver *reserver, const struct rblk_wire_reservation *asked,
			   bool retried, uint16_t status);
/* Nobody will hear what became of it. session: may it still be done by its connections (0: no)? */
void sim_reserver_lost(struct sim_reserver *reserver, const struct rblk_wire_reservation *asked,
		       uint32_t session);
/* Its answer, of a report that was asked for at `serial`. */
void sim_reserver_reported(const struct sim_reserver *reserver, uint64_t serial,
			   const struct rblk_wire_reservation_report *report);

/*
 * A command of `name` begins: what sim_reserver_judge() needs. It was answered with `status`: as
 * the reservation has it?
 */
uint64_t sim_reserver_moment(const struct sim_host *host, unsigned int volume);
void sim_reserver_judge(const struct sim_host *host, unsigned int volume, uint64_t moment,
			const char *name, unsigned int number, enum sim_command_kind kind,
			uint16_t status);
/*
 * May what was begun then be answered by a gateway that the others have shut out, and that has not heard of it? It
 * knows nothing of what they have made of the reservation since, and nothing that it does has an effect.
 */
bool sim_reserver_is_stale(const struct sim_host *host, uint64_t begun_ns);

#endif
