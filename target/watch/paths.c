/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Answers by path. What is shown may be a tenth of a second old. */
#include "target/watch/paths.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "target/watch/daemon_events.h"
#include "target/watch/metrics.h"
#include "target/watch/page.h"

#define NOTHING_ALLOWED "default-src 'none'; frame-ancestors 'none'"

void tgt_answer_words(struct tgt_http_answer *answer, unsigned int status, const char *words)
{
	*answer = (struct tgt_http_answer){.status = status,
				      .type = "text/plain; charset=utf-8",
				      .policy = NOTHING_ALLOWED,
				      .text = strdup(words),
				      .bytes = strlen(words)};
}

static void path_metrics(struct tgt_methods *methods, const struct tgt_http_query *query, struct tgt_http_answer *answer)
{
	const struct tgt_view *view = tgt_methods_view(methods);

	(void)query;
	*answer = (struct tgt_http_answer){.status = 200,
				      .type = "text/plain; version=0.0.4; charset=utf-8",
				      .policy = NOTHING_ALLOWED};
	if (view)
		answer->text = tgt_metrics_text(methods, view, &answer->bytes);
}

/* A line with the health behind `before`. 503: not good, or nobody knows. */
static void answer_health(struct tgt_methods *methods, const char *before, bool (*good)(const struct tgt_health *health),
			  struct tgt_http_answer *answer)
{
	const struct tgt_view *view = tgt_methods_view(methods);
	struct tgt_health health;
	char *words, *line = NULL;

	if (!view || tgt_methods_health(methods, view, &health)) {
		tgt_answer_words(answer, 503, "out of memory\n");
		return;
	}
	words = tgt_health_words(&health, false);
	if (words && asprintf(&line, "%s%s\n", before, words) < 0)
		line = NULL;
	tgt_answer_words(answer, good(&health) ? 200 : 503, line ? line : "out of memory\n");
	free(line);
	free(words);
	tgt_health_fini(&health);
}

static bool nothing_failed(const struct tgt_health *health)
{
	return !health->failures;
}

static void path_healthz(struct tgt_methods *methods, const struct tgt_http_query *query, struct tgt_http_answer *answer)
{
	(void)query;
	answer_health(methods, "", nothing_failed, answer);
}

static bool all_answer(const struct tgt_health *health)
{
	return !health->counts[TGT_PROBLEM_REACTOR_SILENT];
}

static bool never(const struct tgt_health *health)
{
	(void)health;
	return false;
}

static void path_readyz(struct tgt_methods *methods, const struct tgt_http_query *query, struct tgt_http_answer *answer)
{
	(void)query;
	if (atomic_load(&methods->draining))
		answer_health(methods, "draining, ", never, answer);
	else
		answer_health(methods, "serving, ", all_answer, answer);
}

/* -- the page, and what it asks for ------------------------------------------------------------ */

static void path_page(struct tgt_methods *methods, const struct tgt_http_query *query, struct tgt_http_answer *answer)
{
	(void)methods;
	(void)query;
	*answer = (struct tgt_http_answer){
		.status = 200, .type = "text/html; charset=utf-8", .policy = tgt_page_policy()};
	answer->text = strdup(tgt_page_text());
	if (answer->text)
		answer->bytes = strlen(answer->text);
}

/* Takes the reference; NULL: no memory. */
static void answer_json(struct tgt_http_answer *answer, json_t *object)
{
	*answer = (struct tgt_http_answer){
		.status = 200, .type = "application/json", .policy = NOTHING_ALLOWED};
	answer->text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
	if (answer->text)
		answer->bytes = strlen(answer->text);
	json_decref(object);
}

static void path_status(struct tgt_methods *methods, const struct tgt_http_query *query, struct tgt_http_answer *answer)
{
	enum tgt_history_kind kind = query->volume ? TGT_HISTORY_VOLUME : query->proven ? TGT_HISTORY_PROVEN
				     : query->initiator ? TGT_HISTORY_INITIATOR : TGT_HISTORY_TOTAL;
	const char *name = query->volume ? query->volume : query->proven ? query->proven
			   : query->initiator ? query->initiator : "";

	answer_json(answer, tgt_page_status(methods, kind, name));
}

static void path_events(struct tgt_methods *methods, const struct tgt_http_query *query, struct tgt_http_answer *answer)
{
	const char *after = query->after;
	uint64_t number = 0;

	(void)methods;
	/* No more digits than always fit. */
	if (after && (!*after || strlen(after) > 18 || after[strspn(after, "0123456789")])) {
		tgt_answer_words(answer, 400, "after: not the number of an event\n");
		return;
	}
	if (after)
		number = strtoull(after, NULL, 10);
	answer_json(answer, tgt_daemon_events_report(number));
}

static const struct path {
	const char *path;
	void (*answer)(struct tgt_methods *methods, const struct tgt_http_query *query, struct tgt_http_answer *answer);
} paths[] = {
	{"/", path_page},	    {"/status.json", path_status}, {"/events.json", path_events},
	{"/metrics", path_metrics}, {"/healthz", path_healthz},	   {"/readyz", path_readyz},
};

void tgt_paths_answer(struct tgt_methods *methods, const char *path, const struct tgt_http_query *query,
		      struct tgt_http_answer *answer)
{
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (strcmp(paths[i].path, path))
			continue;
		paths[i].answer(methods, query, answer);
		return;
	}
	tgt_answer_words(answer, 404, "there are /, /metrics, /healthz and /readyz\n");
}

bool tgt_paths_host_is_local(const char *host)
{
	struct in6_addr address;
	const char *port = host[0] == '[' ? strchr(host, ']') : strchr(host, ':');
	size_t length = port ? (size_t)(port - host) : strlen(host);
	char name[64];

	if (length >= sizeof(name))
		return false;
	memcpy(name, host, length);
	name[length] = '\0';
	if (name[0] == '[')
		return port && inet_pton(AF_INET6, name + 1, &address) == 1;
	return !strcasecmp(name, "localhost") || inet_pton(AF_INET, name, &address) == 1;
}
