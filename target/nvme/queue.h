/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A queue of an NVMe host. To the host it is a submission and a completion queue; to the reactor that has accepted it,
 * a queue of rblk's own: commands become rblk's messages and its completions become NVMe's. So volumes, sessions,
 * rights, limits and fences are below it and know nothing of NVMe. A struct nvme_transport carries it: with NVMe/TCP it
 * is a connection of fabric_tcp with another framing (tcp.h), over RDMA one of fabric_verbs (rdma.h).
 *
 *   greet.c     what comes before the login: ICReq and Connect
 *   tcp.c, receive.c, send.c, tls.c: NVMe/TCP; rdma*.c: NVMe over RDMA
 *   queue.c     making and end, slots and tags, handing commands to the reactor, the setup behind Connect
 *   answer.c    answers to the host's commands
 *   fused.c     pairs of Compare and Write
 *   io.c        reads and writes: NVMe's commands in rblk's, statuses the other way
 *   reserve.c   reservations
 *   abort.c     aborts
 *   authenticate.c, prove.c   what a host does whose name has a secret; chap.c, dh.c: its cryptography
 *   list.c      which volumes there are
 *   admin.c     fabrics and admin commands; identify.c, log.c, errors.c: what hosts read
 *   event.c, notice.c: what they are told
 *   path.c      which of a host's controllers is in charge (ANA)
 *   fabric.c    the tables of the fabrics
 *
 * The fab's thread, but for greet.c: requests are the listener's until they are accepted.
 */
#ifndef RBLK_TARGET_NVME_QUEUE_H
#define RBLK_TARGET_NVME_QUEUE_H

#include <sys/queue.h>
#include <sys/socket.h>
#include "proto/fabric/fabric_impl.h"
#include "target/nvme/controller.h"

#define NVME_ENTRIES_MAX 128u /* of a queue of I/O: CAP.MQES, and what `credits` is by default */
#define NVME_ADMIN_ENTRIES_MAX 32u
#define NVME_CAPSULE_BYTES 8192u   /* in-capsule data; a Connect's 1024 are among them */
#define NVME_COMPARE_BYTES NVME_CAPSULE_BYTES /* of one Compare: its data is held here */
#define NVME_FUSED_BYTES (NVME_COMPARE_BYTES / 2)
#define NVME_EVENT_RESERVATIONS (1u << 31) /* beside NVME_EVENT_..., of `changed` and `told` */
#define NVME_EVENTS_MAX 4u	   /* asynchronous event requests that wait */
#define NVME_REPORT_BYTES (RBLK_LIST_MAX * sizeof(struct rblk_wire_volume))
#define NVME_REPORTS_MAX 2u /* of reservations, that are not answered */
#define NVME_RESERVATIONS_BYTES                       \
	((uint32_t)(sizeof(struct rblk_wire_reservation_report) + \
		    RBLK_REGISTRANTS_MAX * sizeof(struct rblk_wire_registrant)))
#define NVME_HASH_SEED 0xcbf29ce484222325ull
#define NVME_LOG_BYTES (64u << 10) /* of one answer */

/* The keys of READs and WRITEs that the reactor posts are slots' numbers plus one (nvme_slot_of_key()), or: */
#define NVME_KEY_REPORT 0xffffffu

/* -- commands ------------------------------------------------------------------------------------ */

/* A slot: a command of the host that is not answered. */
struct nvme_slot {
	TAILQ_ENTRY(nvme_slot) link; /* queue->waiting, while it is to be handed to the reactor; later; or free */
	struct nvme_command command;
	struct rblk_wire_command wire; /* what it is to rblk; its tag and sequence are set when it is handed over */
	uint16_t number;	       /* fixed */
	bool used, tagged;
	bool fetches;		       /* `data` is to come from the host */
	bool damaged;		       /* `data` does not match its digests */
	bool differs;		       /* a Compare has found a difference */
	bool gathers;		       /* the host's data comes to `data`, before the command is handed over */
	bool aborting;		       /* the host has asked for it */
	bool reserves, reports;	       /* of reservations: a command; a report is asked for */
	uint8_t fuse;		       /* enum nvme_fuse */
	uint16_t tag;
	uint16_t refused; /* RDMA: a status, while it is parked */
	uint32_t bytes; /* of the host's data */
	uint32_t moved; /* of them, arrived by H2C data */
	uint32_t digest; /* of those, as the host says */
	uint32_t segment; /* TCP: behind that of its last data (send.c); 0: none */
	uint8_t *data;	 /* owned: in-capsule data that waits, ranges, what is compared, keys; NULL: none */
	struct nvme_slot *partner; /* of a fused pair; NULL: none yet */
	uint32_t range; /* of a DSM, the next */
	uint32_t ranges;
	unsigned int tries; /* of a reservation's command: answered BUSY; of an abort: ticks */
	unsigned int overtaken; /* of a reservation's command: answered INVALID, as one whose number is too low is */
};
TAILQ_HEAD(nvme_slots, nvme_slot);

/* A command of the queue's own, beside the host's. */
enum nvme_step {
	NVME_STEP_NONE,
	NVME_STEP_NONCE, /* prove.c: AUTHENTICATE, */
	NVME_STEP_PROOF, /* and its second message */
	NVME_STEP_IDENTIFY,
	NVME_STEP_LIST, /* to find the volume, or for the discovery log page */
	NVME_STEP_OPEN,
	NVME_STEP_CLOSE,
	NVME_STEP_SEEN, /* confirms an event */
	NVME_STEP_READY, /* of an I/O queue: its reactor, too, can serve the volume */
};

/* The contents of Connect. Made by greet.c. */
struct nvme_hello {
	bool is_queue; /* it begins a struct nvme_queue */
	struct nvme_identity identity;
	struct nvme_controller *controller; /* of an I/O queue */
	char name[RBLK_NAME_BYTES];	    /* the initiator's */
	struct rblk_tls *tls;		    /* the connection's, which has proven that name; NULL: it has none */
	struct rblk_wire_login login;
	uint16_t id; /* the command's */
	uint16_t queue;
	uint32_t entries;
	uint32_t keep_alive_ms;
	uint32_t alignment; /* of data to the host */
	uint8_t digests;    /* NVME_DIGEST_... */
	bool no_head;	    /* completions have none: NVME_CONNECT_NO_HEAD */
};

struct nvme_queue;
struct nvme_tcp;
struct nvme_rdma;

/* A transport carries queues. All but `local` may end the connection. */
struct nvme_transport {
	uint8_t kind; /* as the discovery log page has it */
	bool keyed;   /* the host's data has an address and a key; otherwise the transport asks for it by the command */
	/* Answers the command in slot (NULL: Connect), behind the data, which is freed when it has been sent. There
	 * must be room. */
	void (*respond)(struct nvme_queue *queue, struct nvme_slot *slot, const struct nvme_completion *completion,
			void *data, uint32_t bytes);
	/* The connection ends behind what has been answered. */
	void (*finish)(struct nvme_queue *queue);
	/* Gets slot->data from the host; nvme_fetched() follows. */
	void (*fetch)(struct nvme_queue *queue, struct nvme_slot *slot);
	/* A receive of the reactor's for so many bytes. NULL: there is none now, nvme_hand_over() is called again. */
	char *(*take)(struct nvme_queue *queue, uint32_t bytes, uint64_t *wr_id);
	/* It is complete, as a message of so many bytes. */
	void (*push)(struct nvme_queue *queue, uint64_t wr_id, uint32_t bytes);
	void (*wake)(struct nvme_queue *queue); /* nvme_hand_over() has something to do */
	void (*tick)(struct nvme_queue *queue, uint32_t ms); /* nvme_tick(), in so many milliseconds */
	void (*fail)(struct nvme_queue *queue, int status);
	bool (*has_room)(const struct nvme_queue *queue); /* for an answer at any time; NULL: always */
	/* Where the host has come in. */
	void (*local)(const struct nvme_queue *queue, struct sockaddr_storage *address);
};

struct nvme_queue {
	struct nvme_hello hello; /* first */
	const struct nvme_transport *transport;
	const struct fab_conn *conn;
	struct nvme_tcp *tcp; /* of TCP */
	struct nvme_rdma *rdma; /* of RDMA */
	struct nvme_controller *controller;
	bool answered; /* Connect; and the host has authenticated itself if it has to */
	struct rblk_wire_accept accept;
	struct nvme_authentication *authentication; /* NULL: neither was asked for */

	uint32_t credits;
	struct nvme_slot *by_tag[NVME_ENTRIES_MAX]; /* `credits` */
	uint16_t free_tags[NVME_ENTRIES_MAX];
	uint32_t free_tag_count;
	struct nvme_slots free;
	struct nvme_slots waiting;
	struct nvme_slots later; /* that the timer puts there again */
	unsigned int reports;	 /* NVME_REPORTS_MAX */
	struct nvme_abort *abort; /* of the controller's, under way here, with the second reserved tag; NULL: none */
	bool abort_waits;	 /* to be handed over */
	struct rblk_wire_command abort_wire;
	struct nvme_slot *first; /* of a fused pair: the next command is its second */
	bool first_failed;	 /* or the first has been answered */
	uint32_t sequence;	 /* of rblk's next command */
	uint16_t sq_head;

	/* A command of its own, with the first reserved tag. */
	enum nvme_step step;
	bool step_waits, step_later;
	struct rblk_wire_command step_wire;
	uint8_t *report;	     /* NVME_REPORT_BYTES; admin queue, and one that authenticates */
	struct nvme_slot *asked_for; /* the host's command that waits for it; NULL: Connect */
	unsigned int listed, busy;
	__u8 (*uuids)[16];	      /* discovery: of `listed` volumes; owned */
	char volume[RBLK_NAME_BYTES]; /* found by its UUID */

	/* The admin queue's registers and features. */
	uint32_t configuration, status, event_configuration;
	struct nvme_slot *events[NVME_EVENTS_MAX]; /* requests that wait for one */
	unsigned int event_count;
	uint32_t heard_event; /* its number, until it is confirmed; 0: none */
	bool reopens, reopen_later; /* OPEN is due, or at the next tick: the volume has changed, or may be back */
	bool removed, closed; /* it was removed: its handle has to be closed; it has been */
	bool absent, seen; /* it has not come back, so there is no namespace; the host has seen that */
	uint32_t changed, told; /* NVME_EVENT_...: what the host has not read yet; what it has been told to */
	unsigned int path_changes; /* of its ANA state */
	struct nvme_slot *held; /* a Property Set that waits for the end of the step */
	uint64_t heard_ns;

	struct nvme_slot slots[]; /* `entries` */
};

static inline bool nvme_is_admin(const struct nvme_queue *queue)
{
	return queue->hello.queue == 0;
}

/* Words 10 to 15 of a command. */
static inline uint32_t nvme_word(const struct nvme_slot *slot, unsigned int number)
{
	return rblk_le32(slot->command.word[number - 10]);
}

/* The block that it begins at. */
static inline uint64_t nvme_block(const struct nvme_command *command)
{
	return (uint64_t)rblk_le32(command->word[1]) << 32 | rblk_le32(command->word[0]);
}

static inline uint32_t nvme_data_digest_bytes(const struct nvme_hello *hello)
{
	return hello->digests & NVME_DIGEST_DATA ? NVME_DIGEST_BYTES : 0;
}

static inline struct nvme_slot *nvme_slot_of_key(struct nvme_queue *queue, uint32_t key)
{
	return key && key <= queue->hello.entries ? &queue->slots[key - 1] : NULL;
}

static inline uint32_t nvme_block_bytes(const struct nvme_queue *queue)
{
	return rblk_le32(queue->controller->volume.block_bytes);
}

static inline bool nvme_has(const struct nvme_queue *queue, uint32_t flag)
{
	return rblk_le32(queue->controller->volume.flags) & flag;
}

/* The most that is compared and written in one step; 0: nothing. */
static inline uint32_t nvme_fused_bytes(const struct nvme_queue *queue)
{
	uint32_t bytes = rblk_le16(queue->controller->volume.max_compare_blocks) * nvme_block_bytes(queue);

	if (!nvme_has(queue, RBLK_VOLUME_COMPARE_AND_WRITE) || nvme_block_bytes(queue) > NVME_FUSED_BYTES)
		return 0;
	return bytes && bytes < NVME_FUSED_BYTES ? bytes : NVME_FUSED_BYTES;
}

/* Is its data with the host? And how long is it there? */
static inline bool nvme_is_remote(const struct nvme_queue *queue, const struct nvme_command *command)
{
	return queue->transport->keyed ? command->sgl == NVME_SGL_KEYED || command->sgl == NVME_SGL_KEYED_INVALIDATE
				       : command->sgl == NVME_SGL_TRANSPORT;
}

static inline uint32_t nvme_data_length(const struct nvme_queue *queue, const struct nvme_command *command)
{
	uint32_t length = rblk_le32(command->length);

	return queue->transport->keyed && command->sgl != NVME_SGL_CAPSULE ? length & 0xffffff : length;
}

/* -- greet.c ------------------------------------------------------------------------------------- */

/* At the start of the daemon: the most queues that a session may have. */
void nvme_greet_limits(uint16_t queues);
/* The initiator's name of a host's NQN. False: it is none. */
bool nvme_name_of(const char *nqn, char name[RBLK_NAME_BYTES]);
/* Checks what Connect says. A status. */
uint16_t nvme_connect_check(struct nvme_hello *hello, const struct nvme_command *command,
			    const struct nvme_connect *data);
/* hello->login, of what was checked. */
void nvme_login_fill(struct nvme_hello *hello);
/* The status of a refused login. */
uint16_t nvme_connect_status(const void *private_data, uint8_t bytes);
void nvme_forget_hello(void *state);

/* -- queue.c ------------------------------------------------------------------------------------- */

/* Takes over the controller of the hello. private_data: what the reactor has answered. Its first step is to follow. */
struct nvme_queue *nvme_queue_create(struct nvme_hello *hello, const void *private_data, uint8_t bytes,
				     const struct nvme_transport *transport, const struct fab_conn *conn);
void nvme_queue_free(struct nvme_queue *queue);
/* Begins the setup behind Connect. */
void nvme_queue_begin(struct nvme_queue *queue);
/* Ends the queue if its controller has ended, and looks for the controller's other news. */
void nvme_check_end(struct nvme_queue *queue);
/* Its timer. */
void nvme_tick(struct nvme_queue *queue);
/* NULL: the host has more commands outstanding than the queue has entries. */
struct nvme_slot *nvme_slot_get(struct nvme_queue *queue, const struct nvme_command *command);
void nvme_slot_put(struct nvme_queue *queue, struct nvme_slot *slot);
/* It is to be handed to the reactor, as soon as that can take it. */
void nvme_slot_wait(struct nvme_queue *queue, struct nvme_slot *slot);
/* May a command be handed over at once? */
bool nvme_may_begin(const struct nvme_queue *queue);
/* A command of the host. Its data, capsule_bytes, is to follow in `memory` of a receive (true) or in slot->data. */
bool nvme_slot_begin(struct nvme_queue *queue, struct nvme_slot *slot, uint32_t capsule_bytes, uint16_t *refused);
/* Puts it behind its data, which is in this receive's memory. Returns the length of the message. */
uint32_t nvme_slot_place(struct nvme_queue *queue, struct nvme_slot *slot, char *memory);
/* A command that was not handed over: all of its capsule is here. */
void nvme_slot_run(struct nvme_queue *queue, struct nvme_slot *slot, uint16_t refused);
/* slot->data is to come, from the host. */
void nvme_fetch(struct nvme_queue *queue, struct nvme_slot *slot);
/* It has come. */
void nvme_fetched(struct nvme_queue *queue, struct nvme_slot *slot);
/* Puts a command behind its `bytes` of data, which are in memory already. Returns the length of the message. */
uint32_t nvme_message_place(struct nvme_queue *queue, char *memory, uint32_t bytes, struct rblk_wire_command *wire);
/* All that waits and can be handed over. */
void nvme_hand_over(struct nvme_queue *queue);
/* A completion of rblk's. */
void nvme_completed(struct nvme_queue *queue, const struct rblk_wire_completion *completion);
/* Asks rblk, for `slot`. */
void nvme_step_begin(struct nvme_queue *queue, enum nvme_step step, struct nvme_slot *slot);

/* -- answer.c ------------------------------------------------------------------------------------ */

/* Answers, and the slot is free. There must be room. */
void nvme_respond(struct nvme_queue *queue, struct nvme_slot *slot, uint16_t status, uint64_t result);
/* Likewise with data, which is freed when it has been sent. */
void nvme_respond_data(struct nvme_queue *queue, struct nvme_slot *slot, void *data, uint32_t bytes);
void nvme_respond_connect(struct nvme_queue *queue, uint16_t status);
/* It succeeds, and says that the host has to authenticate itself. */
void nvme_respond_bars(struct nvme_queue *queue);

/* -- io.c ---------------------------------------------------------------------------------------- */

/* A command of I/O. */
struct nvme_io {
	uint8_t to; /* rblk's command that does its work */
	bool writes;
	bool ranged;	 /* words 10 to 12 say which blocks */
	uint32_t word12; /* the bits of word 12 that it may set beside their count */
	uint32_t needs;	 /* the volume has to have this RBLK_VOLUME_...; 0: every volume has the command */
};
/* NULL: there is no such command. */
const struct nvme_io *nvme_io_of(uint8_t opcode);
uint16_t nvme_status_of(enum rblk_status status, uint8_t opcode);
/* Fills slot->wire. A status: it is answered so; slot->data: the ranges, and the data of others that came in the
 * capsule. */
uint16_t nvme_io_decode(struct nvme_queue *queue, struct nvme_slot *slot, uint32_t capsule_bytes);
/* Where its data is: in the capsule, all of it, or with the host. Sets slot->bytes. A status. */
uint16_t nvme_io_decode_data(const struct nvme_queue *queue, struct nvme_slot *slot, uint32_t capsule_bytes);
/* The reactor WRITEs to this key. *slot: the command whose data goes to the host; NULL: the data was for this room.
 * False: a mistake of this end. */
bool nvme_io_written(struct nvme_queue *queue, uint32_t key, uint64_t offset, const void *data, uint32_t bytes,
		     struct nvme_slot **slot);
/* Fills in the next range of a DSM. False: there is no other. */
bool nvme_io_next_range(struct nvme_queue *queue, struct nvme_slot *slot);

/* -- fused.c ------------------------------------------------------------------------------------- */

/* A command of a pair, with the data of its capsule. A status: it is answered so. */
void nvme_fused(struct nvme_queue *queue, struct nvme_slot *slot, uint16_t status);
/* The command after a first is not its second. */
void nvme_fused_missing(struct nvme_queue *queue);
/* The data of one of them that was fetched is here. */
void nvme_fused_arrived(struct nvme_queue *queue, struct nvme_slot *slot);
/* Answers both; slot: the first. */
void nvme_fused_respond(struct nvme_queue *queue, struct nvme_slot *slot, uint16_t first, uint16_t second);

/* -- abort.c ------------------------------------------------------------------------------------- */

/* The command, on the admin queue. */
void nvme_abort(struct nvme_queue *queue, struct nvme_slot *slot);
/* There may be an abort for this queue, or an answer. tick: its timer. */
void nvme_abort_news(struct nvme_queue *queue, bool tick);
/* abort_waits. False: there is no receive now. */
bool nvme_abort_hand_over(struct nvme_queue *queue);
/* rblk has answered. */
void nvme_abort_done(struct nvme_queue *queue, uint64_t result);
/* The queue ends. */
void nvme_abort_end(struct nvme_queue *queue);

/* -- reserve.c ----------------------------------------------------------------------------------- */

/* As nvme_io_decode(), of their commands. */
uint16_t nvme_reserve_decode(struct nvme_queue *queue, struct nvme_slot *slot, uint32_t capsule_bytes);
/* All of its data is here. Also of an admin command without data, which asks for the report: nvme_admin_persists(). */
void nvme_reserve_begin(struct nvme_queue *queue, struct nvme_slot *slot);
/* It is handed over now: a change gets its number. */
void nvme_reserve_number(const struct nvme_queue *queue, struct nvme_slot *slot);
void nvme_reserve_done(struct nvme_queue *queue, struct nvme_slot *slot, enum rblk_status status);
/* Those that were answered BUSY. */
void nvme_reserve_again(struct nvme_queue *queue);

/* -- path.c -------------------------------------------------------------------------------------- */

/*
 * Connect's OPEN has succeeded. The controller comes into the line: WAITS, OPENS (then another OPEN has to follow,
 * because the one whose place it has has ended), or LEFT, if there is no place for it. After OPENS: OPTIMIZED or LEFT.
 */
enum nvme_path_state nvme_path_connect(struct nvme_queue *queue);
/* An OPEN begins. */
void nvme_path_opens(struct nvme_controller *controller);
/* It has succeeded. True: it began in OPENS, and the controller is in charge now. */
bool nvme_path_opened(struct nvme_controller *controller);
/* The controller is over, and so are its queues; the next one is due. */
void nvme_path_leave(struct nvme_controller *controller);
extern const struct tgt_paths nvme_paths; /* registrant.h */
/* ANA's log page; groups: without their namespaces. Fills as much as there is room for; data is zeroed. */
void nvme_path_log(const struct nvme_queue *queue, bool groups, uint8_t *data, uint64_t bytes);

/* -- list.c -------------------------------------------------------------------------------------- */

/* Is it the volume of the subsystem that the host has named? */
bool nvme_list_is_wanted(const struct nvme_queue *queue, const struct rblk_wire_volume *volume);
/* LIST has succeeded, with this result. */
void nvme_listed(struct nvme_queue *queue, uint64_t result);

/* -- admin.c, identify.c ------------------------------------------------------------------------- */

void nvme_admin(struct nvme_queue *queue, struct nvme_slot *slot);
/* Answers Get Log Page: the list of volumes for that of discovery is there. */
void nvme_admin_listed(struct nvme_queue *queue, struct nvme_slot *slot);
/* Whether reservations persist, which the host has asked for or wants to set. */
void nvme_admin_persists(struct nvme_queue *queue, struct nvme_slot *slot, bool persists);
/* FNV-1a. */
uint64_t nvme_hash(uint64_t seed, const void *data, size_t bytes);
/* Fills data (zeroed, NVME_IDENTIFY_BYTES). A status. */
uint16_t nvme_identify(const struct nvme_queue *queue, const struct nvme_command *command, void *data);
/* The NQN of the subsystem that has the volume of this UUID. */
void nvme_subsystem_of(const __u8 uuid[16], char nqn[NVME_NQN_BYTES]);
void nvme_discovery_log(const struct nvme_queue *queue, uint64_t offset, uint32_t bytes, uint8_t *data);

/* -- authenticate.c, prove.c: authentication.h ---------------------------------------------------- */

struct rblk_secrets;
void nvme_auth_init(struct rblk_secrets *(*find)(void *arg, const char *name), void *arg);
/*
 * Has the host of this new queue to authenticate itself? Then Connect is answered so, or the connection has failed; or
 * TLS has proven its name, and that is told to rblk before the rest of the setup.
 */
bool nvme_auth_begin(struct nvme_queue *queue);
void nvme_auth_free(struct nvme_queue *queue);
/* The host has to authenticate itself first. */
bool nvme_auth_bars(const struct nvme_queue *queue);
bool nvme_auth_is_command(const struct nvme_command *command);
/* Authentication Send and Receive, with slot->bytes of data. */
void nvme_auth_command(struct nvme_queue *queue, struct nvme_slot *slot);
/* All that stands behind Connect is done, or refused with this status. */
void nvme_auth_set_up(struct nvme_queue *queue, uint16_t status);
/* TLS has proven the host's name: now the queue does, by the same secret. */
void nvme_auth_secured(struct nvme_queue *queue);
/* The queue's own commands: what AUTHENTICATE says, and that it was answered. */
void nvme_auth_payload(const struct nvme_queue *queue, struct rblk_wire_authenticate *message);
void nvme_auth_proven(struct nvme_queue *queue, enum rblk_status status);
/* No step is under way: one may be due. */
void nvme_auth_next(struct nvme_queue *queue);
/* The queue's timer. When it is needed again; 0: that does not matter. */
uint32_t nvme_auth_timeout(struct nvme_queue *queue);

/* -- log.c --------------------------------------------------------------------------------------- */

bool nvme_log_has(const struct nvme_queue *queue, uint8_t page);
/* Both fill as much as there is room for; data is zeroed. */
void nvme_log_pages(uint8_t *data, uint64_t bytes);
void nvme_log_effects(const struct nvme_queue *queue, uint8_t *data, uint64_t bytes);

/* errors.c: a command fails with this status. */
void nvme_errors_keep(const struct nvme_queue *queue, const struct nvme_slot *slot, uint16_t status);

/* -- notice.c ------------------------------------------------------------------------------------ */

/* For tgt_notice_tell. */
enum tgt_notice;
void nvme_notice_tell(const uint8_t volume[16], const char *registrant, enum tgt_notice kind);
/* Admin queue: there may be some for it. */
void nvme_notice_news(struct nvme_queue *queue);
/* Fills the log page: the oldest; keeps: it will be read again. */
void nvme_notice_read(struct nvme_queue *queue, bool keeps, uint8_t *data, uint64_t bytes);

/* -- event.c ------------------------------------------------------------------------------------- */

void nvme_event_heard(struct nvme_queue *queue, const struct rblk_wire_completion *event);
/* The end of a step that follows Connect, and that no command of the host has asked for; of LIST, if it has failed. */
void nvme_event_done(struct nvme_queue *queue, enum nvme_step step, enum rblk_status status);
/* The volume was removed, and is not in the list. The host has seen that. */
void nvme_event_absent(struct nvme_queue *queue);
void nvme_event_seen(struct nvme_queue *queue);
/* It is in the list. False: it is not to be opened, or not before the host has seen that it was gone. */
bool nvme_event_found(struct nvme_queue *queue, const struct rblk_wire_volume *volume);
/* No step is under way, or was: the next. */
void nvme_event_next(struct nvme_queue *queue);
/* Tells the host, if there is news and it listens. */
void nvme_event_tell(struct nvme_queue *queue);
/* The host reads the log page of this event; keeps: it will do so again. Does the page have news? */
bool nvme_event_read(struct nvme_queue *queue, uint32_t event, bool keeps);

#endif
