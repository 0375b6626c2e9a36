/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The inside of the model, for model.c, model_compare.c, model_life.c and model_session.c.
 */
#ifndef RBLK_TESTS_SIM_MODEL_IMPL_H
#define RBLK_TESTS_SIM_MODEL_IMPL_H

#include <sys/queue.h>
#include "tests/sim/model.h"

#define SIM_NEVER UINT64_MAX
#define SIM_EPOCHS_MAX 64u
#define SIM_ID_ZERO 0u /* what was never written, or zeroed */
#define SIM_ID_ANYTHING UINT64_MAX /* discarded */

/* A command that the model remembers: until no candidate refers to it and it is over. */
struct model_command {
	struct sim_command command;	 /* first */
	TAILQ_ENTRY(model_command) link; /* volume->commands: not ended for sure */
	unsigned int refs;
	bool lost;	   /* its session is, unanswered */
	bool repeated;	   /* sent more than once: done twice, it may be, with others in between */
	bool process_lost; /* its target was killed, and has no successor yet */
	uint64_t over;	   /* 0, or since when nothing more can come of it */
	unsigned int acked_life; /* of the volume, when it succeeded */
	uint64_t *expected;	 /* COMPARE: an id for each sector; else NULL */
};

/* One possible content of a sector. */
struct candidate {
	struct model_command
		*write; /* counted; NULL: it was there at the beginning, or after a crash */
	uint64_t since; /* of the latter */
	uint64_t id;
	uint64_t dead, buried;
	bool succeeded; /* and no crash since: a FLUSH makes it durable */
	bool replaced;	/* by a COMPARE_AND_WRITE that found it, and no loss since */
	uint64_t found_written; /* of a COMPARE_AND_WRITE: when what it found was; SIM_NEVER:
				   unknown */
};

/* All of a sector. */
struct contents {
	struct candidate *first;
	uint32_t count, room;
	/* The first of them, which were dead before all that is under way: only a loss brings them back. Whoever looks at
	 * these, too, sets it to 0 before. */
	uint32_t settled;
	bool compared; /* there is, or was, one of a COMPARE_AND_WRITE */
};
#define SIM_CONTENTS_FOREACH(c, contents)                                                                 \
	for ((c) = (contents)->first + (contents)->settled; (c) < (contents)->first + (contents)->count; (c)++)

struct epoch {
	uint8_t value[16];
	unsigned int life;
};

struct sim_volume {
	char name[32];
	uint64_t sectors;
	bool durable; /* a disk; else the process's memory */
	bool tears;   /* what is done to a sector at a time may be mixed */
	bool keeps;   /* without a volatile cache */
	struct contents *contents; /* per sector */
	TAILQ_HEAD(, model_command) commands;
	unsigned int life; /* counts the losses of the cache, as far as targets were told, or could not know */
	uint64_t crashed;  /* the last of them with its machine or process */
	uint64_t lost;	   /* when a failed flush has last lost something */
	uint64_t told;	   /* when the target learnt of the last by a failed flush: */
	unsigned int told_life; /* the life that began then */
	struct epoch epochs[SIM_EPOCHS_MAX];
	unsigned int epoch_count;
	struct sim_volume *next;
};

static inline uint64_t sim_candidate_begin(const struct candidate *candidate)
{
	return candidate->write ? candidate->write->command.begin : candidate->since;
}

static inline uint64_t sim_candidate_end(const struct candidate *candidate)
{
	return candidate->write ? candidate->write->command.end : candidate->since;
}

/* Numbers a report. */
uint64_t sim_model_now(void);
/* A possible content from now on. */
void sim_candidate_add(struct sim_volume *volume, uint64_t sector, struct model_command *write,
		       uint64_t id);
/* For traces, before it fails. */
void sim_sector_explain(const struct sim_volume *volume, uint64_t sector);
bool sim_command_writes(const struct sim_command *command);
/* Nothing more can come of it. It is freed when no candidate refers to it. */
void sim_model_over(struct model_command *command);
/* The first of all. */
struct sim_volume *sim_model_volumes(void);

/* -- model_session.c ------------------------------------------------------------------------ */

void sim_sessions_reset(void);
/* An OPEN that was sent at `since` has succeeded: what had ended by then has left nothing. */
void sim_model_inherited(struct sim_volume *volume, uint64_t since);

/* -- model_compare.c ------------------------------------------------------------------------ */

void sim_compare_reset(void);
void sim_compare_began(struct model_command *command, const uint64_t *expected);
/* It succeeds: could it find what it expected? */
void sim_compare_found(const struct model_command *command);
/* And nothing was lost meanwhile: what it found is replaced. Before sim_compare_order(). */
void sim_compare_succeeded(const struct model_command *command);
/* A write, or a COMPARE, has succeeded: what came before what in this sector of it? */
void sim_compare_order(struct sim_volume *volume, uint64_t sector, uint64_t now);

#endif
