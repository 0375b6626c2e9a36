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

	for (unsigned int i = 0; i < sizeof(admin); i++)
		dword_set(data, bytes, admin[i], SUPPORTED);
	for (unsigned int opcode = 0; opcode <= UINT8_MAX; opcode++) {
		const struct nvme_io *io = nvme_io_of((uint8_t)opcode);

		if (io && (!io->needs || nvme_has(queue, io->needs)))
			dword_set(data, bytes, IO_COMMANDS + opcode, SUPPORTED | (io->writes ? CHANGES_DATA : 0));
	}
}
