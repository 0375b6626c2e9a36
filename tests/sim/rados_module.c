/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblkd's side of the module of target/rbd: what loads it, and gives it operations. Linked instead of
 * target/store/rbd.c. A process that dies takes what its threads have in their hands with them, but the simulator
 * lets rblkd's own code free everything: so it knows of each operation that the module has.
 */
#include "tests/sim/rados_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "target/store/module.h"
#include "target/store/path.h"
#include "target/store/volume.h"
#include "target/store/worker.h"
#include "tests/sim/actor.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fiber.h"
#include "tests/sim/trace.h"
#include "tests/sim/whitebox.h"

/* An operation that the module has. If it is lost with a thread that has ended the process, `message` is posted. */
struct begun {
	struct tgt_message message; /* first */
	TAILQ_ENTRY(begun) link;
	struct tgt_io *io;
	struct tgt_ring *ring;
	void (*done)(struct tgt_io *io, int error);
};

/* A fence that it has, likewise. */
struct asking {
	TAILQ_ENTRY(asking) link;
	struct tgt_store_fence *fence;
	void (*done)(struct tgt_store_fence *fence, int error);
};

/* A change of the reservation, likewise: one of each store, and one that is lost may still have one. */
struct changing {
	TAILQ_ENTRY(changing) link;
	const struct tgt_store *store;
	struct tgt_store_change *change;
	void (*done)(struct tgt_store_change *change, int error);
};

/* Of each process. */
static struct module {
	const struct tgt_store_ops *ops; /* NULL: it has not begun */
	struct tgt_store_ops served;	 /* the same, but for close, fence and submit */
	unsigned int closing;		 /* stores */
	TAILQ_HEAD(, begun) begun;
	TAILQ_HEAD(, asking) asking;
	TAILQ_HEAD(, changing) changing;
	struct begun *begins; /* the one that is given to the module just now */
} modules[SIM_RADOS_MACHINES];

static struct module *module_now(void)
{
	return &modules[sim_actor_self()->machine];
}

void rados_module_begin(unsigned int machine)
{
	memset(&modules[machine], 0, sizeof(modules[machine]));
	TAILQ_INIT(&modules[machine].begun);
	TAILQ_INIT(&modules[machine].asking);
	TAILQ_INIT(&modules[machine].changing);
}

static void fence_done(struct tgt_store_fence *fence, int error)
{
	struct module *module = module_now();
	struct asking *asking;

	TAILQ_FOREACH(asking, &module->asking, link)
		if (asking->fence == fence)
			break;
	TAILQ_REMOVE(&module->asking, asking, link);
	fence->done = asking->done;
	free(asking);
	fence->done(fence, error);
}

static void change_done(struct tgt_store_change *change, int error)
{
	struct module *module = module_now();
	struct changing *changing;

	TAILQ_FOREACH(changing, &module->changing, link)
		if (changing->change == change)
			break;
	TAILQ_REMOVE(&module->changing, changing, link);
	change->done = changing->done;
	free(changing);
	change->done(change, error);
}

void rados_module_lose(unsigned int machine)
{
	struct begun *begun;
	struct asking *asking;
	struct changing *changing;

	while ((begun = rados_called_for(machine)))
		tgt_ring_post(begun->ring, &begun->message);
	while ((asking = TAILQ_FIRST(&modules[machine].asking)))
		fence_done(asking->fence, -EIO);
	while ((changing = TAILQ_FIRST(&modules[machine].changing)))
		change_done(changing->change, -EIO);
}

void *sim_rbd_begins(void)
{
	return module_now()->begins;
}

const char *sim_rbd_initiator(void)
{
	return sim_whitebox_initiator(module_now()->begins->io);
}

extern const struct tgt_module rblkd_module;

static void *store_closer(void *store)
{
	module_now()->ops->close(store);
	module_now()->closing--;
	return NULL;
}

/*
 * On a thread, as the registry has one for it. A dead process closes nothing, and what it has of the store is freed
 * with its memory.
 */
static void store_close(struct tgt_store *store)
{
	if (rados_process_is_dead())
		return;
	atomic_store(&store->volume, NULL); /* which is freed by then */
	module_now()->closing++;
	sim_rados_thread_start("close", store_closer, store);
}

void sim_rados_process_close(unsigned int machine)
{
	while (modules[machine].closing && !rados_process_is_dead())
		sim_fiber_sleep(20 * SIM_US);
}

static void begun_done(struct tgt_io *io, int error)
{
	struct module *module = module_now();
	void (*done)(struct tgt_io *, int);
	struct begun *begun;

	TAILQ_FOREACH(begun, &module->begun, link)
		if (begun->io == io)
			break;
	TAILQ_REMOVE(&module->begun, begun, link);
	io->done = done = begun->done;
	free(begun);
	done(io, error);
}

static void begun_lost(struct tgt_reactor *reactor, struct tgt_message *message)
{
	(void)reactor;
	begun_done(((struct begun *)message)->io, -EIO);
}

static int store_submit(struct tgt_channel *channel, struct tgt_io *io)
{
	struct module *module = module_now();
	struct begun *begun = calloc(1, sizeof(*begun));
	int status;

	if (!begun)
		sim_fail("out of memory");
	*begun = (struct begun){.message.run = begun_lost, .io = io, .ring = channel->ring, .done = io->done};
	io->done = begun_done;
	TAILQ_INSERT_TAIL(&module->begun, begun, link);
	module->begins = begun;
	status = module->ops->submit(channel, io);
	module->begins = NULL;
	if (!status)
		return 0;
	TAILQ_REMOVE(&module->begun, begun, link);
	io->done = begun->done;
	free(begun);
	return status;
}

static void store_fence(struct tgt_store *store, struct tgt_store_fence *fence)
{
	struct module *module = module_now();
	struct asking *asking = calloc(1, sizeof(*asking));

	if (!asking)
		sim_fail("out of memory");
	*asking = (struct asking){.fence = fence, .done = fence->done};
	fence->done = fence_done;
	TAILQ_INSERT_TAIL(&module->asking, asking, link);
	module->ops->fence(store, fence);
}

static void store_change(struct tgt_store *store, struct tgt_store_change *change)
{
	struct module *module = module_now();
	struct changing *changing;

	TAILQ_FOREACH(changing, &module->changing, link)
		if (changing->store == store)
			sim_fail("a reservation is changed twice at a time");
	changing = calloc(1, sizeof(*changing));
	if (!changing)
		sim_fail("out of memory");
	*changing = (struct changing){.store = store, .change = change, .done = change->done};
	TAILQ_INSERT_TAIL(&module->changing, changing, link);
	change->done = change_done;
	module->ops->change(store, change);
}

static void module_asked(struct tgt_store *store, struct tgt_store_ask *ask)
{
	if (ask->leave == TGT_ASK_LEAVE)
		sim_reached("target", "sends sessions away, as it does not reach its cluster", NULL);
	tgt_volume_asked(store, ask);
}

static int module_open(const struct tgt_volume_config *config, struct tgt_store **store, char *error)
{
	static struct tgt_module_host host = TGT_MODULE_HOST;
	struct module *module = module_now();
	int err;

	host.asked = module_asked;
	if (!module->ops) {
		module->ops = rblkd_module.begin(&host);
		module->served = *module->ops;
		module->served.close = store_close;
		module->served.submit = store_submit;
		module->served.fence = store_fence;
		module->served.change = store_change;
	}
	err = module->ops->open(config, store, error);
	if (!err)
		(*store)->ops = &module->served;
	return err;
}

static bool module_silent(void)
{
	const struct sim_actor *self = sim_actor_self();

	return rados_cluster.on && self && self->machine < SIM_RADOS_MACHINES && modules[self->machine].ops &&
	       !rados_process_is_dead() && modules[self->machine].ops->silent();
}

const struct tgt_store_ops tgt_store_rbd = {
	.kind = "rbd",
	.on_path = true,
	.elsewhere = true,
	.silent = module_silent,
	.open = module_open,
};
