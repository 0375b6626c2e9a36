/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The application's questions where data is (EXTENTS), of any range, one at a time. The model checks
 * what is called zero.
 */
#include <string.h>
#include "initiator/reopen_volumes.h"
#include "initiator/session.h"
#include "initiator/volume.h"
#include "proto/wire/wire.h"
#include "tests/sim/app.h"
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

static void extents_done(void *arg, const struct rblk_result *result)
{
	struct sim_app *app = arg;

	app->under_way--;
	app->failures += result->status == RBLK_E_IO;
	app->gone |= result->status == RBLK_E_GONE;
	for (uint64_t i = 0; !result->error && i < result->value; i++) {
		const struct rblk_extent *extent = &app->extents[i];

		if (extent->flags & RBLK_EXTENT_ZERO)
			sim_model_zeroes(app->look, extent->offset / SIM_SECTOR,
					 extent->bytes / SIM_SECTOR);
	}
	sim_reached("application", "EXTENTS", result->error ? "has failed" : "is done");
	sim_model_end(app->look, SIM_OUTCOME_NOTHING, NULL);
	app->look = NULL;
}

void sim_app_ask_extents(struct sim_app *app)
{
	const struct sim_mount *mount = &app->mounts[sim_below(app->mount_count)];
	const struct rblk_volume_info *info = rblk_volume_info(mount->rblk);
	uint64_t blocks = info->bytes / info->block_bytes, first = sim_below(blocks);
	unsigned int most;
	int err;

	if (app->look || !info->can_extents)
		return;
	app->look = sim_model_look(app->host->volumes[mount->volume]);
	most = (unsigned int)sim_between(1, SIM_APP_EXTENTS);
	err = rblk_extents(mount->rblk, sim_between(1, blocks - first) * info->block_bytes,
			   first * info->block_bytes, app->extents, most, extents_done, app);
	if (!err) {
		app->under_way++;
		return;
	}
	if (err != -EAGAIN && err != -ENOTCONN &&
	    !(err == -EIO && (app->session->core.failing_fast || ini_reopen_ready(mount->rblk) == -EIO)) &&
	    !(err == -ENODEV && mount->rblk->gone))
		sim_fail("%s: EXTENTS is refused: %s", app->actor.name, strerror(-err));
	sim_model_end(app->look, SIM_OUTCOME_NOTHING, NULL);
	app->look = NULL;
}
