/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The beginning and the end of every program's main(): what a process inherits and must not trust, and
 * whether what it printed has arrived. Not for librblk, whose host program owns all of that. Includes no
 * other room. The thread of main(), before others are made and after they have ended.
 */
#ifndef RBLK_PROTO_PROGRAM_H
#define RBLK_PROTO_PROGRAM_H

/*
 * First of all: opens /dev/null for what of the descriptors 0 to 2 is closed. The next open() would get
 * that number, and a line for standard error would be written into a volume, a copy or a connection.
 * And a write beyond RLIMIT_FSIZE is an error (EFBIG) from then on, not the end of the process. SIGCHLD is not ignored:
 * who waits for a child's end hears of it.
 */
void rblk_program_begin(void);

/* Last of all: the exit status. If what was printed on standard output could not be written, standard error
 * says so, and a `status` of 0 becomes 1. name: the program's. */
int rblk_program_end(const char *name, int status);

#endif
