/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The devices that the systemd service may open, as its unit has them (DevicePolicy=, DeviceAllow=, PrivateDevices=): the kernel
 * enforces it by the service's control group, so a process that is not in it has to compare. For as_service.c and check.c.
 */
#ifndef RBLK_TARGET_SERVICE_DEVICES_H
#define RBLK_TARGET_SERVICE_DEVICES_H

#include <stdbool.h>

/* key: of these three, as "systemctl show" has it; DeviceAllow comes once for each entry. Others are ignored. */
void tgt_service_devices_take(const char *key, const char *value);
/* False: it is a device that the service may not open, to write if `write`. True before anything was taken. */
bool tgt_service_devices_allow(const char *path, bool write);

#endif
