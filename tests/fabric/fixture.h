/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What every conformance case needs: two fabs of one kind in one process, a connection between
 * them, registered memory at both ends, and the waiting for conditions. One thread steps both ends
 * unless a case says otherwise. A failed CHECK ends the case, not the program.
 */
#ifndef RBLK_TESTS_FABRIC_FIXTURE_H
#define RBLK_TESTS_FABRIC_FIXTURE_H

#include "proto/fabric/fabric.h"

#define FX_MEMORY_BYTES (4u << 20)
#define FX_WCS_MAX 8192
#define FX_CONNS_MAX 64
#define FX_WAIT_MS 30000 /* for a condition that is expected at once; slow machines included */

/* The kind and address of this run of the program. */
struct fx_target {
	enum fab_kind kind;
	struct sockaddr_storage addr;
	char text[64];
	struct fab_limits limits; /* of the device that the address leads to */
};
extern struct fx_target fx_target;

/* One end: a fab, its current connection, and all events that it got. */
struct fx_end {
	const char *name;
	struct fab *fab;
	struct fab_conn *conn;
	unsigned char *memory;	       /* FX_MEMORY_BYTES, page aligned */
	struct fab_mr *mr;	       /* of all of it, all rights */
	struct ibv_wc wcs[FX_WCS_MAX]; /* polled and not yet taken by the case */
	int wc_count;
	uint32_t recv_posts; /* by prepare or accept: receives of recv_bytes each from offset 0 */
	uint32_t recv_bytes;
	int prepare_result;
	int prepare_calls;
	/* Events by type: how often, and what the last one said. */
	int events[16];
	int status;
	unsigned char private_data[256];
	size_t private_bytes;
	struct fab_request *request;
	const struct fab_conn *drained[FX_CONNS_MAX]; /* not yet destroyed */
	int drained_count;
	struct fab_job *jobs[FX_CONNS_MAX]; /* that the fab gave to a helper: they end with the next step */
	int job_count;
};

struct fx {
	struct fx_end a; /* connects */
	struct fx_end b; /* listens */
	struct fab_listener *listener;
	struct sockaddr_storage addr;	      /* the listener's */
	struct fab_options options;	      /* of both fabs */
	struct fab_conn_options conn_options; /* of both ends */
};

/* -- checks ----------------------------------------------------------------------------------- */

/* The current row's name, for messages of failures. Reset after each case. */
void fx_about(const char *what);
void fx_fail(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4), noreturn));
#define CHECK(condition)                                               \
	do {                                                           \
		if (!(condition))                                      \
			fx_fail(__FILE__, __LINE__, "%s", #condition); \
	} while (0)
#define CHECK_EQ(a, b)                                                                         \
	do {                                                                                   \
		long long fx_a = (long long)(a), fx_b = (long long)(b);                        \
		if (fx_a != fx_b)                                                              \
			fx_fail(__FILE__, __LINE__, "%s is %lld, not %s = %lld", #a, fx_a, #b, \
				fx_b);                                                         \
	} while (0)

/* Step both ends until the condition holds; fail with its text after FX_WAIT_MS. */
#define WAIT(fx, condition)                                                                       \
	do {                                                                                      \
		uint64_t fx_end_ns = fx_deadline_ns();                                            \
		while (!(condition)) {                                                            \
			fx_step(fx);                                                              \
			if (fx_past(fx_end_ns))                                                   \
				fx_fail(__FILE__, __LINE__, "timed out waiting for %s", #condition); \
		}                                                                                 \
	} while (0)
/* Waits for the data of a completed RDMA WRITE: without acknowledgements it may still be in
 * flight. */
#define CHECK_WRITTEN(fx, condition)               \
	do {                                       \
		if (fx_target.limits.acknowledged) \
			CHECK(condition);          \
		else                               \
			WAIT(fx, condition);       \
	} while (0)
uint64_t fx_deadline_ns(void);
bool fx_past(uint64_t deadline_ns);

/* -- ends and connections --------------------------------------------------------------------- */

/* With options as they are in fx; zeroed ones get defaults. Listener on an ephemeral port. */
void fx_open(struct fx *fx);
void fx_close(struct fx *fx); /* also closes, drains and destroys an existing connection */
void fx_end_open(struct fx_end *end, const char *name, const struct fab_options *options);
void fx_end_close(struct fx_end *end);

void fx_step(struct fx *fx);
void fx_end_step(struct fx_end *end);

/* Begin to connect from a; ESTABLISHED at both ends when fx_connect() returns. */
void fx_connect_begin(struct fx *fx);
void fx_connect(struct fx *fx);
/* fx_open() and fx_connect() in one. */
void fx_open_connected(struct fx *fx);
/* Close both ends, wait for DRAINED, destroy. */
void fx_disconnect(struct fx *fx);
void fx_drain(struct fx *fx, struct fx_end *end);

/* -- work requests ---------------------------------------------------------------------------- */

struct ibv_sge fx_sge(const struct fx_end *end, size_t offset, uint32_t bytes);
uint32_t fx_rkey(const struct fx_end *end, const struct fab_mr *mr);
uint64_t fx_address(const struct fx_end *end, size_t offset);
void fx_post_recv(struct fx_end *end, uint64_t wr_id, size_t offset, uint32_t bytes);
int fx_try_recv(struct fx_end *end, uint64_t wr_id, size_t offset, uint32_t bytes);
void fx_post(struct fx_end *end, struct ibv_send_wr *wr);
/* The device has no such work request: posting it fails, and the connection goes on. */
void fx_post_unsupported(struct fx *fx, struct ibv_send_wr *wr);
/* A signalled work request of one segment; `flags` are more IBV_SEND_*. */
void fx_post_send(struct fx_end *end, uint64_t wr_id, size_t offset, uint32_t bytes,
		  unsigned int flags);
void fx_post_rdma(struct fx_end *end, uint64_t wr_id, enum ibv_wr_opcode opcode, size_t offset,
		  uint32_t bytes, uint64_t remote, uint32_t rkey, unsigned int flags);

/* The oldest completion of an end; waits for it. Checks that it is a success with this wr_id. */
struct ibv_wc fx_wc(struct fx *fx, struct fx_end *end);
struct ibv_wc fx_wc_ok(struct fx *fx, struct fx_end *end, uint64_t wr_id);
/* Its status must be this one. */
void fx_wc_status(struct fx *fx, struct fx_end *end, uint64_t wr_id, enum ibv_wc_status status);
/* Its status must be `status`, or on a device one of `others`, bits 1 << enum ibv_wc_status. */
void fx_wc_failed(struct fx *fx, struct fx_end *end, uint64_t wr_id, enum ibv_wc_status status,
		  unsigned int others);

/* Bytes that depend on position and seed, so that a shifted or stale copy is seen. */
void fx_fill(unsigned char *data, size_t bytes, uint32_t seed);
bool fx_filled(const unsigned char *data, size_t bytes, uint32_t seed);
uint32_t fx_random(void); /* of a fixed seed per case */

/* -- cases ------------------------------------------------------------------------------------ */

struct fx_case {
	const char *name;
	void (*run)(void);
	unsigned int kinds; /* bits 1 << enum fab_kind, 0: all */
};
/* What the program runs, in this order; NULL ends it. */
extern const struct fx_case *const fx_tables[];

#endif
