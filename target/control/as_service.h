/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The view of the systemd service, for --check: root takes the service's user and groups, and sees of the file system what the
 * unit lets it see. Otherwise a check by root calls valid what the service cannot start. Main thread, before any other.
 */
#ifndef RBLK_TARGET_AS_SERVICE_H
#define RBLK_TARGET_AS_SERVICE_H

#include <stdbool.h>

/* The service's configuration: a check of another file is of whoever runs it. */
#define TGT_SERVICE_CONFIG "/etc/rblk/rblkd.conf"

/*
 * For good. True: this process sees what the service will, and `user` (64 bytes) is its user. False: it is not root, `path` is
 * not the service's configuration, or there is no service; or it failed, and that was logged.
 */
bool tgt_as_service(const char *path, char user[64]);

#endif
