/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * mmap(2) and munmap(2) of the code under test, which maps memory for every session and every
 * process that starts: the linker leads the calls here. Unmapped memory is kept, zeroed, and given
 * out again, because system calls and page faults took a quarter of the simulator's time. A write
 * to it meanwhile is mostly found then. Sanitizers get the real calls, which find reads as
 * well.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include "tests/sim/trace.h"

/* What was mapped and may be kept, in all and of one size. */
#define AREAS_MAX 512u
#define KEPT_BYTES_MAX (64ul << 20)
#define PAGE_BYTES 4096u
#define PAGES_MAX 2048u /* of one that may be kept */
/* Of one so large most pages are never touched, and touching them is what would cost. It gets a power of two, so that it
 * fits the next one as well. */
#define LARGE_BYTES (256ul << 10)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KEEPS false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || \
	__has_feature(thread_sanitizer)
#define KEEPS false
#endif
#endif
#ifndef KEEPS
#define KEEPS true
#endif

static struct area {
	unsigned char *base;
	size_t bytes;
} kept[AREAS_MAX]; /* the last that was kept is the last */
static unsigned int kept_count;
static size_t kept_bytes;

static void residents_find(unsigned char *base, size_t bytes, unsigned char *resident)
{
	if (mincore(base, bytes, resident))
		sim_fail("mincore: %s", strerror(errno));
}

static void area_clear(unsigned char *base, size_t bytes)
{
	unsigned char resident[PAGES_MAX];

	if (bytes < LARGE_BYTES) {
		memset(base, 0, bytes);
		return;
	}
	residents_find(base, bytes, resident);
	for (size_t page = 0; page * PAGE_BYTES < bytes; page++)
		if (resident[page] & 1)
			memset(base + page * PAGE_BYTES, 0, PAGE_BYTES);
}

/* Of a large one each page's beginning has to do. */
static void area_check(unsigned char *base, size_t bytes)
{
	static const unsigned char zeroes[64];
	unsigned char resident[PAGES_MAX];
	bool changed = false;

	if (bytes < LARGE_BYTES) {
		changed = base[0] || memcmp(base, base + 1, bytes - 1);
	} else {
		residents_find(base, bytes, resident);
		for (size_t page = 0; page * PAGE_BYTES < bytes; page++)
			changed |= resident[page] & 1 &&
				   memcmp(base + page * PAGE_BYTES, zeroes, sizeof(zeroes));
	}
	if (changed)
		sim_fail("memory has changed after it was unmapped");
}

/* NULL: none is of this size. */
static void *area_take(size_t bytes)
{
	for (unsigned int i = kept_count; i-- > 0;) {
		unsigned char *base = kept[i].base;

		if (kept[i].bytes != bytes)
			continue;
		memmove(&kept[i], &kept[i + 1], (--kept_count - i) * sizeof(kept[0]));
		kept_bytes -= bytes;
		area_check(base, bytes);
		return base;
	}
	return NULL;
}

static size_t area_bytes(size_t bytes)
{
	size_t whole = LARGE_BYTES;

	if (!KEEPS || bytes < LARGE_BYTES)
		return bytes;
	while (whole < bytes)
		whole *= 2;
	return whole;
}

void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	void *memory = NULL;

	if (flags & MAP_HUGETLB) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	if (fd < 0)
		bytes = area_bytes(bytes);
	if (KEEPS && fd < 0)
		memory = area_take(bytes);
	return memory ? memory : __real_mmap(address, bytes, protection, flags, fd, offset);
}

int __real_munmap(void *address, size_t bytes);
int __wrap_munmap(void *address, size_t bytes);
int __wrap_munmap(void *address, size_t bytes)
{
	bytes = area_bytes(bytes);
	if (!KEEPS || kept_count == AREAS_MAX || kept_bytes + bytes > KEPT_BYTES_MAX ||
	    bytes > PAGES_MAX * PAGE_BYTES)
		return __real_munmap(address, bytes);
	area_clear(address, bytes);
	kept[kept_count++] = (struct area){.base = address, .bytes = bytes};
	kept_bytes += bytes;
	return 0;
}

/* Advice changes nothing but the speed. */
int __wrap_madvise(void *address, size_t bytes, int advice);
int __wrap_madvise(void *address, size_t bytes, int advice)
{
	(void)address;
	(void)bytes;
	(void)advice;
	return 0;
}
