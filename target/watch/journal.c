/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sends each notice once, see journal.h. Where nobody listens, they are not kept for later. */
#include "target/watch/journal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "target/watch/notices.h"

bool tgt_journal_init(struct tgt_journal *journal, const char *path)
{
	*journal = (struct tgt_journal){.fd = -1, .address.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(journal->address.sun_path))
		return false;
	strcpy(journal->address.sun_path, path);
	if (strcmp(path, "none"))
		journal->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return true;
}

/* A line of its own, whatever a peer calls itself. */
static void field(FILE *out, const char *name, const char *value)
{
	if (!*value)
		return;
	fprintf(out, "%s=", name);
	for (; *value; value++)
		fputc((unsigned char)*value < ' ' ? '?' : *value, out);
	fputc('\n', out);
}

/* The fields of one notice; NULL: no memory. The caller frees them. */
static char *journal_fields(const struct tgt_notice *notice, size_t *bytes)
{
	json_t *report = tgt_notice_report(notice);
	char *line = report ? json_dumps(report, JSON_COMPACT) : NULL, *fields = NULL;
	FILE *out = line ? open_memstream(&fields, bytes) : NULL;

	if (out) {
		field(out, "MESSAGE", line);
		field(out, "MESSAGE_ID", tgt_notice_id(notice->kind));
		fprintf(out, "PRIORITY=%d\nSYSLOG_IDENTIFIER=rblkd\n", (int)notice->level);
		field(out, "RBLK_EVENT", tgt_notice_name(notice->kind));
		field(out, "RBLK_VOLUME", notice->volume);
		field(out, "RBLK_INITIATOR", notice->initiator);
		field(out, "RBLK_ADDRESS", notice->address);
		if (notice->error)
			fprintf(out, "ERRNO=%d\n", notice->error);
		if (fclose(out)) {
			free(fields);
			fields = NULL;
		}
	}
	free(line);
	json_decref(report);
	return fields;
}

/* False: it has to be sent again. */
static bool journal_send(struct tgt_journal *journal, const struct tgt_notice *notice)
{
	size_t bytes = 0;
	char *fields = journal_fields(notice, &bytes);
	bool full;

	if (!fields)
		return true;
	full = sendto(journal->fd, fields, bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
		      (const struct sockaddr *)&journal->address, sizeof(journal->address)) < 0 &&
	       (errno == EAGAIN || errno == ENOBUFS);
	free(fields);
	return !full;
}

bool tgt_journal_step(struct tgt_journal *journal)
{
	struct tgt_notice notice;

	while (journal->fd >= 0 && tgt_notices_after(journal->sent, &notice, 1)) {
		if (!journal_send(journal, &notice))
			return false;
		journal->sent = notice.number;
	}
	return true;
}

void tgt_journal_fini(struct tgt_journal *journal)
{
	if (journal->fd >= 0)
		close(journal->fd);
	journal->fd = -1;
}
