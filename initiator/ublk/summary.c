/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns what a record says of all queues together; see summary.h. */
#include "initiator/ublk/summary.h"

#include <stdio.h>
#include <string.h>

void ublk_summary_options(struct ublk_record *r, const struct ublk_disk_options *options)
{
	const struct rblk_options *session = &options->session;

	snprintf(r->uri, sizeof(r->uri), "%s", options->uri);
	snprintf(r->name, sizeof(r->name), "%s", options->name ? options->name : "");
	snprintf(r->key, sizeof(r->key), "%s", session->key_file ? session->key_file : "");
	snprintf(r->initiator, sizeof(r->initiator), "%s", session->initiator_name ? session->initiator_name : "");
	snprintf(r->source, sizeof(r->source), "%s", session->source ? session->source : "");
	r->connect_ms = session->connect_timeout_ms;
	r->command_ms = session->command_timeout_ms;
	r->give_up_ms = session->give_up_ms;
	r->digest = session->digest;
	r->priority = session->priority;
	r->tos = session->tos;
	r->ack_timeout = session->ack_timeout;
	r->accept_volatile = options->accept_volatile;
}

/* Adds a queue's: connections are counted, and the oldest's time is told. All queues have the same hosts. */
static void summary_paths(struct ublk_record *r, const struct ublk_queue_view *view)
{
	for (; r->path_count < view->path_count; r->path_count++)
		r->paths[r->path_count] = (struct rblk_path_info){ .tls = true, .proven = true, .digest = true };
	for (unsigned int i = 0; i < view->path_count; i++) {
		struct rblk_path_info *path = &r->paths[i];
		const struct rblk_path_info *own = &view->paths[i];

		memcpy(path->host, own->host, sizeof(path->host));
		if (own->words[0])
			memcpy(path->words, own->words, sizeof(path->words));
		if (!own->connections)
			continue;
		if (!path->connections || own->connected_ms < path->connected_ms)
			path->connected_ms = own->connected_ms;
		path->connections += own->connections;
		path->tls &= own->tls;
		path->proven &= own->proven;
		path->digest &= own->digest;
		memcpy(path->peer, own->peer, sizeof(path->peer));
		memcpy(path->device, own->device, sizeof(path->device));
	}
}

static void summary_count(struct ublk_record *r, const struct ublk_queue_view *view)
{
	r->losses += view->losses;
	r->stats.commands += view->stats.commands;
	r->stats.sends += view->stats.sends;
	r->stats.replies += view->stats.replies;
	r->stats.immediates += view->stats.immediates;
	r->stats.doorbells += view->stats.doorbells;
	r->stats.retries += view->stats.retries;
	r->stats.digest_retries += view->stats.digest_retries;
}

void ublk_summary_begin(struct ublk_record *r)
{
	r->losses = r->path_count = 0;
	r->stats = (struct rblk_stats){ 0 };
	r->writes_lost = false;
	r->peer[0] = r->words[0] = '\0';
	snprintf(r->state, sizeof(r->state), "live");
}

void ublk_summary_add(struct ublk_record *r, const struct ublk_queue_view *view)
{
	summary_paths(r, view);
	summary_count(r, view);
	if (!r->peer[0])
		snprintf(r->peer, sizeof(r->peer), "%s", view->peer);
	r->writes_lost |= view->writes_lost;
	if (view->session != RBLK_SESSION_FAILED && (view->session != RBLK_SESSION_RECOVERING || !strcmp(r->state, "failed")))
		return;
	snprintf(r->state, sizeof(r->state), "%s", view->session == RBLK_SESSION_FAILED ? "failed" : "recovering");
	snprintf(r->words, sizeof(r->words), "%s", view->words);
}
