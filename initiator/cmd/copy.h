/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk copy, in four files: copy.c (the verb: options, order of things, what is printed),
 * copy_end.c (a file or a volume to copy from or to, and where it reads as zeroes without being read),
 * copy_run.c (the pipeline between two ends), copy_verify.c (the target's checksums against what was copied).
 */
#ifndef RBLK_CMD_COPY_H
#define RBLK_CMD_COPY_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "initiator/cmd/cmd.h"

#define COPY_UNKNOWN UINT64_MAX /* the length of a pipe */
#define COPY_DEPTH_MAX 256
#define COPY_CHUNK_MAX (16u << 20)
#define COPY_HOLE_MIN (64u << 10) /* a shorter one is copied as data: a command saves no more */
#define COPY_HOLE_MAX (1u << 30)
#define COPY_WAIT_MS \
	200 /* the longest sleep: then check for an interrupt and draw the progress line */

/* A file, a pipe or a volume. Opened by copy_end_open_*(), closed by copy_end_close(). */
struct copy_end {
	const char *name; /* as the user wrote it */
	bool output;
	uint64_t bytes;	      /* COPY_UNKNOWN; of an output file that may grow, too */
	uint32_t block_bytes; /* 1 for a file */
	int fd;		      /* -1 for a volume */
	bool seekable;
	bool regular;		      /* a file with holes, whose length is set */
	bool standard;		      /* standard input or output */
	bool created;		      /* by this copy, which has written nothing yet: a refusal removes it */
	struct copy_holes *holes;     /* NULL: not known where they are */
	struct rblk_session *session; /* NULL for a file */
	struct rblk_volume *volume;
	const struct rblk_volume_info *info;
};

/* One chunk's buffer on its way. See copy_run.c for who moves it on. */
enum copy_slot_state {
	COPY_SLOT_FREE,
	COPY_SLOT_READING, /* the library has the buffer; the callback makes it READ */
	COPY_SLOT_READ,	   /* waits for its turn to be written: in order */
	COPY_SLOT_WRITING, /* the library has the buffer; the callback makes it FREE */
};

struct copy_slot {
	struct copy *copy;
	enum copy_slot_state state;
	uint8_t *data;
	uint64_t offset;
	bool zero;	      /* a hole of the source: there is nothing in `data` */
	uint32_t bytes;	      /* of the source's data */
	uint32_t write_bytes; /* in the destination's blocks */
};

/* The copied data, chunk by chunk in order and without gaps. */
struct copy_chunk {
	uint32_t crc;	/* of the bytes that CHECKSUM will look at */
	uint32_t bytes; /* of them */
	bool zero;
};

struct copy_range {
	uint64_t offset, bytes;
};

/* One run of the verb; owned by copy.c, on one thread. */
struct copy {
	struct copy_end source, destination;
	uint64_t total; /* COPY_UNKNOWN until a pipe ends */
	uint32_t chunk_bytes;
	uint32_t block_bytes; /* the larger of the ends' */
	uint32_t hole_bytes;  /* the most of a hole at a time; 0: holes are data */
	uint32_t depth;
	bool sparse, quiet;

	struct copy_slot *slots; /* depth of them */
	void *memory;		 /* all their data, registered with the ends' sessions */
	size_t memory_bytes;
	struct copy_chunk *chunks;
	size_t chunk_count, chunk_room;
	struct copy_range *differences; /* copy_verify(): in order, none touches the next */
	size_t difference_count;

	uint64_t next_offset; /* to be read */
	uint32_t filled;      /* bytes of the chunk that a pipe is being read into */
	bool starved;	      /* the pipe is empty now: wait for it, too */
	uint64_t read_index,
		write_index; /* the next slot to be filled, to be written: modulo depth */
	uint64_t done_bytes, zeroed_bytes;
	unsigned int outstanding; /* commands whose callback has not come */
	bool ended;		  /* the source has no more */
	int error;		  /* first failure; its message is printed already */
};

/* -- copy_end.c -------------------------------------------------------------------------------- */

/* Each prints its error. 0 or negative errno. */
int copy_end_open_volume(struct copy_end *end, const char *uri, bool output,
			 const struct cmd_connect *connect, uint32_t depth);
int copy_end_open_source(struct copy_end *end, const char *path);
int copy_end_open_destination(struct copy_end *end, const char *path);
/* All checks are done: what the output had goes. Prints its error. 0 or negative errno. */
int copy_end_clear(struct copy_end *end);
/* Makes an output durable, where it can be. */
int copy_end_sync(struct copy_end *end, uint64_t bytes);
int copy_end_close(struct copy_end *end);
/* Whole, but for the end of the file: how many bytes there were, or negative errno. */
int64_t copy_end_read_file(struct copy_end *end, void *data, uint32_t bytes, uint64_t offset);
/*
 * Reads the data that a pipe has now, at most `bytes`: how many, 0 at its end, -EAGAIN if there is
 * nothing yet.
 */
int64_t copy_end_read_pipe(struct copy_end *end, void *data, uint32_t bytes);
int copy_end_write_file(struct copy_end *end, const void *data, uint32_t bytes, uint64_t offset);

/* If this end can tell. 0 or negative errno, after an error message. */
int copy_holes_init(struct copy_end *end);
void copy_holes_fini(struct copy_end *end);
/* Tells whether there is data or a hole at `offset`, and up to where, `limit` at the most. Not known: data. */
void copy_holes_at(struct copy_end *end, uint64_t offset, uint64_t limit, uint64_t *to, bool *zero);
/* Ask again from here on: the end may have changed. */
void copy_holes_forget(struct copy_end *end);
/* How long the next chunk is, of a source that ends at `most`; zero: it is a hole. */
uint32_t copy_holes_next(struct copy *copy, uint64_t most, bool *zero);

/* -- copy_run.c -------------------------------------------------------------------------------- */

extern volatile sig_atomic_t copy_interrupted; /* set by SIGINT and SIGTERM */

/* Buffers and chunk list. */
int copy_init(struct copy *copy);
void copy_fini(struct copy *copy); /* no command is outstanding, or its session is closed */
/* Copies all, or up to the first error or interrupt; nothing is outstanding afterwards. */
int copy_run(struct copy *copy);
/* Submit, call back what has completed, sleep at most COPY_WAIT_MS for it. 0 or negative errno. */
int copy_wait(struct copy *copy);
/* Keep the first error and print it. */
void copy_fail(struct copy *copy, const struct copy_end *end, const char *what, uint64_t offset,
	       int error);

/* -- copy_verify.c ----------------------------------------------------------------------------- */

/* The volume whose checksums are compared: the destination's, else the source's. */
struct copy_end *copy_verify_end(struct copy *copy);
/* Compare. Returns how many ranges differ, or negative errno. */
int64_t copy_verify(struct copy *copy);
/* The CRC of all that CHECKSUM looked at. */
uint32_t copy_verify_crc(const struct copy *copy, uint64_t *bytes);

#endif
