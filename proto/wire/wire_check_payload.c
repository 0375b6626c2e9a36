/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Validators of the payloads: what an initiator sends in the capsule (names, authentication,
 * opening, reservations) and what a target reports (volumes, extents). Pure
 * functions over bytes, called by both ends before any field is used.
 */
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_bytes.h"

static_assert(sizeof(struct rblk_wire_identify) <= RBLK_CAPSULE_ALIGN, "fits one capsule unit");
static_assert(sizeof(struct rblk_wire_authenticate) <= RBLK_CAPSULE_ALIGN, "likewise");
static_assert(sizeof(struct rblk_wire_open) <= RBLK_CAPSULE_ALIGN, "likewise");
static_assert(sizeof(struct rblk_wire_reservation) <= RBLK_CAPSULE_ALIGN, "likewise");

static bool power_of_two(u32 value)
{
	return value && !(value & (value - 1));
}

/* Zero filled to its end, so that one name has one form in bytes; and at least one character. */
static bool text_valid(const char *text, bool (*allowed)(char c))
{
	size_t length = 0;

	while (length < RBLK_NAME_BYTES && text[length]) {
		if (!allowed(text[length]))
			return false;
		length++;
	}
	return length && length < RBLK_NAME_BYTES &&
	       rblk_bytes_zero(text + length, RBLK_NAME_BYTES - length);
}

static bool name_character(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == ':' || c == '+' || c == '-';
}

static bool printable_character(char c)
{
	return c >= ' ' && c <= '~';
}

bool rblk_name_valid(const char name[RBLK_NAME_BYTES])
{
	return text_valid(name, name_character);
}

bool rblk_name_distinct(const char name[RBLK_NAME_BYTES])
{
	return rblk_name_valid(name) && strcmp(name, RBLK_NAME_UNNAMED) != 0 && strcmp(name, "localhost") != 0 &&
	       strcmp(name, "localhost.localdomain") != 0;
}

/* A payload of `bytes`, zero filled up to the end of its capsule unit. */
static enum rblk_wire_error check_told(const void *data, size_t length, size_t bytes)
{
	if (length < bytes)
		return RBLK_WIRE_SHORT;
	if (length > RBLK_CAPSULE_ALIGN)
		return RBLK_WIRE_LONG;
	if (!rblk_bytes_zero((const u8 *)data + bytes, length - bytes))
		return RBLK_WIRE_RESERVED;
	return RBLK_WIRE_OK;
}

enum rblk_wire_error rblk_check_identify(const void *data, size_t length)
{
	const struct rblk_wire_identify *identify = data;
	enum rblk_wire_error error = check_told(data, length, sizeof(*identify));

	if (error)
		return error;
	if (!RBLK_FIELD_ZERO(identify, reserved))
		return RBLK_WIRE_RESERVED;
	if (!rblk_name_valid(identify->initiator) ||
	    !text_valid(identify->software, printable_character))
		return RBLK_WIRE_NAME;
	return RBLK_WIRE_OK;
}

enum rblk_wire_error rblk_check_authenticate(const void *data, size_t length)
{
	const struct rblk_wire_authenticate *authenticate = data;
	enum rblk_wire_error error = check_told(data, length, sizeof(*authenticate));
	u32 step;

	if (error)
		return error;
	if (!RBLK_FIELD_ZERO(authenticate, reserved0) || !RBLK_FIELD_ZERO(authenticate, reserved1))
		return RBLK_WIRE_RESERVED;
	if (!rblk_name_valid(authenticate->name))
		return RBLK_WIRE_NAME;
	step = rblk_le32(authenticate->step);
	if (step != 1 && step != 2)
		return RBLK_WIRE_PAYLOAD;
	if (step == 1 && !RBLK_FIELD_ZERO(authenticate, proof))
		return RBLK_WIRE_PAYLOAD;
	return RBLK_WIRE_OK;
}

enum rblk_wire_error rblk_check_open(const void *data, size_t length)
{
	const struct rblk_wire_open *open = data;
	enum rblk_wire_error error = check_told(data, length, sizeof(*open));

	if (error)
		return error;
	if (!RBLK_FIELD_ZERO(open, reserved) || rblk_le32(open->flags) & ~RBLK_OPEN_FLAGS_ALL)
		return RBLK_WIRE_RESERVED;
	return rblk_name_valid(open->name) ? RBLK_WIRE_OK : RBLK_WIRE_NAME;
}

/* Fields of one action must be zero in another: they would be misread. */
static bool reservation_fields_valid(const struct rblk_wire_reservation *reservation)
{
	const u8 keeps = RBLK_RESERVE_PERSIST | RBLK_RESERVE_VOLATILE;

	switch ((enum rblk_reservation_action)reservation->action) {
	case RBLK_RESERVE_REGISTER:
		return !(reservation->flags & RBLK_RESERVE_ABORT) &&
		       (reservation->flags & keeps) != keeps && !reservation->type &&
		       !reservation->other_key;
	case RBLK_RESERVE_ACQUIRE:
		return !reservation->flags && reservation->type && !reservation->new_key &&
		       !reservation->other_key;
	case RBLK_RESERVE_RELEASE:
		return !reservation->flags && !reservation->new_key && !reservation->other_key;
	case RBLK_RESERVE_PREEMPT:
		return !(reservation->flags & ~RBLK_RESERVE_ABORT) && reservation->type &&
		       !reservation->new_key;
	case RBLK_RESERVE_CLEAR:
		return !reservation->flags && !reservation->type && !reservation->new_key &&
		       !reservation->other_key;
	}
	return false;
}

enum rblk_wire_error rblk_check_reservation(const void *data, size_t length)
{
	const struct rblk_wire_reservation *reservation = data;
	enum rblk_wire_error error = check_told(data, length, sizeof(*reservation));

	if (error)
		return error;
	if (!RBLK_FIELD_ZERO(reservation, reserved) ||
	    reservation->flags & ~RBLK_RESERVE_FLAGS_ALL)
		return RBLK_WIRE_RESERVED;
	if (reservation->type > RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL ||
	    !reservation_fields_valid(reservation))
		return RBLK_WIRE_PAYLOAD;
	return RBLK_WIRE_OK;
}

enum rblk_wire_error rblk_check_reservation_report(const void *data, size_t length)
{
	const struct rblk_wire_reservation_report *report = data;
	const struct rblk_wire_registrant *registrants = (const void *)(report + 1);
	u32 count, i;

	if (length < sizeof(*report))
		return RBLK_WIRE_SHORT;
	if (!RBLK_FIELD_ZERO(report, reserved))
		return RBLK_WIRE_RESERVED;
	count = rblk_le32(report->registrants);
	if (report->type > RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL || report->persists > 1 ||
	    count > rblk_le32(report->total) || rblk_le32(report->total) > RBLK_REGISTRANTS_MAX)
		return RBLK_WIRE_PAYLOAD;
	if (count > (length - sizeof(*report)) / sizeof(*registrants))
		return RBLK_WIRE_SHORT;
	for (i = 0; i < count; i++) {
		if (!RBLK_FIELD_ZERO(&registrants[i], reserved))
			return RBLK_WIRE_RESERVED;
		if (!rblk_name_valid(registrants[i].initiator))
			return RBLK_WIRE_NAME;
		if (!registrants[i].key || registrants[i].holder > 1 ||
		    (registrants[i].holder && !report->type))
			return RBLK_WIRE_PAYLOAD;
	}
	return RBLK_WIRE_OK;
}

static bool volume_geometry_valid(const struct rblk_wire_volume *volume)
{
	u32 block_bytes = rblk_le32(volume->block_bytes);
	u32 physical_bytes = rblk_le32(volume->physical_bytes);
	u32 max_io_bytes = rblk_le32(volume->max_io_bytes);
	u32 max_capsule_bytes = rblk_le32(volume->max_capsule_bytes);
	u64 blocks = rblk_le64(volume->blocks);

	if (!power_of_two(block_bytes) ||
	    !rblk_between(block_bytes, RBLK_BLOCK_BYTES_MIN, RBLK_BLOCK_BYTES_MAX))
		return false;
	/* The size in bytes fits a signed 64-bit offset. No division: a 32-bit kernel has none of 64 bits. */
	if (!blocks || blocks > ((u64)-1 >> 1) >> __builtin_ctz(block_bytes))
		return false;
	/* May be below block_bytes: a volume may be given larger blocks than its disk has. */
	if (!power_of_two(physical_bytes))
		return false;
	if (!rblk_between(max_io_bytes, block_bytes, RBLK_IO_BYTES_MAX) ||
	    max_io_bytes % block_bytes)
		return false;
	return max_capsule_bytes <= RBLK_CAPSULE_DATA_MAX &&
	       max_capsule_bytes % RBLK_CAPSULE_ALIGN == 0;
}

/* Only an open volume has these fields, and only where it was agreed that there are such. */
static bool volume_has_none_but(const struct rblk_wire_volume *volume, u32 features)
{
	bool domain = volume->handle && features & RBLK_FEATURE_FENCE_DOMAIN;
	bool limit = volume->handle && features & RBLK_FEATURE_COMPARE_LIMIT;

	return (domain || RBLK_FIELD_ZERO(volume, fence_domain)) && (limit || !volume->max_compare_blocks);
}

/* Powers of two, from a block to what one command can have. */
static bool volume_untorn_valid(const struct rblk_wire_volume *volume, u32 features)
{
	u32 min_bytes = rblk_le32(volume->untorn_min_bytes), max_bytes = rblk_le32(volume->untorn_max_bytes);

	if (!min_bytes && !max_bytes)
		return true;
	return features & RBLK_FEATURE_UNTORN && power_of_two(min_bytes) && power_of_two(max_bytes) &&
	       min_bytes >= rblk_le32(volume->block_bytes) && max_bytes >= min_bytes &&
	       max_bytes <= rblk_le32(volume->max_io_bytes);
}

enum rblk_wire_error rblk_check_volume(const void *data, size_t length, u32 features)
{
	const struct rblk_wire_volume *volume = data;
	u32 flags;

	if (length < sizeof(*volume))
		return RBLK_WIRE_SHORT;
	flags = rblk_le32(volume->flags);
	if (!RBLK_FIELD_ZERO(volume, reserved0) || !RBLK_FIELD_ZERO(volume, reserved1) ||
	    flags & ~RBLK_VOLUME_FLAGS_ALL)
		return RBLK_WIRE_RESERVED;
	if (!volume_has_none_but(volume, features))
		return RBLK_WIRE_RESERVED;
	if (!rblk_name_valid(volume->name))
		return RBLK_WIRE_NAME;
	if (!volume_geometry_valid(volume) || !volume_untorn_valid(volume, features))
		return RBLK_WIRE_PAYLOAD;
	if (!volume->discard_granularity_bytes != !(flags & RBLK_VOLUME_DISCARD))
		return RBLK_WIRE_PAYLOAD;
	if (flags & (RBLK_VOLUME_DISCARD | RBLK_VOLUME_WRITE_ZEROES) && !volume->max_discard_blocks)
		return RBLK_WIRE_PAYLOAD;
	return RBLK_WIRE_OK;
}

enum rblk_wire_error rblk_check_extents(const void *data, size_t length, u64 count, u32 blocks)
{
	const struct rblk_wire_extent *extents = data;
	u64 left = blocks, i;

	if (!count || count > RBLK_EXTENTS_MAX)
		return RBLK_WIRE_PAYLOAD;
	if (count > length / sizeof(*extents))
		return RBLK_WIRE_SHORT;
	for (i = 0; i < count; i++) {
		if (!RBLK_FIELD_ZERO(&extents[i], reserved) ||
		    rblk_le32(extents[i].flags) & ~RBLK_EXTENT_FLAGS_ALL)
			return RBLK_WIRE_RESERVED;
		if (!extents[i].blocks || rblk_le64(extents[i].blocks) > left)
			return RBLK_WIRE_PAYLOAD;
		left -= rblk_le64(extents[i].blocks);
	}
	return RBLK_WIRE_OK;
}
