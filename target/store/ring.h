/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A reactor's io_uring: its one wait point. Disk I/O is submitted here, and the readiness of the
 * fabric is polled here and other threads' messages come here, so that one system call waits for all of them.
 * Owned and used by its reactor's thread alone. The simulator links a ring of its own in this one's
 * place: stores and reactor reach it only through what is declared here, and through the submission
 * entries that they fill in.
 */
#ifndef RBLK_TARGET_RING_H
#define RBLK_TARGET_RING_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include "target/store/messages.h"

struct tgt_ring;
struct io_uring_sqe;
struct msghdr;

/*
 * Embedded in whatever waits for a completion; stays valid until `complete` has run with the
 * last completion of its request (flags without IORING_CQE_F_MORE).
 */
struct tgt_ring_op {
	void (*complete)(struct tgt_ring_op *op, int result, uint32_t flags);
	struct tgt_ring_op *next; /* the ring's: tgt_ring_retry() */
};

int tgt_ring_create(unsigned int depth, unsigned int max_files, struct tgt_ring **ring);
void tgt_ring_destroy(struct tgt_ring *ring);

/* A submission entry that will complete `op`; NULL: it is full, and the kernel takes nothing now (it submits to make
 * room). The caller preps it at once. Submitted by the reactor at the end of its turn. */
struct io_uring_sqe *tgt_ring_get(struct tgt_ring *ring, struct tgt_ring_op *op);
/*
 * For what was begun and found no entry to go on with, of either half: `complete` is called with TGT_RING_NO_ROOM in a later
 * reap, at most a millisecond later. That was no attempt of the store's, and counts for none.
 */
#define TGT_RING_NO_ROOM INT_MIN /* no errno */
void tgt_ring_retry(struct tgt_ring *ring, struct tgt_ring_op *op);

/* rw_flags of a write that is whole or absent, or refused: RWF_ATOMIC, since Linux 6.11. Headers may be older. */
#define TGT_RWF_ATOMIC 0x40

/* Add fixed buffers, each at most 1 GiB, for the ring's life. Returns the index of the first, the
 * others follow; or negative errno. -ENOMEM: memlock, -ENOSPC: more than TGT_RING_BUFFERS_MAX. */
#define TGT_RING_BUFFERS_MAX 256
int tgt_ring_register_buffers(struct tgt_ring *ring, const struct iovec *iov, unsigned int count);
/*
 * Returns the fixed file's index or negative errno. `blocking`: how many operations of it may be under way at once, any of
 * which blocks a thread of the kernel's (io-wq) if its disk does not answer. The ring may have so many more threads: then
 * operations of a slow file never delay another file's. The kernel makes them when they are needed.
 */
int tgt_ring_register_file(struct tgt_ring *ring, int fd, unsigned int blocking);
void tgt_ring_unregister_file(struct tgt_ring *ring, int index);
/* How many there may be now; 0: the kernel does not say. */
unsigned int tgt_ring_threads(struct tgt_ring *ring);

/*
 * The ring's wide half: a second io_uring whose entries have 128 bytes and whose completions 32, as NVMe passthrough
 * wants them. The first tgt_ring_widen() makes it, and it ends with the ring; it is submitted, reaped and waited for with
 * the ring. A ring without one pays nothing for it but a look a turn. 0 or negative errno; -EINVAL: this kernel has no such
 * entries (Linux 5.19 has).
 */
int tgt_ring_widen(struct tgt_ring *ring);
/* As tgt_ring_get(), of the wide half; all of the entry is zero but what leads back to `op`. */
struct io_uring_sqe *tgt_ring_get_wide(struct tgt_ring *ring, struct tgt_ring_op *op);
/* Fixed files of the wide half; nothing there blocks a thread of the kernel's. */
int tgt_ring_register_wide_file(struct tgt_ring *ring, int fd);
void tgt_ring_unregister_wide_file(struct tgt_ring *ring, int index);
/* Does the wide half have this fixed buffer, too? (Its memory is pinned once more for that.) */
bool tgt_ring_wide_has_buffer(const struct tgt_ring *ring, int index);

/* Wake the ring's thread whenever fd is readable. For the life of the ring. */
int tgt_ring_watch(struct tgt_ring *ring, int fd);

/*
 * Messages, from any thread while something keeps the ring from ending: they are run in a later reap. One tgt_ring_post() follows
 * each tgt_ring_expect(), which keeps the ring. tgt_ring_send() is both.
 */
void tgt_ring_expect(struct tgt_ring *ring);
void tgt_ring_post(struct tgt_ring *ring, struct tgt_message *message);
static inline void tgt_ring_send(struct tgt_ring *ring, struct tgt_message *message)
{
	tgt_ring_expect(ring);
	tgt_ring_post(ring, message);
}
/* Call it before any message is sent: they are run for this reactor, and counted at `messages` from expect until they
 * have run, so that several rings count together. NULL: the ring counts its own. */
void tgt_ring_own(struct tgt_ring *ring, struct tgt_reactor *reactor, _Atomic unsigned int *messages);

/* Submit what was prepared to the kernel: no system call if there is nothing. */
int tgt_ring_submit(struct tgt_ring *ring);
/*
 * sendmsg() with MSG_DONTWAIT and MSG_NOSIGNAL by the next submit or wait; no other entry may be prepared before that.
 * False: the ring cannot send now. After it, tgt_ring_sent() says how many of all the bytes went, or negative errno;
 * -EAGAIN: none.
 */
bool tgt_ring_sendmsg(struct tgt_ring *ring, int fd, const struct msghdr *message);
int tgt_ring_sent(struct tgt_ring *ring, int bytes);
#define TGT_RING_MESSAGES 32u /* a flood of logins leaves room for I/O */
/* Run `complete` of what has completed, at most `budget`, and TGT_RING_MESSAGES messages. Returns how many. A system call only
 * where the kernel says that completions wait for one. */
unsigned int tgt_ring_reap(struct tgt_ring *ring, unsigned int budget);
/*
 * Submit, then sleep until a completion, a message or timeout_ms (-1: no limit). Does not sleep while the kernel takes no
 * entries because completions wait: reap before the next one. 0 or negative errno.
 */
int tgt_ring_wait(struct tgt_ring *ring, int timeout_ms);

/* In flight, watches apart, and messages that are counted together: must be 0 before a file or buffer is removed. */
unsigned int tgt_ring_inflight(const struct tgt_ring *ring);

#endif
