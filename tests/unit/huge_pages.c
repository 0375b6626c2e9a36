/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: where huge pages can be mapped but not used, as under a container's hugetlb limit, the target's memory
 * and librblk's buffers are of ordinary pages. Method: mmap() gives, for huge pages, a mapping of nothing, which
 * behaves as the limit does: to touch it is a SIGBUS, to populate it an error.
 */
#include "tests/unit/unit.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "initiator/buffer.h"
#include "target/store/dma_memory.h"

#define BYTES (4ul << 20)

static int nothing;
static unsigned int asked;
static bool grants;

void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if (!(flags & MAP_HUGETLB))
		return __real_mmap(address, bytes, protection, flags, fd, offset);
	asked++;
	if (grants)
		return __real_mmap(address, bytes, protection, flags & ~MAP_HUGETLB, fd, offset);
	return __real_mmap(address, bytes, protection, MAP_PRIVATE, nothing, 0);
}

static int setup(void **state)
{
	(void)state;
	nothing = memfd_create("nothing", MFD_CLOEXEC);
	return nothing < 0;
}

static void map(bool granting)
{
	struct tgt_dma_memory memory;

	grants = granting;
	asked = 0;
	assert_int_equal(tgt_dma_memory_map(&memory, BYTES, true, NULL), 0);
	assert_int_equal(asked, 1);
	memset(memory.base, 0xa5, memory.bytes);
	assert_int_equal((unsigned char)memory.base[BYTES - 1], 0xa5);
	tgt_dma_memory_unmap(&memory);
}

static void test_dma_memory(void **state)
{
	(void)state;
	map(true);
	map(false);
}

static void pages(bool granting)
{
	unsigned char *memory;
	size_t mapped;

	grants = granting;
	asked = 0;
	memory = ini_pages_alloc(BYTES, &mapped);
	assert_non_null(memory);
	assert_int_equal(asked, 1);
	memset(memory, 0xa5, mapped);
	assert_int_equal(memory[BYTES - 1], 0xa5);
	ini_pages_free(memory, mapped);
}

static void test_buffers(void **state)
{
	(void)state;
	pages(true);
	pages(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dma_memory),
		cmocka_unit_test(test_buffers),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
