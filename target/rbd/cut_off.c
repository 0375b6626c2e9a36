/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A gateway that is cut off from the cluster while others may not be. Its initiators reach it, so they would wait for
 * it for ever, although another gateway could go on. So it sends their sessions away: it tells them, and then closes
 * their connections, as their commands do not end. Sessions that know another gateway go there. That gateway lets them
 * in only if its own monitors answer (serve/login.c): if the whole cluster is down, they come back, with all that they
 * had, and wait here as before. This gateway gives nothing up: another one that serves the sessions shuts it out first,
 * and else it goes on when the cluster is back.
 */
#include "target/rbd/rbd.h"

#define NS_PER_MS 1000000ull
#define LOOK_NS (1000 * NS_PER_MS)
/* librados has its watches confirmed every five seconds. If one is not, the monitors are asked. */
#define DOUBT_MS 6500u
/*
 * If they do not answer either for so long, the gateway is cut off. If the whole cluster is away, other gateways have
 * noticed that long before, DOUBT_MS and reach.c's limit after the same last answer, and do not let the sessions in.
 */
#define LIMIT_MS 20000u
/* So many looks in a row have to find that, the last one after LIMIT_MS: this process may have stood still itself. */
#define LOOKS 3u
#define SEEMS_MS (LIMIT_MS - LOOKS * 1000u)
/* A session leaves when its commands have ended. One that is here after so long has commands that do not end. */
#define LEAVE_NS (500 * NS_PER_MS)

static struct rbd_gateway *gateway_of(struct rbd_cut_off *cut_off)
{
	return (struct rbd_gateway *)((char *)cut_off - offsetof(struct rbd_gateway, cut_off));
}

/* Any thread. */
static void sessions_asked(struct tgt_store_ask *ask, bool quiet)
{
	struct rbd_cut_off *cut_off = (struct rbd_cut_off *)((char *)ask - offsetof(struct rbd_cut_off, ask));

	(void)quiet;
	atomic_store(&cut_off->asks, false);
}

static void sessions_ask(struct rbd_cut_off *cut_off, enum tgt_ask_leave leave)
{
	cut_off->ask = (struct tgt_store_ask){.leave = leave, .answer = sessions_asked};
	atomic_store(&cut_off->asks, true);
	tgt_rbd_host->asked(gateway_of(cut_off)->store, &cut_off->ask);
}

/*
 * The gateway is cut off: takes the next step, if it is due. Each step is taken once: an initiator waits for a command
 * that has begun, but not for one that it has to send again and again.
 */
static void sessions_send_away(struct rbd_cut_off *cut_off, uint64_t now)
{
	if (cut_off->ask.leave == TGT_ASK_CUT || now < cut_off->cut_ns || atomic_load(&cut_off->asks))
		return;
	if (cut_off->ask.leave == TGT_ASK_LEAVE) {
		sessions_ask(cut_off, TGT_ASK_CUT);
		return;
	}
	tgt_rbd_host->log(TGT_LOG_WARNING,
			  "rbd: %s: the cluster has not answered this gateway for %u seconds: sessions that know "
			  "another gateway are sent there, others wait",
			  gateway_of(cut_off)->path, LIMIT_MS / 1000);
	cut_off->cut_ns = now + LEAVE_NS;
	sessions_ask(cut_off, TGT_ASK_LEAVE);
}

/* The cluster answers. */
static void cut_off_over(struct rbd_cut_off *cut_off)
{
	cut_off->looks = 0;
	if (atomic_load(&cut_off->asks))
		return;
	if (cut_off->ask.leave)
		tgt_rbd_host->log(TGT_LOG_WARNING, "rbd: %s: the cluster answers this gateway again",
				  gateway_of(cut_off)->path);
	cut_off->cut_ns = 0;
	cut_off->ask.leave = TGT_ASK_NONE;
}

/* The keeper's thread (in_time). */
static void cut_off_look(struct rbd_task *task)
{
	struct rbd_cut_off *cut_off = (struct rbd_cut_off *)task; /* its first member */
	struct rbd_gateway *gateway = gateway_of(cut_off);
	uint64_t now = tgt_rbd_now_ns(), ago_ms, silent_ms;

	if (tgt_rbd_client_is_fenced(gateway->client))
		return; /* its volume is lost, and its sessions with it */
	if (tgt_rbd_gateway_heard(gateway, &ago_ms) && now - ago_ms * NS_PER_MS > cut_off->heard_ns)
		cut_off->heard_ns = now - ago_ms * NS_PER_MS;
	silent_ms = (now - cut_off->heard_ns) / NS_PER_MS;
	if (silent_ms >= DOUBT_MS)
		tgt_rbd_client_probe();
	if (silent_ms < SEEMS_MS || !tgt_rbd_reach_silent())
		cut_off_over(cut_off);
	else if (++cut_off->looks > LOOKS && silent_ms >= LIMIT_MS)
		sessions_send_away(cut_off, now);
	tgt_rbd_keeper_later(task, LOOK_NS);
}

void tgt_rbd_cut_off_begin(struct rbd_gateway *gateway)
{
	struct rbd_cut_off *cut_off = &gateway->cut_off;

	cut_off->look.run = cut_off_look;
	cut_off->look.in_time = true;
	cut_off->heard_ns = tgt_rbd_now_ns();
	tgt_rbd_keeper_later(&cut_off->look, LOOK_NS);
}

void tgt_rbd_cut_off_end(struct rbd_gateway *gateway)
{
	tgt_rbd_keeper_forget(&gateway->cut_off.look);
}
