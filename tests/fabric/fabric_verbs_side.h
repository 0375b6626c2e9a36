/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One end of a connection in a test of two threads: a fab, at most one connection, and waiting for
 * events, by polling or asleep. One thread owns each side. A check that fails ends the program with
 * the line and the fab's last error. A side with an SRQ has its queue pairs made and destroyed by a thread.
 */
#ifndef RBLK_TESTS_FABRIC_VERBS_SIDE_H
#define RBLK_TESTS_FABRIC_VERBS_SIDE_H

#include "proto/fabric/fabric.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                        \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "FAILED: %s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                                \
		}                                                                               \
	} while (0)

#define SIDE_WAIT_MS 30000 /* for any condition; a hang fails the test */
#define SIDE_WCS 64
#define SIDE_JOBS 8

/* Takes the fab's long jobs, one after the other. */
struct side_helper {
	pthread_t thread;
	pthread_mutex_t mutex; /* of what follows */
	pthread_cond_t wake;
	struct fab_job *waiting[SIDE_JOBS], *done[SIDE_JOBS];
	int waiting_count, done_count;
	bool ends;
	int fd; /* readable when there is one done */
};

struct side {
	struct fab *fab;
	struct side_helper *helper; /* with an SRQ; else NULL */
	struct fab_conn *conn;
	bool sleep;	   /* wait by fab_arm() and poll(2) */
	uint64_t sleeps;   /* times it did */
	unsigned int seen; /* events of conn, 1 << type */
	int status;	   /* of the last event */
	char words[FAB_ERROR_BYTES];
	struct fab_request *request;
	uint8_t private_data[256];
	size_t private_bytes;
	struct ibv_wc wc[SIDE_WCS]; /* completions not yet taken */
	int first, count;
};

void side_open(struct side *side, enum fab_kind kind, uint32_t srq_depth);
void side_close(struct side *side);

/* What each round does with the jobs that the helper has done; for rounds of a test's own. True: there were some. */
bool side_end_jobs(struct side *side);

/* Wait for one more event of this type; completions that come meanwhile are kept. */
void side_await(struct side *side, enum fab_event_type type);
/* The next completion, kept or new. */
struct ibv_wc side_completion(struct side *side);
/* The same unless an event of this type was seen before one came: then false. */
bool side_completion_before(struct side *side, enum fab_event_type type, struct ibv_wc *wc);
/* The limits of the connection's device. */
const struct fab_limits *side_limits(const struct side *side);
/* Close and destroy the connection; returns how many flushed completions came. */
unsigned int side_drop(struct side *side);

/* One 0- or 1-segment SEND or receive. mr NULL: no segment. */
int side_send(struct side *side, uint64_t wr_id, struct fab_mr *mr, void *addr, uint32_t bytes);
int side_recv(struct side *side, uint64_t wr_id, struct fab_mr *mr, void *addr, uint32_t bytes);

#endif
