/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table of nvme_status.h: status codes of the NVM Express base and NVM command set specifications. */
#include "target/store/nvme_status.h"

#include <errno.h>
#include <stddef.h>

#define DO_NOT_RETRY 0x4000
#define STATUS(type, code) ((type) << 8 | (code))
#define STATUS_MASK 0x7ff /* three bits of type, eight of code */
#define TYPE_PATH 3

struct nvme_status {
	int status;
	int error;
	bool transient;
	const char *words;
};

static const struct nvme_status statuses[] = {
	{STATUS(0, 0x01), -EOPNOTSUPP, false, "invalid opcode"},
	{STATUS(0, 0x02), -EIO, false, "invalid field in command"},
	{STATUS(0, 0x04), -EIO, true, "data transfer error"},
	{STATUS(0, 0x05), -EIO, false, "aborted because of power loss"},
	{STATUS(0, 0x06), -EIO, true, "internal error"},
	{STATUS(0, 0x07), -EIO, true, "aborted on request"},
	{STATUS(0, 0x08), -EIO, true, "aborted: its queue was deleted"},
	{STATUS(0, 0x0b), -ENODEV, false, "invalid namespace"},
	{STATUS(0, 0x15), -EOPNOTSUPP, false, "operation denied"},
	{STATUS(0, 0x1c), -EIO, false, "sanitize failed"},
	{STATUS(0, 0x1d), -EIO, false, "sanitize in progress"},
	{STATUS(0, 0x20), -EROFS, false, "the namespace is write protected"},
	{STATUS(0, 0x21), -EIO, true, "interrupted"},
	{STATUS(0, 0x22), -EIO, true, "transient transport error"},
	{STATUS(0, 0x80), -EIO, false, "block out of range"},
	{STATUS(0, 0x81), -ENOSPC, false, "capacity exceeded"},
	{STATUS(0, 0x82), -EIO, true, "the namespace is not ready"},
	{STATUS(0, 0x83), -EIO, false, "reservation conflict"},
	{STATUS(0, 0x84), -EIO, false, "format in progress"},
	{STATUS(1, 0x82), -EROFS, false, "write to a read-only range"},
	{STATUS(2, 0x80), -ENODATA, false, "write fault"},
	{STATUS(2, 0x81), -ENODATA, false, "unrecovered read error"},
	{STATUS(2, 0x82), -EILSEQ, false, "guard check error"},
	{STATUS(2, 0x83), -EILSEQ, false, "application tag check error"},
	{STATUS(2, 0x84), -EILSEQ, false, "reference tag check error"},
	{STATUS(2, 0x86), -EIO, false, "access denied"},
	{STATUS(2, 0x87), -ENODATA, false, "deallocated or unwritten block"},
	{STATUS(3, 0x00), -EIO, true, "internal path error"},
	{STATUS(3, 0x01), -EIO, true, "its path has lost the namespace"},
	{STATUS(3, 0x02), -EIO, true, "its path is inaccessible"},
	{STATUS(3, 0x03), -EIO, true, "its path is changing"},
	{STATUS(3, 0x60), -EIO, true, "controller's path error"},
	{STATUS(3, 0x70), -EIO, true, "host's path error"},
	{STATUS(3, 0x71), -EIO, true, "aborted by the host"},
};

/* NULL: not in the table. */
static const struct nvme_status *status_find(int status)
{
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (statuses[i].status == (status & STATUS_MASK))
			return &statuses[i];
	return NULL;
}

int tgt_nvme_errno(int status)
{
	const struct nvme_status *known = status_find(status);

	return known ? known->error : -EIO;
}

bool tgt_nvme_is_transient(int status)
{
	const struct nvme_status *known = status_find(status);

	if (status & DO_NOT_RETRY)
		return false;
	return known ? known->transient : (status & STATUS_MASK) >> 8 == TYPE_PATH;
}

const char *tgt_nvme_words(int status)
{
	const struct nvme_status *known = status_find(status);

	return known ? known->words : "a status that rblkd does not know";
}
