/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sends each daemon event once, see journal.h. Where nobody listens, they are not kept for later. */
#include "target/watch/journal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "target/base/log.h"
#include "target/watch/daemon_events.h"

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

/* The fields of one daemon event; NULL: no memory. The caller frees them. */
static char *journal_fields(const struct tgt_daemon_event *event, size_t *bytes)
{
	json_t *report = tgt_daemon_event_report(event);
	char *line = report ? json_dumps(report, JSON_COMPACT) : NULL, *fields = NULL;
	FILE *out = line ? open_memstream(&fields, bytes) : NULL;

	if (out) {
		field(out, "MESSAGE", event->message);
		field(out, "RBLK_JSON", line);
		field(out, "MESSAGE_ID", tgt_daemon_event_id(event->kind));
		fprintf(out, "PRIORITY=%d\nSYSLOG_IDENTIFIER=rblkd\n", (int)event->level);
		field(out, "RBLK_EVENT", tgt_daemon_event_name(event->kind));
		field(out, "RBLK_VOLUME", event->volume);
		field(out, "RBLK_INITIATOR", event->initiator);
		field(out, "RBLK_ADDRESS", event->address);
		if (event->error)
			fprintf(out, "ERRNO=%d\n", event->error);
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
static bool journal_send(struct tgt_journal *journal, const struct tgt_daemon_event *event)
{
	size_t bytes = 0;
	char *fields = journal_fields(event, &bytes);
	bool sent, full;

	if (!fields)
		return true;
	sent = sendto(journal->fd, fields, bytes, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&journal->address,
		      sizeof(journal->address)) >= 0;
	full = !sent && (errno == EAGAIN || errno == ENOBUFS);
	/* It is nowhere else then. */
	if (!sent && !full && tgt_log_is_journal())
		tgt_log(event->level, "%s", event->message);
	free(fields);
	return !full;
}

bool tgt_journal_step(struct tgt_journal *journal)
{
	struct tgt_daemon_event event;

	while (journal->fd >= 0 && tgt_daemon_events_after(journal->sent, &event, 1)) {
		if (!journal_send(journal, &event))
			return false;
		journal->sent = event.number;
	}
	return true;
}

void tgt_journal_fini(struct tgt_journal *journal)
{
	if (journal->fd >= 0)
		close(journal->fd);
	journal->fd = -1;
}
