/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What every sector of every volume may hold at any time, from what applications have asked for and
 * been told, and from what the simulator has done to processes and machines. Applications report
 * the beginning and the end of their commands; what a READ brings is checked here.
 *
 * A write is a candidate for each of its sectors from its beginning on. It stops being one when
 * another, begun after its end, has succeeded; or when a READ that began after its end has seen
 * something else. A crash that loses the disk's cache brings back every candidate that was not
 * succeeded by a durable one: by FUA, or by a FLUSH begun after its end. So does a flush of the disk
 * that fails. Then the volume has another life, and only a FLUSH by a handle that was opened in the
 * life in which a write was acknowledged, or before, says that this write is durable (F7).
 */
#ifndef RBLK_TESTS_SIM_MODEL_H
#define RBLK_TESTS_SIM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_volume;

/* The most that a COMPARE has. */
#define SIM_COMPARE_SECTORS 32u

enum sim_command_kind {
	SIM_COMMAND_READ,
	SIM_COMMAND_WRITE,
	SIM_COMMAND_ZEROES,
	SIM_COMMAND_DISCARD,
	SIM_COMMAND_FLUSH,
	SIM_COMMAND_COMPARE, /* COMPARE_AND_WRITE */
	SIM_COMMAND_KINDS
};

/* A command of an application; its own until it is reported as begun, then the model's. */
struct sim_command {
	enum sim_command_kind kind;
	struct sim_volume *volume;
	uint32_t session; /* by which it went */
	unsigned int life; /* FLUSH: of the volume when its handle was opened (F7) */
	unsigned int own_life; /* FLUSH: the session has had it open since, with no loss that it knows of */
	bool resent;	  /* until it is answered, even to its target's successor */
	bool unseen;	  /* nobody says when: it may be whenever the session has a new connection */
	bool fua;
	bool untorn; /* WRITE: a loss of power leaves all of it or nothing */
	uint64_t sector, sectors;
	uint64_t id;		  /* of a WRITE or COMPARE: what its sectors say */
	const uint64_t *expected; /* COMPARE: the id that each sector should have; copied, too */
	/* The model's: numbers of reports; end is UINT64_MAX until nothing can happen later. */
	uint64_t begin, end;
};

enum sim_outcome {
	SIM_OUTCOME_DONE,
	SIM_OUTCOME_FAILED,  /* answered: may have been done in part, and is over */
	SIM_OUTCOME_NOTHING, /* answered: nothing was done */
	SIM_OUTCOME_LOST,    /* not answered: may be done, even later */
};

/* -- command.c: what is the same for all who ask ------------------------------------------- */

/* In this world a third of the commands has priority; not by chance, so that others' histories stay what they are. */
void sim_commands_prioritise(bool some);
bool sim_sector_priority(uint64_t sector);
const char *sim_command_kind_name(enum sim_command_kind kind);
/* As what follows the kind's name in a sentence. */
const char *sim_outcome_name(enum sim_outcome outcome);
/* A WRITE gets its id, and its data by it. */
void sim_command_fill(struct sim_command *write, uint8_t *data);
/* What a COMPARE, which has an id, expects, and behind it what it writes. */
void sim_compare_fill(const struct sim_command *compare, uint8_t *data);

/* What somebody asks for. */
struct sim_load {
	unsigned int ops_left, depth;			   /* commands; at most so many at a time */
	uint32_t flush, fua, zeroes, discard, read, large; /* of a million */
};
/* What a volume has. */
struct sim_scope {
	uint64_t block_bytes, blocks, max_bytes; /* of a command */
	bool flush, fua, zeroes, discard;
};
/* Any command, on a range that is often the same few blocks. */
struct sim_command sim_load_choose(const struct sim_load *load, const struct sim_scope *scope);

/* -- commands, as they are reported -------------------------------------------------------- */

void sim_model_reset(void);
/* A volume in memory takes NVMe/TCP's bytes as they come: a sector that is written while it is read, or twice at a
 * time, may be a mixture. */
void sim_model_tears(struct sim_volume *volume);
/* At the end of a seed: frees everything. */
void sim_model_fini(void);

struct sim_volume *sim_volume_create(const char *name, uint64_t sectors, bool durable);
const char *sim_volume_name(const struct sim_volume *volume);

/* Of this moment: everything that is reported has one, in order. */
uint64_t sim_model_number(void);
/* For the next WRITE: no other has it. */
uint64_t sim_model_id(void);
/* What a WRITE's data is; what of the data of a READ is wrong is said by sim_model_end(). */
void sim_sector_fill(uint8_t *sector, uint64_t id, uint64_t number);
/* It is what some WRITE has for this sector. */
bool sim_sector_is_whole(const uint8_t *sector, uint64_t number);

/* `command` is copied. Returns the model's own, valid until sim_model_end(). */
struct sim_command *sim_model_begin(const struct sim_command *command);
/* It is sent; what an earlier attempt may have been is over (F5). repeated: there may have been one,
 * and that one may have been done. */
void sim_model_again(struct sim_command *command, bool repeated);
void sim_model_end(struct sim_command *command, enum sim_outcome outcome, const uint8_t *data);

/* COMPARE was answered: the byte at `offset` of its range was not as expected, the first that was
 * not. It ends with SIM_OUTCOME_NOTHING. */
void sim_model_differs(struct sim_command *command, uint64_t offset);
/* The disk begins to store, and has stored, sectors that begin with `data`. */
void sim_compare_stores(const uint8_t *data, uint64_t sector);
void sim_compare_stored(const uint8_t *data, uint64_t sector, uint64_t sectors);

/* EXTENTS is asked: a READ of nothing, as which it ends. */
struct sim_command *sim_model_look(struct sim_volume *volume);
/* Its answer calls these zero: each of them must have been, or become, since it was asked. */
void sim_model_zeroes(const struct sim_command *look, uint64_t sector, uint64_t sectors);

/* How long an answer says that its command has waited for memory and its data (C6). */
void sim_model_waited(const char *who, uint64_t queued_us);

/* -- sessions: when is what was lost over? ------------------------------------------------- */

/*
 * The target has a connection of the session; has none any more, and says that it is fenced (F5).
 */
void sim_model_conn_made(uint32_t session);
void sim_model_conn_gone(uint32_t session, bool killed);
/* The target has one that is not gone. */
bool sim_model_has_conns(uint32_t session);
/* A connection has ended at the target: it has closed it, or its machine knows. Storage I/O may be
 * left. Once for each. */
void sim_model_conn_ended(uint32_t session);
/* The session may send commands to this volume. Its own that were called back as lost are over (F5). */
void sim_model_goes_on(uint32_t session, struct sim_volume *volume);
/* A process has (again) opened the volume's disk: its predecessor's I/O is over (F6). */
void sim_model_served(struct sim_volume *volume);

/* -- crashes ------------------------------------------------------------------------------- */

/* What the disk has when the power is back: untorn WRITEs are whole or absent, but where others have written since. */
struct sim_disk;
void sim_model_untorn(const struct sim_volume *volume, const struct sim_disk *disk);
/* The cache is lost; for a volume in memory everything. */
void sim_model_crash(struct sim_volume *volume);
/* From here on it has no volatile cache: what is acknowledged outlives a crash. Or it has one. */
void sim_model_keeps(struct sim_volume *volume, bool keeps);
/*
 * A flush of the disk has failed, and what it should have written may be lost. From when the target
 * knows, it reports another cache epoch, and no FLUSH succeeds by a handle from before. A process
 * that died (alive: false) before it was told could not say it to anyone, nor can its successor.
 */
void sim_model_lost(struct sim_volume *volume);
void sim_model_told(struct sim_volume *volume, bool alive);
/* A process opens the disk that cannot know whether something was lost before: it reports another cache epoch. */
void sim_model_doubted(struct sim_volume *volume);
/* What an OPEN is held to, as of when it is sent. */
struct sim_opening {
	struct sim_volume *volume;
	unsigned int life; /* of the volume: its cache epoch is that life's (F7) */
	uint64_t since;	   /* connections that ended before have left nothing (section 8) */
};
struct sim_opening sim_model_opening(struct sim_volume *volume);
/* It has succeeded, for writing, and reports this cache epoch. Returns the life of which the handle
 * is; the later one, where it can be one or the other. */
unsigned int sim_model_opened(const struct sim_opening *opening, const uint8_t epoch[16]);

#endif
