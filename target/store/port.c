/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A reactor's ports to volumes.
 */
#include "target/store/port.h"

#include <string.h>
#include "target/base/log.h"
#include "target/store/submit.h"

/* Memory of the store itself is registered for local access only: no peer may access it. */
static int port_register(struct tgt_port *port, struct fab *const *fabs, unsigned int fab_count)
{
	const struct tgt_store_info *info = &port->store->info;

	if (!info->direct)
		return 0;
	for (unsigned int i = 0; i < fab_count; i++) {
		int err = fab_mr_register(fabs[i], info->direct, info->bytes,
					  IBV_ACCESS_LOCAL_WRITE, &port->mr[i]);

		if (err) {
			tgt_log(TGT_LOG_ERROR,
				"volume %s: cannot register its memory: %s (memlock limit? ulimit "
				"-l, LimitMEMLOCK=)",
				port->volume->config.name, fab_error(fabs[i]));
			return err;
		}
	}
	return 0;
}

int tgt_port_open(struct tgt_volume *volume, struct tgt_ring *ring, struct fab *const *fabs,
		  unsigned int fab_count, struct tgt_port **out)
{
	struct tgt_port *port;
	int err = tgt_volume_attach(volume, ring, &port);

	if (err) {
		tgt_log(TGT_LOG_ERROR, "volume %s: a reactor cannot use its store: %s",
			volume->config.name, strerror(-err));
		tgt_volume_put(volume);
		return err;
	}
	port->volume = volume;
	err = port_register(port, fabs, fab_count);
	if (err) {
		tgt_port_close(port);
		return err;
	}
	*out = port;
	return 0;
}

void tgt_port_close(struct tgt_port *port)
{
	struct tgt_volume *volume = port->volume;

	for (unsigned int i = 0; i < TGT_FABRICS_MAX; i++)
		fab_mr_deregister(port->mr[i]);
	tgt_volume_detach(volume, port);
	tgt_volume_put(volume);
}
