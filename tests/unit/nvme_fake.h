/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An NVMe namespace, /dev/ng0n1 and /dev/nvme0n1, for a test that links --wrap of what leads to it (see
 * CMakeLists.txt): the nodes are files of the test's, sysfs and ioctl() answer from `fake`, and commands that go into a
 * wide ring are done here, in memory. Each then passes a real io_uring as an operation that does nothing, and its result
 * is put in its completion. One thread.
 */
#ifndef RBLK_TESTS_NVME_FAKE_H
#define RBLK_TESTS_NVME_FAKE_H

#include <linux/blkzoned.h>
#include <linux/fs.h>
#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <liburing.h>
#include "target/store/nvme_command.h"
#include "tests/unit/target_rig.h"

#define FAKE_GENERIC "/dev/ng0n1"
#define FAKE_BLOCK "/dev/nvme0n1"
#define FAKE_PART "/dev/nvme0n1p1"
#define FAKE_BYTES (4u << 20)
#define FAKE_NSID 7
#define FAKE_COMMANDS 1024

struct fake_command {
	uint8_t opcode;
	bool fixed;
	uint64_t first;
	uint32_t blocks, flags; /* of double word 12 */
};

/* The device, and the kernel in front of it. */
static struct {
	/* What it is. */
	unsigned int shift;
	unsigned int metadata, protection, mdts, vwc, dlfeat;
	uint64_t bytes;
	uint32_t zone_sectors;
	int block_bytes; /* as the block device has it */
	unsigned int segments, max_kb, zeroes_max, discard_max;
	bool subsystem, no_generic;
	int identify_errno; /* 0: answers */
	int generic_errno;  /* of opening the generic device; 0: it can be opened */
	/* What becomes of commands. */
	int result;	      /* of the next `count` ones with `opcode` */
	unsigned int count;
	unsigned int pass; /* so many of them go well first */
	uint8_t opcode;
	int kernel;	      /* every command's, if it is not 0 */
	bool fixed_refused;
	bool slow;	      /* they end a moment later */
	/* What was done. */
	unsigned char data[FAKE_BYTES], durable[FAKE_BYTES];
	struct fake_command commands[FAKE_COMMANDS];
	unsigned int command_count, pauses;
	bool exclusive; /* the last open of the block device */
	const char *folder; /* of the files behind the nodes */
	/* Results of what the ring has. */
	struct {
		uint64_t user_data;
		int result;
	} ends[FAKE_COMMANDS];
	unsigned int end_count;
} fake;

static inline void fake_reset(const char *folder)
{
	memset(&fake, 0, sizeof(fake));
	fake.shift = 9;
	fake.block_bytes = 512;
	fake.mdts = 7;
	fake.vwc = 1;
	fake.dlfeat = 9;
	fake.bytes = FAKE_BYTES;
	fake.segments = 65;
	fake.max_kb = 512;
	fake.zeroes_max = 64 << 10;
	fake.discard_max = 1 << 20;
	fake.folder = folder;
}

/* -- nodes and sysfs --------------------------------------------------------------------------- */

static inline bool fake_stat(const char *name, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	if (strcmp(name, FAKE_GENERIC) == 0) {
		st->st_mode = S_IFCHR;
		st->st_rdev = makedev(243, 0);
	} else if (strcmp(name, FAKE_BLOCK) == 0) {
		st->st_mode = S_IFBLK;
		st->st_rdev = makedev(259, 0);
	} else if (strcmp(name, FAKE_PART) == 0) {
		st->st_mode = S_IFBLK;
		st->st_rdev = makedev(259, 1);
	} else {
		return false;
	}
	return true;
}

int __real_stat(const char *name, struct stat *st);
int __wrap_stat(const char *name, struct stat *st);
int __wrap_stat(const char *name, struct stat *st)
{
	return fake_stat(name, st) ? 0 : __real_stat(name, st);
}

/* Which node a descriptor is of, by the file behind it; NULL: none. */
static inline const char *fake_node(int fd)
{
	static const char *const nodes[] = {FAKE_GENERIC, FAKE_BLOCK};
	char link[64], name[300], wanted[300];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, name, sizeof(name) - 1);
	name[length > 0 ? length : 0] = 0;
	for (unsigned int i = 0; i < UNIT_LENGTH(nodes); i++) {
		snprintf(wanted, sizeof(wanted), "%s/%s", fake.folder, nodes[i] + strlen("/dev/"));
		if (strlen(name) >= strlen(wanted) && strcmp(name + strlen(name) - strlen(wanted), wanted) == 0)
			return nodes[i];
	}
	return NULL;
}

int __real_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st)
{
	const char *node = fake_node(fd);

	return node && fake_stat(node, st) ? 0 : __real_fstat(fd, st);
}

int __real_open(const char *name, int flags, ...);
int __wrap_open(const char *name, int flags, ...);
int __wrap_open(const char *name, int flags, ...)
{
	struct stat st;
	char file[300];
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (!fake_stat(name, &st))
		return __real_open(name, flags, mode);
	if (S_ISBLK(st.st_mode))
		fake.exclusive = flags & O_EXCL;
	else if (fake.generic_errno) {
		errno = fake.generic_errno;
		return -1;
	}
	snprintf(file, sizeof(file), "%s/%s", fake.folder, name + strlen("/dev/"));
	return __real_open(file, (flags & ~(O_EXCL | O_DIRECT)) | O_CREAT, 0600);
}

char *__real_realpath(const char *name, char *resolved);
char *__wrap_realpath(const char *name, char *resolved);
char *__wrap_realpath(const char *name, char *resolved)
{
	const char *folder = fake.subsystem ? "/sys/devices/virtual/nvme-subsystem/nvme-subsys0" : "/sys/devices/nvme/nvme0";

	if (strcmp(name, "/sys/dev/char/243:0") == 0)
		sprintf(resolved, "%s/ng0n1", folder);
	else if (strcmp(name, "/sys/dev/block/259:0") == 0)
		sprintf(resolved, "%s/nvme0n1", folder);
	else if (strcmp(name, "/sys/dev/block/259:1") == 0)
		sprintf(resolved, "%s/nvme0n1/nvme0n1p1", folder);
	else
		return __real_realpath(name, resolved);
	return resolved;
}

/* The answer of a file of sysfs; NULL: there is none. */
static inline const char *fake_sysfs(const char *name)
{
	static char text[64];
	const char *last = strrchr(name, '/') + 1;
	unsigned int number;

	if (strcmp(last, "dev") == 0) {
		if (strstr(name, "/ng0n1/"))
			return fake.no_generic ? NULL : "243:0\n";
		return strstr(name, "/nvme0n1/") ? "259:0\n" : NULL;
	}
	if (strstr(name, "../queue"))
		return NULL;
	if (strcmp(last, "write_cache") == 0)
		return "write through\n"; /* the device is asked itself */
	if (strcmp(last, "max_hw_sectors_kb") == 0)
		number = fake.max_kb;
	else if (strcmp(last, "max_segments") == 0)
		number = fake.segments;
	else if (strcmp(last, "write_zeroes_max_bytes") == 0)
		number = fake.zeroes_max;
	else if (strcmp(last, "discard_max_bytes") == 0)
		number = fake.discard_max;
	else
		return NULL;
	snprintf(text, sizeof(text), "%u\n", number);
	return text;
}

FILE *__real_fopen(const char *name, const char *mode);
FILE *__wrap_fopen(const char *name, const char *mode);
FILE *__wrap_fopen(const char *name, const char *mode)
{
	const char *text;

	if (strncmp(name, "/sys/", 5) != 0)
		return __real_fopen(name, mode);
	text = fake_sysfs(name);
	if (text)
		return fmemopen((char *)text, strlen(text), "r");
	errno = ENOENT;
	return NULL;
}

/* -- ioctl ------------------------------------------------------------------------------------- */

static inline int fake_identify(const struct nvme_passthru_cmd *command)
{
	unsigned char *page = (unsigned char *)(uintptr_t)command->addr;
	uint64_t blocks = fake.bytes >> fake.shift;

	if (fake.identify_errno) {
		errno = fake.identify_errno;
		return -1;
	}
	assert_int_equal(command->opcode, 6);
	assert_int_equal(command->data_len, 4096);
	if (command->cdw10 == 0) {
		assert_int_equal(command->nsid, FAKE_NSID);
		memcpy(page, &blocks, 8);
		page[26] = 1; /* the second format */
		page[29] = (unsigned char)fake.protection;
		page[33] = (unsigned char)fake.dlfeat;
		page[132] = (unsigned char)fake.metadata;
		page[134] = (unsigned char)fake.shift;
		return 0;
	}
	assert_int_equal(command->cdw10, 1);
	page[77] = (unsigned char)fake.mdts;
	page[525] = (unsigned char)fake.vwc;
	return 0;
}

int __real_ioctl(int fd, unsigned long what, ...);
int __wrap_ioctl(int fd, unsigned long what, ...);
int __wrap_ioctl(int fd, unsigned long what, ...)
{
	const char *node = fake_node(fd);
	va_list args;
	void *to;

	va_start(args, what);
	to = va_arg(args, void *);
	va_end(args);
	if (!node)
		return __real_ioctl(fd, what, to);
	if (strcmp(node, FAKE_GENERIC) == 0) {
		if (what == NVME_IOCTL_ID)
			return FAKE_NSID;
		assert_int_equal(what, NVME_IOCTL_ADMIN_CMD);
		return fake_identify(to);
	}
	switch (what) {
	case BLKSSZGET:
		*(int *)to = fake.block_bytes;
		return 0;
	case BLKROGET:
		*(int *)to = 0;
		return 0;
	case BLKPBSZGET:
	case BLKIOOPT:
		*(unsigned int *)to = 4096;
		return 0;
	case BLKGETSIZE64:
		*(uint64_t *)to = fake.bytes;
		return 0;
	case BLKGETZONESZ:
		*(uint32_t *)to = fake.zone_sectors;
		return 0;
	default:
		errno = ENOTTY;
		return -1;
	}
}

/* -- commands ---------------------------------------------------------------------------------- */

static inline void fake_record(const struct nvme_uring_cmd *cmd, bool fixed, uint64_t first, uint32_t blocks)
{
	assert_true(fake.command_count < FAKE_COMMANDS);
	fake.commands[fake.command_count++] = (struct fake_command){
		.opcode = cmd->opcode,
		.fixed = fixed,
		.first = first,
		.blocks = blocks,
		.flags = cmd->cdw12 & ~0xffffu,
	};
}

/* What a device does, and does not: without FUA a write is not durable before a FLUSH. */
static inline void fake_do(const struct nvme_uring_cmd *cmd, uint64_t first, uint32_t blocks)
{
	uint64_t at = first << fake.shift, bytes = (uint64_t)blocks << fake.shift;
	void *data = (void *)(uintptr_t)cmd->addr;

	switch (cmd->opcode) {
	case TGT_NVME_FLUSH:
		memcpy(fake.durable, fake.data, sizeof(fake.data));
		return;
	case TGT_NVME_READ:
		memcpy(data, &fake.data[at], bytes);
		return;
	case TGT_NVME_WRITE:
		memcpy(&fake.data[at], data, bytes);
		break;
	default:
		memset(&fake.data[at], 0, bytes);
	}
	if (cmd->cdw12 & TGT_NVME_FUA && cmd->opcode != TGT_NVME_DATASET_MANAGEMENT)
		memcpy(&fake.durable[at], &fake.data[at], bytes);
}

static inline int fake_command(const struct io_uring_sqe *sqe)
{
	const struct nvme_uring_cmd *cmd = (const struct nvme_uring_cmd *)sqe->cmd;
	uint64_t first = cmd->cdw10 | (uint64_t)cmd->cdw11 << 32;
	uint32_t blocks = (cmd->cdw12 & 0xffff) + 1;
	bool fixed = sqe->uring_cmd_flags & IORING_URING_CMD_FIXED;

	assert_int_equal(sqe->cmd_op, NVME_URING_CMD_IO);
	assert_true(sqe->flags & IOSQE_FIXED_FILE);
	assert_int_equal(cmd->nsid, FAKE_NSID);
	assert_int_equal(cmd->flags | cmd->metadata_len | cmd->timeout_ms, 0);
	if (cmd->opcode == TGT_NVME_DATASET_MANAGEMENT) {
		struct tgt_nvme_range range;

		assert_int_equal(cmd->data_len, sizeof(range));
		assert_int_equal(cmd->cdw10, 0);
		assert_int_equal(cmd->cdw11, 4);
		memcpy(&range, (const void *)(uintptr_t)cmd->addr, sizeof(range));
		first = range.first;
		blocks = range.blocks;
	}
	fake_record(cmd, fixed, first, cmd->opcode == TGT_NVME_FLUSH ? 0 : blocks);
	if (fake.kernel || (fixed && fake.fixed_refused))
		return fake.kernel ? fake.kernel : -EINVAL;
	if (fake.count && cmd->opcode == fake.opcode && fake.pass)
		fake.pass--;
	else if (fake.count && cmd->opcode == fake.opcode) {
		fake.count--;
		return fake.result;
	}
	assert_true(cmd->opcode == TGT_NVME_FLUSH || (first + blocks) << fake.shift <= FAKE_BYTES);
	if (cmd->opcode == TGT_NVME_READ || cmd->opcode == TGT_NVME_WRITE)
		assert_int_equal(cmd->data_len, blocks << fake.shift);
	fake_do(cmd, first, blocks);
	return 0;
}

int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring)
{
	static struct __kernel_timespec moment = {.tv_nsec = 20000000};
	struct io_uring_sq *sq = &ring->sq;

	if (!(ring->flags & IORING_SETUP_SQE128))
		return __real_io_uring_submit(ring);
	for (unsigned int i = sq->sqe_head; i != sq->sqe_tail; i++) {
		struct io_uring_sqe *sqe = &sq->sqes[(i & *sq->kring_mask) << 1];
		uint64_t user_data = sqe->user_data;
		bool pause = sqe->opcode == IORING_OP_TIMEOUT;

		fake.ends[fake.end_count].user_data = user_data;
		fake.ends[fake.end_count++].result = pause ? -ETIME : fake_command(sqe);
		assert_true(fake.end_count < FAKE_COMMANDS);
		fake.pauses += pause;
		memset(sqe, 0, 2 * sizeof(*sqe));
		if (fake.slow)
			io_uring_prep_timeout(sqe, &moment, 0, 0);
		else
			io_uring_prep_nop(sqe);
		sqe->user_data = user_data;
	}
	return __real_io_uring_submit(ring);
}

unsigned int __real_io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes, unsigned int count);
unsigned int __wrap_io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes, unsigned int count);
unsigned int __wrap_io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes, unsigned int count)
{
	unsigned int got = __real_io_uring_peek_batch_cqe(ring, cqes, count);

	if (!(ring->flags & IORING_SETUP_CQE32))
		return got;
	for (unsigned int i = 0; i < got; i++)
		for (unsigned int j = 0; j < fake.end_count; j++) {
			if (fake.ends[j].user_data != cqes[i]->user_data)
				continue;
			cqes[i]->res = fake.ends[j].result;
			fake.ends[j] = fake.ends[--fake.end_count];
			break;
		}
	return got;
}

/* -- tests ------------------------------------------------------------------------------------- */

static inline int fake_begin(void **state)
{
	(void)state;
	fake_reset(rig_directory());
	return 0;
}

static inline int fake_end(void **state)
{
	(void)state;
	rig_directory_remove(fake.folder);
	return 0;
}

static inline void fake_open(struct rig *rig)
{
	struct tgt_volume_config config = rig_volume("nvme", FAKE_BLOCK, 0);
	char error[TGT_ERROR_BYTES] = "";
	int status = rig_open(rig, &tgt_store_nvme, &config, error);

	assert_string_equal(error, "");
	assert_int_equal(status, 0);
	assert_ptr_equal(rig->store->ops, &tgt_store_nvme);
	fake.command_count = 0;
}

#define FAKE_TEST(name) cmocka_unit_test_setup_teardown(name, fake_begin, fake_end)

#endif
