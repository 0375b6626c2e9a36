/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The block commands: a row for each opcode says what is its own in each step of a request's life. request.c, the checks
 * and the limits ask the row; a new command is a row in command.c, and a file if it is more than one operation of its store.
 */
#ifndef RBLK_TARGET_COMMAND_H
#define RBLK_TARGET_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "proto/wire/message.h"
#include "target/store/store.h"

struct tgt_request;

struct tgt_command {
	const char *name; /* in counts; NULL: there is no such command */

	/* Its steps. The reactor's thread. */
	void (*begin)(struct tgt_request *request);		/* checked; request->data: that in its message, or NULL */
	void (*with_memory)(struct tgt_request *request);	/* has the memory that it asked for */
	void (*data_in)(struct tgt_request *request);		/* its data is here, and matches its digest */
	void (*stored)(struct tgt_request *request, int error); /* the store is done with request->io */
	void (*resume)(struct tgt_request *request); /* was put off, and its connection is there */
	/* The store has it: does it look at request->aborted before it goes on? NULL: no. */
	bool (*may_abort)(const struct tgt_request *request);
	/* The bytes that it, or its next piece, costs a limit; NULL: none. */
	uint64_t (*bytes)(const struct tgt_request *request);

	uint16_t needs;	 /* offset in struct tgt_store_info of the bool that the store must have set; 0: none */
	uint8_t refused; /* which of a reservation's refusals is for it: enum tgt_refused */
	uint8_t data;	 /* its segment is so many times as long as its range; 0: as long as it likes, or there is none */
	bool numbered;	 /* F8: it has an operation number */
	bool writes;	 /* changes what a volume holds */
	bool whole;	 /* of the whole volume: it has no range */
	bool discards;	 /* the store bounds its range */
};

/* By opcode. */
extern const struct tgt_command tgt_commands[RBLK_OP_IDENTIFY];

/* -- checksum.c, compare.c, extents.c: the steps of commands that have a file, for their rows ---------------------- */

void tgt_checksum_begin(struct tgt_request *request);
void tgt_checksum_next(struct tgt_request *request); /* with memory; resumed */
void tgt_checksum_stored(struct tgt_request *request, int error);
bool tgt_checksum_may_abort(const struct tgt_request *request);
uint64_t tgt_checksum_piece(const struct tgt_request *request); /* its bytes; 0: there is none */

void tgt_compare_begin(struct tgt_request *request);
void tgt_compare_with_memory(struct tgt_request *request);
void tgt_compare_data_in(struct tgt_request *request);
void tgt_compare_stored(struct tgt_request *request, int error);
bool tgt_compare_may_abort(const struct tgt_request *request);
/* The request, which has a struct tgt_compare, is released. */
void tgt_compare_release(struct tgt_request *request);

void tgt_extents_begin(struct tgt_request *request);
void tgt_extents_with_memory(struct tgt_request *request);
void tgt_extents_stored(struct tgt_request *request, int error);

#endif
