/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The looks of whitebox.h.
 */
#include "tests/sim/whitebox.h"

#include <stddef.h>
#include <string.h>
#include "initiator/session.h"
#include "initiator/volume.h"
#include "target/io/request.h"
#include "target/serve/handle.h"
#include "target/serve/session_message.h"
#include "target/serve/queue.h"
#include "target/serve/session.h"
#include "target/store/volume.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/history.h"
#include "tests/sim/random.h"
#include "tests/sim/seen.h"
#include "tests/sim/trace.h"

/* conn: NULL: it is not of the simulated fabric. */
static bool ended_before(const struct sim_conn *conn, uint64_t since)
{
	return conn && conn->ended_number && conn->ended_number < since;
}

/* The queue of the request that this is part of. */
static const struct tgt_io_queue *queue_of_io(const struct sim_io *io)
{
	const struct tgt_request *request =
		(const void *)((const char *)io->op - offsetof(struct tgt_request, io.ring_op));

	return request->io_queue;
}

static const struct sim_conn *io_conn(const struct sim_io *io)
{
	struct fab_conn *conn = queue_of_io(io)->conn;

	return conn->fab->ops == &sim_fabric_ops ? sim_conn_of(conn) : NULL;
}

static void check_disk(const struct sim_disk *disk, uint64_t since)
{
	const struct sim_io *io;

	TAILQ_FOREACH(io, &disk->inflight, link)
		if (io->ring && (io->kind == SIM_IO_WRITE || io->kind == SIM_IO_ZERO) &&
		    ended_before(io_conn(io), since))
			sim_fail("%s: opened, and I/O of a connection that had ended is being "
				 "stored",
				 disk->path);
}

static void check_conn(const struct sim_host *host, unsigned int volume,
		       const struct tgt_store_info *info, const struct sim_conn *conn,
		       const char *what)
{
	const uint8_t *memory = info->direct;
	const struct sim_wqe *wqe;

	TAILQ_FOREACH(wqe, &conn->sq, link) {
		const uint8_t *at = (const uint8_t *)(uintptr_t)wqe->sge[0].addr;

		if (sim_wqe_is_read(wqe) && at >= memory && at < memory + info->bytes)
			sim_fail("%s: %s reads into it", sim_volume_name(host->volumes[volume]),
				 what);
	}
}

/* Has this end of a connection no business with the volume's memory any more? */
typedef bool (*conn_judge_fn)(const struct sim_host *host, unsigned int volume,
			      const struct sim_conn *conn, uint64_t since);

/* No connection that is judged so has a READ posted into the volume's memory. */
static void check_memory(const struct sim_host *host, unsigned int volume, conn_judge_fn judge,
			 uint64_t since, const char *what)
{
	struct tgt_volume *found =
		tgt_volume_get(host->registry, host->config.volumes[volume].name);
	const struct sim_fab *fab;
	const struct sim_conn *conn;

	if (!found)
		return;
	for (fab = sim_fabric_next(NULL); fab; fab = sim_fabric_next(fab))
		TAILQ_FOREACH(conn, &fab->conns, link)
			if (!fab->dead && conn->server && !conn->flushed &&
			    judge(host, volume, conn, since))
				check_conn(host, volume, &found->store->info, conn, what);
	tgt_volume_put(found);
}

static bool conn_had_ended(const struct sim_host *host, unsigned int volume,
			   const struct sim_conn *conn, uint64_t since)
{
	(void)host;
	(void)volume;
	return ended_before(conn, since);
}

void sim_whitebox_opened(const struct sim_host *host, unsigned int volume,
			 const struct sim_opening *opening)
{
	if (!host->running)
		return;
	if (host->disks[volume]) {
		check_disk(host->disks[volume], opening->since);
		if (host->disks[volume]->opened < opening->since)
			host->disks[volume]->opened = opening->since;
	} else {
		check_memory(host, volume, conn_had_ended, opening->since,
			     "opened, and a connection that had ended");
	}
}

uint64_t sim_whitebox_bytes(const struct sim_host *host, unsigned int volume)
{
	struct tgt_volume *found =
		host->running ? tgt_volume_get(host->registry, host->config.volumes[volume].name)
			      : NULL;
	uint64_t bytes = found ? found->store->info.bytes : 0;

	if (found)
		tgt_volume_put(found);
	return bytes;
}

void sim_whitebox_uuid(const struct sim_host *host, unsigned int volume, uint8_t uuid[16])
{
	struct tgt_volume *found =
		host->running ? tgt_volume_get(host->registry, host->config.volumes[volume].name) : NULL;

	memset(uuid, 0, 16);
	if (!found)
		return;
	memcpy(uuid, found->config.uuid, 16);
	tgt_volume_put(found);
}

bool sim_whitebox_read_only(const struct sim_host *host, unsigned int volume)
{
	struct tgt_volume *found =
		host->running ? tgt_volume_get(host->registry, host->config.volumes[volume].name)
			      : NULL;
	bool read_only = found && found->config.read_only;

	if (found)
		tgt_volume_put(found);
	return read_only;
}

/* Those for which a CLOSE waits are closed. */
unsigned int sim_whitebox_handles(const struct sim_host *host, const uint8_t session[16], uint64_t epoch,
				  uint32_t handles[SIM_WHITEBOX_HANDLES])
{
	unsigned int count = 0;

	for (unsigned int i = 0; host->running && i < host->config.reactors; i++) {
		const struct tgt_session *at = tgt_session_at(host->reactors[i].reactor, session, epoch, false);

		for (uint32_t n = 0; at && n < at->handle_slots; n++) {
			if (!at->handles[n] || at->handles[n]->closing)
				continue;
			if (count < SIM_WHITEBOX_HANDLES)
				handles[count] = at->handles[n]->id;
			count++;
		}
	}
	return count;
}

/* -- range locks ------------------------------------------------------------------------------- */

/* What the device may still write there, between the two halves of a COMPARE_AND_WRITE. */
static void range_lock_check_conn(const struct sim_conn *conn, const struct tgt_range_lock *range_lock, const char *direct)
{
	uintptr_t first = (uintptr_t)direct + range_lock->offset;
	const struct sim_wqe *wqe;

	TAILQ_FOREACH(wqe, &conn->sq, link)
		if (sim_wqe_is_read(wqe) && !wqe->responded && wqe->sge[0].addr < first + range_lock->bytes &&
		    first < wqe->sge[0].addr + wqe->sge[0].length)
			sim_fail("%s: a READ into what a COMPARE_AND_WRITE has locked is under way",
				 conn->fab->actor->name);
}

void sim_seen_range_lock_end(const struct tgt_range_lock *range_lock)
{
	const struct tgt_channel *channel =
		(const void *)((const char *)range_lock->channel - offsetof(struct tgt_channel, range_locks));
	const char *direct = channel->store->info.direct;
	const struct sim_fab *fab;
	const struct sim_conn *conn;

	sim_reached("point", "range_lock_end", NULL);
	for (fab = range_lock->granted && direct ? sim_fabric_next(NULL) : NULL; fab; fab = sim_fabric_next(fab))
		TAILQ_FOREACH(conn, &fab->conns, link)
			if (!fab->dead && conn->server && !conn->flushed)
				range_lock_check_conn(conn, range_lock, direct);
	if (direct)
		sim_reached("compare", range_lock->granted ? "has locked memory" : "has waited for memory in vain", NULL);
}

/* -- fences -------------------------------------------------------------------------------- */

void sim_whitebox_fenced(uint32_t session, uint64_t epoch, unsigned int index, uint32_t incarnation)
{
	const struct sim_fab *fab;
	const struct sim_conn *conn;

	for (fab = sim_fabric_next(NULL); fab; fab = sim_fabric_next(fab))
		TAILQ_FOREACH(conn, &fab->conns, link) {
			const struct tgt_queue *queue = conn->head.user;

			if (fab->dead || !conn->server || conn->session != session || !queue ||
			    queue->session->epoch != epoch)
				continue;
			/* One that another gateway has let in, whose answer was lost, has no name and so no command. */
			if (queue->io_queue.index == index && queue->incarnation <= incarnation &&
			    queue->session->named)
				sim_fail("%s: queue %u, incarnation %u: a fence counts, and its "
					 "connection is there (F5)",
					 fab->actor->name, index, incarnation);
		}
}

/* -- logouts ------------------------------------------------------------------------------- */

/* The target has none of its handles any more. */
void sim_seen_logout(const struct rblk_session *session)
{
	uint32_t number = sim_session_of(sim_actor_self());
	const struct rblk_volume *volume;
	const struct sim_fab *fab;
	const struct sim_conn *conn;

	sim_reached("point", "logout", NULL);
	for (fab = sim_fabric_next(NULL); fab; fab = sim_fabric_next(fab))
		TAILQ_FOREACH(conn, &fab->conns, link) {
			const struct tgt_queue *queue = conn->head.user;

			if (fab->dead || !conn->server || conn->session != number || !queue ||
			    queue->session->epoch != session->core.epoch)
				continue;
			for (volume = session->volumes; volume; volume = volume->next)
				if (tgt_handle_find(queue->session, volume->handle))
					sim_fail("%s: a session has logged out, and has handle %#x open", fab->actor->name,
						 volume->handle);
			sim_reached("application: logs out, and had open", session->volumes ? "volumes" : "nothing", NULL);
		}
}

/* -- reservations -------------------------------------------------------------------------- */

static const char *io_queue_name(const struct tgt_io_queue *io_queue)
{
	return tgt_queue_of((struct tgt_io_queue *)io_queue)->session->initiator;
}

const char *sim_whitebox_initiator(const struct tgt_io *io)
{
	const struct tgt_request *request = (const void *)((const char *)io - offsetof(struct tgt_request, io));

	return io_queue_name(request->io_queue);
}

static const char *io_name(const struct sim_io *io)
{
	return io_queue_name(queue_of_io(io));
}

static bool may_write(const struct sim_disk *disk, const struct sim_io *io)
{
	return (io->kind != SIM_IO_WRITE && io->kind != SIM_IO_ZERO) ||
	       sim_reservation_allows(disk->reservation, io_name(io), SIM_RIGHT_WRITE);
}

unsigned int sim_whitebox_queue(const struct sim_conn *conn)
{
	return ((const struct tgt_queue *)conn->head.user)->io_queue.index;
}

void sim_whitebox_stores(const struct sim_disk *disk, const struct sim_io *io)
{
	bool writes = io->kind == SIM_IO_WRITE || io->kind == SIM_IO_ZERO;

	/* By a thread that had not seen the end when the OPEN came. */
	if (writes && ended_before(io_conn(io), disk->opened))
		sim_fail("%s: opened, and a connection that had ended writes", disk->path);
	if (sim_history_is_kept() && io->kind == SIM_IO_WRITE)
		sim_history_stores(queue_of_io(io)->index, io->buffer, io->file->machine);
	if (sim_reservation_is_sure(disk->reservation) && disk->reservation->awaited &&
	    !may_write(disk, io))
		sim_fail("%s: %s writes, and a reservation does not allow it", disk->path,
			 io_name(io));
}

static void reserved_disk(const struct sim_disk *disk, bool reads)
{
	const struct sim_io *io;

	TAILQ_FOREACH(io, &disk->inflight, link) {
		if (!io->ring)
			continue;
		if (!may_write(disk, io))
			sim_fail("%s: reserved, and a write of %s is being stored", disk->path,
				 io_name(io));
		/* Where nothing forbids it, it may have begun since; of a connection that has
		 * ended, what it brings goes nowhere. */
		if (reads && io->kind == SIM_IO_READ && queue_of_io(io)->open &&
		    sim_reservation_removed(disk->reservation, io_name(io)) &&
		    !sim_reservation_allows(disk->reservation, io_name(io), SIM_RIGHT_READ))
			sim_fail("%s: preempted, and a READ of %s is under way", disk->path,
				 io_name(io));
	}
}

static bool conn_may_not_write(const struct sim_host *host, unsigned int volume,
			       const struct sim_conn *conn, uint64_t since)
{
	const struct tgt_queue *queue = conn->head.user;

	(void)since;
	return queue && !sim_reservation_allows(&host->reservations[volume],
						queue->session->initiator, SIM_RIGHT_WRITE);
}

void sim_whitebox_reserved(const struct sim_host *host, unsigned int volume, bool reads)
{
	if (!host->running)
		return;
	if (host->disks[volume])
		reserved_disk(host->disks[volume], reads);
	else
		check_memory(host, volume, conn_may_not_write, 0,
			     "reserved, and one that may not write");
}

void sim_whitebox_kept(const struct sim_host *host, unsigned int volume, bool surely)
{
	struct tgt_volume *found =
		host->running ? tgt_volume_get(host->registry, host->config.volumes[volume].name)
			      : NULL;
	const struct tgt_reservations *reservations = found ? &found->reservations : NULL;

	if (found && reservations->folder && !reservations->busy) {
		sim_reached("reservation", "is compared with what is kept of it", surely ? "surely" : NULL);
		if (!sim_reservation_file_has(reservations->uuid, &reservations->now))
			sim_fail("%s: what is in force is not what a restart finds",
				 sim_volume_name(host->volumes[volume]));
		if (surely && !sim_reservation_file_is_sure(reservations->uuid))
			sim_fail("%s: RESERVE has succeeded, and a crash may undo what is in force",
				 sim_volume_name(host->volumes[volume]));
	}
	if (found)
		tgt_volume_put(found);
}

/* -- writes straight into memory ------------------------------------------------------------- */

void sim_seen_finish(const struct tgt_request *request)
{
	sim_reached("point", "finish", NULL);
	/* It is answered, and a reservation has cut it short, of several READs. */
	if (request->state == TGT_REQUEST_REPLYING && request->home == TGT_HOME_DIRECT && request->opcode == RBLK_OP_WRITE &&
	    request->moved < request->data_bytes) {
		sim_reached("reservation", "cuts a WRITE into memory short", NULL);
		if (request->status == RBLK_OK)
			sim_fail("%s: a WRITE is answered, and not all of its data is fetched (F2)",
				 io_queue_name(request->io_queue));
	}
}

/* -- numbers ------------------------------------------------------------------------------- */

/* The target's end; NULL: it is not there, or going. */
static struct tgt_queue *queue_of(struct fab_conn *conn)
{
	const struct sim_conn *server = sim_conn_of(conn)->peer;
	struct tgt_queue *queue;

	if (!server || server->fab->dead || server->closed || !server->head.user)
		return NULL;
	queue = server->head.user;
	return queue->io_queue.open ? queue : NULL;
}

void sim_whitebox_leap_commands(struct fab_conn *conn, uint32_t *sequence)
{
	struct tgt_queue *queue = queue_of(conn);

	if (!queue || queue->io_queue.sequence != *sequence)
		return;
	*sequence = queue->io_queue.sequence = UINT32_MAX - (uint32_t)sim_below(32);
	sim_reached("number", "of commands is about to begin anew", NULL);
}

void sim_whitebox_leap_events(struct fab_conn *conn, uint32_t *event)
{
	struct tgt_queue *queue = queue_of(conn);
	struct tgt_events *events = queue ? &queue->session->events : NULL;

	if (!queue || queue->io_queue.index || events->number != *event || events->outstanding)
		return;
	*event = events->number = UINT32_MAX - (uint32_t)sim_below(2);
	sim_reached("number", "of events is about to begin anew", NULL);
}
