/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no request breaks what answers over HTTP, and whatever volumes and initiators are called,
 * each line of /metrics is a comment or one series. Method: the first byte chooses. A request's
 * bytes go to the server through a socket pair, as a client's would, and what comes back begins as
 * HTTP does; or names and a Host are the input. What the page asks for is JSON in UTF-8. There are no
 * reactors.
 */
#include "tests/fuzz/fuzz.h"

#include "target/io/command.h"
#include "target/watch/daemon_events.h"
#include "target/watch/http.c"
#include "target/watch/metrics.h"
#include "target/watch/metrics_process.h"
#include "target/watch/page.h"

/* Their names alone: nothing is carried out. */
const struct tgt_command tgt_commands[RBLK_OP_IDENTIFY] = {
	[RBLK_OP_READ].name = "read",
	[RBLK_OP_WRITE].name = "write",
	[RBLK_OP_FLUSH].name = "flush",
	[RBLK_OP_DISCARD].name = "discard",
	[RBLK_OP_WRITE_ZEROES].name = "write_zeroes",
	[RBLK_OP_COMPARE_AND_WRITE].name = "compare_and_write",
	[RBLK_OP_CHECKSUM].name = "checksum",
	[RBLK_OP_EXTENTS].name = "extents",
};

static struct tgt_view_volume volume;
static struct tgt_view_initiator initiator;
static struct tgt_snapshot_session session;
static struct tgt_snapshot_use use;
static struct tgt_methods methods = {
	.view = {.sessions = &session,
		 .session_count = 1,
		 .uses = &use,
		 .use_count = 1,
		 .volumes = &volume,
		 .volume_count = 1,
		 .initiators = &initiator,
		 .initiator_count = 1},
};

const struct tgt_view *tgt_methods_view(struct tgt_methods *all)
{
	return &all->view;
}

/* Nothing in these is a peer's. */
void tgt_metrics_process(FILE *out, const struct tgt_methods *all)
{
	(void)out;
	(void)all;
}

void tgt_metrics_limits(FILE *out, const struct tgt_methods *all, const struct tgt_view *view)
{
	(void)out;
	(void)all;
	(void)view;
}

int tgt_methods_health(const struct tgt_methods *all, const struct tgt_view *view, struct tgt_health *health)
{
	return tgt_health_take(view, &all->busy, NULL, health);
}

json_t *tgt_methods_status(const struct tgt_methods *all, const struct tgt_view *view, bool reasons)
{
	(void)all;
	(void)reasons;
	return json_pack("{s:i}", "sessions", (int)view->session_count);
}

/* There is one daemon event. */
static struct tgt_daemon_event event = {.number = 1};

unsigned int tgt_daemon_events_after(uint64_t after, struct tgt_daemon_event *out, unsigned int max)
{
	if (after || !max)
		return 0;
	*out = event;
	return 1;
}

unsigned int tgt_daemon_events_count(enum tgt_daemon_event_kind kind, uint64_t since_ns, struct tgt_daemon_event *last)
{
	(void)since_ns;
	*last = event;
	return kind == TGT_DAEMON_EVENT_REFUSED ? TGT_PROBLEM_LOGINS + 1 : 0;
}

void tgt_daemon_event(const struct tgt_daemon_event_about *about, struct tgt_log_limit *limit, enum tgt_log_level level,
		      const char *format, ...)
{
	(void)about;
	(void)limit;
	(void)level;
	(void)format;
}

uint64_t tgt_daemon_events_last(void)
{
	return 1;
}

const char *tgt_daemon_event_name(enum tgt_daemon_event_kind kind)
{
	return kind == TGT_DAEMON_EVENT_READY ? "ready" : "refused";
}

const char *tgt_log_level_name(enum tgt_log_level level)
{
	(void)level;
	return "info";
}

const struct tgt_snapshot_session *tgt_view_session(const struct tgt_view *view, unsigned int number)
{
	return number == view->sessions[0].number ? view->sessions : NULL;
}

/* NAME{KEY="...",...} NUMBER */
static void check_line(const char *line)
{
	const char *at = strchr(line, '{');

	if (!strncmp(line, "# HELP rblk_", 12) || !strncmp(line, "# TYPE rblk_", 12))
		return;
	FUZZ_ASSERT(!strncmp(line, "rblk_", 5));
	while (at && *at != '}') {
		at += 1 + strspn(at + 1, "abcdefghijklmnopqrstuvwxyz_");
		FUZZ_ASSERT(at[0] == '=' && at[1] == '"');
		for (at += 2; *at && *at != '"'; at++)
			if (*at == '\\')
				FUZZ_ASSERT(*++at);
		FUZZ_ASSERT(*at++ == '"' && (*at == ',' || *at == '}'));
	}
	at = strrchr(line, ' ');
	FUZZ_ASSERT(at && at[1] && !at[1 + strspn(at + 1, "0123456789.e+-")]);
}

/* Takes the reference: jansson writes, and reads, only what is JSON. */
static void check_json(json_t *object)
{
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	json_t *read = text ? json_loads(text, 0, NULL) : NULL;

	FUZZ_ASSERT(read && json_equal(read, object));
	json_decref(read);
	free(text);
	json_decref(object);
}

static void try_names(const uint8_t *data, size_t size)
{
	char *text, *line, *rest;
	size_t bytes = 0;

	memset(volume.name, 0, sizeof(volume.name));
	memset(session.initiator, 0, sizeof(session.initiator));
	memcpy(volume.name, data, size < 63 ? size : 63);
	if (size > 63)
		memcpy(session.initiator, data + 63, size - 63 < 63 ? size - 63 : 63);
	memcpy(use.volume, volume.name, sizeof(use.volume));
	memcpy(initiator.name, session.initiator, sizeof(initiator.name));
	for (unsigned int i = 0; i < TGT_COUNT_KINDS; i++)
		use.counts.latency[i][0][i] = volume.counts.latency[i][0][i] =
			initiator.counts.latency[i][0][i] = size;
	use.counts.bytes_read = use.counts.errors[1] = initiator.counts.errors[1] = size;
	text = tgt_metrics_text(&methods, &methods.view, &bytes);
	FUZZ_ASSERT(text && strlen(text) == bytes && bytes && text[bytes - 1] == '\n');
	for (rest = text; (line = strsep(&rest, "\n")) && rest;)
		check_line(line);
	free(text);
	memset(event.message, 0, sizeof(event.message));
	memcpy(event.message, data, size < sizeof(event.message) ? size : sizeof(event.message) - 1);
	memcpy(event.volume, volume.name, sizeof(event.volume));
	memcpy(event.initiator, session.initiator, sizeof(event.initiator));
	check_json(tgt_daemon_events_report(0));
	check_json(tgt_page_status(&methods, TGT_HISTORY_VOLUME, volume.name));
}

static void try_host(const uint8_t *data, size_t size)
{
	char *host = malloc(size + 1);
	struct sockaddr_storage address;
	char why[TGT_ERROR_BYTES];

	FUZZ_ASSERT(host);
	memcpy(host, data, size);
	host[size] = '\0';
	/* A name that somebody may own has a letter behind a dot. */
	if (tgt_paths_host_is_local(host) && host[0] != '[')
		FUZZ_ASSERT(!strncasecmp(host, "localhost", 9) ||
			    (host[0] >= '0' && host[0] <= '9'));
	(void)tgt_http_address_parse(host, &address, why);
	free(host);
}

static void try_request(const uint8_t *data, size_t size)
{
	static struct tgt_http *http;
	struct sockaddr_in peer = {.sin_family = AF_INET};
	char error[TGT_ERROR_BYTES], answer[16];
	ssize_t got;
	int fds[2];

	if (!http)
		FUZZ_ASSERT(!tgt_http_create("0", &methods, &http, error));
	FUZZ_ASSERT(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds));
	FUZZ_ASSERT(MHD_add_connection(http->daemon, fds[0], (struct sockaddr *)&peer,
				       sizeof(peer)) == MHD_YES);
	(void)!write(fds[1], data, size);
	shutdown(fds[1], SHUT_WR);
	for (unsigned int i = 0; i < 8; i++)
		tgt_http_step(http);
	got = read(fds[1], answer, sizeof(answer));
	FUZZ_ASSERT(got <= 0 || (got == sizeof(answer) && !memcmp(answer, "HTTP/1.", 7)));
	close(fds[1]);
	for (unsigned int i = 0; i < 8; i++)
		tgt_http_step(http);
	FUZZ_ASSERT(TAILQ_EMPTY(&http->asking) && TAILQ_EMPTY(&http->answered) && !http->answer_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t what = fuzz_take(&data, &size, 1) % 4;

	if (what == 0)
		try_names(data, size);
	else if (what == 1)
		try_host(data, size);
	else
		try_request(data, size);
	return 0;
}
