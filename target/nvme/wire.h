/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The bytes of NVMe over Fabrics, on TCP and RDMA, as far as they are used here: PDUs (NVMe/TCP Transport
 * Specification), commands, completions, and the structures that hosts read (NVM Express Base and NVM Command Set
 * Specifications). Little-endian, as proto/wire is.
 */
#ifndef RBLK_TARGET_NVME_WIRE_H
#define RBLK_TARGET_NVME_WIRE_H

#include "proto/wire/types.h"

#define NVME_DEFAULT_PORT 4420
#define NVME_NQN_BYTES 256 /* a field: at most 223 characters, zero filled */
#define NVME_NQN_MAX 223
#define NVME_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"
#define NVME_STANDARD_PREFIX "nqn.2014-08.org.nvmexpress:"
#define NVME_UUID_PREFIX NVME_STANDARD_PREFIX "uuid:"

/* -- PDUs ---------------------------------------------------------------------------------------- */

enum nvme_pdu_type {
	NVME_PDU_IC_REQ = 0x00,
	NVME_PDU_IC_RESP = 0x01,
	NVME_PDU_H2C_TERM = 0x02,
	NVME_PDU_C2H_TERM = 0x03,
	NVME_PDU_COMMAND = 0x04,
	NVME_PDU_RESPONSE = 0x05,
	NVME_PDU_H2C_DATA = 0x06,
	NVME_PDU_C2H_DATA = 0x07,
	NVME_PDU_R2T = 0x09,
};

#define NVME_PDU_HEADER_DIGEST 0x01u
#define NVME_PDU_DATA_DIGEST 0x02u
#define NVME_PDU_LAST 0x04u /* of H2C and C2H data: the last of its command */
#define NVME_PDU_SUCCESS 0x08u /* of C2H data: the command has succeeded, and no response follows */

/* ICReq and ICResp have these. What both have, each later PDU has, Connect's as well. */
#define NVME_DIGEST_HEADER 0x01u
#define NVME_DIGEST_DATA 0x02u
#define NVME_DIGEST_BYTES 4u

struct nvme_pdu {
	__u8 type; /* enum nvme_pdu_type */
	__u8 flags;
	__u8 header_bytes;
	__u8 data_offset; /* 0: there is no data */
	__le32 bytes;	  /* of the whole */
};
RBLK_ASSERT_SIZE(struct nvme_pdu, 8);

/* ICReq and ICResp. */
struct nvme_pdu_ic {
	struct nvme_pdu pdu;
	__le16 version; /* 0 */
	__u8 alignment; /* of data in PDUs that the sender gets, 0's based, in dwords */
	__u8 digests;	/* NVME_DIGEST_... */
	__le32 most; /* ICReq: R2Ts, 0's based; ICResp: bytes of one H2C data PDU */
	__u8 reserved[112];
};
RBLK_ASSERT_SIZE(struct nvme_pdu_ic, 128);

/* H2CData, C2HData and R2T. */
struct nvme_pdu_data {
	struct nvme_pdu pdu;
	__le16 command;	 /* identifier */
	__le16 transfer; /* tag, of R2T and what answers it */
	__le32 offset;
	__le32 length;
	__u8 reserved[4];
};
RBLK_ASSERT_SIZE(struct nvme_pdu_data, 24);

enum nvme_fatal {
	NVME_FATAL_HEADER = 0x01,   /* a field of the header: the offset of which follows */
	NVME_FATAL_SEQUENCE = 0x02, /* a PDU that may not come now */
	NVME_FATAL_DIGEST = 0x03,   /* a header's: that which came follows */
	NVME_FATAL_RANGE = 0x04,    /* data out of its range */
	NVME_FATAL_LIMIT = 0x05,    /* more data than may come */
};

struct nvme_pdu_term {
	struct nvme_pdu pdu;
	__le16 status; /* enum nvme_fatal */
	__le16 field[2];
	__u8 reserved[10];
};
RBLK_ASSERT_SIZE(struct nvme_pdu_term, 24);

/* -- commands ------------------------------------------------------------------------------------ */

enum nvme_opcode {
	NVME_FLUSH = 0x00,
	NVME_WRITE = 0x01,
	NVME_READ = 0x02,
	NVME_COMPARE = 0x05,
	NVME_WRITE_ZEROES = 0x08,
	NVME_DATASET_MANAGEMENT = 0x09,
	NVME_VERIFY = 0x0c,
	NVME_RESERVE_REGISTER = 0x0d,
	NVME_RESERVE_REPORT = 0x0e,
	NVME_RESERVE_ACQUIRE = 0x11,
	NVME_RESERVE_RELEASE = 0x15,

	NVME_GET_LOG_PAGE = 0x02,
	NVME_IDENTIFY = 0x06,
	NVME_ABORT = 0x08,
	NVME_SET_FEATURES = 0x09,
	NVME_GET_FEATURES = 0x0a,
	NVME_ASYNC_EVENT = 0x0c,
	NVME_KEEP_ALIVE = 0x18,

	NVME_FABRICS = 0x7f,
};

enum nvme_fabrics_type {
	NVME_PROPERTY_SET = 0x00,
	NVME_CONNECT = 0x01,
	NVME_PROPERTY_GET = 0x04,
	NVME_AUTH_SEND = 0x05,
	NVME_AUTH_RECEIVE = 0x06,
};

/* Bits of OAES and of the feature: attributes of a namespace have changed; its ANA state has. */
#define NVME_EVENT_NAMESPACE 0x100u
#define NVME_EVENT_ANA 0x800u
#define NVME_LOG_KEEPS 0x8000u /* of word 10: the event is not read with it */
#define NVME_LOG_GROUPS 0x100u /* of word 10: of ANA, without namespaces */

#define NVME_FLAGS_SGL 0x40u
#define NVME_FLAGS_FUSE 0x03u /* enum nvme_fuse; no other flag may be set */
enum nvme_fuse { NVME_FUSE_NONE, NVME_FUSE_FIRST, NVME_FUSE_SECOND };

#define NVME_SGL_CAPSULE 0x01u
#define NVME_SGL_TRANSPORT 0x5au
/* RDMA: a length of three bytes, the four of the key behind it; the target may invalidate it. */
#define NVME_SGL_KEYED 0x40u
#define NVME_SGL_KEYED_INVALIDATE 0x4fu

struct nvme_command {
	__u8 opcode;
	__u8 flags;
	__le16 id;
	__le32 namespace; /* of fabrics commands: their type in the first byte */
	__le64 reserved;
	__le64 metadata;
	__le64 address;
	__le32 length;
	__u8 key[3];
	__u8 sgl;
	__le32 word[6]; /* 10 to 15 */
};
RBLK_ASSERT_SIZE(struct nvme_command, 64);
RBLK_ASSERT_OFFSET(struct nvme_command, sgl, 39);
RBLK_ASSERT_OFFSET(struct nvme_command, word, 40);

#define NVME_LIMITED_RETRY (1u << 31) /* word 12 */
#define NVME_FUA (1u << 30)
#define NVME_DEALLOCATE (1u << 25) /* of write zeroes, word 12 */
#define NVME_DSM_DEALLOCATE 4u	   /* word 11 */
#define NVME_DSM_RANGES 256u

struct nvme_range {
	__le32 attributes;
	__le32 blocks;
	__le64 lba;
};
RBLK_ASSERT_SIZE(struct nvme_range, 16);

/* Word 10 of reservations' commands: an action, this bit, from bit 8 on the type, as rblk's; REGISTER: from bit 30 on,
 * whether they persist. */
#define NVME_RESERVE_IGNORE_KEY 8u
enum nvme_register { NVME_REGISTER_NEW, NVME_REGISTER_UNREGISTER, NVME_REGISTER_REPLACE };
enum nvme_acquire { NVME_ACQUIRE, NVME_ACQUIRE_PREEMPT, NVME_ACQUIRE_PREEMPT_ABORT };
enum nvme_release { NVME_RELEASE, NVME_RELEASE_CLEAR };

struct nvme_reserve {
	__le64 key;   /* the current one */
	__le64 other; /* REGISTER: the new one; ACQUIRE: whose registrants are preempted; RELEASE ends before it */
};
RBLK_ASSERT_SIZE(struct nvme_reserve, 16);

struct nvme_reserve_report {
	__le32 generation;
	__u8 type;
	__u8 registrants[2]; /* as they are not aligned: bytes */
	__u8 reserved0[2];
	__u8 persists;
	__u8 reserved1[54];
};
RBLK_ASSERT_SIZE(struct nvme_reserve_report, 64);
RBLK_ASSERT_OFFSET(struct nvme_reserve_report, persists, 9);

struct nvme_reserve_registrant {
	__le16 controller;
	__u8 holder;
	__u8 reserved0[5];
	__le64 key;
	__u8 host_id[16];
	__u8 reserved1[32];
};
RBLK_ASSERT_SIZE(struct nvme_reserve_registrant, 64);

struct nvme_completion {
	__le64 result;
	__le16 sq_head;
	__le16 sq_id;
	__le16 id;
	__le16 status; /* shifted by one: the phase bit does not count */
};
RBLK_ASSERT_SIZE(struct nvme_completion, 16);

struct nvme_response {
	struct nvme_pdu pdu;
	struct nvme_completion completion;
};
RBLK_ASSERT_SIZE(struct nvme_response, 24);

/* Type and code. */
enum nvme_status {
	NVME_OK = 0x000,
	NVME_BAD_OPCODE = 0x001,
	NVME_BAD_FIELD = 0x002,
	NVME_INTERNAL = 0x006,
	NVME_ABORTED = 0x007,
	NVME_FUSED_FAILED = 0x009,
	NVME_FUSED_MISSING = 0x00a,
	NVME_BAD_NAMESPACE = 0x00b,
	NVME_BAD_SEQUENCE = 0x00c,
	NVME_BAD_SGL_LENGTH = 0x00f,
	NVME_BAD_SGL_TYPE = 0x011,
	NVME_BAD_SGL_OFFSET = 0x016,
	NVME_HOST_ID_FORMAT = 0x018,
	NVME_PREEMPTED = 0x01b,
	NVME_WRITE_PROTECTED = 0x020,
	NVME_INTERRUPTED = 0x021,
	NVME_TRANSPORT = 0x022, /* transient */
	NVME_RANGE = 0x080,
	NVME_FULL = 0x081,
	NVME_RESERVED = 0x083,
	NVME_ABORT_LIMIT = 0x103,
	NVME_BAD_LOG_PAGE = 0x109,
	NVME_NOT_CHANGEABLE = 0x10e,
	NVME_TOO_MANY_EVENTS = 0x105,
	NVME_CONNECT_FORMAT = 0x180,
	NVME_CONNECT_BUSY = 0x181,
	NVME_CONNECT_INVALID = 0x182,
	NVME_CONNECT_HOST = 0x184,
	NVME_AUTH_REQUIRED = 0x191,
	NVME_MEDIUM_WRITE = 0x280,
	NVME_MEDIUM_READ = 0x281,
	NVME_DIFFERS = 0x285, /* what was compared */
	NVME_DENIED = 0x286,
	NVME_INACCESSIBLE = 0x302, /* by this path */
	NVME_NO_RETRY = 0x4000, /* beside one of these */
};

/* In the capsule of Connect. */
struct nvme_connect {
	__u8 host_id[16];
	__le16 controller;
	__u8 reserved0[238];
	char subsystem[NVME_NQN_BYTES];
	char host[NVME_NQN_BYTES];
	__u8 reserved1[256];
};
RBLK_ASSERT_SIZE(struct nvme_connect, 1024);
RBLK_ASSERT_OFFSET(struct nvme_connect, subsystem, 256);

#define NVME_CONTROLLER_ANY 0xffffu
#define NVME_CONNECT_NO_HEAD (4u << 16) /* word 11: the host does not want to know its submission queue's head */
#define NVME_CONNECT_AUTHENTICATE (1u << 17) /* in the result, beside the controller's id */

/* -- properties ---------------------------------------------------------------------------------- */

enum nvme_property {
	NVME_CAP = 0x00,
	NVME_VS = 0x08,
	NVME_CC = 0x14,
	NVME_CSTS = 0x1c,
};

#define NVME_VERSION 0x00010400u
#define NVME_CC_ENABLE 1u
#define NVME_CC_SHUTDOWN (3u << 14)
#define NVME_CSTS_READY 1u
#define NVME_CSTS_SHUT (2u << 2)

/* -- what hosts read ----------------------------------------------------------------------------- */

enum nvme_cns {
	NVME_CNS_NAMESPACE = 0x00,
	NVME_CNS_CONTROLLER = 0x01,
	NVME_CNS_NAMESPACES = 0x02,
	NVME_CNS_DESCRIPTORS = 0x03,
	NVME_CNS_SET_NAMESPACE = 0x05,
	NVME_CNS_SET_CONTROLLER = 0x06,
};

enum nvme_feature {
	NVME_FEATURE_WRITE_CACHE = 0x06,
	NVME_FEATURE_QUEUES = 0x07,
	NVME_FEATURE_EVENTS = 0x0b,
	NVME_FEATURE_KEEP_ALIVE = 0x0f,
	NVME_FEATURE_HOST_ID = 0x81,
	NVME_FEATURE_RESERVATION_MASK = 0x82,
	NVME_FEATURE_RESERVATION_PERSISTENCE = 0x83,
};

enum nvme_log_page {
	NVME_LOG_PAGES = 0x00, /* which there are */
	NVME_LOG_ERRORS = 0x01,
	NVME_LOG_HEALTH = 0x02,
	NVME_LOG_FIRMWARE = 0x03,
	NVME_LOG_CHANGED = 0x04,
	NVME_LOG_EFFECTS = 0x05, /* of commands, and which there are */
	NVME_LOG_ANA = 0x0c,
	NVME_LOG_DISCOVERY = 0x70,
	NVME_LOG_RESERVATIONS = 0x80,
};

#define NVME_HEALTH_ERRORS 176u /* in the page of health: how many entries the error log has had */
#define NVME_IDENTIFY_BYTES 4096u

struct nvme_identify_controller {
	__le16 vendor[2];
	char serial[20];
	char model[40];
	char firmware[8];
	__u8 arbitration;
	__u8 oui[3];
	__u8 paths;    /* CMIC */
	__u8 transfer; /* MDTS: 2^n pages of 4096 bytes */
	__le16 id;
	__le32 version;
	__le32 resume_us, enter_us;
	__le32 events; /* OAES */
	__le32 attributes;
	__u8 reserved0[11];
	__u8 kind; /* 1: of I/O, 2: of discovery */
	__u8 reserved1[144];
	__le16 admin_optional;
	__u8 aborts, async_events; /* 0's based */
	__u8 firmware_updates, log_attributes, errors, power_states;
	__u8 reserved2[56];
	__le16 keep_alive; /* granularity, in 100 ms */
	__u8 reserved3[20];
	__u8 ana_s, ana; /* ANATT, ANACAP */
	__le32 ana_group_most, ana_groups;
	__u8 reserved8[160];
	__u8 sq_entry, cq_entry; /* required and largest size, as powers of two */
	__le16 commands;	 /* outstanding on a queue */
	__le32 namespaces;
	__le16 optional; /* ONCS */
	__le16 fused;	 /* 1: Compare and Write */
	__u8 format;
	__u8 write_cache;
	__le16 atomic[2];
	__u8 vendor_commands, write_protect;
	__le16 atomic_compare; /* 0's based, in blocks */
	__le16 reserved4;
	__le32 sgls;
	__le32 namespaces_most; /* MNAN */
	__u8 reserved5[224];
	char subsystem[NVME_NQN_BYTES];
	__u8 reserved6[768];
	__le32 command_units, response_units; /* of 16 bytes, of capsules of I/O queues */
	__le16 data_units;
	__u8 fabrics_attributes, descriptors;
	__u8 reserved7[244];
	__u8 powers[1024];
	__u8 vendor_bytes[1024];
};
RBLK_ASSERT_SIZE(struct nvme_identify_controller, NVME_IDENTIFY_BYTES);
RBLK_ASSERT_OFFSET(struct nvme_identify_controller, kind, 111);
RBLK_ASSERT_OFFSET(struct nvme_identify_controller, admin_optional, 256);
RBLK_ASSERT_OFFSET(struct nvme_identify_controller, keep_alive, 320);
RBLK_ASSERT_OFFSET(struct nvme_identify_controller, ana, 343);
RBLK_ASSERT_OFFSET(struct nvme_identify_controller, sq_entry, 512);
RBLK_ASSERT_OFFSET(struct nvme_identify_controller, sgls, 536);
RBLK_ASSERT_OFFSET(struct nvme_identify_controller, subsystem, 768);
RBLK_ASSERT_OFFSET(struct nvme_identify_controller, command_units, 1792);

#define NVME_PATHS 0xbu /* CMIC: of several ports and controllers, with ANA */
#define NVME_ANA_STATES 0x5u /* ANACAP: optimized and inaccessible */
#define NVME_RESERVATION_MASKS 0xeu /* of the three notices, by their types */
#define NVME_OPTIONAL_COMPARE (1u << 0)
#define NVME_OPTIONAL_DSM (1u << 2)
#define NVME_OPTIONAL_ZEROES (1u << 3)
#define NVME_OPTIONAL_RESERVATIONS (1u << 5)
#define NVME_OPTIONAL_VERIFY (1u << 7)
#define NVME_RESERVATIONS_PERSIST (1u << 0)
#define NVME_RESERVATIONS_ALL 0xfeu /* the six types, and "ignore the existing key" as of version 1.3 on */

struct nvme_identify_namespace {
	__le64 blocks, capacity, used;
	__u8 features, formats, format, metadata, protection, protected, paths, reservations;
	__u8 progress, deallocation;
	__u8 reserved0[58];
	__le32 group; /* ANAGRPID */
	__u8 reserved3[3];
	__u8 attributes; /* 1: write protected */
	__u8 reserved2[4];
	__u8 nguid[16];
	__u8 eui64[8];
	__le32 format_0; /* the block's size as a power of two, in bits 16 to 23 */
	__u8 reserved1[3964];
};
RBLK_ASSERT_SIZE(struct nvme_identify_namespace, NVME_IDENTIFY_BYTES);
RBLK_ASSERT_OFFSET(struct nvme_identify_namespace, group, 92);
RBLK_ASSERT_OFFSET(struct nvme_identify_namespace, nguid, 104);
RBLK_ASSERT_OFFSET(struct nvme_identify_namespace, format_0, 128);

/* The NVM command set's part of a controller. */
struct nvme_identify_set {
	__u8 verify, zeroes, uncorrectable, ranges; /* limits as MDTS; ranges of one DSM */
	__le32 range_blocks;
	__le64 dsm_blocks;
	__u8 reserved[4080];
};
RBLK_ASSERT_SIZE(struct nvme_identify_set, NVME_IDENTIFY_BYTES);

/* An entry of the error log. */
struct nvme_error {
	__le64 number; /* of all errors, from 1 */
	__le16 queue, id;
	__le16 status;	 /* as in the completion */
	__le16 location; /* of the parameter; 0xffff: none is said */
	__le64 block;
	__le32 namespace;
	__u8 vendor;
	__u8 transport; /* as in the discovery log page */
	__u8 reserved[34];
};
RBLK_ASSERT_SIZE(struct nvme_error, 64);

/* The log page of ANA, with its only group and namespace. */
struct nvme_ana {
	__le64 changes;
	__le16 groups;
	__u8 reserved0[6];
	__le32 group, namespaces;
	__le64 group_changes;
	__u8 state;
	__u8 reserved1[15];
	__le32 namespace;
	__u8 reserved2[4];
};
RBLK_ASSERT_SIZE(struct nvme_ana, 56);
RBLK_ASSERT_OFFSET(struct nvme_ana, state, 32);

/* The log page of reservations: the oldest notice. */
struct nvme_notice {
	__le64 count; /* of all, from 1; 0: there is none */
	__u8 type;    /* enum tgt_notice */
	__u8 available; /* beside this one */
	__u8 reserved0[2];
	__le32 namespace;
	__u8 reserved1[48];
};
RBLK_ASSERT_SIZE(struct nvme_notice, 64);

/* The header of the discovery log page, and its entries. */
struct nvme_discovery {
	__le64 generation;
	__le64 records;
	__le16 format;
	__u8 reserved[1006];
};
RBLK_ASSERT_SIZE(struct nvme_discovery, 1024);

struct nvme_discovery_entry {
	__u8 transport; /* 1: RDMA, 3: TCP */
	__u8 family;	/* 1: IPv4, 2: IPv6 */
	__u8 kind;	/* 2: a subsystem */
	__u8 requirements; /* TREQ */
	__le16 port;
	__le16 controller;
	__le16 admin_entries;
	__u8 reserved0[22];
	char service[32];
	__u8 reserved1[192];
	char subsystem[NVME_NQN_BYTES];
	char address[256];
	__u8 specific[256];
};
RBLK_ASSERT_SIZE(struct nvme_discovery_entry, 1024);
#define NVME_SECURE_REQUIRED 1u
#define NVME_SECURE_TLS13 2u /* TCP: the first specific byte */
RBLK_ASSERT_OFFSET(struct nvme_discovery_entry, service, 32);
RBLK_ASSERT_OFFSET(struct nvme_discovery_entry, subsystem, 256);

#endif
