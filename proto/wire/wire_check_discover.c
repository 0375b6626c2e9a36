/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The validator of discovery's datagrams, which anyone may send: called by both ends before any field
 * is used. Pure.
 */
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_bytes.h"

/* An address that one target may have: neither "any" nor a group, of IPv4 neither. */
static bool address_valid(const u8 address[16])
{
	static const u8 mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (rblk_bytes_zero(address, 16) || address[0] == 0xff)
		return false;
	if (memcmp(address, mapped, sizeof(mapped)) != 0)
		return true;
	/* 0.0.0.0/8, groups (224.0.0.0/4), and what lies above them, broadcast included. */
	return address[12] != 0 && address[12] < 224;
}

static enum rblk_wire_error check_portals(const struct rblk_wire_discover *discover, u16 count)
{
	const struct rblk_wire_portal *portal = discover->portals;

	for (u16 i = 0; i < count; i++, portal++) {
		if (!RBLK_FIELD_ZERO(portal, reserved))
			return RBLK_WIRE_RESERVED;
		if (!portal->kind || !rblk_le16(portal->port) || !address_valid(portal->address))
			return RBLK_WIRE_PORTAL;
	}
	return rblk_bytes_zero(portal, sizeof(*portal) * (RBLK_DISCOVER_PORTALS_MAX - (size_t)count)) ?
		       RBLK_WIRE_OK :
		       RBLK_WIRE_RESERVED;
}

static enum rblk_wire_error check_query(const struct rblk_wire_discover *query)
{
	if (!RBLK_FIELD_ZERO(query, name) && !rblk_name_valid(query->name))
		return RBLK_WIRE_NAME;
	if (!RBLK_FIELD_ZERO(query, instance) || query->protocol || query->portal_count)
		return RBLK_WIRE_RESERVED;
	return check_portals(query, 0);
}

static enum rblk_wire_error check_answer(const struct rblk_wire_discover *answer)
{
	if (!rblk_name_valid(answer->name))
		return RBLK_WIRE_NAME;
	if (RBLK_FIELD_ZERO(answer, instance))
		return RBLK_WIRE_SESSION_ID;
	if (!answer->protocol)
		return RBLK_WIRE_VERSION;
	if (rblk_le16(answer->portal_count) > RBLK_DISCOVER_PORTALS_MAX)
		return RBLK_WIRE_PORTAL;
	return check_portals(answer, rblk_le16(answer->portal_count));
}

enum rblk_wire_error rblk_check_discover(const void *data, size_t length, u16 type)
{
	const struct rblk_wire_discover *discover = data;

	if (length < sizeof(*discover))
		return RBLK_WIRE_SHORT;
	if (length > sizeof(*discover))
		return RBLK_WIRE_LONG;
	if (rblk_le32(discover->magic) != RBLK_MAGIC)
		return RBLK_WIRE_MAGIC;
	if (rblk_le16(discover->version) != RBLK_DISCOVER_VERSION)
		return RBLK_WIRE_VERSION;
	if (rblk_le16(discover->type) != type)
		return RBLK_WIRE_OPCODE;
	if (!RBLK_FIELD_ZERO(discover, reserved))
		return RBLK_WIRE_RESERVED;
	return type == RBLK_DISCOVER_QUERY ? check_query(discover) : check_answer(discover);
}
