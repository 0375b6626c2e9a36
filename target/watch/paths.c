/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Answers by path. What is shown may be a tenth of a second old. */
#include "target/watch/paths.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "target/watch/metrics.h"

#define NOTHING_ALLOWED "default-src 'none'; frame-ancestors 'none'"

void tgt_answer_words(struct tgt_answer *answer, unsigned int status, const char *words)
{
	*answer = (struct tgt_answer){.status = status,
				      .type = "text/plain; charset=utf-8",
				      .policy = NOTHING_ALLOWED,
				      .text = strdup(words),
				      .bytes = strlen(words)};
}

static void path_metrics(struct tgt_methods *methods, struct tgt_answer *answer)
{
	const struct tgt_view *view = tgt_methods_view(methods);

	*answer = (struct tgt_answer){.status = 200,
				      .type = "text/plain; version=0.0.4; charset=utf-8",
				      .policy = NOTHING_ALLOWED};
	if (view)
		answer->text = tgt_metrics_text(methods, view, &answer->bytes);
}

/* Do all reactors run? */
static void path_healthz(struct tgt_methods *methods, struct tgt_answer *answer)
{
	const struct tgt_view *view = tgt_methods_view(methods);

	if (view && !view->missing)
		tgt_answer_words(answer, 200, "ok\n");
	else
		tgt_answer_words(answer, 503, "a reactor does not answer\n");
}

static void path_readyz(struct tgt_methods *methods, struct tgt_answer *answer)
{
	if (atomic_load(&methods->draining))
		tgt_answer_words(answer, 503, "draining\n");
	else
		tgt_answer_words(answer, 200, "serving\n");
}

static const struct path {
	const char *path;
	void (*answer)(struct tgt_methods *methods, struct tgt_answer *answer);
} paths[] = {
	{"/metrics", path_metrics},
	{"/healthz", path_healthz},
	{"/readyz", path_readyz},
};

void tgt_paths_answer(struct tgt_methods *methods, const char *path, struct tgt_answer *answer)
{
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (strcmp(paths[i].path, path))
			continue;
		paths[i].answer(methods, answer);
		return;
	}
	tgt_answer_words(answer, 404, "there are /metrics, /healthz and /readyz\n");
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
