/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The messages of notify.h. A message that cannot be sent is not reported. */
#include "target/control/notify.h"

#include <inttypes.h>
#include <limits.h>
#include <systemd/sd-daemon.h>
#include "proto/core/env.h"

void tgt_notify_ready(const char *status)
{
	(void)sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void tgt_notify_reloading(void)
{
	/* The time lets systemd pair this with the READY=1 that follows (Type=notify-reload). */
	(void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, env_now_ns() / 1000);
}

void tgt_notify_stopping(const char *status)
{
	(void)sd_notifyf(0, "STOPPING=1\nSTATUS=%s", status);
}

int tgt_notify_watchdog_ms(void)
{
	uint64_t limit_us;

	if (sd_watchdog_enabled(0, &limit_us) <= 0)
		return -1;
	return limit_us / 2000 > INT_MAX ? INT_MAX : (int)(limit_us / 2000);
}

void tgt_notify_alive(void)
{
	(void)sd_notify(0, "WATCHDOG=1");
}
