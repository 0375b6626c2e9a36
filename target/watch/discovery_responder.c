/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The judgement of discovery_responder.h. */
#include "target/watch/discovery_responder.h"

#include <inttypes.h>
#include <string.h>
#include "proto/core/env.h"
#include "proto/wire/wire_check.h"
#include "target/base/log.h"
#include "target/watch/discovery_address.h"

/* Lines about a flood. */
#define FLOOD_NS 60000000000ull

void tgt_discovery_responder_init(struct tgt_discovery_responder *responder, const char *interfaces)
{
	uint64_t seed;

	env_random(&seed, sizeof(seed));
	tgt_discovery_limit_init(&responder->limit, seed);
	pthread_mutex_init(&responder->lock, NULL);
	responder->interfaces = interfaces;
	responder->flood_ns = 0;
	responder->answered = responder->limited = responder->malformed = 0;
}

void tgt_discovery_responder_fini(struct tgt_discovery_responder *responder)
{
	pthread_mutex_destroy(&responder->lock);
}

/* True: log a line about it. */
static bool over_limit(struct tgt_discovery_responder *responder, const uint8_t address[16], uint64_t now_ns, bool *tell)
{
	bool over;

	pthread_mutex_lock(&responder->lock);
	over = !tgt_discovery_limit_take(&responder->limit, address, now_ns);
	*tell = over && (!responder->flood_ns || now_ns - responder->flood_ns >= FLOOD_NS);
	if (*tell)
		responder->flood_ns = now_ns;
	pthread_mutex_unlock(&responder->lock);
	return over;
}

bool tgt_discovery_responder_take(struct tgt_discovery_responder *responder,
				  const struct tgt_discovery_question *question, struct rblk_wire_discover *answer,
				  uint64_t now_ns)
{
	const struct rblk_wire_discover *discover = question->discover;
	char from[INET6_ADDRSTRLEN];
	bool tell;

	if (rblk_check_discover(discover, question->length, RBLK_DISCOVER_QUERY)) {
		responder->malformed++;
		return false;
	}
	if (discover->name[0] && memcmp(discover->name, responder->self.name, sizeof(discover->name)) != 0)
		return false;
	if (!over_limit(responder, question->address, now_ns, &tell)) {
		memcpy(answer->nonce, discover->nonce, sizeof(answer->nonce));
		return true;
	}
	responder->limited++;
	if (tell)
		tgt_log(TGT_LOG_WARNING,
			"discovery: too many queries, lately from %s on %s: %" PRIu64 " were not answered so far",
			tgt_discovery_address_text(question->address, from), question->interface, responder->limited);
	return false;
}

void tgt_discovery_responder_answered(struct tgt_discovery_responder *responder)
{
	responder->answered++;
}
