/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * librblk: block I/O on remote volumes over RDMA (or the software fabric over TCP).
 *
 * The shape: a session is a connection to one target, a volume is opened in a session, I/O is
 * started with rblk_read() and its like, sent with rblk_submit(), and completed within rblk_poll(),
 * which calls the callbacks. Nothing happens outside these calls, and a program that waits in its own loop watches
 * rblk_fd(). Two kinds of threads exist for a short time, with all signals blocked, and share nothing with the program:
 * once in a process, the first session that polls adaptively has one while it is started, to measure what a wake-up
 * takes; and while a host that is named by a name cannot be reached, one asks for its addresses again. That one may
 * outlast its session, and so the library is never unloaded.
 *
 * Callbacks may start and submit I/O, start what ends in _start, and stop the session. They must not
 * call rblk_poll(), rblk_wait(), rblk_session_close() or any other call that blocks; the comment of
 * each such call says so.
 *
 * Threading: a session with its volumes and buffers belongs to one thread at a time; another thread
 * may use it later, if the program orders the two. Callbacks run on the thread that called. Different
 * sessions are independent. After fork() only one of the processes may use a session.
 *
 * Units and ownership: lengths and offsets are in bytes, times in the unit that the name ends with.
 * Texts that are passed in are copied. A pointer that the library returns is the library's, unless
 * its comment says who frees it.
 *
 * Errors: 0 (or a count) or a negative errno; calls that return a pointer return NULL and set errno.
 * rblk_session_error() has the message of a session's last failure. Calls that create a session
 * take a buffer of RBLK_ERROR_BYTES for it.
 *
 * share/doc/rblk/examples/event_loop.c is a whole program with a loop of its own. The short form:
 *
 *	struct rblk_session *s = rblk_session_open("rblk://10.0.0.2/disk", NULL, error);
 *	struct rblk_volume *v = rblk_volume_open(s, NULL, 0);
 *	void *data = rblk_buffer_alloc(s, 4096);
 *	rblk_read(v, data, 4096, 0, 0, done, arg);
 *	rblk_submit(s);
 *	while (!finished)
 *		rblk_wait(s, -1);
 */
#ifndef RBLK_H
#define RBLK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
/* C++ before 20 has no initializers by name: what the macros ..._INIT stand for there. */
template <typename T> static inline T rblk_sized()
{
	T value = T();

	value.size = sizeof(value);
	return value;
}
extern "C" {
#endif

#define RBLK_API __attribute__((visibility("default")))
#define RBLK_ERROR_BYTES 256
#define RBLK_URI_BYTES 512

struct rblk_session;
struct rblk_volume;

/* -- sessions ---------------------------------------------------------------------------------- */

enum rblk_polling {
	RBLK_POLL_ADAPTIVE = 0, /* rblk_wait() spins while completions come quickly, then sleeps */
	RBLK_POLL_ALWAYS,       /* rblk_wait() never sleeps */
	RBLK_POLL_NEVER,        /* rblk_wait() sleeps at once */
};

/* Which of a session's queues takes the next commands. Those of one rblk_submit() stay together. */
enum rblk_policy {
	RBLK_POLICY_ROUND_ROBIN = 0, /* each in turn */
	RBLK_POLICY_LEAST_IN_FLIGHT, /* the one with the fewest commands: a slow path gets fewer */
};

/* Whether connections over TCP are encrypted, with a key_file. */
enum rblk_tls_use {
	RBLK_TLS_AUTO = 0, /* to other machines, but not to this one's loopback addresses */
	RBLK_TLS_ALWAYS,   /* also to these; and hosts over RDMA, which has no TLS, are refused */
	RBLK_TLS_NEVER,    /* the name is proven, and nothing is encrypted */
};

/*
 * For a program that may be killed under I/O, and a successor that goes on with it: memory that outlives the program,
 * such as a file mapped as shared; zero before the first program. The library alone writes to it, by plain stores. A
 * successor, when its predecessor's process has ended, gives the same memory to its sessions, each of which opens the
 * volume that its predecessor had open. Before that open succeeds, the target has ended what the predecessor had under
 * way there (F5); another target must know that nothing is (F10). Once all of the successor's volumes are open, nothing
 * that the killed program sent is carried out any more. Only the same user may read this memory: who knows a session
 * can end it.
 */
struct rblk_kept_session { /* one session's, which opens one volume */
	uint8_t session_id[16];
	uint64_t lives; /* sessions that have used it */
	uint8_t instance[16], fence_domain[16];
	uint8_t opened;
	uint8_t reserved[7];
};
/*
 * The same for all sessions of the program that open this volume. What it had written and not flushed is the
 * successor's (F7); and so is a loss: it is told, and flushes fail, until rblk_acknowledge().
 */
struct rblk_kept_volume {
	uint8_t uuid[16], cache_epoch[16];
	uint8_t known, dirty, lost;
	uint8_t reserved[5];
};

/*
 * Zero everywhere means the default; begin with RBLK_OPTIONS_INIT, or set `size`. A program may have
 * been built with an older header than the library's, whose members are fewer, or with a newer one:
 * then what the library does not know must be zero, or it refuses with E2BIG.
 */
struct rblk_options {
	size_t size; /* sizeof(struct rblk_options) */
	uint32_t connect_timeout_ms; /* default 10000, at most an hour: until the session is READY */
	uint32_t command_timeout_ms; /* default 30000, at most an hour: then a command is aborted */
	uint32_t credits;            /* commands outstanding per queue, 4 to 1024; default 64; the target may grant less */
	uint32_t queues;             /* default 1, at most 16 */
	enum rblk_polling polling;
	const char *initiator_name;  /* for the target's log, access rules, reservations; at most 63 bytes; default: the host's, or of its machine-id */
	const char *device;          /* RDMA device to use, from its own address; default: the one that the routes lead to */
	bool no_immediate;           /* do not ask for reads by RDMA WRITE WITH IMMEDIATE */
	bool no_reconnect;           /* a lost session fails at once, not after give_up_ms */
	uint32_t fail_fast_ms;       /* so long without a connection, commands fail; default: never */
	uint32_t give_up_ms;         /* so long without a connection, the session fails; default 60000 */
	/*
	 * A command that is not answered within command_timeout_ms is aborted. If it had not begun
	 * at the target, it ends with -ETIMEDOUT, and nothing was done. If it had, it runs on while the
	 * target answers, for so long more if this is set; default: without a limit, at most an hour. Then, or
	 * if the ABORT is not answered either, the library ends the connection, and when the target
	 * has fenced it the command ends with -ETIMEDOUT: nothing of it is in flight any more, and
	 * it is unknown whether it was done. The fence waits for the same storage; other volumes'
	 * writes of that connection do not, unless the target is too old for a fence by volume.
	 */
	uint32_t begun_timeout_ms;
	enum rblk_policy policy;     /* chooses queues, and so paths if the URI has several hosts */
	/*
	 * A file with the secret that proves initiator_name (`rblk key new` makes one), read at the start; its
	 * first secret is used. Then the target has to prove that it has the secret, too: a session
	 * with one that does not fails with -EACCES. NULL: nothing is proven.
	 */
	const char *key_file;
	enum rblk_tls_use tls; /* of TLS 1.3 by the key_file's secret; ALWAYS needs one */
	/*
	 * All data has a CRC32C from this library to the target's memory and back. The target stores nothing that
	 * does not match; a command is sent again up to three times, then it fails with -EBADMSG. Data
	 * to be written must not change between the call and the callback, or it does not match. Costs
	 * processor time at both ends, and a second message for a lone read.
	 */
	bool digest;
	/*
	 * Where the session counts what it does while it lasts, for `rblk top` of the same user or of root: "yes": in
	 * the usual folder; the whole path of another one; "no": nowhere. If its file cannot be made, the session is not
	 * opened. NULL: as the environment variable RBLK_STATISTICS says, in the same words; if that is not set, or
	 * the file cannot be made, the session does not count.
	 */
	const char *statistics;
	/*
	 * A signal whose handler runs while a call blocks ends the call with EINTR. A command that had not begun at the
	 * target is dropped. If one cannot be taken back, or is waiting for a connection, or a second signal comes, the
	 * session fails with EINTR. Not for rblk_session_close(), whose wait is short.
	 */
	bool interruptible;
	/* Addresses of this machine to connect from: one, or by commas one for each host, again from the first if they
	 * are fewer. NULL: as the routes say. */
	const char *source;
	uint32_t tos; /* of IP packets to the target: TOS or traffic class, 0 to 255, DSCP * 4; 0: the system's */
	/* RDMA: a packet not acknowledged for 4.096 us * 2^this is sent again; 1 to 31; 0: the device's. Not for iWARP. */
	uint32_t ack_timeout;
	/* As above, until the session is closed. NULL: nothing outlives the program. */
	struct rblk_kept_session *kept_session;
	struct rblk_kept_volume *kept_volume;
	bool priority; /* all commands have RBLK_IO_PRIORITY, also those of calls without flags */
};
#ifdef __cplusplus
#define RBLK_OPTIONS_INIT rblk_sized<rblk_options>()
#else
#define RBLK_OPTIONS_INIT { .size = sizeof(struct rblk_options) }
#endif

/*
 * Connect and log in. Blocks while the hosts' names are resolved, then at most connect_timeout_ms.
 * uri: rblk://host[:port][,host[:port]]...[/volume] over RDMA, rblk+tcp://... over TCP, at most
 * RBLK_URI_BYTES; the volume's name is remembered. Several hosts, at most eight, are several paths
 * to one target: queue i begins at host i modulo their number. All addresses of a host's name are tried, sixteen at
 * most. While a host cannot be reached its name is resolved again, without blocking; one that was unknown at the start
 * becomes a path when it is known. A host may have a scheme of its own,
 * which holds for the hosts behind it, too: rblk://a,rblk+tcp://b/disk. options: NULL for the
 * defaults. NULL on failure: errno is set and error (RBLK_ERROR_BYTES, may be NULL) has the
 * message, with the target's reason.
 */
RBLK_API struct rblk_session *rblk_session_open(const char *uri, const struct rblk_options *options,
						char *error);
/*
 * The same without waiting for the target: returns a session in state CONNECTING, or FAILED if
 * that is certain already. rblk_poll() continues the connection; an event and rblk_session_state()
 * tell when it is READY or FAILED. The hosts' names are resolved here, which may block; an address as
 * the host does not. NULL as above, for a wrong URI or option, unknown hosts only, no memory.
 */
RBLK_API struct rblk_session *rblk_session_start(const char *uri,
						 const struct rblk_options *options, char *error);
/*
 * Log out, disconnect and free. While it has a connection, the session first has a second in all for commands that are
 * outstanding, and to close its volumes at the target, which then forgets the session; otherwise the target keeps it for a
 * while, as that of a program that was killed. Blocks for that, and until the device uses none of the session's memory any
 * more. Outstanding commands are called back first: with their results, or with -ECANCELED if they have none by then. Then the
 * session's volumes and buffers are freed, and memory of rblk_buffer_register() is the caller's again. NULL: nothing.
 */
RBLK_API void rblk_session_close(struct rblk_session *session);

/*
 * A session's state says what becomes of commands. librblk(3) says how these follow from the
 * protocol's states (section 10 of the specification), which sysfs and `rblk list --attached` show.
 */
enum rblk_session_state {
	RBLK_SESSION_CONNECTING,
	RBLK_SESSION_READY,
	/*
	 * Lost or refused, permanently. Commands are called back with an error as soon as the
	 * fabric no longer uses their memory; after all of them, rblk_poll() returns the error.
	 */
	RBLK_SESSION_FAILED,
	/* It was READY, and no connection takes commands now. New commands wait for one. */
	RBLK_SESSION_RECOVERING,
};
/*
 * Begin to log out and disconnect, as rblk_session_close() does, without blocking and without callbacks: rblk_poll()
 * completes it, calls back outstanding commands and then returns -ECANCELED. After that rblk_session_close() does not wait.
 * New commands fail with -ENOTCONN. No effect if the session has FAILED.
 */
RBLK_API void rblk_session_stop(struct rblk_session *session);

enum rblk_session_event_type {
	RBLK_SESSION_EVENT_READY,
	RBLK_SESSION_EVENT_FAILED,         /* error says why; every command has been called back */
	RBLK_SESSION_EVENT_DRAINING,       /* the target shuts down and will end the connections */
	RBLK_SESSION_EVENT_LIST_CHANGED,   /* rblk_list() would answer differently */
	RBLK_SESSION_EVENT_VOLUME_CHANGED, /* size, abilities, or what the program may do: rblk_volume_refresh() learns it */
	RBLK_SESSION_EVENT_VOLUME_REMOVED, /* the target no longer serves it */
	RBLK_SESSION_EVENT_RECOVERING,     /* queue 0 is lost and connected again; error says why */
	RBLK_SESSION_EVENT_RECOVERED,      /* and it is back; the volumes are open */
	RBLK_SESSION_EVENT_WRITES_LOST,    /* acknowledged writes may be lost: see rblk_acknowledge() */
};

/* The library's, during the callback. Later versions add members at its end. */
struct rblk_session_event {
	enum rblk_session_event_type type;
	int error;                  /* FAILED, RECOVERING: negative errno */
	struct rblk_volume *volume; /* of the VOLUME events */
};
typedef void (*rblk_event_callback)(void *arg, struct rblk_session *session,
				    const struct rblk_session_event *event);
/*
 * Report events from now on, including earlier ones: call it right after rblk_session_start().
 * rblk_poll() calls the callback and counts the events; like all callbacks it may make calls that
 * do not block. The next rblk_poll() reports what arrives during the callback of an event. NULL: no
 * more events. rblk_session_close() reports none.
 */
RBLK_API void rblk_session_on_event(struct rblk_session *session, rblk_event_callback callback,
				    void *arg);

RBLK_API enum rblk_session_state rblk_session_state(const struct rblk_session *session);
/*
 * The message of the last call that failed, or of the session's failure, which stays; "" if there was
 * none. The library's, until the next failure or the session's close.
 */
RBLK_API const char *rblk_session_error(const struct rblk_session *session);

/* -- volumes ----------------------------------------------------------------------------------- */

enum rblk_volume_open_flag {
	RBLK_VOLUME_OPEN_READ_ONLY = 1u << 0,
	RBLK_VOLUME_OPEN_NEED_FLUSH = 1u << 1,
	RBLK_VOLUME_OPEN_NEED_FUA = 1u << 2,
};

/* The library fills it in, and owns it but for rblk_list()'s. Later versions add members at its end. */
struct rblk_volume_info {
	size_t size; /* bytes that were filled in: this library does not know members beyond them */
	char name[64];
	uint8_t uuid[16];
	uint8_t cache_epoch[16];
	uint64_t bytes;
	uint32_t block_bytes;
	uint32_t physical_bytes;
	uint32_t optimal_bytes;  /* 0: unknown */
	uint32_t max_io_bytes;   /* of one command; longer I/O is refused with -EINVAL */
	uint32_t max_capsule_bytes; /* writes up to this travel with their command */
	uint32_t discard_granularity_bytes;
	uint64_t max_discard_bytes;
	bool read_only, can_flush, can_fua, can_discard, can_write_zeroes, can_checksum;
	bool volatile_cache, rotational;
	bool can_extents; /* rblk_extents() may be asked; the answer may still be "all data" */
	bool changed; /* the target reports that this has changed: rblk_volume_refresh() */
	bool can_compare_and_write;
	uint32_t untorn_min_bytes, untorn_max_bytes; /* powers of two, of RBLK_IO_UNTORN; 0: there is none */
	uint32_t max_compare_bytes; /* of one rblk_compare_and_write() */
};

/*
 * Blocks. name NULL: the URI's. The volume is the session's until it is closed. NULL on failure: errno
 * (ENOENT: no such volume; EOPNOTSUPP: it cannot do what a flag needs; EROFS, ENOTCONN, ...) and
 * rblk_session_error().
 */
RBLK_API struct rblk_volume *rblk_volume_open(struct rblk_session *session, const char *name,
					      uint32_t flags);
/*
 * Blocks. -EBUSY: commands of the volume are outstanding, it stays open; the same with -ENOMEM. It is
 * freed otherwise, also with another error.
 */
RBLK_API int rblk_volume_close(struct rblk_volume *volume);
/* Valid until the volume is closed; `changed` and what rblk_volume_refresh() learns appear in it. */
RBLK_API const struct rblk_volume_info *rblk_volume_info(const struct rblk_volume *volume);
/*
 * Read size, abilities and rights again. Blocks. Outstanding commands go on, with the new size; they fail with -ENODEV
 * if the volume was removed, and is served again.
 */
RBLK_API int rblk_volume_refresh(struct rblk_volume *volume);
/*
 * Writes that were acknowledged, and not flushed, may be lost: the target's machine went down, or its disk could not be
 * written. That concerns every open of the volume (its uuid) in the process, in all sessions and threads, whichever wrote,
 * also one that is closed by now. From then on rblk_flush() fails with -EIO on all of them, until each that was open then
 * is closed, or has acknowledged the loss with this call. Each is told with RBLK_SESSION_EVENT_WRITES_LOST, by the next
 * rblk_poll() of its session; if one is closed before that, the next open of the volume is told. 1: this one has acknowledged a loss; 0: it had none to.
 * Closed volumes with unflushed writes are remembered until they are opened again, 1024 of them.
 */
RBLK_API int rblk_acknowledge(struct rblk_volume *volume);
RBLK_API struct rblk_session *rblk_volume_session(const struct rblk_volume *volume);

/*
 * The same without blocking: `done` is called from rblk_poll(), once, unless an error is returned.
 * -EAGAIN: three session commands are outstanding, poll first; -ENOTCONN: the session is not ready.
 * volume: the open one, or NULL: it could not be opened, or is closed. While one is outstanding
 * no other one of them may be started on the volume, nor I/O while it is being closed (-EBUSY).
 */
typedef void (*rblk_volume_callback)(void *arg, struct rblk_volume *volume, int error);
RBLK_API int rblk_volume_open_start(struct rblk_session *session, const char *name, uint32_t flags,
				    rblk_volume_callback done, void *arg);
RBLK_API int rblk_volume_close_start(struct rblk_volume *volume, rblk_volume_callback done,
				     void *arg);
RBLK_API int rblk_volume_refresh_start(struct rblk_volume *volume, rblk_volume_callback done,
				       void *arg);

/*
 * Lists the volumes that the target serves, in order of names. Blocks. *list is malloc()ed, the
 * caller frees it; returns how many. info_bytes: sizeof(struct rblk_volume_info), the step of the
 * array.
 */
RBLK_API int rblk_list(struct rblk_session *session, struct rblk_volume_info **list,
		       size_t info_bytes);

/*
 * The same without blocking, as rblk_volume_open_start(). list: malloc()ed, the callback's to free;
 * count: how many, or negative errno (list NULL).
 */
typedef void (*rblk_list_callback)(void *arg, struct rblk_volume_info *list, int count);
RBLK_API int rblk_list_start(struct rblk_session *session, size_t info_bytes,
			     rblk_list_callback done, void *arg);

/* -- reservations ------------------------------------------------------------------------------ */

/*
 * As SCSI's and NVMe's persistent reservations: initiators register a key with a volume, and a
 * registrant may take a reservation that keeps others from writing or from all I/O (-EBADE). The
 * registrant is the initiator by its name (options.initiator_name), in all of its sessions and
 * processes; by the keys, initiators recognise each other's registrations. Section 6.2 of the
 * specification.
 */
enum rblk_pr_action {
	RBLK_PR_REGISTER = 1, /* key, new_key; new_key 0 unregisters */
	RBLK_PR_ACQUIRE = 2,  /* key, type */
	RBLK_PR_RELEASE = 3,  /* key, type or NONE */
	RBLK_PR_PREEMPT = 4,  /* key, other_key, type: removes those with other_key, takes what they held */
	RBLK_PR_CLEAR = 5,    /* key */
};
enum rblk_pr_type {
	RBLK_PR_NONE = 0,
	RBLK_PR_WRITE_EXCLUSIVE = 1,              /* the holder writes */
	RBLK_PR_EXCLUSIVE_ACCESS = 2,             /* the holder reads and writes */
	RBLK_PR_WRITE_EXCLUSIVE_REGISTRANTS = 3,  /* registrants write */
	RBLK_PR_EXCLUSIVE_ACCESS_REGISTRANTS = 4, /* registrants read and write */
	RBLK_PR_WRITE_EXCLUSIVE_ALL = 5,          /* as 3, and every registrant is a holder */
	RBLK_PR_EXCLUSIVE_ACCESS_ALL = 6,         /* as 4, likewise */
};
enum rblk_pr_flag {
	RBLK_PR_IGNORE_KEY = 1u << 0, /* REGISTER: whatever the registrant's key is */
	RBLK_PR_ABORT = 1u << 1,      /* PREEMPT: also drop the victims' commands that have not begun */
	RBLK_PR_PERSIST = 1u << 2,    /* REGISTER: the volume's reservations outlive the target's process */
	RBLK_PR_VOLATILE = 1u << 3,   /* REGISTER: they do not */
};
/* Begin with RBLK_PR_REQUEST_INIT, or set `size`; what an action does not use is 0. */
struct rblk_pr_request {
	size_t size; /* sizeof(struct rblk_pr_request) */
	enum rblk_pr_action action;
	enum rblk_pr_type type;
	uint32_t flags; /* enum rblk_pr_flag */
	uint64_t key;   /* of this initiator now, 0: it is not registered */
	uint64_t new_key, other_key;
};
#ifdef __cplusplus
#define RBLK_PR_REQUEST_INIT rblk_sized<rblk_pr_request>()
#else
#define RBLK_PR_REQUEST_INIT { .size = sizeof(struct rblk_pr_request) }
#endif
/*
 * Blocks, without a time limit: after ACQUIRE, PREEMPT and CLEAR the target's store has ended all
 * writes of initiators that lost their right. -EBADE: the key is wrong, the initiator is not
 * registered, or another one holds a reservation; -EINVAL: fields that the action does not have, or
 * a RELEASE of another type; -ENOMEM: too many registrants; -EOPNOTSUPP: the target does not
 * support it, or cannot make it persist; -EIO: it could not be saved. Then nothing has changed, or it
 * is in force, and a crash of the target's machine may undo it: rblk_reservations() tells which; when
 * a later call succeeds, what is in force is saved, too.
 */
RBLK_API int rblk_reserve(struct rblk_volume *volume, const struct rblk_pr_request *request);
/* The same without blocking, as rblk_volume_refresh_start(); request: copied. Also -EAGAIN: 64
 * operations are outstanding. I/O goes on meanwhile; the volume cannot be closed. */
RBLK_API int rblk_reserve_start(struct rblk_volume *volume, const struct rblk_pr_request *request,
				rblk_volume_callback done, void *arg);

#define RBLK_PR_REGISTRANTS_MAX 128 /* of a volume */
struct rblk_pr_registrant {
	uint64_t key;
	char initiator[64];
	bool holder;
};
/* The library fills it in. Later versions add members at its end. */
struct rblk_pr_state {
	size_t size;            /* bytes that were filled in */
	uint32_t generation;    /* changes when the registrations change */
	enum rblk_pr_type type; /* in force */
	unsigned int count;     /* of registrants that were filled in */
	unsigned int total;     /* of registrants that there are */
	bool persists;          /* they outlive the target's process */
};
/* Who is registered, and what is reserved. Blocks. bytes: sizeof(*state); registrants: memory for `max`. */
RBLK_API int rblk_reservations(struct rblk_volume *volume, struct rblk_pr_state *state, size_t bytes,
			       struct rblk_pr_registrant *registrants, unsigned int max);
/* The same without blocking; the memory is the library's until `done` is called. */
RBLK_API int rblk_reservations_start(struct rblk_volume *volume, struct rblk_pr_state *state,
				     size_t bytes, struct rblk_pr_registrant *registrants,
				     unsigned int max, rblk_volume_callback done, void *arg);

/* -- memory ------------------------------------------------------------------------------------ */

/*
 * I/O is done on registered memory of the session only, because the target moves data straight into
 * and out of it. Any part of a buffer may be used for any I/O. Registering is slow: do it once. At
 * most 65536 buffers of a session. None of these blocks on the target.
 */
/* Zeroed, page-aligned memory, registered. NULL: errno; ENOMEM from the memlock limit has a message. */
RBLK_API void *rblk_buffer_alloc(struct rblk_session *session, size_t bytes);
/* Memory of rblk_buffer_alloc() that no command uses, else the program is aborted. NULL: nothing. */
RBLK_API void rblk_buffer_free(struct rblk_session *session, void *buffer);
enum rblk_buffer_flag {
	/*
	 * It is only written to volumes: the target has no right to change it, and a mapping that the program can only
	 * read will do. Reading from a volume into it is refused with -EFAULT.
	 */
	RBLK_BUFFER_READ_ONLY = 1u << 0,
};
/*
 * The caller's own memory, which must exist until it is unregistered or the session is closed. -EEXIST:
 * it overlaps a buffer; -ENOSPC: too many buffers; -ENOMEM; -EINVAL: no memory, or unknown flags.
 */
RBLK_API int rblk_buffer_register(struct rblk_session *session, const void *memory, size_t bytes, uint32_t flags);
/* memory: as it was registered. -EBUSY: commands use it; -ENOENT: it is not registered. */
RBLK_API int rblk_buffer_unregister(struct rblk_session *session, const void *memory);

/* -- I/O --------------------------------------------------------------------------------------- */

enum rblk_io_flag {
	RBLK_IO_FUA = 1u << 0,      /* durable when it completes */
	RBLK_IO_NO_UNMAP = 1u << 1, /* write zeroes: keep the space allocated */
	/*
	 * Write: after a loss of power, of the connection, of anything, all of it is there or nothing of it. It is a
	 * power of two long, from untorn_min_bytes to untorn_max_bytes (struct rblk_volume_info), aligned to its
	 * length; a vector is one piece of memory. Else -EINVAL; -EOPNOTSUPP: the volume has no such writes. It is
	 * durable only with RBLK_IO_FUA or after a flush.
	 */
	RBLK_IO_UNTORN = 1u << 2,
	/*
	 * Any command: it goes before those without it, in a message of its own and wherever commands of its session
	 * wait at the target (eight at most before one without). For what somebody waits for, beside what nobody does:
	 * a session gets no larger part of the target by it. No effect at a target that does not know it.
	 */
	RBLK_IO_PRIORITY = 1u << 3,
};

/* The result of a command. The library's, valid during the callback. */
struct rblk_result {
	int error;           /* 0 or negative errno */
	uint16_t status;     /* the target's answer, enum rblk_status of the specification; 0 with an error:
				it is unknown how much was done */
	uint64_t value;      /* the command's own: CRC32C of rblk_checksum(); where
				rblk_compare_and_write() found a difference */
	uint32_t queued_us;  /* at the target: arrival to store, data transfer included */
	uint32_t stored_us;  /* in the target's store; both rounded where a read came by immediate */
};
typedef void (*rblk_callback)(void *arg, const struct rblk_result *result);

/*
 * Start a command. offset and bytes are multiples of the volume's block size; memory lies within
 * one buffer of the session and is the library's until the callback, which comes from rblk_poll()
 * (never from within these). Nothing is sent before rblk_submit(), rblk_poll(), or
 * as many commands as one message may have. -EAGAIN: all credits are in use, poll first. -EINVAL, -ENOTCONN, -EROFS,
 * ... at once, and the callback is not called.
 */
RBLK_API int rblk_read(struct rblk_volume *volume, void *data, size_t bytes, uint64_t offset,
		       uint32_t flags, rblk_callback done, void *arg);
RBLK_API int rblk_write(struct rblk_volume *volume, const void *data, size_t bytes,
			uint64_t offset, uint32_t flags, rblk_callback done, void *arg);
/*
 * The same with several pieces of memory, each of whole blocks and within one buffer of the session
 * (not all in the same), together at most max_io_bytes. iov itself is the caller's again on return.
 * Pieces that do not lie side by side take a command each, and a credit while it is outstanding;
 * they begin with as many as there are credits and need one. A write up to max_capsule_bytes in few
 * pieces (15, or what the device gathers) is one command. Unlike a single command, a failed vector
 * may have done any part of its range.
 */
#define RBLK_IOV_MAX 256
RBLK_API int rblk_readv(struct rblk_volume *volume, const struct iovec *iov, int count,
			uint64_t offset, uint32_t flags, rblk_callback done, void *arg);
RBLK_API int rblk_writev(struct rblk_volume *volume, const struct iovec *iov, int count,
			 uint64_t offset, uint32_t flags, rblk_callback done, void *arg);
/* On success, all writes to the volume that were called back in this process before this call are durable. */
RBLK_API int rblk_flush(struct rblk_volume *volume, rblk_callback done, void *arg);
RBLK_API int rblk_discard(struct rblk_volume *volume, uint64_t bytes, uint64_t offset,
			  rblk_callback done, void *arg);
RBLK_API int rblk_write_zeroes(struct rblk_volume *volume, uint64_t bytes, uint64_t offset,
			       uint32_t flags, rblk_callback done, void *arg);
/*
 * CRC32C of a range, computed by the target, in result->value. A long one takes several commands, one after the other;
 * command_timeout_ms is for each.
 */
RBLK_API int rblk_checksum(struct rblk_volume *volume, uint64_t bytes, uint64_t offset,
			   rblk_callback done, void *arg);

/*
 * If the volume holds the first `bytes` of `data`, write the second `bytes` in their place, as one
 * step: no other write of any session comes between comparing and writing. data: 2 * bytes, in one
 * buffer of the session; bytes: at most max_compare_bytes. flags: RBLK_IO_FUA. -EILSEQ: they differ,
 * nothing was written, and result->value is the offset, within the range, of the first byte that
 * does. It is done once, even if its connection was lost and it was sent again. -EIO with status 0
 * means that it is unknown whether it was done: the target lost the session. -EAGAIN: 64 of these
 * are outstanding in the session, or all credits are in use. -EOPNOTSUPP unless the volume's
 * can_compare_and_write is set.
 */
RBLK_API int rblk_compare_and_write(struct rblk_volume *volume, const void *data, size_t bytes,
				    uint64_t offset, uint32_t flags, rblk_callback done, void *arg);

/*
 * Abort a command: the one of `volume` that was started with this `done` and `arg` (all of them, if
 * there are several). It is called back once, from rblk_poll(), as without this call, and its memory
 * is the library's until then. 0: that is still to come, and the result is one of these:
 *
 * - -ECANCELED and a status (RBLK_E_ABORTED): nothing of it was done;
 * - -ECANCELED and status 0: its connection was lost, or it is a vector of several commands. It has
 *   ended; it is unknown how much of it was done;
 * - its own: it was done, or it had begun at the target, which does not interrupt writes.
 *
 * A command that was not sent yet ends with the next rblk_poll(). For others the next rblk_submit()
 * or rblk_poll() asks the target; if it does not answer within 5 s (or command_timeout_ms, if that
 * is less), the library ends the connection. The command's own time-outs go on. -ENOENT: no such
 * command; it was called back, or never started. -EINVAL: no callback is given. May be called from
 * callbacks.
 */
RBLK_API int rblk_abort(struct rblk_volume *volume, rblk_callback done, void *arg);

enum rblk_extent_kind {
	RBLK_EXTENT_IS_HOLE = 1u << 0, /* no space is allocated */
	RBLK_EXTENT_IS_ZERO = 1u << 1, /* reads as zeroes */
};

struct rblk_extent {
	uint64_t offset, bytes;
	uint32_t flags; /* enum rblk_extent_kind; 0: data */
	uint32_t reserved;
};

/*
 * Which parts of a range hold data: whole blocks, of any length up to 2^32 - 1 blocks. `extents` is
 * the library's until the callback. On success it has result->value (1 to max) extents, in order and
 * without gaps from `offset` on; they may end before the range does: continue from there. Concurrent
 * writes may or may not show. -EOPNOTSUPP unless the volume's can_extents is set; -EAGAIN: four of
 * these are outstanding in the session, or all credits are in use.
 */
RBLK_API int rblk_extents(struct rblk_volume *volume, uint64_t bytes, uint64_t offset,
			  struct rblk_extent *extents, unsigned int max, rblk_callback done,
			  void *arg);

/*
 * Ring the doorbell: send all commands started since in as few messages as they fit in. Of each queue, less
 * than 64 KiB (64 bytes a command, and the data that travels in messages) are held back while the device has not
 * completed an earlier signalled SEND of that queue, commands below 16 KiB not for SENDs of larger ones alone;
 * rblk_poll() sends them after that completion, an answer to a command of that SEND, or 10 ms (rblk_timeout_ms()).
 * A program that does other work after it must call rblk_poll() meanwhile. 0, or -ENOTCONN: the session has FAILED.
 * Other errors end the session, and rblk_poll() tells of them.
 */
RBLK_API int rblk_submit(struct rblk_session *session);

/*
 * Process what has arrived, make at most `max` callbacks of I/O (0: all there are) and those of session
 * commands and events, and send what they started. Never sleeps. Returns the number of callbacks, plus
 * one when the session has become READY; or, once the session has FAILED and everything was called
 * back, the session's error, then with each call.
 */
RBLK_API int rblk_poll(struct rblk_session *session, unsigned int max);

/*
 * Submit, then poll until rblk_poll() returns something or timeout_ms has passed (-1: no limit).
 * Returns as rblk_poll(); 0 after the timeout, or without a limit if nothing can arrive; -EINTR if a signal's handler
 * ran while it slept, and nothing else is lost by that. A signal before that does not end it: a program that must not
 * miss one has a loop of its own, with signalfd(2) or ppoll(2).
 */
RBLK_API int rblk_wait(struct rblk_session *session, int timeout_ms);

/*
 * For the caller's own loop: readable when rblk_poll() has work, once armed. It stays the same from
 * rblk_session_start() to rblk_session_close(), which closes it. Watch it for reading (poll, epoll
 * level-triggered, io_uring), and do not read from it.
 */
RBLK_API int rblk_fd(const struct rblk_session *session);
/* Ask for that. 1: something may be there already, poll again before sleeping; 0: armed. */
RBLK_API int rblk_arm(struct rblk_session *session);
/*
 * Milliseconds after which rblk_poll() must be called even if nothing arrived; -1: no limit. The
 * target ends a session that does not keep alive because rblk_poll() was not called in time.
 */
RBLK_API int rblk_timeout_ms(const struct rblk_session *session);

/*
 * Blocking calls: start, submit, wait for this one, making the callbacks of others meanwhile.
 * 0 or negative errno: as the call that starts the command, or as its result has it; -EINTR: options.interruptible.
 */
RBLK_API int rblk_pread(struct rblk_volume *volume, void *data, size_t bytes, uint64_t offset);
RBLK_API int rblk_pwrite(struct rblk_volume *volume, const void *data, size_t bytes,
			 uint64_t offset, uint32_t flags);
RBLK_API int rblk_preadv(struct rblk_volume *volume, const struct iovec *iov, int count,
			 uint64_t offset);
RBLK_API int rblk_pwritev(struct rblk_volume *volume, const struct iovec *iov, int count,
			  uint64_t offset, uint32_t flags);
RBLK_API int rblk_fsync(struct rblk_volume *volume);
/* -EILSEQ: *difference is where the first byte differs (NULL: not wanted). */
RBLK_API int rblk_pcompare_and_write(struct rblk_volume *volume, const void *data, size_t bytes,
				     uint64_t offset, uint32_t flags, uint64_t *difference);
/* Returns how many extents there are, or negative errno; see rblk_extents(). */
RBLK_API int rblk_get_extents(struct rblk_volume *volume, uint64_t bytes, uint64_t offset,
			      struct rblk_extent *extents, unsigned int max);

/* -- measuring --------------------------------------------------------------------------------- */

/* Counters of the session since it was opened. */
struct rblk_stats {
	uint64_t commands;        /* completed */
	uint64_t sends;           /* SENDs of this end */
	uint64_t replies;         /* SENDs of the target */
	uint64_t immediates;      /* RDMA WRITE WITH IMMEDIATE of the target */
	uint64_t target_writes;   /* RDMA WRITEs of the target (by its answers: reads not by immediate) */
	uint64_t target_reads;    /* RDMA READs of the target (writes not in capsule), at least */
	uint64_t doorbells;       /* calls that posted sends */
	uint64_t sleeps;          /* times that rblk_wait() slept */
	uint64_t busy_retries;    /* commands that the target answered BUSY and that were sent again */
	uint64_t queued_us_total, stored_us_total; /* sums over the commands */
	uint64_t retries;         /* commands that were sent again after their connection was lost */
	uint64_t digest_retries;  /* commands that were sent again because their data did not match its digest */
};
/*
 * bytes: sizeof(*stats). A program's shorter struct, of an older header, is filled as far as it goes;
 * a longer one's end is zeroed. 0, or -EINVAL: shorter than any version's.
 */
RBLK_API int rblk_session_stats(const struct rblk_session *session, struct rblk_stats *stats,
				size_t bytes);
RBLK_API unsigned int rblk_session_credits(const struct rblk_session *session);

/* The session's first connection. Later versions add members at its end. */
struct rblk_session_info {
	char peer[288];     /* "10.0.0.2:4430"; without a connection, the host as the URI has it */
	char device[64];    /* "mlx5_0", "tcp"; "": there is no connection */
	char features[128]; /* agreed with the target: "immediate events"; may be empty */
	bool tls;           /* it is encrypted; others of the session may differ: rblk_session_paths() */
	bool proven;        /* both ends have proven that they have the secret of options.key_file */
	char initiator[64]; /* the session's name: options.initiator_name, or what follows from the machine */
};
/* bytes: sizeof(*info), as for rblk_session_stats(). */
RBLK_API int rblk_session_info(const struct rblk_session *session, struct rblk_session_info *info,
			       size_t bytes);

#define RBLK_PATHS_MAX 8 /* hosts of a URI */
/* One host of the URI. The library fills it in. Later versions add members at its end. */
struct rblk_path_info {
	size_t size;              /* bytes that were filled in */
	/* "10.0.0.2:4430": host and port as the URI has them; with the scheme if the URI has
	 * several. */
	char host[272];
	char peer[128];           /* the address that is connected there; "": none is */
	char device[64];          /* "mlx5_0", "tcp"; "" */
	unsigned int connections; /* of the session's queues, there, now */
	int error;                /* negative errno: why the last one ended; 0: it works, or was not tried */
	char words[RBLK_ERROR_BYTES]; /* the same */
	bool tls;                 /* all that is connected there is encrypted */
	bool proven;              /* and both ends have proven themselves */
	uint64_t connected_ms;    /* milliseconds for which the oldest connection there has been up; 0 without one */
	bool digest;              /* digests protect the data of all that is connected there */
};
/*
 * The state of the paths to at most `max` hosts of the URI. With as many queues as hosts, each was
 * tried when the session is READY. paths: an array, path_bytes (sizeof(*paths)) from one to the
 * next. Returns how many hosts there are, or -EINVAL: path_bytes is no version's.
 */
RBLK_API int rblk_session_paths(const struct rblk_session *session, struct rblk_path_info *paths,
				size_t path_bytes, unsigned int max);

/*
 * One round trip of a command without data, blocking; it waits as options.polling says. *target_cpu_ns: processor time, in
 * nanoseconds since it began, of the target's thread that serves this session; the difference of two is what it spent in
 * between. -ENOTCONN, -EAGAIN, or the command's error.
 */
RBLK_API int rblk_ping(struct rblk_session *session, uint64_t *target_cpu_ns);

/* The library's version, "0.1.0". Static. */
RBLK_API const char *rblk_version(void);

#ifdef __cplusplus
}
#endif
#endif
