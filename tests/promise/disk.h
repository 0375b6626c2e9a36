/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is tested, as the journal's writer and its checker see it: a volume of a target by its URI,
 * a block device or file (O_DIRECT where it can), or a folder of files. One thread; I/O is started,
 * and its end is told from within wait(). Offsets are in bytes, of all files of a folder together.
 */
#ifndef RBLK_TESTS_PROMISE_DISK_H
#define RBLK_TESTS_PROMISE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct promise_disk;

struct promise_disk_options {
	uint32_t writer; /* of the files of a folder */
	uint32_t depth;
	uint32_t queues;     /* of a session */
	uint32_t give_up_ms; /* of a session; 0: its default */
	uint64_t file_bytes; /* of each file of a folder */
	/* Of a path: a file that takes "1" after a failed flush; NULL: none. */
	const char *acknowledge;
	bool create;	     /* missing files of a folder */
	bool read_only;
};

/*
 * One command ended: error 0 or negative errno. over: it cannot take effect any more. Called from
 * promise_disk_ops.wait() only.
 */
typedef void (*promise_done)(void *arg, int error, bool over);

struct promise_disk_ops {
	/* A buffer for I/O, of `depth`; NULL: errno. They go with the disk. */
	void *(*buffer)(struct promise_disk *disk, size_t bytes);
	/* 0, or a negative errno: it was not begun. */
	int (*write)(struct promise_disk *disk, const void *data, uint32_t bytes, uint64_t offset,
		     bool fua, promise_done done, void *arg);
	int (*flush)(struct promise_disk *disk, promise_done done, void *arg);
	/* A second at most. A negative errno: nothing will work any more, all was told. */
	int (*wait)(struct promise_disk *disk);
	/* Blocking. Bytes that do not exist, such as those behind the end of a file, read as zeroes. */
	int (*read)(struct promise_disk *disk, void *data, uint32_t bytes, uint64_t offset);
	/* A flush has failed and was told: writing goes on. False: it must not. */
	bool (*acknowledge)(struct promise_disk *disk);
	void (*close)(struct promise_disk *disk);
};

struct promise_disk {
	const struct promise_disk_ops *ops;
	uint64_t bytes;	      /* 0: as many as are written */
	uint32_t block_bytes; /* the least that is written */
	uint32_t io_bytes;    /* the most; no write crosses a multiple of it */
	bool can_fua;
	void (*note)(void *arg, const char *text); /* NULL: nobody listens */
	void *note_arg;
};

#define PROMISE_ERROR_BYTES 256
/* where: a URI, a device, a file, a folder. NULL: `error` says why. */
struct promise_disk *promise_disk_open(const char *where,
				       const struct promise_disk_options *options, char *error);
struct promise_disk *
promise_disk_open_rblk(const char *uri, const struct promise_disk_options *options, char *error);
struct promise_disk *
promise_disk_open_path(const char *path, const struct promise_disk_options *options, char *error);

#endif
