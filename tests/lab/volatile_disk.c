/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A block device with a volatile write cache whose power a job can cut: /dev/nbdN; see nbd_disk.h.
 *   volatile_disk DEVICE MEGABYTES REPORT
 * SIGUSR1: of the blocks of 4 KiB that were written and not made durable (by a flush, or with FUA),
 * each one is lost or kept, at random. Then the file REPORT has how many of both.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "tests/lab/nbd_disk.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below and of the memory */
static unsigned char *durable;				 /* what a loss of power leaves */
static bool *dirty;					 /* of each block */

static unsigned char *block_of(unsigned char *memory, uint64_t block)
{
	return memory + block * NBD_DISK_BLOCK;
}

static void make_durable(uint64_t block)
{
	memcpy(block_of(durable, block), block_of(nbd_disk.memory, block), NBD_DISK_BLOCK);
	dirty[block] = false;
}

/* The kernel writes whole blocks: that is the device's logical block size. */
static void volatile_write(const struct nbd_request *request, unsigned char *data, bool fua)
{
	uint64_t first = nbd_disk_from(request) / NBD_DISK_BLOCK;
	uint32_t count = nbd_disk_length(request) / NBD_DISK_BLOCK;

	pthread_mutex_lock(&lock);
	memcpy(block_of(nbd_disk.memory, first), data, (size_t)count * NBD_DISK_BLOCK);
	for (uint64_t block = first; block < first + count; block++) {
		dirty[block] = true;
		if (fua)
			make_durable(block);
	}
	pthread_mutex_unlock(&lock);
	free(data);
	nbd_disk_answer(request);
}

static void volatile_flush(const struct nbd_request *request)
{
	pthread_mutex_lock(&lock);
	for (uint64_t block = 0; block < nbd_disk.bytes / NBD_DISK_BLOCK; block++)
		if (dirty[block])
			make_durable(block);
	pthread_mutex_unlock(&lock);
	nbd_disk_answer(request);
}

static void power_cut(uint64_t *kept, uint64_t *lost)
{
	pthread_mutex_lock(&lock);
	for (uint64_t block = 0; block < nbd_disk.bytes / NBD_DISK_BLOCK; block++) {
		unsigned char chance = 0;

		if (!dirty[block])
			continue;
		if (getrandom(&chance, 1, 0) != 1)
			nbd_disk_fail("getrandom");
		if (chance & 1) {
			++*kept;
		} else {
			++*lost;
			memcpy(block_of(nbd_disk.memory, block), block_of(durable, block),
			       NBD_DISK_BLOCK);
		}
		make_durable(block);
	}
	pthread_mutex_unlock(&lock);
}

static void *wait_for_cuts(void *report)
{
	sigset_t cut;
	int number;

	sigemptyset(&cut);
	sigaddset(&cut, SIGUSR1);
	while (sigwait(&cut, &number) == 0) {
		uint64_t kept = 0, lost = 0;
		FILE *file;

		power_cut(&kept, &lost);
		file = fopen(report, "we");
		if (!file ||
		    fprintf(file, "kept %lu lost %lu\n", (unsigned long)kept, (unsigned long)lost) <
			    0 ||
		    fclose(file))
			nbd_disk_fail(report);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct nbd_disk_ops ops = {.write = volatile_write, .flush = volatile_flush};
	unsigned long megabytes = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
	pthread_t thread;
	sigset_t cut;

	if (!megabytes || megabytes > 1024)
		return 2;
	durable = calloc(megabytes, 1 << 20);
	dirty = calloc(megabytes << 20 >> 12, sizeof(*dirty));
	sigemptyset(&cut);
	sigaddset(&cut, SIGUSR1);
	if (!durable || !dirty || pthread_sigmask(SIG_BLOCK, &cut, NULL) ||
	    pthread_create(&thread, NULL, wait_for_cuts, argv[3]))
		nbd_disk_fail(argv[0]);
	return nbd_disk_run(argv[1], argv[2], NBD_FLAG_SEND_FUA, &ops);
}
