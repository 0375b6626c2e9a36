/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The watchdog of watchdog.h. It checks four times within systemd's limit, so that one late answer
 * has no effect.
 */
#include "target/control/watchdog.h"

#include <string.h>
#include "proto/core/env.h"
#include "proto/words/units.h"
#include "target/base/daemon_event.h"
#include "target/base/log.h"
#include "target/control/notify.h"
#include "target/serve/peers.h"

#define NS_PER_MS 1000000ull

void tgt_watchdog_init(struct tgt_watchdog *watchdog, struct tgt_reactor **reactors,
		       unsigned int count)
{
	int half_ms = tgt_notify_watchdog_ms();

	memset(watchdog, 0, sizeof(*watchdog));
	watchdog->reactors = reactors;
	watchdog->reactor_count = count;
	if (half_ms < 0)
		return;
	watchdog->tick_ns = half_ms < 2 ? NS_PER_MS : (uint64_t)half_ms * NS_PER_MS / 2;
	watchdog->asked_ns = env_now_ns();
	watchdog->due_ns = watchdog->asked_ns + watchdog->tick_ns;
}

int tgt_watchdog_timeout_ms(const struct tgt_watchdog *watchdog)
{
	uint64_t now_ns = env_now_ns();

	if (!watchdog->tick_ns)
		return -1;
	if (watchdog->due_ns <= now_ns)
		return 0;
	return (int)((watchdog->due_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS);
}

static void question_run(struct tgt_reactor *reactor, struct tgt_message *message)
{
	atomic_store_explicit(&((struct tgt_watchdog_question *)message)->asked, false, memory_order_release);
}

/* The reactor answers in its next turn. The last one was answered. */
static void question_ask(struct tgt_watchdog_question *question, struct tgt_reactor *reactor)
{
	atomic_store_explicit(&question->asked, true, memory_order_relaxed);
	question->message.run = question_run;
	tgt_reactor_send(reactor, &question->message);
}

/* True: it has answered. */
static bool reactor_answers(struct tgt_watchdog *watchdog, unsigned int i, uint64_t now_ns)
{
	uint64_t since_ms = (now_ns - watchdog->asked_ns) / NS_PER_MS;
	char text[UNITS_TEXT_BYTES];

	if (!atomic_load_explicit(&watchdog->questions[i].asked, memory_order_acquire)) {
		if (watchdog->silent[i])
			tgt_log(TGT_LOG_WARNING, "reactor %u: running again", i);
		watchdog->silent[i] = false;
		return true;
	}
	if (!watchdog->silent[i])
		tgt_daemon_event(
			&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_REACTOR_HANGS}, NULL,
			TGT_LOG_ERROR,
			"reactor %u: hangs: its turn has taken %s; systemd's watchdog is not "
			"notified",
			i, units_format_us((double)since_ms * 1e3, text));
	watchdog->silent[i] = true;
	return false;
}

void tgt_watchdog_step(struct tgt_watchdog *watchdog)
{
	uint64_t now_ns = env_now_ns();
	bool all = true;

	if (!watchdog->tick_ns || now_ns < watchdog->due_ns)
		return;
	watchdog->due_ns = now_ns + watchdog->tick_ns;
	for (unsigned int i = 0; i < watchdog->reactor_count; i++)
		all &= reactor_answers(watchdog, i, now_ns);
	if (!all)
		return;
	tgt_notify_alive();
	watchdog->asked_ns = now_ns;
	for (unsigned int i = 0; i < watchdog->reactor_count; i++)
		question_ask(&watchdog->questions[i], watchdog->reactors[i]);
}
