/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no datagram breaks the validator of discovery, what passes it has the bounds that callers rely
 * on, and what an initiator keeps of answers is bounded and can be printed. Method: the first byte
 * chooses the type; the rest is one datagram after the other, as the network would deliver them, the
 * last one of any length.
 */
#include "tests/fuzz/fuzz.h"
#include "initiator/cmd/discover.h"
#include "proto/wire/wire_check.h"

static void check_query(const struct rblk_wire_discover *query, size_t size)
{
	if (rblk_check_discover(query, size, RBLK_DISCOVER_QUERY))
		return;
	FUZZ_ASSERT(size == RBLK_DISCOVER_BYTES);
	FUZZ_ASSERT(strnlen(query->name, RBLK_NAME_BYTES) < RBLK_NAME_BYTES);
	FUZZ_ASSERT(!query->portal_count);
	FUZZ_ASSERT(rblk_check_discover(query, size, RBLK_DISCOVER_ANSWER));
}

static void check_answer(struct discover_list *list, const struct rblk_wire_discover *answer,
			 size_t size)
{
	if (rblk_check_discover(answer, size, RBLK_DISCOVER_ANSWER))
		return;
	FUZZ_ASSERT(size == RBLK_DISCOVER_BYTES);
	FUZZ_ASSERT(rblk_name_valid(answer->name));
	FUZZ_ASSERT(rblk_le16(answer->portal_count) <= RBLK_DISCOVER_PORTALS_MAX);
	FUZZ_ASSERT(!discover_list_add(list, answer, "eth0", DISCOVER_OVER_RDMA));
}

static void check_list(struct discover_list *list)
{
	char text[DISCOVER_PORTAL_BYTES];

	discover_list_sort(list);
	FUZZ_ASSERT(list->count <= DISCOVER_TARGETS_MAX);
	for (unsigned int i = 0; i < list->count; i++) {
		FUZZ_ASSERT(list->targets[i].portal_count <= DISCOVER_PORTALS_MAX);
		for (unsigned int j = 0; j < list->targets[i].portal_count; j++)
			FUZZ_ASSERT(strstr(discover_portal_format(&list->targets[i].portals[j], text), "://"));
	}
	discover_list_free(list);
}

/* Every header has a source, or none: the same each time, in 40 bytes. */
static void check_source(const uint8_t *data, size_t size)
{
	uint8_t *header, first[16], second[16];
	bool found;

	if (size < FAB_GROUP_HEADER_BYTES)
		return;
	header = fuzz_copy(data, FAB_GROUP_HEADER_BYTES);
	memset(first, 0, sizeof(first));
	memset(second, 0xff, sizeof(second));
	found = fab_group_source(header, first);
	FUZZ_ASSERT(fab_group_source(header, second) == found);
	FUZZ_ASSERT(!found || !memcmp(first, second, sizeof(first)));
	free(header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t choice = fuzz_take(&data, &size, 1);
	struct discover_list list = { 0 };

	check_source(data, size);
	do {
		size_t bytes = size > 2 * RBLK_DISCOVER_BYTES - 1 ? RBLK_DISCOVER_BYTES : size;
		void *copy = fuzz_copy(data, bytes);

		if (choice % 2 == 0)
			check_query(copy, bytes);
		else
			check_answer(&list, copy, bytes);
		free(copy);
		data += bytes;
		size -= bytes;
	} while (size);
	check_list(&list);
	return 0;
}
