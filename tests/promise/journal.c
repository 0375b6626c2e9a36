/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the file of journal.h: one line per record, one write() per line. */
#include "tests/promise/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "tests/promise/block.h"

#define LINE_BYTES 256
#define HEAD                                                                           \
	"promise 1 writer=%" PRIu32 " run=%" PRIu64 " unit=%" PRIu32 " first=%" PRIu64 \
	" blocks=%" PRIu64
#define HEAD_SCAN                                                                      \
	"promise 1 writer=%" SCNu32 " run=%" SCNu64 " unit=%" SCNu32 " first=%" SCNu64 \
	" blocks=%" SCNu64
#define RANGE_BLOCKS_MAX (1ull << 28)

uint64_t promise_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* -- reading ----------------------------------------------------------------------------------- */

static bool parse_head(const char *line, struct promise_range *range)
{
	int end = -1;

	memset(range, 0, sizeof(*range));
	return sscanf(line, HEAD_SCAN "\n%n", &range->writer, &range->run, &range->unit,
		      &range->first, &range->blocks, &end) == 5 &&
	       range->unit && range->unit % PROMISE_SECTOR_BYTES == 0 &&
	       range->unit <= PROMISE_UNIT_MAX && range->blocks &&
	       range->blocks <= RANGE_BLOCKS_MAX && range->first <= RANGE_BLOCKS_MAX;
}

static bool parse_line(const char *line, struct promise_record *record)
{
	unsigned int fua = 0, over = 0;
	int end = -1;
	uint64_t *time_ns = &record->time_ns, *number = &record->number;

	memset(record, 0, sizeof(*record));
	record->event = (enum promise_event)line[0];
	switch (record->event) {
	case PROMISE_BEGIN:
	case PROMISE_OPEN:
	case PROMISE_END:
		sscanf(line + 1, " %" SCNu64 "\n%n", time_ns, &end);
		break;
	case PROMISE_WRITE:
		sscanf(line + 1, " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32 " %u\n%n", time_ns,
		       number, &record->block, &record->count, &fua, &end);
		break;
	case PROMISE_ACKNOWLEDGED:
	case PROMISE_FLUSH:
	case PROMISE_FLUSHED:
		sscanf(line + 1, " %" SCNu64 " %" SCNu64 "\n%n", time_ns, number, &end);
		break;
	case PROMISE_FAILED:
		sscanf(line + 1, " %" SCNu64 " %" SCNu64 " %d %u\n%n", time_ns, number,
		       &record->error, &over, &end);
		break;
	case PROMISE_FLUSH_FAILED:
		sscanf(line + 1, " %" SCNu64 " %" SCNu64 " %d\n%n", time_ns, number, &record->error,
		       &end);
		break;
	case PROMISE_NOTE:
		return line[1] == ' ';
	}
	record->fua = fua == 1;
	record->over = over == 1;
	return end >= 0 && !line[end + 1] && fua <= 1 && over <= 1;
}

/* One line that is whole. 0 or -EPROTO. */
static int read_line(const char *line, bool first, struct promise_range *range, promise_take take,
		     void *arg, char *why)
{
	struct promise_record record;

	snprintf(why, PROMISE_WHY_BYTES, "not a line of a promise journal");
	if (first) {
		if (!parse_head(line, range))
			return -EPROTO;
		return take(arg, NULL, why) ? 0 : -EPROTO;
	}
	return parse_line(line, &record) && take(arg, &record, why) ? 0 : -EPROTO;
}

int64_t promise_journal_read(const char *path, struct promise_range *range, promise_take take,
			     void *arg, bool *cut, char *why)
{
	char line[LINE_BYTES], reason[PROMISE_WHY_BYTES];
	FILE *file = fopen(path, "re");
	int64_t bytes = 0;
	uint64_t number = 0;
	int err = 0;

	*cut = false;
	if (!file) {
		err = -errno;
		snprintf(why, PROMISE_WHY_BYTES, "%s", strerror(-err));
		return err;
	}
	while (!err && fgets(line, sizeof(line), file)) {
		size_t length = strlen(line);

		*cut = !length || line[length - 1] != '\n';
		if (*cut && feof(file))
			break;
		err = *cut ? -EPROTO : read_line(line, number == 0, range, take, arg, reason);
		if (*cut)
			snprintf(reason, sizeof(reason), "too long");
		bytes += (int64_t)length;
		number++;
	}
	if (!err && ferror(file)) {
		err = -EIO;
		snprintf(reason, sizeof(reason), "cannot be read");
	} else if (!err && !number) {
		err = -EPROTO;
		snprintf(reason, sizeof(reason), "it has no head");
	}
	fclose(file);
	if (err)
		snprintf(why, PROMISE_WHY_BYTES, "line %" PRIu64 ": %.200s", number, reason);
	return err ? err : bytes;
}

/* -- writing ----------------------------------------------------------------------------------- */

/* One write(): a process that is killed has written a line or has not, but for a file system that
 * is full. */
static void append(int journal, const char *line, int length)
{
	if (write(journal, line, (size_t)length) == length)
		return;
	perror("promise: the journal cannot be written");
	exit(2);
}

int promise_journal_open(const char *path, const struct promise_range *range, int64_t keep)
{
	int journal = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	char line[LINE_BYTES];

	if (journal < 0)
		return -1;
	if (ftruncate(journal, keep)) {
		close(journal);
		return -1;
	}
	if (!keep)
		append(journal, line,
		       snprintf(line, sizeof(line), HEAD "\n", range->writer, range->run,
				range->unit, range->first, range->blocks));
	return journal;
}

void promise_journal_append(int journal, struct promise_record *record)
{
	char line[LINE_BYTES];
	size_t room = sizeof(line), length;

	record->time_ns = promise_now_ns();
	length = (size_t)snprintf(line, room, "%c %" PRIu64, record->event, record->time_ns);
	if (record->event == PROMISE_NOTE)
		length += (size_t)snprintf(line + length, room - length, " %.160s", record->text);
	else if (record->number)
		length +=
			(size_t)snprintf(line + length, room - length, " %" PRIu64, record->number);
	if (record->event == PROMISE_WRITE)
		length += (size_t)snprintf(line + length, room - length,
					   " %" PRIu64 " %" PRIu32 " %d", record->block,
					   record->count, record->fua);
	if (record->event == PROMISE_FAILED || record->event == PROMISE_FLUSH_FAILED)
		length += (size_t)snprintf(line + length, room - length, " %d", record->error);
	if (record->event == PROMISE_FAILED)
		length += (size_t)snprintf(line + length, room - length, " %d", record->over);
	line[length++] = '\n';
	append(journal, line, (int)length);
}
