/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the mapping between ublk's words and librblk's: see parameters.h. */
#include "initiator/ublk/parameters.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "initiator/ublk/kept.h"
#include "initiator/ublk/options.h"
#include "proto/wire/wire.h"

#define SECTOR_SHIFT 9 /* of the kernel's sectors, whatever a block is */

static uint32_t least(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/* The exponent of a power of two. */
static uint8_t shift_of(uint32_t power)
{
	return (uint8_t)__builtin_ctz(power);
}

static bool is_power(uint32_t number)
{
	return number && !(number & (number - 1));
}

/* A hint in bytes, if it is a power of two and from `least_bytes` to `most_bytes`; else least_bytes. */
static uint32_t hint(uint32_t bytes, uint32_t least_bytes, uint32_t most_bytes)
{
	return is_power(bytes) && bytes > least_bytes && bytes <= most_bytes ? bytes : least_bytes;
}

unsigned int ublk_parameters_queues(unsigned int asked)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t count = least(asked ? asked : UBLK_QUEUES, processors > 0 ? (uint64_t)processors : 1);

	return least(count, UBLK_QUEUES_MAX);
}

uint32_t ublk_parameters_io_bytes(const struct rblk_volume_info *info, uint32_t page_bytes)
{
	uint32_t bytes = least(info->max_io_bytes, UBLK_IO_BYTES);

	return bytes - bytes % page_bytes;
}

static void make_discard(const struct rblk_volume_info *info, struct ublk_param_discard *discard)
{
	/* The kernel counts sectors and bytes of one in 32 bits. */
	uint32_t bytes = least(info->max_discard_bytes, UINT32_MAX) / info->block_bytes * info->block_bytes;
	uint32_t sectors = bytes >> SECTOR_SHIFT;

	discard->discard_granularity = hint(info->discard_granularity_bytes, info->block_bytes, bytes);
	if (info->can_discard && sectors) {
		discard->max_discard_sectors = sectors;
		discard->max_discard_segments = 1;
	}
	if (info->can_write_zeroes)
		discard->max_write_zeroes_sectors = sectors;
}

int ublk_parameters_make(const struct rblk_volume_info *info, bool read_only, uint32_t io_bytes, uint32_t page_bytes,
			 struct ublk_params *parameters)
{
	struct ublk_param_basic *basic = &parameters->basic;

	memset(parameters, 0, sizeof(*parameters));
	if (!is_power(info->block_bytes) || info->block_bytes > page_bytes || info->block_bytes < 1u << SECTOR_SHIFT ||
	    io_bytes < page_bytes)
		return -EOPNOTSUPP;
	parameters->len = sizeof(*parameters);
	parameters->types = UBLK_PARAM_TYPE_BASIC | UBLK_PARAM_TYPE_DISCARD;
	basic->dev_sectors = info->bytes >> SECTOR_SHIFT;
	basic->max_sectors = io_bytes >> SECTOR_SHIFT;
	basic->logical_bs_shift = shift_of(info->block_bytes);
	basic->physical_bs_shift = shift_of(hint(info->physical_bytes, info->block_bytes, io_bytes));
	basic->io_min_shift = basic->physical_bs_shift;
	basic->io_opt_shift = shift_of(hint(info->optimal_bytes, 1u << basic->physical_bs_shift, 1u << 30));
	if (read_only || info->read_only)
		basic->attrs |= UBLK_ATTR_READ_ONLY;
	if (info->rotational)
		basic->attrs |= UBLK_ATTR_ROTATIONAL;
	if (info->volatile_cache && info->can_flush)
		basic->attrs |= UBLK_ATTR_VOLATILE_CACHE | (info->can_fua ? UBLK_ATTR_FUA : 0);
	make_discard(info, &parameters->discard);
	return 0;
}

/* -- requests ---------------------------------------------------------------------------------- */

int ublk_request_read(const struct ublksrv_io_desc *descriptor, struct ublk_request *request)
{
	*request = (struct ublk_request){
		.offset = descriptor->start_sector << SECTOR_SHIFT,
		.bytes = (uint64_t)descriptor->nr_sectors << SECTOR_SHIFT,
	};
	switch (ublksrv_get_op(descriptor)) {
	case UBLK_IO_OP_READ:
		request->operation = UBLK_READ;
		return 0;
	case UBLK_IO_OP_WRITE:
		request->operation = UBLK_WRITE;
		break;
	case UBLK_IO_OP_FLUSH:
		*request = (struct ublk_request){ .operation = UBLK_FLUSH };
		return 0;
	case UBLK_IO_OP_DISCARD:
		request->operation = UBLK_DISCARD;
		return 0;
	case UBLK_IO_OP_WRITE_ZEROES:
		request->operation = UBLK_ZERO;
		if (descriptor->op_flags & UBLK_IO_F_NOUNMAP)
			request->flags |= RBLK_IO_NO_UNMAP;
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (descriptor->op_flags & UBLK_IO_F_FUA)
		request->flags |= RBLK_IO_FUA;
	return 0;
}

uint32_t ublk_request_flags(const struct ublk_request *request, bool kernel_flushes, const struct rblk_volume_info *info)
{
	bool writes = request->operation == UBLK_WRITE || request->operation == UBLK_ZERO;

	if (writes && !kernel_flushes && info->volatile_cache && info->can_flush && info->can_fua)
		return request->flags | RBLK_IO_FUA;
	return request->flags;
}

bool ublk_request_again(struct ublk_request *request, uint64_t now_ms, uint64_t give_up_ms)
{
	if (!request->late_ms)
		request->late_ms = now_ms;
	return now_ms - request->late_ms < give_up_ms;
}

/* -- results ----------------------------------------------------------------------------------- */

/* The target's answer; as the kernel module has it (kmod/command.c). */
static int answer_of_status(uint16_t status)
{
	switch (status) {
	case RBLK_E_BUSY: /* these for too long; another path may lead to another target */
	case RBLK_E_NO_RESOURCES:
	case RBLK_E_DRAINING:
	case RBLK_E_GONE:
	case RBLK_E_NO_VOLUME:
		return -ENOLINK;
	case RBLK_E_UNSUPPORTED:
		return -EOPNOTSUPP;
	case RBLK_E_NO_SPACE:
		return -ENOSPC;
	case RBLK_E_MEDIUM:
		return -ENODATA;
	case RBLK_E_DIGEST:
		return -EILSEQ;
	case RBLK_E_RESERVED:
	case RBLK_E_ABORTED: /* by a preemption */
		return -EBADE;
	default: /* the same on every path */
		return -EREMOTEIO;
	}
}

/* The target has not answered, or the call did not start. */
static int answer_of_error(enum ublk_operation operation, int error)
{
	switch (error) {
	case -ETIMEDOUT:
	case -EOPNOTSUPP:
		return error;
	case -EBADMSG:
		return -EILSEQ;
	case -EINVAL:
	case -ERANGE:
	case -EROFS:
		return -EREMOTEIO;
	case -EIO: /* F7: a FLUSH over lost writes is true on no other path */
		return operation == UBLK_FLUSH ? -EREMOTEIO : -EIO;
	default: /* the session is lost */
		return -ENOLINK;
	}
}

int ublk_request_answer(const struct ublk_request *request, int error, uint16_t status)
{
	if (error)
		return status ? answer_of_status(status) : answer_of_error(request->operation, error);
	return request->operation == UBLK_READ || request->operation == UBLK_WRITE ? (int)request->bytes : 0;
}
