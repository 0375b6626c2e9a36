/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Log pages that say what there is: which pages, and which commands with their effects. Both follow from the volume as
 * it was opened.
 */
#include "target/nvme/queue.h"

#include <string.h>

#define SUPPORTED 1u
#define CHANGES_DATA 2u
#define IO_COMMANDS 256u /* the index of the first one of I/O, of dwords */

static const uint8_t pages[] = {NVME_LOG_PAGES,	  NVME_LOG_ERRORS,  NVME_LOG_HEALTH,	  NVME_LOG_FIRMWARE,
				NVME_LOG_CHANGED, NVME_LOG_EFFECTS, NVME_LOG_ANA,	  NVME_LOG_RESERVATIONS};

bool nvme_log_has(const struct nvme_queue *queue, uint8_t page)
{
	return queue->controller->discovery ? page == NVME_LOG_DISCOVERY : memchr(pages, page, sizeof(pages)) != NULL;
}

static void dword_set(uint8_t *data, uint64_t bytes, uint32_t index, uint32_t value)
{
	__le32 dword = rblk_to_le32(value);

	if ((index + 1) * sizeof(dword) <= bytes)
		memcpy(data + index * sizeof(dword), &dword, sizeof(dword));
}

void nvme_log_pages(uint8_t *data, uint64_t bytes)
{
	for (unsigned int i = 0; i < sizeof(pages); i++)
		dword_set(data, bytes, pages[i], SUPPORTED);
}

void nvme_log_effects(const struct nvme_queue *queue, uint8_t *data, uint64_t bytes)
{
	static const uint8_t admin[] = {NVME_GET_LOG_PAGE, NVME_IDENTIFY,    NVME_ABORT,      NVME_SET_FEATURES,
					NVME_GET_FEATURES, NVME_ASYNC_EVENT, NVME_KEEP_ALIVE, NVME_FABRICS};
	static const struct {
		uint8_t opcode;
		bool writes;
		uint32_t flag; /* of the volume; 0: always */
	} io[] = {
		{NVME_FLUSH, false, RBLK_VOLUME_FLUSH},
		{NVME_WRITE, true, 0},
		{NVME_READ, false, 0},
		{NVME_COMPARE, false, 0},
		{NVME_WRITE_ZEROES, true, RBLK_VOLUME_WRITE_ZEROES},
		{NVME_DATASET_MANAGEMENT, true, RBLK_VOLUME_DISCARD},
		{NVME_VERIFY, false, RBLK_VOLUME_CHECKSUM},
		{NVME_RESERVE_REGISTER, false, RBLK_VOLUME_RESERVATIONS},
		{NVME_RESERVE_REPORT, false, RBLK_VOLUME_RESERVATIONS},
		{NVME_RESERVE_ACQUIRE, false, RBLK_VOLUME_RESERVATIONS},
		{NVME_RESERVE_RELEASE, false, RBLK_VOLUME_RESERVATIONS},
	};

	for (unsigned int i = 0; i < sizeof(admin); i++)
		dword_set(data, bytes, admin[i], SUPPORTED);
	for (unsigned int i = 0; i < sizeof(io) / sizeof(io[0]); i++)
		if (!io[i].flag || nvme_has(queue, io[i].flag))
			dword_set(data, bytes, IO_COMMANDS + io[i].opcode,
				  SUPPORTED | (io[i].writes ? CHANGES_DATA : 0));
}
