/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Advice for when rblkd may not open a path. The service runs as a user of its own, so an
 * administrator who writes files as root soon meets that. Any thread.
 */
#ifndef RBLK_TARGET_DENIED_H
#define RBLK_TARGET_DENIED_H

#define TGT_DENIED_BYTES 256

/* Files in this folder become the service's at its start, and at a reload by systemctl (install/rblkd.tmpfiles). */
#define TGT_SERVICE_IMAGES "/srv/rblk"

/*
 * Words to append to the reason: as whom rblkd runs, and what would help, such as "; rblkd runs as user rblk: chown rblk
 * /srv/a.img". Returns `words`; empty if `error` (an errno, of either sign) is not EACCES, EPERM, or ENOENT where the service's unit hides files. Keeps errno.
 */
const char *tgt_denied(const char *path, int error, char words[TGT_DENIED_BYTES]);

#endif
