/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The numbers of an attach line: what they are where nothing is said, and what they may be. Read by
 * the module, which holds to them, and by the rblk command, which explains them (--help).
 */
#ifndef RBLK_KMOD_ATTACH_LIMITS_H
#define RBLK_KMOD_ATTACH_LIMITS_H

#define RBLK_ATTACH_LINE_BYTES 2048 /* without its end */
#define RBLK_ATTACH_URI_BYTES 512   /* of uri=, with its end: printable, without blanks */

#define RBLK_ATTACH_QUEUES 8 /* at most, unless said: one per processor up to so many */
#define RBLK_ATTACH_CREDITS 128

#define RBLK_ATTACH_CONNECT_S 10
#define RBLK_ATTACH_COMMAND_S 30
#define RBLK_ATTACH_RECONNECT_S 10
#define RBLK_ATTACH_FAIL_FAST_S 5
#define RBLK_ATTACH_GIVE_UP_S 60

#define RBLK_ATTACH_WAIT_MS_MIN 100 /* of connect_ms and command_ms */
#define RBLK_ATTACH_WAIT_MS_MAX 600000
#define RBLK_ATTACH_RECONNECT_MS_MIN 100 /* of reconnect_ms, and the first pause */
#define RBLK_ATTACH_GIVE_UP_MS_MAX 86400000 /* of fail_fast_ms, too */

#define RBLK_ATTACH_TOS_MAX 255
#define RBLK_ATTACH_ACK_TIMEOUT_MAX 31 /* five bits of a queue pair; 0: the device's */

/* The keys of the module's keyring: of type "logon", "rblk:NAME", whose content is a secret. */
#define RBLK_KEY_PREFIX "rblk:"
#define RBLK_KEY_NAME_BYTES 192 /* with its end: printable, without blanks */
#define RBLK_KEY_BYTES 32

#endif
