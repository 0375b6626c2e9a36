/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The volumes that a start serves, and those that are missing then; reload.c has what becomes of them later. Declared
 * in reload.h.
 */
#include "target/control/reload.h"

#include <errno.h>
#include <stdlib.h>
#include "proto/core/env.h"
#include "target/base/error.h"
#include "target/base/unserved.h"
#include "target/control/config.h"
#include "target/store/volume.h"

/* Adds a volume at the start. The time that earlier volumes have waited for their locks counts as its wait, too. */
static int begin_add(const struct tgt_reload *reload, struct tgt_volume_config config, uint64_t begun_ns, char *error)
{
	uint64_t waited_ms = (env_now_ns() - begun_ns) / 1000000u;

	config.lock_wait_ms -= (uint32_t)(waited_ms < config.lock_wait_ms ? waited_ms : config.lock_wait_ms);
	return tgt_volume_add(reload->registry, &config, error);
}

int tgt_reload_begin(const struct tgt_reload *reload, const struct tgt_config *current, unsigned int lacking,
		     char *error)
{
	char(*reasons)[TGT_ERROR_BYTES] = calloc(current->volume_count + 1, sizeof(*reasons));
	uint64_t begun_ns = env_now_ns();
	unsigned int left = 0;
	int status = 0, failed = 0;

	if (!reasons)
		return tgt_error(error, -ENOMEM, "out of memory");
	for (unsigned int i = 0; i < current->volume_count && left <= lacking && status != -EINTR; i++) {
		status = begin_add(reload, current->volumes[i], begun_ns, reasons[i]);
		if (status == 0)
			reasons[i][0] = '\0'; /* a first attempt may have left one */
		else if (!left++ || status == -EINTR)
			failed = tgt_error(error, status, "%s", reasons[i]);
	}
	if (status != -EINTR && left <= lacking)
		failed = 0;
	for (unsigned int i = 0; i < current->volume_count && !failed; i++)
		if (reasons[i][0])
			tgt_unserved_add(reload->unserved, TGT_UNSERVED_VOLUME, current->volumes[i].name, reasons[i]);
	free(reasons);
	return failed;
}
