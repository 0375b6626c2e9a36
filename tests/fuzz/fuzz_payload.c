/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no payload breaks its validator, and a payload that passes can be used as it is: names are
 * terminated strings, geometry can be multiplied and shifted without overflow. Method: the first
 * byte chooses the validator, the rest is the payload.
 */
#include "tests/fuzz/fuzz.h"
#include "proto/wire/wire_check.h"

static void check_name(const char *name)
{
	size_t length = strnlen(name, RBLK_NAME_BYTES);

	FUZZ_ASSERT(length >= 1 && length < RBLK_NAME_BYTES);
	for (; length < RBLK_NAME_BYTES; length++)
		FUZZ_ASSERT(!name[length]);
	FUZZ_ASSERT(!strpbrk(name, "/\\\"'%$ \n\r\t\033"));
}

static void check_volume(const struct rblk_wire_volume *volume)
{
	u32 block_bytes = rblk_le32(volume->block_bytes);
	u64 bytes;

	check_name(volume->name);
	FUZZ_ASSERT(block_bytes && !(block_bytes & (block_bytes - 1)));
	FUZZ_ASSERT(!__builtin_mul_overflow(rblk_le64(volume->blocks), block_bytes, &bytes));
	FUZZ_ASSERT(bytes && bytes <= INT64_MAX);
	FUZZ_ASSERT(rblk_le32(volume->max_io_bytes) >= block_bytes);
	FUZZ_ASSERT(rblk_le32(volume->max_io_bytes) % block_bytes == 0);
	FUZZ_ASSERT(rblk_le32(volume->max_capsule_bytes) <= RBLK_CAPSULE_DATA_MAX);
}

/* F10: without the feature there is none. */
static void check_no_domain(const struct rblk_wire_volume *volume)
{
	for (unsigned int i = 0; i < sizeof(volume->fence_domain); i++)
		FUZZ_ASSERT(!volume->fence_domain[i]);
}

/* The first bytes are what the command asked for and the completion's result. */
static void check_extents(const uint8_t *data, size_t size)
{
	uint64_t count = fuzz_take(&data, &size, 4) | (uint64_t)fuzz_take(&data, &size, 4) << 32;
	uint32_t blocks = fuzz_take(&data, &size, 4);
	struct rblk_wire_extent *extents = fuzz_copy(data, size);
	uint64_t total = 0;

	if (rblk_check_extents(extents, size, count, blocks) == RBLK_WIRE_OK) {
		FUZZ_ASSERT(count && count <= RBLK_EXTENTS_MAX);
		for (uint64_t i = 0; i < count; i++)
			FUZZ_ASSERT(!__builtin_add_overflow(total, rblk_le64(extents[i].blocks),
							    &total));
		FUZZ_ASSERT(total >= count && total <= blocks);
	}
	free(extents);
}

static void check_report(const struct rblk_wire_reservation_report *report, size_t size)
{
	const struct rblk_wire_registrant *registrants = (const void *)(report + 1);
	uint32_t count = rblk_le32(report->registrants);

	FUZZ_ASSERT(count <= RBLK_REGISTRANTS_MAX);
	FUZZ_ASSERT(sizeof(*report) + count * sizeof(*registrants) <= size);
	for (uint32_t i = 0; i < count; i++)
		check_name(registrants[i].initiator);
}

static void check_chosen(uint32_t choice, const void *data, size_t size)
{
	const struct rblk_wire_identify *identify = data;
	const struct rblk_wire_authenticate *authenticate = data;
	const struct rblk_wire_open *open = data;
	const struct rblk_wire_reservation *reservation = data;

	switch (choice % 7) {
	case 0:
		if (rblk_check_identify(data, size) == RBLK_WIRE_OK) {
			check_name(identify->initiator);
			FUZZ_ASSERT(strnlen(identify->software, RBLK_NAME_BYTES) < RBLK_NAME_BYTES);
		}
		break;
	case 1:
		if (rblk_check_authenticate(data, size) == RBLK_WIRE_OK) {
			check_name(authenticate->name);
			FUZZ_ASSERT(rblk_le32(authenticate->step) == 1 ||
				    rblk_le32(authenticate->step) == 2);
		}
		break;
	case 2:
		if (rblk_check_open(data, size) == RBLK_WIRE_OK)
			check_name(open->name);
		break;
	case 3:
		if (rblk_check_volume(data, size, RBLK_FEATURES_ALL) == RBLK_WIRE_OK)
			check_volume(data);
		if (rblk_check_volume(data, size, 0) == RBLK_WIRE_OK)
			check_no_domain(data);
		break;
	case 4:
		if (rblk_check_reservation(data, size) == RBLK_WIRE_OK)
			FUZZ_ASSERT(reservation->action >= RBLK_RESERVE_REGISTER &&
				    reservation->action <= RBLK_RESERVE_CLEAR);
		break;
	case 5:
		check_extents(data, size);
		break;
	case 6:
		if (rblk_check_reservation_report(data, size) == RBLK_WIRE_OK)
			check_report(data, size);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t choice = fuzz_take(&data, &size, 1);
	void *copy = fuzz_copy(data, size);

	check_chosen(choice, copy, size);
	free(copy);
	return 0;
}
