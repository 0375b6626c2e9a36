/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The store on a Ceph RBD image: loads the module for it (target/rbd, package rblkd-rbd), whose own table then serves
 * the volume. librbd takes 20 MiB and some twenty threads, so only daemons that are configured for it load it.
 */
#include "target/store/store.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/store/module.h"
#include "target/store/path.h"
#include "target/store/volume.h"
#include "target/store/worker.h"

/* A build has it beside rblkd, where RUNPATH finds it; it is installed in RBLKD_MODULES. */
#define MODULE_FILE "rblkd-rbd.so"

/* NULL and error, or the module's table. The module is never unloaded: librados has threads. */
static const struct tgt_store_ops *module_load(char *error)
{
	static const struct tgt_module_host host = TGT_MODULE_HOST;
	const int how = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
	void *handle = dlopen(MODULE_FILE, how);
	const struct tgt_module *module;

	if (!handle)
		handle = dlopen(RBLKD_MODULES "/" MODULE_FILE, how);
	module = handle ? dlsym(handle, TGT_MODULE_NAME) : NULL;
	if (!module) {
		tgt_error(error, 0, "store = rbd needs the package rblkd-rbd: %.300s", dlerror());
		return NULL;
	}
	if (strcmp(module->version, RBLK_VERSION) || module->io_bytes != sizeof(struct tgt_io) ||
	    module->info_bytes != sizeof(struct tgt_store_info)) {
		tgt_error(error, 0,
			  "store = rbd: " MODULE_FILE " (%s) is not of this rblkd (" RBLK_VERSION
			  "): install the package rblkd-rbd of the same version",
			  module->version);
		return NULL;
	}
	return module->begin(&host);
}

static const struct tgt_store_ops *_Atomic loaded;

/* Called by one thread at a time. Tries again after a failure: the package may be installed later. NULL and error. */
static const struct tgt_store_ops *rbd_load(char *error)
{
	if (!atomic_load(&loaded))
		atomic_store(&loaded, module_load(error));
	return atomic_load(&loaded);
}

static void rbd_open_ahead(const struct tgt_volume_config *config)
{
	char error[TGT_ERROR_BYTES];
	const struct tgt_store_ops *ops = rbd_load(error);

	if (ops)
		ops->open_ahead(config);
}

static int rbd_open(const struct tgt_volume_config *config, struct tgt_store **store, char *error)
{
	const struct tgt_store_ops *ops = rbd_load(error);

	return ops ? ops->open(config, store, error) : -ENOENT;
}

static bool rbd_silent(void)
{
	const struct tgt_store_ops *ops = atomic_load(&loaded);

	return ops && ops->silent();
}

const struct tgt_store_ops tgt_store_rbd = {
	.kind = "rbd",
	.on_path = true,
	.elsewhere = true,
	.open_ahead = rbd_open_ahead,
	.open = rbd_open,
	.silent = rbd_silent,
};
