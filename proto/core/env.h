/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The only source of time, randomness and the machine's id for target/, initiator/ and proto/. A
 * program links one implementation: env_posix.c (the machine's own), or the simulator's (virtual
 * time, one seed). Code that calls clock_gettime(), getrandom(), time() or the like elsewhere
 * escapes the simulator.
 */
#ifndef RBLK_CORE_ENV_H
#define RBLK_CORE_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Monotonic nanoseconds since an arbitrary start. Any thread. */
uint64_t env_now_ns(void);

/* Processor time that the calling thread has used so far, in nanoseconds. A system call. */
uint64_t env_thread_cpu_ns(void);

/*
 * Yield the processor between two polls that found nothing. A thread that never yields keeps the
 * kernel's threads off this processor, although they run what it waits for (software RDMA runs in
 * softirqs); it then waits for a whole time slice. Any thread.
 */
void env_yield(void);

/*
 * How long it takes here until a thread that is woken from another processor runs, in nanoseconds: the lower
 * quartile of some wake-ups. The first call in the process measures it, with a thread of its own, in some milliseconds (20 if
 * that gets no processor); later calls return the same. 0: it could not be measured. Any thread.
 */
uint64_t env_wake_ns(void);

/* Fill with random bytes fit for keys and session ids. Any thread; cannot fail. */
void env_random(void *buffer, size_t bytes);

/*
 * The id of this installation, machine-id(5), as a text. False, and empty: it has none, as a
 * container, or an image that has not been started. A clone has its original's. `root` is put
 * before the path: empty but for tests. Blocks for a file.
 */
#define ENV_MACHINE_ID_BYTES 128
bool env_machine_id(const char *root, char id[ENV_MACHINE_ID_BYTES]);

#endif
