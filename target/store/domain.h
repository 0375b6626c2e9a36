/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fence domain of a local store (specification, F10): a hash of this machine and of what the
 * store's lock is on (F6). So a later process of this machine reports the same domain for the same
 * store, and another one for any other store; another machine reports none of them. Configuring
 * thread.
 *
 * The machine is known over a reboot by the UUID that its firmware or hypervisor gives it, together
 * with the machine-id of its installation. A machine-id alone is none: clones have their original's,
 * and may reach its disks. Where there is no such UUID, or rblkd may not read it, the id of the boot
 * stands for the machine: nothing else has that, so a restart of rblkd is within the domain, but a
 * reboot is not.
 */
#ifndef RBLK_TARGET_STORE_DOMAIN_H
#define RBLK_TARGET_STORE_DOMAIN_H

#include <stdbool.h>
#include <stddef.h>
#include "target/store/device_name.h"
#include "target/store/store.h"

#define TGT_MACHINE_BYTES 256
#define TGT_DEVICE_BYTES TGT_DEVICE_NAME_BYTES

/* info->fence_domain, from info->id, or from the volume's name where it is empty. */
void tgt_domain_local(struct tgt_store_info *info, const struct tgt_volume_config *config);
/* Warns, once, if the domain of a store that outlives a reboot does not, and the configuration has no other one. */
void tgt_domain_warn(const struct tgt_store_info *info, const struct tgt_volume_config *config);

/* -- what it is made of. `root` is put before each path: empty but for tests. -------------------- */

/* Words that only this machine has. False: they are of this boot. */
bool tgt_domain_machine(const char *root, const char *credentials, char words[TGT_MACHINE_BYTES]);
/* Words that only this block device has among the machine's, the same after a reboot if it has a name of its own. */
void tgt_domain_device(const char *root, uint64_t device, char words[TGT_DEVICE_BYTES]);

#endif
