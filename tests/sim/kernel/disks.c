/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The module's disks for a user outside of the kernel (module_kernel.h): attach and detach as
 * kmod/control.c asks for them, requests as the block layer does.
 */
#include "tests/sim/kernel/module_kernel.h"

#include <arpa/inet.h>
#include "kmod/blk_mq.h"
#include "kmod/call.h"
#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/memory.h"
#include "kmod/queue.h"
#include "proto/wire/wire_names.h"
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/fiber.h"
#include "tests/sim/kernel/block.h"
#include "tests/sim/kernel/calls.h"
#include "tests/sim/kernel/reserve.h"
#include "tests/sim/random.h"
#include "tests/sim/seen.h"

#define PORT 4430
#define SILENT_PORTAL 3u /* SIM_PORTALS_MAX */

unsigned int *sim_param_slot_bytes(void);

bool sim_queue_is_over(const void *queue)
{
	return core_session_over(&((const struct rblk_queue *)queue)->session->core);
}

void sim_queue_goes(const void *of)
{
	const struct rblk_queue *queue = of;

	if (rblk_mq_ends(queue->session, queue, NULL))
		sim_fail("the kernel: a queue pair goes while requests that it has answered use their slots (F4)");
}

/* -- attaching ----------------------------------------------------------------------------------- */

static void portal_fill(struct rblk_portal *portal, unsigned int number, unsigned int machine)
{
	struct sockaddr_in *address = (struct sockaddr_in *)&portal->address;

	address->sin_family = AF_INET;
	address->sin_port = htons(PORT);
	address->sin_addr.s_addr = htonl(0x0a000000u | number << 8 | (machine + 1));
	snprintf(portal->text, sizeof(portal->text), "10.0.%u.%u:%u", number, machine + 1, PORT);
}

uint32_t sim_disk_starve, sim_disk_killed;

void sim_disk_kill_caller(uint64_t soon_ns)
{
	if (!sim_net.calm && sim_chance(sim_disk_killed))
		sim_kernel_kill(sim_now_ns() + sim_below(sim_chance(500000) ? soon_ns : 200 * SIM_MS));
}

struct rblk_disk *sim_disk_attach(const struct sim_attach *attach, char *text)
{
	struct rblk_options options;
	struct rblk_session_options *o = &options.session;
	struct rblk_disk *disk;
	unsigned int refused;
	int index, error;

	memset(&options, 0, sizeof(options));
	o->portal_count = attach->portals;
	for (unsigned int i = 0; i < attach->portals; i++)
		portal_fill(&o->portals[i], attach->silent_portal && !i ? SILENT_PORTAL : i,
			    attach->target);
	if (attach->other)
		portal_fill(&o->portals[o->portal_count++], 0, attach->other);
	/* Groups, seldom: they leave fewer ways to be wrong. By what is random already. */
	if (attach->other)
		o->portals[attach->portals].group = attach->connect_ms % 8 == 0;
	strscpy(o->initiator, SIM_MODULE_NAME, sizeof(o->initiator));
	if (attach->key)
		strscpy(o->key, "key", sizeof(o->key));
	o->queues = attach->queues;
	o->poll_queues = attach->poll_queues;
	o->credits = attach->credits;
	o->connect_ms = attach->connect_ms;
	o->command_ms = attach->command_ms;
	o->reconnect_ms = attach->reconnect_ms;
	o->fail_fast_ms = attach->fail_fast_ms;
	o->digest = attach->digest;
	o->give_up_ms = attach->give_up_ms;
	strscpy(options.disk.volume, attach->volume, sizeof(options.disk.volume));
	options.disk.accept_volatile = true;
	*sim_param_slot_bytes() = attach->slot_bytes;
	if (!sim_net.calm && sim_chance(sim_disk_starve))
		sim_kernel_starve();
	sim_disk_kill_caller(2 * SIM_MS);
	error = rblk_disk_attach(&options, text);
	if (sim_kernel_spare() && error)
		sim_reached("module", "an attach is killed", NULL);
	refused = sim_kernel_starved();
	if (refused)
		sim_reached("module", "an attach finds no memory", NULL);
	if (refused && (!error || !strstr(text, "out of memory")) && error != -EINTR)
		sim_fail("the kernel: an attach that found no memory says: %s", text);
	if (error || sscanf(text, "rblk%d", &index) != 1)
		return NULL;
	disk = rblk_disk_find(index, index);
	if (!disk)
		sim_fail("the kernel: %s was attached, and is not there", text);
	if (disk->gendisk->fops->open(disk->gendisk))
		sim_fail("the kernel: %s was attached, and cannot be opened", text);
	rblk_disk_put(disk);
	return disk;
}

void sim_disk_detach(struct rblk_disk *disk, bool force)
{
	char name[16], text[RBLK_TEXT_BYTES];

	snprintf(name, sizeof(name), "rblk%d", disk->index);
	disk->gendisk->fops->release(disk->gendisk);
	if (rblk_disk_detach(name, force, text))
		sim_fail("the kernel: detach: %s", text);
}

/* -- looking ----------------------------------------------------------------------------------------- */

static bool unfenced(const struct rblk_disk *disk)
{
	struct rblk_io *io;

	list_for_each_entry(io, &disk->session->waiting, command.entry)
		if (io->wait == RBLK_WAIT_LOST && rblk_disk_of(rblk_io_rq(io)) == disk)
			return true;
	return false;
}

/* The queue is LIVE again, and the FENCE of its last loss is not answered. */
static bool fence_is_late(const struct rblk_session *session, unsigned int queue)
{
	return session->core.queue[queue].state == CORE_QUEUE_LIVE && session->core.queue[queue].lost.fence_sent;
}

/* One of those, or -1. */
static int late_fence(const struct rblk_session *session)
{
	for (unsigned int i = 0; i < session->queue_count; i++)
		if (fence_is_late(session, i))
			return (int)i;
	return -1;
}

void sim_disk_look(const struct rblk_disk *disk, struct sim_disk_view *view)
{
	const struct rblk_session *session = disk->session;

	*view = (struct sim_disk_view){
		.untorn_min_bytes = disk->untorn_min_bytes,
		.untorn_max_bytes = disk->untorn_max_bytes,
		.block_bytes = disk->block_bytes,
		.max_bytes = disk->disk_bytes,
		.flags = disk->volume_flags,
		.blocks = disk->blocks,
		.epoch = disk->epoch,
		.handle = disk->handle,
		.ready = disk->ready,
		.read_only = disk->gendisk->read_only,
		.write_cache = disk->gendisk->queue->write_cache,
		.lost = rblk_durable_lost(disk),
		.failed = disk->gate == RBLK_GATE_FAIL || core_session_over(&session->core),
		/* In a new epoch its OPEN is the fence. */
		.goes_on = session->core.state == CORE_SESSION_LIVE && disk->ready && !disk->unfenced &&
			   !disk->reserve_unfenced && !sim_reserve_left(disk),
		.unfenced = unfenced(disk),
		.fence_late = late_fence(session) >= 0,
		.contexts = session->hw_queues,
		.polled = session->options.poll_queues,
		.state = session->core.state,
	};
	memcpy(view->cache_epoch, disk->cache_epoch, sizeof(view->cache_epoch));
}

/* A disk whose volume is not open holds no request for longer than it may, whatever other disks wait for. */
static void check_times(const struct rblk_session *session)
{
	const struct rblk_session_options *o = &session->options;
	const struct rblk_disk *disk;

	list_for_each_entry(disk, &session->disks, peer) {
		unsigned long waited = jiffies - disk->volume_lost_since;
		u8 gate = max(session->gate, disk->gate);

		if (!disk->opened || !disk->endures || disk->ready)
			continue;
		if (waited > o->give_up_ms + SIM_LATE_MS && gate != RBLK_GATE_FAIL)
			sim_fail("the kernel: a disk is not open for %lu ms, and gives up after %u", waited,
				 o->give_up_ms);
		if (o->fail_fast_ms && waited > o->fail_fast_ms + SIM_LATE_MS && gate == RBLK_GATE_HOLD)
			sim_fail("the kernel: a disk is not open for %lu ms, and fails fast after %u", waited,
				 o->fail_fast_ms);
	}
}

/* The target has answered all that was sent on this queue. */
static bool is_answered(const struct rblk_queue *queue)
{
	for (unsigned int tag = 0; tag < core_tags_count(queue->credits); tag++)
		if (queue->commands[tag] && queue->commands[tag]->account.state == CORE_TAG_SENT)
			return false;
	return true;
}

/* Who adds a command of the session's own rings for it right after, and may be in between. */
static bool is_to_be_rung(const struct rblk_queue *queue)
{
	for (unsigned int tag = queue->credits; tag < core_tags_count(queue->credits); tag++)
		if (queue->commands[tag] && queue->commands[tag]->account.state == CORE_TAG_TAKEN)
			return true;
	return false;
}

/* What waits for the device's SENDs is sent when there are none any more, or when all that they carried is answered. */
static void check_batches(const struct rblk_session *session)
{
	for (unsigned int i = 0; i < session->queue_count; i++) {
		const struct rblk_queue *queue = session->queues[i];

		if (queue->down || !queue->clock.owed)
			continue;
		sim_reached("module", "a command waits for a SEND that the device has", NULL);
		if (!core_clock_busy(&queue->clock) && !is_to_be_rung(queue))
			sim_fail("the kernel: what was kept back is forgotten");
		if (!queue->late_work.work.pending && !queue->late_work.work.running)
			sim_fail("the kernel: nobody looks after a SEND that may be lost");
		if (is_answered(queue))
			sim_fail("the kernel: a command waits for SENDs that have arrived");
	}
}

void sim_disk_sample(const struct rblk_disk *disk)
{
	static const char *const waits[] = {
		[RBLK_WAIT_TIME] = "for a time, refused by the target",
		[RBLK_WAIT_READY] = "for a queue",
		[RBLK_WAIT_LOST] = "for a fence",
	};
	const struct rblk_io *io;

	check_times(disk->session);
	check_batches(disk->session);
	sim_paths_check_leaving(disk->session);
	list_for_each_entry(io, &disk->session->waiting, command.entry)
		sim_reached("module", "a request waits", waits[io->wait]);
}

void sim_disk_session(const struct rblk_disk *disk, uint8_t id[16], uint64_t *epoch)
{
	memcpy(id, disk->session->session_id, 16);
	*epoch = disk->session->core.epoch;
}

bool sim_disk_session_has(const struct rblk_disk *disk, uint32_t handle)
{
	const struct rblk_disk *other;

	list_for_each_entry(other, &disk->session->disks, peer)
		if (other->ready && other->handle == handle)
			return true;
	return false;
}

void sim_disk_acknowledge(struct rblk_disk *disk)
{
	rblk_durable_acknowledge(disk);
}

/* As kmod/sysfs.c's kill_connection. */
void sim_disk_kill_connection(struct rblk_disk *disk)
{
	const struct rblk_session *session = disk->session;
	u64 queue = sim_below(session->queue_count);

	int late = late_fence(session);

	/* Rather one by which a RESERVE is under way; or whose FENCE is answered for what it has lost before. */
	if (session->reserving && sim_chance(500000))
		queue = (u64)__builtin_ctzl(session->reserving);
	if (late >= 0 && sim_chance(800000)) {
		queue = (u64)late;
		sim_reached("module", "loses a connection again, before its last FENCE is known to be answered", NULL);
	}
	rblk_queue_lost(session->queues[queue], "killed by its user");
}

/* One that is up, has commands of the disk or none, and some of the other, if that is given. */
static struct rblk_queue *queue_of(const struct rblk_session *session, const struct rblk_disk *disk, bool serves,
				   const struct rblk_disk *other)
{
	for (unsigned int i = 0; i < session->queue_count; i++) {
		struct rblk_queue *queue = session->queues[i];

		if (session->core.queue[i].state == CORE_QUEUE_LIVE && rblk_queue_serves(queue, disk) == serves &&
		    (!other || rblk_queue_serves(queue, other)))
			return queue;
	}
	return NULL;
}

bool sim_disk_kill_shared(struct rblk_disk *disk, struct rblk_disk *other, bool all)
{
	const struct rblk_session *session = disk->session;
	struct rblk_queue *shared = queue_of(session, disk, true, other);

	/* Rather one by which a RESERVE is under way. */
	if (!all && session->reserving && sim_chance(500000))
		shared = session->queues[__builtin_ctzl(session->reserving)];
	if (!shared || (all && !queue_of(session, disk, false, NULL)))
		return false;
	for (unsigned int i = 0; i < session->queue_count; i++)
		if (all || session->queues[i] == shared)
			rblk_queue_lost(session->queues[i], "killed by its user");
	return true;
}

/* -- session commands --------------------------------------------------------------------------------- */

/* What a target that is not the session's says is no concern of the model (F10). */
static bool is_strangers(const struct rblk_queue *queue)
{
	const struct sockaddr_in *address = (const void *)&queue->session->options.portals[queue->portal].address;

	return sim_stranger != UINT_MAX && (ntohl(address->sin_addr.s_addr) & 0xff) == sim_stranger + 1;
}

/* Whoever calls again may meet the next connection, whose target has not proven itself: now and then somebody does. */
static void call_early(struct rblk_queue *queue)
{
	const struct rblk_session_command early = { .opcode = RBLK_OP_KEEPALIVE };

	if (queue->incarnation % 4 || queue->down || queue->proven)
		return;
	if (rblk_call_send(queue, &early, 0) != -ENOTCONN)
		sim_fail("the kernel: a command is sent before the target has proven itself (section 6.3)");
	sim_reached("module", "a command comes before the target has proven itself", NULL);
}

void sim_seen_call(struct rblk_queue *queue, struct rblk_session_command *sc)
{
	sim_reached("point", "call", NULL);
	if (sc->opcode == RBLK_OP_AUTHENTICATE)
		call_early(queue);
	if (sc->opcode == RBLK_OP_CLOSE && !sim_net.calm && sim_chance(sim_disk_kill_sending))
		rblk_queue_lost(queue, "killed by its user");
	sim_calls_send(queue->session, sc);
}

void sim_seen_opened(const struct rblk_queue *queue, const struct rblk_wire_volume *volume)
{
	sim_reached("point", "opened", NULL);
	if (!is_strangers(queue))
		sim_module_opened(queue->session, rblk_le32(volume->handle), volume->name, volume->cache_epoch);
}

/* An answer that may take as long as a volume's storage costs no connection, nor does a user who is killed. */
void sim_seen_queue_lost(const char *format, va_list args)
{
	char text[RBLK_TEXT_BYTES];

	sim_reached("point", "queue_lost", NULL);
	vscnprintf(text, sizeof(text), format, args);
	if (!strncmp(text, "no answer to CLOSE", 18) || !strncmp(text, "no answer to OPEN", 17) ||
	    !strncmp(text, "no answer to RESERV", 19) || !strncmp(text, "killed while", 12))
		sim_fail("the kernel: who does not wait any more costs a connection: %s", text);
}

/* -- I/O ----------------------------------------------------------------------------------------------- */

struct user {
	sim_disk_done_fn done;
	void *arg;
	u64 sector;
	u32 incarnation; /* of the queue by which it was sent last */
	struct sim_disk_lost lost;
};

uint32_t sim_disk_kill_sending;

/*
 * F4: a request has a tag of this connection, and its processor is taken from who sends it; for longer if the
 * connection is lost meanwhile. Whatever becomes of that, its memory must stay.
 */
static void dispatch_slowly(struct rblk_queue *queue)
{
	const struct core_session *core = &queue->session->core;

	if (!sim_fiber_self() || sim_fiber_pinned())
		return;
	sim_fiber_preempt();
	if (!sim_net.calm && sim_chance(sim_disk_kill_sending))
		rblk_queue_lost(queue, "killed by its user");
	if (core->queue[queue->index].state == CORE_QUEUE_LIVE || sim_chance(500000))
		return;
	sim_reached("module", "a connection is lost while a request is being sent on it", NULL);
	sim_fiber_sleep(sim_below(5 * SIM_MS));
}

/* Disks of the session that may send I/O. */
static unsigned int disks_made(const struct rblk_session *session)
{
	const struct rblk_disk *disk;
	unsigned int made = 0;

	list_for_each_entry(disk, &session->disks, peer)
		made += disk->gendisk != NULL;
	return made;
}

/*
 * A disk that hangs would keep all lent tags, and the others' requests of lost queues find none. A session's only disk may
 * have all of them.
 */
void sim_seen_borrow(const struct rblk_queue *queue, struct rblk_io *io, bool got)
{
	const struct rblk_session *session = queue->session;
	unsigned int bit, own = 0, borrow = queue->credits - queue->home_tags;
	bool lends = find_first_zero_bit(queue->borrowed, borrow) < borrow;

	sim_reached("point", "borrow", NULL);
	for_each_set_bit(bit, queue->borrowed, borrow)
		own += queue->owners[queue->home_tags + bit].disk == rblk_disk_of(rblk_io_rq(io));
	if (got && own == borrow && disks_made(session) > 1)
		sim_fail("the kernel: one disk has all tags that a queue lends");
	/* While one joins or leaves it is not yet, or still, so. */
	if (!got && lends && list_is_singular(&session->disks) && !session->lifecycle.owner)
		sim_fail("the kernel: a session's only disk finds no tag, and a queue has some to lend");
	if (got && own == borrow)
		sim_reached("module", "a session's only disk has all tags that a queue lends", NULL);
}

void sim_seen_dispatch(struct rblk_io *io, struct rblk_queue *queue)
{
	struct user *user = rblk_io_rq(io)->user;
	const struct rblk_session *session = queue->session;
	unsigned int home = rblk_io_rq(io)->mq_hctx->queue_num;
	u32 incarnation = queue->incarnation;

	sim_reached("point", "dispatch", NULL);
	sim_paths_check_spread(session);
	dispatch_slowly(queue);
	if (!queue->qp || queue->incarnation != incarnation)
		sim_fail("the kernel: a request is sent on a queue that was taken down meanwhile (F4)");
	user->incarnation = incarnation;
	sim_module_sends(user->arg);
	if (io->borrowed && session->route[home] == home)
		sim_reached("module", "a large request goes to the queue that has the fewest", NULL);
}

/*
 * F4: a hostile target may answer as soon as a command counts as sent, on another processor than the one that sends: its
 * key is to end by then. Section 6.3: nothing but AUTHENTICATE before the target has proven itself.
 */
void sim_seen_send(struct rblk_command *command)
{
	sim_reached("point", "send", NULL);
	if (command->memory == RBLK_MEMORY_FAST && !READ_ONCE(rblk_command_io(command)->mr_valid))
		sim_fail("the kernel: a command counts as sent before its key does as valid (F4)");
	if (!command->queue->proven && command->wire.opcode != RBLK_OP_AUTHENTICATE)
		sim_fail("the kernel: opcode %u is sent to a target that has not proven itself (section 6.3)",
			 command->wire.opcode);
	if (command->wire.opcode == RBLK_OP_OPEN)
		sim_module_opens(command->queue->session, rblk_le32(command->wire.volume),
				 ((const struct rblk_wire_open *)rblk_memory_slot(command->queue, command->tag))->name);
}

/* By the time of its end that loss may be fenced, and another one begun. */
static void on_completed(struct request *rq)
{
	struct user *user = rq->user;

	user->lost = sim_lost_with(blk_mq_rq_to_pdu(rq), user->incarnation);
}

static void on_end(struct request *rq, blk_status_t status)
{
	struct rblk_io *io = blk_mq_rq_to_pdu(rq);
	struct user *user = rq->user;
	struct sim_disk_result result = {
		.done = status == BLK_STS_OK,
		.error = io->command.error,
		.status = io->command.status,
		.again = io->retry || rq->sector != user->sector,
		.lost = user->lost,
	};

	sim_paths_check_end(&io->command, status);
	/*
	 * F7: attached without a cache, it writes through what its volume has got since. A volume without FLUSH is
	 * memory.
	 */
	if (result.done && io->owes && !rblk_disk_of(rq)->gendisk->queue->write_cache &&
	    rblk_disk_of(rq)->volume_flags & RBLK_VOLUME_FLUSH)
		sim_fail("the kernel: a write needs a FLUSH, and none will come (F7)");
	user->done(user->arg, &result);
	free(user);
}

int sim_disk_submit(struct rblk_disk *disk, const struct sim_disk_request *request)
{
	static const enum req_op ops[] = {
		[SIM_COMMAND_READ] = REQ_OP_READ,   [SIM_COMMAND_WRITE] = REQ_OP_WRITE,
		[SIM_COMMAND_ZEROES] = REQ_OP_WRITE_ZEROES,
		[SIM_COMMAND_DISCARD] = REQ_OP_DISCARD, [SIM_COMMAND_FLUSH] = REQ_OP_FLUSH,
	};
	struct request *rq = sim_blk_get(disk->gendisk->queue, request->context);
	struct user *user = rq ? calloc(1, sizeof(*user)) : NULL;

	if (!user)
		return -EAGAIN;
	*user = (struct user){.done = request->done, .arg = request->arg, .sector = request->sector};
	rq->cmd_flags = ops[request->kind] | (request->fua ? REQ_FUA : 0) |
			(request->untorn || request->joined_bytes ? REQ_ATOMIC : 0) |
			(request->fail_fast ? REQ_FAILFAST : 0);
	rq->ioprio = request->priority ? IOPRIO_CLASS_RT << 13 : 0;
	rq->sector = request->sector;
	rq->bytes = (u32)(request->sectors << SECTOR_SHIFT);
	rq->first.bi_iter.bi_size = request->joined_bytes ? request->joined_bytes : rq->bytes;
	rq->memory = request->memory;
	rq->completed = on_completed;
	rq->end = on_end;
	rq->user = user;
	sim_blk_submit(rq, request->last);
	return 0;
}

void sim_disk_commit(struct rblk_disk *disk, unsigned int context)
{
	struct blk_mq_tag_set *set = &disk->session->tag_set;

	set->ops->commit_rqs(&set->hctxs[context]);
}

void sim_disk_poll(struct rblk_disk *disk, unsigned int context)
{
	struct blk_mq_tag_set *set = &disk->session->tag_set;
	static struct io_comp_batch batch; /* of the one program that polls; the module must have forgotten it then */

	batch = (struct io_comp_batch){ .open = true };
	/* preadv2(2) has none. */
	set->ops->poll(&set->hctxs[context], sim_chance(200000) ? NULL : &batch);
	batch.open = false;
	if (!batch.req_list)
		return;
	/* F4: the connection may be lost before the requests are ended, which use their slots until then. */
	if (sim_chance(50000))
		sim_fiber_sleep(sim_below(5 * SIM_MS));
	batch.complete(&batch);
}
