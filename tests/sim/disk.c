/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The disk of disk.h. A WRITE makes new versions of its sectors, some early, some when it ends;
 * a SYNC makes those durable that were there when it began; a crash leaves of each sector one of
 * the contents that it has had since it was last durable; or the newest, if the disk has no volatile cache.
 *
 * A SYNC that fails has written some of them and lost the others, and nobody is told which. The
 * next SYNC does not try those again, and succeeds. So does Linux with the page cache: a page that
 * could not be written is taken for clean, and is read as it is until it is evicted. So may a disk
 * with its own cache under O_DIRECT: ATA has a sector that FLUSH CACHE could not write removed from
 * the cache, other standards leave it open, and Linux does not repeat a flush. A durable WRITE that
 * fails may have failed in the flush that follows it on disks without FUA, so it is like a SYNC.
 */
#include "tests/sim/disk.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/wire/payload.h"
#include "tests/sim/actor.h"
#include "tests/sim/coverage.h"
#include "tests/sim/history.h"
#include "tests/sim/hung.h"
#include "tests/sim/lost.h"
#include "tests/sim/model.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"
#include "tests/sim/whitebox.h"

#define DISKS_MAX 16
#define FILES_MAX 4096
/* Descriptors that cannot be real ones; fabrics have those below. */
#define FD_FIRST (1 << 24)

unsigned int sim_stranger = UINT_MAX;

static struct sim_disk *disks[DISKS_MAX];
static struct sim_file *files[FILES_MAX];
static struct sim_version *spares; /* that no disk has, for the next ones */

/* -- sectors ------------------------------------------------------------------------------- */

static const uint8_t zeroes[SIM_SECTOR];

static const uint8_t *sector_now(const struct sim_disk *disk, uint64_t sector)
{
	const struct sim_version *now = disk->cached[sector] ? disk->cached[sector] : disk->durable[sector];

	return now ? now->data : zeroes;
}

static void versions_free(struct sim_version *version)
{
	while (version) {
		struct sim_version *older = version->older;

		version->older = spares;
		spares = version;
		version = older;
	}
}

const uint8_t *sim_disk_sector(const struct sim_disk *disk, uint64_t sector)
{
	return sector_now(disk, sector);
}

static void sector_write(struct sim_disk *disk, uint64_t sector, const uint8_t *data, uint64_t untorn)
{
	struct sim_version *version = spares;

	if (version)
		spares = version->older;
	else if (!(version = malloc(sizeof(*version))))
		sim_fail("out of memory");
	version->older = disk->cached[sector];
	version->order = ++disk->order;
	version->unsaved = false;
	version->untorn = untorn;
	if (data)
		memcpy(version->data, data, SIM_SECTOR);
	else
		memset(version->data, 0, SIM_SECTOR);
	disk->cached[sector] = version;
}

static struct sim_version **version_before(struct sim_disk *disk, uint64_t sector, uint64_t order)
{
	struct sim_version **place = &disk->cached[sector];

	while (*place && (*place)->order > order)
		place = &(*place)->older;
	return place;
}

/* This one of its versions becomes durable; older ones can come back no more. */
static void sector_keep(struct sim_disk *disk, uint64_t sector, struct sim_version **place)
{
	versions_free(disk->durable[sector]);
	disk->durable[sector] = *place;
	versions_free((*place)->older);
	(*place)->older = NULL;
	*place = NULL;
}

/* The newest version up to `order`. */
static void sector_sync(struct sim_disk *disk, uint64_t sector, uint64_t order)
{
	struct sim_version **place = version_before(disk, sector, order);

	/* Taken for clean: nobody writes it. */
	if (!*place || (*place)->unsaved)
		return;
	sector_keep(disk, sector, place);
}

/*
 * It could not be written: it is gone, or it is read as it is until it is evicted or the power
 * fails. True: there was something to lose.
 */
static bool sector_lose(struct sim_disk *disk, uint64_t sector, uint64_t order)
{
	struct sim_version **place = version_before(disk, sector, order);

	if (!*place)
		return false;
	if (sim_chance(500000)) {
		for (struct sim_version *version = *place; version; version = version->older)
			version->unsaved = true;
		return true;
	}
	versions_free(*place);
	*place = NULL;
	return true;
}

/* -- one operation ------------------------------------------------------------------------- */

/* Write `count` of the io's sectors from `first` on. */
static void io_write(struct sim_io *io, uint64_t first, uint64_t count)
{
	struct sim_disk *disk = io->file->disk;
	const uint8_t *data = io->copy ? io->copy : io->buffer;
	uint64_t untorn = io->untorn ? disk->order + 1 : 0;

	for (uint64_t i = first; i < first + count; i++)
		sector_write(disk, io->offset / SIM_SECTOR + i,
			     io->kind == SIM_IO_ZERO ? NULL : data + i * SIM_SECTOR, untorn);
}

static void io_read(struct sim_io *io, uint64_t count)
{
	for (uint64_t i = 0; i < count && io->buffer; i++)
		memcpy(io->buffer + i * SIM_SECTOR,
		       sector_now(io->file->disk, io->offset / SIM_SECTOR + i), SIM_SECTOR);
}

bool sim_disk_has_unsaved(const struct sim_disk *disk)
{
	for (uint64_t i = 0; i < disk->bytes / SIM_SECTOR; i++)
		for (const struct sim_version *version = disk->cached[i]; version; version = version->older)
			if (version->unsaved)
				return true;
	return false;
}

static void io_sync(struct sim_io *io, uint64_t first, uint64_t count, uint64_t order)
{
	for (uint64_t i = first; i < first + count; i++)
		sector_sync(io->file->disk, i, order);
}

/* A SYNC, or a flush behind a durable WRITE, has failed. */
static void sync_failed(struct sim_disk *disk, uint64_t order)
{
	bool lost = false;

	for (uint64_t i = 0; i < disk->bytes / SIM_SECTOR && disk->volatile_cache; i++) {
		if (sim_chance(disk->fault_rates.saved))
			sector_sync(disk, i, order);
		else
			lost |= sector_lose(disk, i, order);
	}
	if (lost)
		disk->lost(disk->user);
	sim_trace(disk->path, "a flush fails%s", lost ? ": what it did not write is lost" : "");
}

static void io_carry_out(struct sim_io *io)
{
	struct sim_disk *disk = io->file->disk;
	uint64_t first = io->offset / SIM_SECTOR, count = io->bytes / SIM_SECTOR;

	io->lost = io->result == -EIO && (io->kind == SIM_IO_SYNC || io->fua);
	if (io->result >= 0 && io->kind != SIM_IO_SYNC && io->kind != SIM_IO_ZERO)
		count = (uint64_t)io->result / SIM_SECTOR;
	else if (io->result < 0 && io->result != -EIO)
		count = 0;
	else if (io->result < 0)
		count = io->untorn ? count * sim_below(2) : sim_below(count + 1); /* a failure may have done a part */
	switch (io->kind) {
	case SIM_IO_READ:
		io_read(io, count);
		break;
	case SIM_IO_WRITE:
	case SIM_IO_ZERO:
		io_write(io, 0, count);
		if (io->kind == SIM_IO_WRITE && sim_history_is_kept())
			sim_history_stored(io->copy ? io->copy : io->buffer, io->file->machine);
		if (io->kind == SIM_IO_WRITE && io->result >= 0)
			sim_compare_stored(io->copy ? io->copy : io->buffer, first, count);
		if (io->durable && io->result >= 0)
			io_sync(io, first, count, UINT64_MAX);
		else if (io->durable && io->result == -EIO && sim_chance(500000))
			sync_failed(disk, io->sync_order);
		break;
	case SIM_IO_SYNC:
		if (io->result >= 0)
			sim_history("SYNC", 0, 0, 0);
		if (io->result >= 0)
			io_sync(io, 0, disk->bytes / SIM_SECTOR, io->sync_order);
		else
			sync_failed(disk, io->sync_order);
		break;
	}
}

int sim_disk_sync(struct sim_file *file)
{
	struct sim_disk *disk = file->disk;

	if (file->dead)
		return 0;
	if (!disk->calm && sim_chance(disk->fault_rates.fail)) {
		sync_failed(disk, disk->order);
		disk->told(disk->user, true);
		sim_reached("disk", "SYNC at the end fails", NULL);
		return -EIO;
	}
	for (uint64_t i = 0; i < disk->bytes / SIM_SECTOR; i++)
		sector_sync(disk, i, disk->order);
	sim_history("SYNC", 0, 0, 0);
	return 0;
}

static void file_put(struct sim_file *file)
{
	if (file->open || file->inflight)
		return;
	file->disk->holder[file->machine] = NULL;
	files[file->fd - FD_FIRST] = NULL;
	free(file);
}

static void io_free(struct sim_io *io)
{
	struct sim_file *file = io->file;

	TAILQ_REMOVE(&file->disk->inflight, io, link);
	sim_event_cancel(&io->event);
	file->inflight--;
	file_put(file);
	free(io->copy);
	free(io);
}

static void io_reached(const struct sim_io *io)
{
	static const char *const kinds[] = {"READ", "WRITE", "SYNC", "ZERO"};
	bool transfer = io->kind <= SIM_IO_WRITE;

	if (io->result == -EIO)
		sim_reached("disk", kinds[io->kind], io->lost ? "fails, and may lose" : "fails");
	else if (io->result < 0)
		sim_reached("disk", kinds[io->kind], "is to be tried again");
	else if (transfer && (uint64_t)io->result < io->bytes)
		sim_reached("disk", kinds[io->kind], "is short");
	if (!io->ring)
		sim_reached("disk", kinds[io->kind], "outlives its process");
}

static void io_end(void *arg)
{
	struct sim_io *io = arg;

	io_carry_out(io);
	io_reached(io);
	sim_trace(io->file->disk->path, "io %d at %llu+%llu ends: %d%s", io->kind,
		  (unsigned long long)io->offset, (unsigned long long)io->bytes, io->result,
		  io->ring ? "" : " (its process is dead)");
	if (io->ring)
		sim_ring_done(io->ring, io);
	else if (io->lost)
		io->file->disk->told(io->file->disk->user, false);
	io_free(io);
}

/* What it will answer. */
static int io_fate(const struct sim_io *io)
{
	const struct sim_disk *disk = io->file->disk;
	bool transfer = io->kind == SIM_IO_READ || io->kind == SIM_IO_WRITE;

	/* Of a volume that is only read nothing is unwritten: its end as a writable one had it synced, or kept the loss. */
	if (!disk->calm && sim_chance(disk->fault_rates.fail))
		return io->kind == SIM_IO_SYNC && io->file->read_only ? 0 : -EIO;
	if (!transfer)
		return 0;
	if (!disk->calm && sim_chance(disk->fault_rates.again))
		return sim_chance(500000) ? -EAGAIN : -EINTR;
	if (!disk->calm && io->bytes > disk->block_bytes && !io->untorn && sim_chance(disk->fault_rates.shorten))
		return (int)(sim_between(1, io->bytes / disk->block_bytes - 1) * disk->block_bytes);
	return (int)io->bytes;
}

/* F2: all of it has arrived. */
static void io_check_whole(const struct sim_io *io)
{
	const struct sim_disk *disk = io->file->disk;

	for (uint64_t i = 0; i < io->bytes / SIM_SECTOR && io->kind == SIM_IO_WRITE; i++)
		if (!sim_sector_is_whole(io->buffer + i * SIM_SECTOR, io->offset / SIM_SECTOR + i))
			sim_fail("%s: sector %llu is to be written with what is no data of it (F2)",
				 disk->path, (unsigned long long)(io->offset / SIM_SECTOR + i));
}

void sim_disk_at_once(struct sim_disk *disk, const void *where, unsigned int machine, enum sim_io_kind kind,
		      uint64_t offset, uint64_t bytes, uint8_t *data)
{
	struct sim_file file = {.disk = disk, .machine = machine};
	struct sim_io io = {
		.file = &file, .kind = kind, .offset = offset, .bytes = bytes, .buffer = data, .result = (int)bytes};

	io_check_whole(&io);
	if (kind == SIM_IO_WRITE) {
		sim_compare_stores(data, offset / SIM_SECTOR);
		sim_lost_stores(disk, where, &io);
	}
	io_carry_out(&io);
}

void sim_disk_start(struct sim_io *io)
{
	struct sim_disk *disk = io->file->disk;
	uint64_t delay_ns = sim_between(disk->fault_rates.delay_min_ns, disk->fault_rates.delay_max_ns);

	if (io->file->machine == sim_stranger)
		sim_fail("%s: I/O by a target that does not know what another may still write (F10)", disk->path);
	if (io->offset > disk->bytes || io->bytes > disk->bytes - io->offset ||
	    (io->offset | io->bytes) % disk->block_bytes)
		sim_fail("%s: I/O at %llu+%llu is not on the disk", disk->path,
			 (unsigned long long)io->offset, (unsigned long long)io->bytes);
	if (io->untorn && !rblk_untorn_valid(io->offset, io->bytes, disk->block_bytes, disk->untorn_bytes))
		sim_fail("%s: an untorn WRITE of %llu bytes at %llu, which it cannot keep", disk->path,
			 (unsigned long long)io->bytes, (unsigned long long)io->offset);
	if (io->kind <= SIM_IO_WRITE && (uintptr_t)io->buffer % disk->alignment)
		sim_fail("%s: I/O from memory that is not aligned to %u", disk->path,
			 disk->alignment);
	io_check_whole(io);
	sim_whitebox_stores(disk, io);
	if (io->kind == SIM_IO_WRITE) {
		sim_compare_stores(io->buffer, io->offset / SIM_SECTOR);
		sim_lost_stores(disk, disk, io);
	}
	io->event.run = io_end;
	io->event.arg = io;
	io->sync_order = disk->order;
	io->result = io_fate(io);
	io->file->inflight++;
	TAILQ_INSERT_TAIL(&disk->inflight, io, link);
	if (!disk->calm && sim_chance(disk->fault_rates.stall))
		delay_ns += sim_below(disk->fault_rates.stall_ns);
	delay_ns += sim_hung_ns(disk);
	/* Nobody has promised that a WRITE is carried out at one moment. */
	if (io->kind == SIM_IO_WRITE && io->result > 0 && !io->untorn && sim_chance(disk->fault_rates.early))
		io_write(io, 0, sim_below((uint64_t)io->result / SIM_SECTOR + 1));
	sim_event_in(&io->event, delay_ns);
}

void sim_disk_orphan(struct sim_io *io)
{
	if (io->kind == SIM_IO_WRITE) {
		io->copy = malloc(io->bytes);
		if (!io->copy)
			sim_fail("out of memory");
		memcpy(io->copy, io->buffer, io->bytes);
	}
	io->buffer = NULL;
	io->ring = NULL;
}

bool sim_disk_is_writing(const struct sim_disk *disk, uint64_t word)
{
	const struct sim_io *io;

	TAILQ_FOREACH(io, &disk->inflight, link) {
		const uint8_t *data = io->copy ? io->copy : io->buffer;

		if (io->kind == SIM_IO_WRITE && !memcmp(data, &word, sizeof(word)))
			return true;
	}
	return false;
}

bool sim_disk_is_zero(const struct sim_disk *disk, uint64_t offset, uint64_t bytes)
{
	for (uint64_t at = offset; at < offset + bytes && at < disk->bytes; at += SIM_SECTOR)
		if (memcmp(sector_now(disk, at / SIM_SECTOR), zeroes, SIM_SECTOR))
			return false;
	return true;
}

bool sim_disk_uses(const void *memory, size_t bytes)
{
	const uint8_t *first = memory;
	const struct sim_io *io;

	for (unsigned int i = 0; i < DISKS_MAX; i++) {
		if (!disks[i])
			continue;
		TAILQ_FOREACH(io, &disks[i]->inflight, link)
			if (io->buffer && io->buffer < first + bytes &&
			    first < io->buffer + io->bytes)
				return true;
	}
	return false;
}

/* Half of the untorn WRITEs in the cache are left: in all of their sectors, but where others have written since. */
static bool untorn_is_left(const struct sim_version *version, uint64_t crash)
{
	return ((version->untorn ^ crash) * 0x9e3779b97f4a7c15u) >> 63;
}

static bool version_may_stay(const struct sim_disk *disk, const struct sim_version *version, uint64_t crash)
{
	return !version->unsaved && (!version->untorn || !disk->volatile_cache || untorn_is_left(version, crash));
}

static void sector_crash(struct sim_disk *disk, uint64_t sector, uint64_t crash)
{
	struct sim_version **place;
	unsigned int count = 1, least = 0;

	for (place = &disk->cached[sector]; *place; place = &(*place)->older) {
		count += version_may_stay(disk, *place, crash);
		/* It is not what was there before, nor what is durable. */
		if ((*place)->untorn && version_may_stay(disk, *place, crash)) {
			least = 1;
			break;
		}
	}
	/* The how-manyth of these is left; 0: what is durable. */
	count = disk->volatile_cache ? (unsigned int)sim_below(count - least) + least : count > 1;
	for (place = &disk->cached[sector]; count; place = &(*place)->older) {
		if (!version_may_stay(disk, *place, crash) || --count)
			continue;
		sector_keep(disk, sector, place);
		break;
	}
	versions_free(disk->cached[sector]);
	disk->cached[sector] = NULL;
}

void sim_disk_crash(struct sim_disk *disk)
{
	uint64_t crash = disk->untorn_bytes ? sim_random() : 0;
	struct sim_io *io;

	while ((io = TAILQ_FIRST(&disk->inflight))) {
		/* Any of its sectors may have been written, in any order. */
		if (io->untorn && sim_chance(500000))
			io_write(io, 0, io->bytes / SIM_SECTOR);
		for (uint64_t i = 0; i < io->bytes / SIM_SECTOR && !io->untorn; i++)
			if ((io->kind == SIM_IO_WRITE || io->kind == SIM_IO_ZERO) &&
			    sim_chance(500000))
				io_write(io, i, 1);
		io_free(io);
	}
	for (uint64_t i = 0; i < disk->bytes / SIM_SECTOR; i++)
		sector_crash(disk, i, crash);
}

/* -- files and their lock ------------------------------------------------------------------ */

struct sim_file *sim_file_open(struct sim_disk *disk, bool read_only)
{
	unsigned int machine = sim_actor_self()->machine;
	struct sim_file *file;
	int slot = 0;

	if (machine >= SIM_DISK_MACHINES)
		sim_fail("%s: opened by no target", disk->path);
	if (disk->holder[machine])
		return NULL;
	while (slot < FILES_MAX && files[slot])
		slot++;
	file = slot < FILES_MAX ? calloc(1, sizeof(*file)) : NULL;
	if (!file)
		sim_fail("no file");
	file->disk = disk;
	file->machine = machine;
	file->open = true;
	file->read_only = read_only;
	file->fd = FD_FIRST + slot;
	files[slot] = file;
	disk->holder[machine] = file;
	return file;
}

void sim_file_close(struct sim_file *file)
{
	file->open = false;
	file_put(file);
}

struct sim_file *sim_file_of_fd(int fd)
{
	return fd >= FD_FIRST && fd < FD_FIRST + FILES_MAX ? files[fd - FD_FIRST] : NULL;
}

/* -- making -------------------------------------------------------------------------------- */

struct sim_disk *sim_disk_create(const char *path, uint64_t bytes, uint32_t block_bytes)
{
	struct sim_disk *disk = calloc(1, sizeof(*disk));
	unsigned int slot = 0;

	while (slot < DISKS_MAX && disks[slot])
		slot++;
	if (!disk || slot == DISKS_MAX)
		sim_fail("no disk");
	snprintf(disk->path, sizeof(disk->path), "%s", path);
	disk->bytes = disk->full_bytes = bytes;
	disk->block_bytes = block_bytes;
	disk->alignment = block_bytes;
	disk->volatile_cache = true;
	disk->durable = calloc(bytes / SIM_SECTOR, sizeof(struct sim_version *));
	disk->cached = calloc(bytes / SIM_SECTOR, sizeof(struct sim_version *));
	if (!disk->durable || !disk->cached)
		sim_fail("out of memory");
	TAILQ_INIT(&disk->inflight);
	disks[slot] = disk;
	return disk;
}

void sim_disk_destroy(struct sim_disk *disk)
{
	if (!TAILQ_EMPTY(&disk->inflight) || disk->holder[0] || disk->holder[1] || disk->holder[2])
		sim_fail("%s: still in use at the end", disk->path);
	for (uint64_t i = 0; i < disk->full_bytes / SIM_SECTOR; i++) {
		versions_free(disk->cached[i]);
		versions_free(disk->durable[i]);
	}
	for (unsigned int i = 0; i < DISKS_MAX; i++)
		if (disks[i] == disk)
			disks[i] = NULL;
	sim_failed_sync_file_free(disk);
	free(disk->cached);
	free(disk->durable);
	free(disk);
}

struct sim_disk *sim_disk_find(const char *path)
{
	for (unsigned int i = 0; i < DISKS_MAX; i++)
		if (disks[i] && !strcmp(disks[i]->path, path))
			return disks[i];
	return NULL;
}
