/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The journal of one writer: a text file outside of what is tested, a line for each event in the
 *order in which the writer saw them. Each line is appended before what it announces is begun, so
 *that a writer that is killed leaves a usable journal; an unfinished last line counts as not
 *written.
 *
 *	promise 1 writer=W run=R unit=U first=F blocks=N
 *	B TIME                      a life of the writer begins
 *	O TIME                      the volume is open: what earlier lives left in flight is over
 *	W TIME OP BLOCK COUNT FUA   a write of COUNT blocks is about to be sent
 *	A TIME OP                   it was acknowledged
 *	E TIME OP ERRNO OVER        it failed; OVER 0: nobody knows whether it is still under way
 *	F TIME FLUSH                a flush is about to be sent
 *	G TIME FLUSH                it succeeded
 *	H TIME FLUSH ERRNO          it failed
 *	N TIME TEXT                 a note, for readers
 *	X TIME                      the life ended in good order
 */
#ifndef RBLK_TESTS_PROMISE_JOURNAL_H
#define RBLK_TESTS_PROMISE_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

/* Where the writer writes: `blocks` units of `unit` bytes from the unit `first` on. */
struct promise_range {
	uint64_t run, first, blocks;
	uint32_t writer, unit;
};

enum promise_event {
	PROMISE_BEGIN = 'B',
	PROMISE_OPEN = 'O',
	PROMISE_WRITE = 'W',
	PROMISE_ACKNOWLEDGED = 'A',
	PROMISE_FAILED = 'E',
	PROMISE_FLUSH = 'F',
	PROMISE_FLUSHED = 'G',
	PROMISE_FLUSH_FAILED = 'H',
	PROMISE_NOTE = 'N',
	PROMISE_END = 'X',
};

struct promise_record {
	enum promise_event event;
	uint64_t time_ns;
	uint64_t number;  /* of the write or flush */
	uint64_t block;	  /* of a write; from the disk's beginning */
	uint32_t count;	  /* of a write, in blocks */
	bool fua;	  /* of a write */
	bool over;	  /* of a failed write */
	int error;	  /* errno of what failed */
	const char *text; /* of a note */
};

/*
 * The records of a file one by one; the first call, without a record, says that the head is read.
 * `take` returns false, with its reason in `why`, to end with -EPROTO.
 */
#define PROMISE_WHY_BYTES 256
typedef bool (*promise_take)(void *arg, const struct promise_record *record, char *why);
/*
 * Returns the bytes of whole lines, or a negative errno with `why` ("line 7: ..."). *cut: the last
 * line was unfinished.
 */
int64_t promise_journal_read(const char *path, struct promise_range *range, promise_take take,
			     void *arg, bool *cut, char *why);

/* To append to; a new file gets its head line. `keep`: the bytes of whole lines, 0 for a new one.
 * -1: errno. */
int promise_journal_open(const char *path, const struct promise_range *range, int64_t keep);
/* Adds the record's time. Ends the program when the journal cannot be written: nothing can be
 * promised then. */
void promise_journal_append(int journal, struct promise_record *record);

uint64_t promise_now_ns(void);

#endif
