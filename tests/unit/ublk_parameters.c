/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a volume, a request and a result are in the kernel's words (initiator/ublk/parameters.c): nothing is promised that the
 * volume does not have, flush, FUA and zeroes keep their meaning, and errors are those that the kernel tells apart.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include "initiator/ublk/parameters.h"
#include "proto/wire/wire.h"

#define PAGE 4096u

static struct ublk_params parameters;

static struct rblk_volume_info plain(void)
{
	return (struct rblk_volume_info){
		.size = sizeof(struct rblk_volume_info), .bytes = 64u << 20, .block_bytes = 512, .physical_bytes = 4096,
		.max_io_bytes = 1u << 20,
	};
}

static int make(const struct rblk_volume_info *info)
{
	return ublk_parameters_make(info, false, ublk_parameters_io_bytes(info, PAGE), PAGE, &parameters);
}

static void sizes_are_the_volumes(void **state)
{
	struct rblk_volume_info info = plain();

	assert_int_equal(make(&info), 0);
	assert_int_equal(parameters.types, UBLK_PARAM_TYPE_BASIC | UBLK_PARAM_TYPE_DISCARD);
	assert_int_equal(parameters.len, sizeof(parameters));
	assert_int_equal(parameters.basic.dev_sectors, 131072);
	assert_int_equal(parameters.basic.logical_bs_shift, 9);
	assert_int_equal(parameters.basic.physical_bs_shift, 12);
	assert_int_equal(parameters.basic.io_min_shift, 12);
	assert_int_equal(parameters.basic.io_opt_shift, 12);
	assert_int_equal(parameters.basic.max_sectors, UBLK_IO_BYTES / 512);
	/* The volume takes less, and not whole pages. */
	info.max_io_bytes = 65536 + 512;
	info.optimal_bytes = 65536;
	assert_int_equal(make(&info), 0);
	assert_int_equal(parameters.basic.max_sectors, 128);
	assert_int_equal(parameters.basic.io_opt_shift, 16);
	/* Hints that are none. */
	info.physical_bytes = 256;
	info.optimal_bytes = 3 * 65536;
	assert_int_equal(make(&info), 0);
	assert_int_equal(parameters.basic.physical_bs_shift, 9);
	assert_int_equal(parameters.basic.io_opt_shift, 9);
}

static void what_the_kernel_cannot_have_is_refused(void **state)
{
	struct rblk_volume_info info = plain();

	info.block_bytes = 2 * PAGE;
	assert_int_equal(make(&info), -EOPNOTSUPP);
	info.block_bytes = 0;
	assert_int_equal(make(&info), -EOPNOTSUPP);
	info = plain();
	info.max_io_bytes = PAGE - 512;
	assert_int_equal(make(&info), -EOPNOTSUPP);
}

static void nothing_is_announced_that_the_volume_has_not(void **state)
{
	struct rblk_volume_info info = plain();

	assert_int_equal(make(&info), 0);
	assert_int_equal(parameters.basic.attrs, 0);
	assert_false(ublk_parameters_flushes(&parameters));
	assert_int_equal(parameters.discard.max_discard_sectors, 0);
	assert_int_equal(parameters.discard.max_write_zeroes_sectors, 0);
	/* A cache that cannot be flushed: no FLUSH would be true. */
	info.volatile_cache = true;
	assert_int_equal(make(&info), 0);
	assert_int_equal(parameters.basic.attrs, 0);
	info.can_flush = true;
	assert_int_equal(make(&info), 0);
	assert_int_equal(parameters.basic.attrs, UBLK_ATTR_VOLATILE_CACHE);
	assert_true(ublk_parameters_flushes(&parameters));
	info.can_fua = true;
	info.rotational = true;
	assert_int_equal(make(&info), 0);
	assert_int_equal(parameters.basic.attrs, UBLK_ATTR_VOLATILE_CACHE | UBLK_ATTR_FUA | UBLK_ATTR_ROTATIONAL);
	info.read_only = true;
	assert_int_equal(make(&info), 0);
	assert_true(parameters.basic.attrs & UBLK_ATTR_READ_ONLY);
	info = plain();
	assert_int_equal(ublk_parameters_make(&info, true, 65536, PAGE, &parameters), 0);
	assert_int_equal(parameters.basic.attrs, UBLK_ATTR_READ_ONLY);
}

static void discards_have_their_limits(void **state)
{
	struct rblk_volume_info info = plain();

	info.can_discard = true;
	info.max_discard_bytes = 1u << 20;
	info.discard_granularity_bytes = 65536;
	assert_int_equal(make(&info), 0);
	assert_int_equal(parameters.discard.max_discard_sectors, 2048);
	assert_int_equal(parameters.discard.max_discard_segments, 1);
	assert_int_equal(parameters.discard.discard_granularity, 65536);
	assert_int_equal(parameters.discard.max_write_zeroes_sectors, 0);
	/* More than 32 bits of bytes: whole blocks of them. */
	info.can_write_zeroes = true;
	info.block_bytes = 4096;
	info.max_discard_bytes = 1ull << 40;
	assert_int_equal(make(&info), 0);
	assert_int_equal(parameters.discard.max_discard_sectors, (UINT32_MAX - 4095) >> 9);
	assert_int_equal(parameters.discard.max_write_zeroes_sectors, (UINT32_MAX - 4095) >> 9);
	/* A granularity of more than the most cannot be. */
	info.max_discard_bytes = 32768;
	assert_int_equal(make(&info), 0);
	assert_int_equal(parameters.discard.discard_granularity, 4096);
}

static struct ublk_request request;

static int read_request(uint32_t op_flags, uint32_t sectors, uint64_t start)
{
	const struct ublksrv_io_desc descriptor = { .op_flags = op_flags, .nr_sectors = sectors, .start_sector = start };

	return ublk_request_read(&descriptor, &request);
}

static void requests_keep_their_meaning(void **state)
{
	assert_int_equal(read_request(UBLK_IO_OP_READ, 8, 1ull << 33), 0);
	assert_int_equal(request.operation, UBLK_READ);
	assert_int_equal(request.flags, 0);
	assert_int_equal(request.bytes, 4096);
	assert_int_equal(request.offset, 1ull << 42);
	assert_int_equal(read_request(UBLK_IO_OP_WRITE | UBLK_IO_F_FAILFAST_DEV, 1, 0), 0);
	assert_int_equal(request.operation, UBLK_WRITE);
	assert_int_equal(request.flags, 0);
	assert_int_equal(read_request(UBLK_IO_OP_WRITE | UBLK_IO_F_FUA, 1, 0), 0);
	assert_int_equal(request.flags, RBLK_IO_FUA);
	assert_int_equal(read_request(UBLK_IO_OP_FLUSH, 0, 0), 0);
	assert_int_equal(request.operation, UBLK_FLUSH);
	assert_int_equal(read_request(UBLK_IO_OP_DISCARD, UINT32_MAX, 8), 0);
	assert_int_equal(request.operation, UBLK_DISCARD);
	assert_int_equal(request.bytes, (uint64_t)UINT32_MAX * 512);
	assert_int_equal(read_request(UBLK_IO_OP_WRITE_ZEROES, 8, 8), 0);
	assert_int_equal(request.operation, UBLK_ZERO);
	assert_int_equal(request.flags, 0);
	assert_int_equal(read_request(UBLK_IO_OP_WRITE_ZEROES | UBLK_IO_F_NOUNMAP | UBLK_IO_F_FUA, 8, 8), 0);
	assert_int_equal(request.flags, RBLK_IO_NO_UNMAP | RBLK_IO_FUA);
	assert_int_equal(read_request(UBLK_IO_OP_WRITE_SAME, 8, 8), -EOPNOTSUPP);
	assert_int_equal(read_request(200, 8, 8), -EOPNOTSUPP);
}

/* F7: no FLUSH will come for a cache that the kernel does not know. */
static void a_cache_that_came_later_is_written_through(void **state)
{
	struct rblk_volume_info info = plain();

	assert_int_equal(read_request(UBLK_IO_OP_WRITE, 8, 0), 0);
	assert_int_equal(ublk_request_flags(&request, false, &info), 0);
	info.volatile_cache = info.can_flush = info.can_fua = true;
	assert_int_equal(ublk_request_flags(&request, false, &info), RBLK_IO_FUA);
	assert_int_equal(ublk_request_flags(&request, true, &info), 0);
	assert_int_equal(read_request(UBLK_IO_OP_WRITE_ZEROES | UBLK_IO_F_NOUNMAP, 8, 0), 0);
	assert_int_equal(ublk_request_flags(&request, false, &info), RBLK_IO_FUA | RBLK_IO_NO_UNMAP);
	assert_int_equal(read_request(UBLK_IO_OP_READ, 8, 0), 0);
	assert_int_equal(ublk_request_flags(&request, false, &info), 0);
}

static void answers_are_bytes_or_errors_that_the_kernel_knows(void **state)
{
	static const struct { int error; uint16_t status; int answer; } cases[] = {
		{ -EAGAIN, RBLK_E_BUSY, -ENOLINK },        { -ENOMEM, RBLK_E_NO_RESOURCES, -ENOLINK },
		{ -ESHUTDOWN, RBLK_E_DRAINING, -ENOLINK }, { -ENODEV, RBLK_E_GONE, -ENOLINK },
		{ -ENOENT, RBLK_E_NO_VOLUME, -ENOLINK },   { -EOPNOTSUPP, RBLK_E_UNSUPPORTED, -EOPNOTSUPP },
		{ -ENOSPC, RBLK_E_NO_SPACE, -ENOSPC },     { -ENODATA, RBLK_E_MEDIUM, -ENODATA },
		{ -EBADMSG, RBLK_E_DIGEST, -EILSEQ },      { -EBADE, RBLK_E_RESERVED, -EBADE },
		{ -ECANCELED, RBLK_E_ABORTED, -EBADE },    { -EIO, RBLK_E_IO, -EREMOTEIO },
		{ -EROFS, RBLK_E_READ_ONLY, -EREMOTEIO },  { -ERANGE, RBLK_E_RANGE, -EREMOTEIO },
		{ -ETIMEDOUT, 0, -ETIMEDOUT },             { -ENOTCONN, 0, -ENOLINK },
		{ -ECANCELED, 0, -ENOLINK },               { -EIO, 0, -EIO },
		{ -EBADMSG, 0, -EILSEQ },                  { -EINVAL, 0, -EREMOTEIO },
		{ -EOPNOTSUPP, 0, -EOPNOTSUPP },
	};

	assert_int_equal(read_request(UBLK_IO_OP_WRITE, 8, 0), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(ublk_request_answer(&request, cases[i].error, cases[i].status), cases[i].answer);
	assert_int_equal(ublk_request_answer(&request, 0, 0), 4096);
	assert_int_equal(read_request(UBLK_IO_OP_READ, 1, 0), 0);
	assert_int_equal(ublk_request_answer(&request, 0, 0), 512);
	assert_int_equal(read_request(UBLK_IO_OP_DISCARD, 8, 0), 0);
	assert_int_equal(ublk_request_answer(&request, 0, 0), 0);
	/* F7: on no other path would the FLUSH be true. */
	assert_int_equal(read_request(UBLK_IO_OP_FLUSH, 0, 0), 0);
	assert_int_equal(ublk_request_answer(&request, 0, 0), 0);
	assert_int_equal(ublk_request_answer(&request, -EIO, 0), -EREMOTEIO);
}

/* Each time that it has no answer takes the command's time limit. */
static void requests_without_an_answer_are_sent_again(void **state)
{
	(void)state;

	assert_int_equal(read_request(UBLK_IO_OP_WRITE, 8, 0), 0);
	assert_true(ublk_request_again(&request, 5000, 60000));
	assert_true(ublk_request_again(&request, 64999, 60000));
	assert_false(ublk_request_again(&request, 65000, 60000));
	/* The tag's next request is another one. */
	assert_int_equal(read_request(UBLK_IO_OP_READ, 8, 0), 0);
	assert_true(ublk_request_again(&request, 70000, 60000));
	/* --give-up 0s */
	assert_int_equal(read_request(UBLK_IO_OP_FLUSH, 0, 0), 0);
	assert_false(ublk_request_again(&request, 5000, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_the_volumes),
		cmocka_unit_test(what_the_kernel_cannot_have_is_refused),
		cmocka_unit_test(nothing_is_announced_that_the_volume_has_not),
		cmocka_unit_test(discards_have_their_limits),
		cmocka_unit_test(requests_keep_their_meaning),
		cmocka_unit_test(a_cache_that_came_later_is_written_through),
		cmocka_unit_test(requests_without_an_answer_are_sent_again),
		cmocka_unit_test(answers_are_bytes_or_errors_that_the_kernel_knows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
