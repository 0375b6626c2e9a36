/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Filling a wide submission entry (ring.h) with one command of the NVM command set. */
#ifndef RBLK_TARGET_STORE_NVME_COMMAND_H
#define RBLK_TARGET_STORE_NVME_COMMAND_H

#include <assert.h>
#include <liburing.h>
#include <linux/nvme_ioctl.h>
#include <stdbool.h>
#include <stdint.h>

enum tgt_nvme_opcode {
	TGT_NVME_FLUSH = 0x00,
	TGT_NVME_WRITE = 0x01,
	TGT_NVME_READ = 0x02,
	TGT_NVME_WRITE_ZEROES = 0x08,
	TGT_NVME_DATASET_MANAGEMENT = 0x09,
};

/* Flags of command double word 12, above the number of blocks less one. */
#define TGT_NVME_FUA (1u << 30)
#define TGT_NVME_DEALLOCATE (1u << 25) /* WRITE ZEROES */
#define TGT_NVME_BLOCKS_MAX 65536u
/* A flag of double word 11 of DATASET MANAGEMENT: the ranges are not needed any more. */
#define TGT_NVME_ATTRIBUTE_DEALLOCATE (1u << 2)

/* A range of DATASET MANAGEMENT, as the device reads it: little-endian. */
struct tgt_nvme_range {
	uint32_t attributes;
	uint32_t blocks;
	uint64_t first;
};
static_assert(sizeof(struct tgt_nvme_range) == 16, "NVM command set specification, Dataset Management");

struct tgt_nvme_command {
	enum tgt_nvme_opcode opcode;
	uint32_t nsid;
	uint32_t cdw10, cdw11, cdw12;
	void *data;
	uint32_t data_bytes;
	int buffer_index; /* the ring's fixed buffer that `data` is in, or -1 */
};

/* `file`: index of the generic device among the wide half's fixed files. */
static inline void tgt_nvme_prep(struct io_uring_sqe *sqe, int file, const struct tgt_nvme_command *command)
{
	struct nvme_uring_cmd *cmd = (struct nvme_uring_cmd *)sqe->cmd;

	sqe->opcode = IORING_OP_URING_CMD;
	sqe->flags = IOSQE_FIXED_FILE;
	sqe->fd = file;
	sqe->cmd_op = NVME_URING_CMD_IO;
	if (command->buffer_index >= 0) {
		sqe->uring_cmd_flags = IORING_URING_CMD_FIXED;
		sqe->buf_index = (uint16_t)command->buffer_index;
	}
	cmd->opcode = (uint8_t)command->opcode;
	cmd->nsid = command->nsid;
	cmd->addr = (uint64_t)(uintptr_t)command->data;
	cmd->data_len = command->data_bytes;
	cmd->cdw10 = command->cdw10;
	cmd->cdw11 = command->cdw11;
	cmd->cdw12 = command->cdw12;
}

#endif
