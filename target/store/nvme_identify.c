/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The two Identify commands of nvme_identify.h, and the fields of their data structures. */
#include "target/store/nvme_identify.h"

#include <endian.h>
#include <errno.h>
#include <linux/nvme_ioctl.h>
#include <string.h>
#include <sys/ioctl.h>
#include "target/base/error.h"
#include "target/store/nvme_status.h"

#define IDENTIFY_BYTES 4096
#define OPCODE_IDENTIFY 0x06
#define CNS_NAMESPACE 0
#define CNS_CONTROLLER 1

/* Offsets in what the namespace reports. */
#define NS_SIZE 0
#define NS_FLBAS 26
#define NS_DPS 29
#define NS_DLFEAT 33
#define NS_LBAF 128 /* of four bytes each: bytes of metadata (16 bits), log2 of the block's bytes, and another */
#define NS_LBAFS 64
/* Offsets in what the controller reports. */
#define CTRL_MDTS 77
#define CTRL_VWC 525

/*
 * MDTS counts the smallest pages that the controller can have. That is in a register that only the driver reads; 4 KiB is
 * the least that there can be.
 */
#define PAGE_SHIFT 12

#define BLOCK_SHIFT_MIN 9u
#define BLOCK_SHIFT_MAX 12u

static int identify(int fd, const char *path, unsigned int what, uint32_t nsid, uint8_t data[IDENTIFY_BYTES], char *error)
{
	struct nvme_passthru_cmd command = {
		.opcode = OPCODE_IDENTIFY,
		.nsid = nsid,
		.addr = (uint64_t)(uintptr_t)data,
		.data_len = IDENTIFY_BYTES,
		.cdw10 = what,
	};
	int status;

	memset(data, 0, IDENTIFY_BYTES);
	status = ioctl(fd, NVME_IOCTL_ADMIN_CMD, &command);
	if (status == 0)
		return 0;
	if (status > 0)
		return tgt_error(error, -EIO, "%s: Identify failed: NVMe status %#x: %s", path, (unsigned int)status,
				 tgt_nvme_words(status));
	if (errno == EACCES || errno == EPERM)
		return tgt_error(error, -EOPNOTSUPP, "%s: the kernel lets only CAP_SYS_ADMIN identify it", path);
	return tgt_error(error, -errno, "%s: Identify failed: %s", path, strerror(errno));
}

static uint32_t shifted(unsigned int exponent)
{
	return exponent ? exponent + PAGE_SHIFT < 31 ? 1u << (exponent + PAGE_SHIFT) : 1u << 31 : 0;
}

static int take_namespace(const uint8_t *data, const char *path, struct tgt_nvme_identity *identity, char *error)
{
	/* Which of the formats: four bits, and since NVMe 2.0 two more. */
	unsigned int format = (data[NS_FLBAS] & 15) | (data[NS_FLBAS] >> 5 & 3) << 4;
	const uint8_t *lbaf = &data[NS_LBAF + 4 * (format % NS_LBAFS)];
	unsigned int metadata = lbaf[0] | (unsigned int)lbaf[1] << 8, shift = lbaf[2];
	uint64_t blocks;

	memcpy(&blocks, &data[NS_SIZE], sizeof(blocks));
	if (metadata || data[NS_DPS] & 7)
		return tgt_error(error, -EINVAL,
				 "%s: the namespace has %u bytes of metadata for each block%s, which passthrough does not "
				 "serve; serve its block device with store = uring, or format it without", path, metadata,
				 data[NS_DPS] & 7 ? " and protection information" : "");
	if (shift < BLOCK_SHIFT_MIN || shift > BLOCK_SHIFT_MAX)
		return tgt_error(error, -EINVAL, "%s: the namespace has blocks of 2^%u bytes; 512 to 4096 are supported",
				 path, shift);
	identity->block_bytes = 1u << shift;
	identity->blocks = le64toh(blocks);
	identity->deallocates = (data[NS_DLFEAT] & 7) == 1 && data[NS_DLFEAT] & 8;
	return 0;
}

int tgt_nvme_identify(int fd, const char *path, struct tgt_nvme_identity *identity, char *error)
{
	uint8_t data[IDENTIFY_BYTES] __attribute__((aligned(IDENTIFY_BYTES)));
	int nsid = ioctl(fd, NVME_IOCTL_ID), err;

	memset(identity, 0, sizeof(*identity));
	if (nsid <= 0)
		return tgt_error(error, nsid ? -errno : -EINVAL, "%s: not an NVMe namespace: %s", path,
				 nsid ? strerror(errno) : "no number");
	identity->nsid = (uint32_t)nsid;
	err = identify(fd, path, CNS_NAMESPACE, identity->nsid, data, error);
	if (err == 0)
		err = take_namespace(data, path, identity, error);
	if (err == 0)
		err = identify(fd, path, CNS_CONTROLLER, 0, data, error);
	if (err < 0)
		return err;
	identity->max_bytes = shifted(data[CTRL_MDTS]);
	identity->volatile_cache = data[CTRL_VWC] & 1;
	return 0;
}
