/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Faults on request, for users' own tests: a Unix socket that gets one datagram with one line from
 * `rblk fault` and answers with one. Only if fault_socket is set. Control thread.
 */
#ifndef RBLK_TARGET_FAULTS_H
#define RBLK_TARGET_FAULTS_H

struct tgt_faults;
struct tgt_reactor;
struct tgt_registry;

/* The reactors outlive it. 0, or negative errno and error (TGT_ERROR_BYTES). */
int tgt_faults_create(const char *path, struct tgt_registry *registry,
		      struct tgt_reactor **reactors, unsigned int reactor_count,
		      struct tgt_faults **faults, char *error);
/* NULL: -1, which poll() ignores. */
int tgt_faults_fd(const struct tgt_faults *faults);
/* Carries out the requests that have come. Does not wait. NULL: no effect. */
void tgt_faults_step(struct tgt_faults *faults);
/* NULL: no effect. */
void tgt_faults_destroy(struct tgt_faults *faults);

#endif
