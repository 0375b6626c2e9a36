/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NVMe/TCP: a queue of an NVMe host as a connection of fabric_tcp, whose framing this is. tcp.c makes and ends it,
 * receive.c has the host's PDUs, send.c makes PDUs of work requests. The fab's thread, but for greet.c: requests are
 * the listener's until they are accepted.
 */
#ifndef RBLK_TARGET_NVME_TCP_H
#define RBLK_TARGET_NVME_TCP_H

#include "proto/fabric/fabric_tcp_conn.h"
#include "proto/fabric/fabric_tcp_listen.h"
#include "target/nvme/queue.h"

#define NVME_DATA_BYTES (1u << 20) /* of one H2C data PDU */
/* Answers with data that wait to be sent: then nothing more is received. */
#define NVME_HELD_BYTES (256u << 10)
/* A transfer's tag: an index in the send queue, or, if its data comes here, a slot's number with this bit. */
#define NVME_TRANSFER_OWNED 0x8000u

/* -- sending ------------------------------------------------------------------------------------- */

#define NVME_SEGMENTS 64u	/* a power of two */
#define NVME_SEGMENT_BYTES 240u /* headers: eight responses, with digests */

/* Bytes on their way out. */
struct nvme_segment {
	uint8_t head[NVME_SEGMENT_BYTES], digest[NVME_DIGEST_BYTES];
	uint32_t head_bytes;
	uint32_t data_bytes;
	uint32_t digest_bytes; /* behind the data */
	const uint8_t *data; /* registered memory, which stays until the work request has completed */
	void *owned;	     /* or this, to be freed */
	bool completes;	     /* the work request of that number, and all before it: */
	uint32_t sequence;
};

struct nvme_send {
	struct nvme_segment segments[NVME_SEGMENTS];
	uint32_t head, tail; /* run freely */
	uint64_t sent;	     /* of the first */
	uint32_t held_bytes; /* of all `owned` */
	bool last;	     /* the connection ends when all has been sent */
};

/* -- receiving ----------------------------------------------------------------------------------- */

/* Where the data of the PDU at hand goes. */
enum nvme_sink {
	NVME_SINK_NONE,
	NVME_SINK_POSTED, /* the receive that its command will have */
	NVME_SINK_OWNED,  /* slot->data */
	NVME_SINK_READ,	  /* the READ that it answers */
};

struct nvme_tcp {
	struct tcp_conn *conn;

	/* The PDU at hand. */
	enum nvme_sink sink;
	struct nvme_slot *slot; /* its command; NULL: none yet */
	uint16_t refused;	/* a status */
	uint32_t bytes;		/* of its data; behind them: */
	__le32 digest;
	uint32_t read;		/* NVME_SINK_READ: index in the send queue */
	uint32_t offset;	/* NVME_SINK_OWNED, NVME_SINK_READ: of the data */
	struct nvme_send send;
};

/* The connection has been accepted. */
static inline struct nvme_queue *nvme_queue_of(const struct tcp_conn *conn)
{
	return conn->state_of_framing;
}

static inline uint32_t nvme_header_digest_bytes(const struct nvme_hello *hello)
{
	return hello->digests & NVME_DIGEST_HEADER ? NVME_DIGEST_BYTES : 0;
}

static inline struct nvme_pdu_term nvme_term_pdu(enum nvme_fatal fatal, uint32_t field)
{
	return (struct nvme_pdu_term){
		.pdu = {.type = NVME_PDU_C2H_TERM,
			.header_bytes = sizeof(struct nvme_pdu_term),
			.bytes = rblk_to_le32(sizeof(struct nvme_pdu_term))},
		.status = rblk_to_le16((uint16_t)fatal),
		.field = {rblk_to_le16((uint16_t)field), rblk_to_le16((uint16_t)(field >> 16))},
	};
}

/* -- greet.c ------------------------------------------------------------------------------------- */

int nvme_greet(struct tcp_request *request);
void nvme_reject(struct tcp_request *request, const void *private_data, uint8_t bytes);
/* The answer to a login that is refused. */
void nvme_refuse(int fd, struct rblk_tls *tls, const struct nvme_hello *hello, const void *private_data, uint8_t bytes);

/* tls.c: is the stream of this host and subsystem? */
bool nvme_tls_is_of(const struct rblk_tls *tls, const struct nvme_identity *identity);

/* -- tcp.c --------------------------------------------------------------------------------------- */

int nvme_answer(struct tcp_conn *conn, bool accepts, const void *private_data, uint8_t bytes);
void nvme_forget(struct tcp_conn *conn);
void nvme_timeout(struct tcp_conn *conn);
/* It ends if its controller does. */
void nvme_check_conn(struct tcp_conn *conn);

/* -- receive.c, send.c --------------------------------------------------------------------------- */

int nvme_begin(struct tcp_conn *conn);
int nvme_iov(struct tcp_conn *conn, struct iovec *iovs);
int nvme_no_memory(struct tcp_conn *conn);
int nvme_finish(struct tcp_conn *conn);

void nvme_send_run(struct tcp_conn *conn);
bool nvme_send_has_room(const struct nvme_queue *queue);
/* The host has broken a rule: it is told, and the connection ends. */
void nvme_term(struct nvme_queue *queue, enum nvme_fatal fatal, uint32_t field);
/* For struct nvme_transport. */
void nvme_send_response(struct nvme_queue *queue, struct nvme_slot *slot, const struct nvme_completion *completion,
			void *data, uint32_t bytes);
void nvme_send_r2t(struct nvme_queue *queue, struct nvme_slot *slot);

#endif
