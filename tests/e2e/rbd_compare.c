/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * COMPARE_AND_WRITE by several gateways of one image: rbd_compare URI ROUNDS. It counts up in a sector of the image, by
 * ROUNDS comparisons that succeed, beside whoever else does so, and prints how many did not. rbd_compare URI: what is
 * refused, and where a difference is found.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/rblk.h"

#define SECTOR 512u
/* In the second object, and not its first sector. */
#define PLACE ((4u << 20) + 5 * SECTOR)

static void fail(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	exit(1);
}

static void count_up(struct rblk_volume *volume, char *data, int rounds)
{
	int conflicts = 0;

	while (rounds) {
		uint64_t number, where;
		int err = rblk_pread(volume, data, SECTOR, PLACE);

		if (err)
			fail("read: %s", strerror(-err));
		memcpy(data + SECTOR, data, SECTOR);
		memcpy(&number, data, sizeof(number));
		number++;
		memcpy(data + SECTOR, &number, sizeof(number));
		err = rblk_pcompare_and_write(volume, data, SECTOR, PLACE, 0, &where);
		if (err && err != -EILSEQ)
			fail("compare and write: %s", strerror(-err));
		if (err && where >= sizeof(number))
			fail("it differs at byte %llu", (unsigned long long)where);
		conflicts += err != 0;
		rounds -= !err;
	}
	printf("%d\n", conflicts);
}

static void look(struct rblk_volume *volume, char *data)
{
	const struct rblk_volume_info *info = rblk_volume_info(volume);
	uint64_t where = 0;
	int err;

	if (!info->can_compare_and_write || info->max_compare_bytes != SECTOR)
		fail("compares %d, at most %u bytes", info->can_compare_and_write, info->max_compare_bytes);
	err = rblk_pcompare_and_write(volume, data, 2 * SECTOR, PLACE, 0, NULL);
	if (err != -EINVAL)
		fail("two sectors: %s", strerror(-err));
	memset(data, 0, 2 * SECTOR);
	data[77] = 1;
	err = rblk_pcompare_and_write(volume, data, SECTOR, PLACE + SECTOR, RBLK_IO_FUA, &where);
	if (err != -EILSEQ || where != 77)
		fail("%s, at byte %llu", strerror(-err), (unsigned long long)where);
	data[77] = 0;
	data[SECTOR + 5] = 2;
	err = rblk_pcompare_and_write(volume, data, SECTOR, PLACE + SECTOR, RBLK_IO_FUA, &where);
	if (err)
		fail("compare and write: %s", strerror(-err));
	err = rblk_pread(volume, data, SECTOR, PLACE + SECTOR);
	if (err || data[5] != 2)
		fail("what was written is not there: %s", strerror(-err));
}

int main(int argc, char **argv)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct rblk_session *session;
	char error[RBLK_ERROR_BYTES];
	struct rblk_volume *volume;
	char *data;

	if (argc < 2)
		return 2;
	session = rblk_session_open(argv[1], &options, error);
	if (!session)
		fail("%s", error);
	volume = rblk_volume_open(session, NULL, 0);
	data = rblk_buffer_alloc(session, 4 * SECTOR);
	if (!volume || !data)
		fail("%s", rblk_session_error(session));
	if (argc > 2)
		count_up(volume, data, atoi(argv[2]));
	else
		look(volume, data);
	rblk_session_close(session);
	return 0;
}
