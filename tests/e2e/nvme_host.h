/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A small NVMe/TCP host, one queue on one socket: Connect, one command at a time with its data, and PDUs of the test's
 * own. Aborts the test where the target is silent.
 */
#ifndef RBLK_TESTS_E2E_NVME_HOST_H
#define RBLK_TESTS_E2E_NVME_HOST_H

#include "target/nvme/wire.h"

struct nvme_host {
	int fd;
	uint16_t controller; /* as Connect has answered */
	bool authenticates;  /* Connect has said that it has to */
	uint16_t id;	     /* of the last command */
	uint32_t r2ts;	     /* that have come */
	uint8_t digests;     /* to ask for: NVME_DIGEST_...; the target has to agree, and its own are checked */
	uint8_t damage;	     /* the next PDU that has these gets wrong ones */
	bool no_head;	     /* to ask for: no head of its submission queue; then data may end a command: */
	uint32_t successes;  /* those that data has ended */
	uint8_t host_id;     /* the last byte of its host identifier */
	uint8_t from;	     /* it connects from 127.0.0.`from`; 0: from 127.0.0.1 */
};

/* The host's name, which all have that do not say another one. */
#define NVME_HOST_NQN NVME_UUID_PREFIX "00000000-0000-0000-0000-00000000000a"

/* A socket on which ICReq has been answered; _dial(): not even sent. `address`: "127.0.0.1:4420". */
int nvme_host_dial(const char *address);
int nvme_host_greet(const char *address);
void nvme_host_greet_with(struct nvme_host *host, const char *address); /* with its digests */
/* Connect: the status, without the bit for "do not retry". Queue 0 makes a controller, others join host->controller. */
uint16_t nvme_host_connect(struct nvme_host *host, const char *address, const char *subsystem, const char *nqn,
			   uint16_t queue, uint16_t entries);
/* An association: an admin queue of 32 entries, enabled, and one queue of I/O. */
void nvme_host_attach(struct nvme_host *admin, struct nvme_host *io, const char *address, const char *subsystem,
		      const char *nqn, uint16_t entries);
void nvme_host_close(struct nvme_host *host);
/* CC.EN, and CSTS.RDY is checked. */
void nvme_host_enable(struct nvme_host *host);

/* How the data of a command goes. */
enum nvme_host_way { NVME_HOST_NONE, NVME_HOST_IN, NVME_HOST_CAPSULE, NVME_HOST_R2T };

struct nvme_host_command {
	struct nvme_command command; /* its id is set, and so is its SGL; flags: those of fused ones */
	enum nvme_host_way way;
	void *data; /* to be sent, or to be filled */
	uint32_t bytes;
	uint64_t result;  /* of its completion */
	uint32_t arrived; /* bytes of data */
	uint16_t status;  /* of those that nvme_host_await_all() has seen */
	bool final;	  /* with the bit for "do not retry" */
	bool ended;
	bool leaves;	  /* nvme_host_await() returns when it has sent what an R2T asks for */
};
/* Sends it and waits for its completion: the status, as above. */
uint16_t nvme_host_run(struct nvme_host *host, struct nvme_host_command *command);
void nvme_host_send(struct nvme_host *host, struct nvme_host_command *command);
uint16_t nvme_host_await(struct nvme_host *host, struct nvme_host_command *command);
/* All of these, in any order: the status of each. */
void nvme_host_await_all(struct nvme_host *host, struct nvme_host_command *commands, unsigned int count);
/* Two at a time. */
void nvme_host_run_pair(struct nvme_host *host, struct nvme_host_command pair[2], uint16_t statuses[2]);
/* READ, WRITE, FLUSH and the like: word 12 has flags beside the count. */
uint16_t nvme_host_io(struct nvme_host *host, uint8_t opcode, enum nvme_host_way way, uint64_t lba, uint32_t word12,
		      void *data, uint32_t bytes);

/* A command of queue 0 with these words, which reads so many bytes to `data` (NULL: none): the status. */
uint16_t nvme_host_admin(struct nvme_host *host, uint8_t opcode, uint32_t namespace, uint32_t word10, uint32_t word11,
			 void *data, uint32_t bytes);
/* Sends a request for an event, which waits. */
struct nvme_host_command nvme_host_ask_event(struct nvme_host *host);

/* The NQN of the only subsystem that discovery tells of. */
void nvme_host_discover(const char *address, char nqn[NVME_NQN_BYTES]);

/* A PDU of this header, whose digests and sums of bytes are added, and of this data. */
void nvme_host_send_pdu(struct nvme_host *host, struct nvme_pdu *header, const void *data, uint32_t bytes);
void nvme_host_read(struct nvme_host *host, void *data, size_t bytes);
void nvme_host_write(int fd, const void *data, size_t bytes);
/* The target ends the connection, whatever it sends before. Returns the type of the last PDU; -1: there was none. */
int nvme_host_ended(int fd);

#endif
