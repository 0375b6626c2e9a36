/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblkd's configuration: one struct, filled from the command line and the INI file by the one table
 * of options.c, which also drives --help and is what the manuals are checked against. Control
 * thread only; a reload makes a new struct and the differences are applied.
 */
#ifndef RBLK_TARGET_SETTINGS_H
#define RBLK_TARGET_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "proto/fabric/fabric.h"
#include "proto/wire/payload.h"

struct rblk_secrets;

#define TGT_LISTEN_MAX 16
#define TGT_REACTORS_MAX 64

/* An address to listen on; control/address.c reads and writes it. */
struct tgt_address {
	enum fab_kind kind;
	char host[112]; /* name or number; "": every address, IPv6 and IPv4 */
	uint16_t port;	/* 0: any free one */
};

enum tgt_polling {
	TGT_POLL_ADAPTIVE, /* poll while busy, sleep when idle */
	TGT_POLL_ALWAYS,
	TGT_POLL_NEVER,    /* always wait for events */
};

enum tgt_cache_mode {
	TGT_CACHE_AUTO,     /* direct; where the file system cannot, buffered with a warning (default) */
	TGT_CACHE_DIRECT,   /* O_DIRECT: no page cache, or not served */
	TGT_CACHE_BUFFERED, /* page cache; flushes are still performed */
};

/* Who serves an rbd volume for writing. */
enum tgt_gateways {
	TGT_GATEWAYS_ONE,     /* one target after the other (default) */
	TGT_GATEWAYS_SEVERAL, /* any number of them at once */
};

/* How much a store is given at once. */
enum tgt_depth {
	TGT_DEPTH_FIXED, /* as its kind takes (default) */
	TGT_DEPTH_AUTO,  /* no more than keeps it busy (store/pace.h) */
};

/* Limits of operations: 0 is no limit. */
struct tgt_limit_config {
	unsigned int iops;   /* a second */
	uint32_t burst_ms;   /* what was not used for so long may be used at once */
	uint64_t rate_bytes; /* a second */
};

struct tgt_volume_config {
	char name[RBLK_NAME_BYTES];
	char store[16];       /* the kind: TGT_STORE_KINDS */
	char path[4096];      /* uring, nvme */
	uint64_t bytes;       /* memory, null; 0: the path's own size */
	uint32_t block_bytes; /* 512 or 4096; 0: the store's own, at least 512 */
	bool read_only;
	enum tgt_cache_mode cache;
	enum tgt_gateways gateways;
	uint8_t uuid[16];     /* all zero: derived from name and path */
	uint8_t fence_domain[16]; /* F10; all zero: the store's own */
	char fault[256];      /* wrap it in the fault store: "delay=5ms,fail=write:0.01,..." */
	bool allow_shrink;     /* a reload may serve it with fewer blocks */
	struct tgt_limit_config limit; /* of all who use it together */
	enum tgt_depth depth; /* what its store has at once */
	bool priority;	      /* all commands on it have RBLK_CMD_PRIORITY */
	uint32_t lock_wait_ms; /* F6: longest wait for another process's lock on the path */
	bool others_wait; /* no setting: behind it, so its opening goes on without it if it takes longer than a moment
			   */
	uint64_t away_ns; /* no setting: it was given away (reload.h), and is not opened before; 0: it was not */
	char source[4200];    /* "file:line" or "command line", for messages */
};

/* Addresses that a rule is for; base/network.c reads and compares it. */
struct tgt_network {
	uint8_t address[16]; /* of IPv4 as IPv6 maps it */
	uint8_t bits;	     /* of it that count */
	bool local;	     /* instead: this machine's own addresses */
};

/* Each includes those before it. */
enum tgt_right {
	TGT_RIGHT_NONE,
	TGT_RIGHT_SEE, /* LIST shows it */
	TGT_RIGHT_READ,
	TGT_RIGHT_WRITE,
};

struct tgt_grant {
	char volume[RBLK_NAME_BYTES]; /* a '*' at its end stands for any rest */
	enum tgt_right right;
};

#define TGT_WEIGHT_MAX 100u
#define TGT_INITIATORS_MAX 1024
#define TGT_NETWORKS_MAX 64 /* of one initiator */
#define TGT_GRANTS_MAX 1024 /* likewise */

/* A section [initiator NAME]: what who may do. */
struct tgt_initiator_config {
	char name[RBLK_NAME_BYTES]; /* a '*' at its end stands for any rest */
	struct tgt_network *networks; /* owned, as are the following */
	unsigned int network_count;
	struct tgt_grant *grants;
	unsigned int grant_count;
	struct tgt_limit_config limit; /* of all of that name together */
	unsigned int weight; /* turns that each of its sessions has when a store is full */
	bool priority;	     /* all its commands have RBLK_CMD_PRIORITY */
	struct rblk_secrets *secrets; /* a reference; NULL: nothing has to prove the name */
	char *secret_files; /* "PATH, PATH", owned; NULL: none */
	char *source; /* "file:line", for messages */
};

/* As long as pays, by what a wake-up takes here (core_spin_max_ns()). */
#define TGT_POLL_TIME_AUTO UINT32_MAX

/* Where reactors run: reactor I on CPU I of the list, which begins again at its end. */
struct tgt_cpus {
	uint32_t count; /* 0: the scheduler decides */
	uint16_t cpu[TGT_REACTORS_MAX];
};

/* Who has to come by TLS over TCP. */
enum tgt_tls {
	TGT_TLS_AUTO,	/* whoever proves a name by its secret, but from this machine */
	TGT_TLS_ALWAYS, /* everyone has to, from this machine, too */
	TGT_TLS_NEVER,	/* nobody has to */
};

/* Buckets of the histograms of /metrics. */
enum tgt_histograms {
	TGT_HISTOGRAMS_FULL, /* 23 */
	TGT_HISTOGRAMS_FEW,  /* 7 */
	TGT_HISTOGRAMS_NONE, /* sums and counts alone */
};

struct tgt_config {
	struct tgt_address listen[TGT_LISTEN_MAX];
	unsigned int listen_count;
	unsigned int reactors;
	struct tgt_cpus cpus;
	enum tgt_polling polling;
	uint32_t poll_us_max;       /* adaptive: longest spin before sleeping, or TGT_POLL_TIME_AUTO */
	uint32_t queues_max;        /* per session */
	uint32_t credits;           /* most that one queue is granted */
	uint32_t receive_buffers;   /* per reactor and device: bounds the credits granted */
	uint64_t pool_bytes;        /* data buffers, per reactor */
	uint32_t max_io_bytes;      /* of one command */
	uint32_t sessions_max;
	uint32_t queues_total_max;  /* connections, over all sessions */
	uint32_t keepalive_ms;
	uint32_t session_ms;        /* how long a session without connections is kept */
	uint32_t drain_ms;          /* SIGTERM: longest wait for commands in flight */
	uint32_t listen_wait_ms;    /* at the start: longest wait for an address that is in use */
	bool require_all;	    /* a start fails if anything of it cannot be served */
	char state_dir[256];        /* a record of a failed FLUSH for the next rblkd (F9) */
	char reservations_dir[256]; /* files of reservations that are to persist */
	char control_socket[108];   /* of rblkctl; "none": there is none */
	char name[RBLK_NAME_BYTES]; /* for discovery; "": the machine's */
	char discovery[256];        /* network interfaces: "eth0 eth1", "all"; "none" */
	uint32_t discovery_port;    /* of UDP */
	char journal[108];	    /* the socket of systemd's journal; "none": without */
	char http[128];             /* "[HOST:]PORT"; "": no HTTP */
	enum tgt_histograms histograms;
	char fault_socket[108];     /* accepts faults for users' tests here; "": accepts none */
	bool memory_lock;           /* huge pages and mlock where they can be had */
	unsigned int log_level;     /* enum tgt_log_level: least important lines that are shown */
	struct tgt_volume_config *volumes; /* owned; see tgt_config_fini() */
	unsigned int volume_count;
	enum tgt_tls tls;
	bool open; /* volumes without rules are for everyone, not only for this machine */
	struct tgt_initiator_config *initiators; /* owned */
	unsigned int initiator_count;
};

#endif
