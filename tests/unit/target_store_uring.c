/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: writes through the uring store are in the file, reads return the file's data, ranges are
 * zeroed, errors are passed on unchanged, and no other process gets the file (F6). Method: a file
 * of the test, operations through a real io_uring, the file's bytes read without it. Everything
 * runs buffered, and with O_DIRECT if the file system has it, else with a loud skip.
 */
#include <signal.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include "tests/unit/target_rig.h"

#define BYTES (1u << 20)

static char *directory;
static char path[64];

/* Linked instead of open(): a file system without O_DIRECT, on any kernel. */
static bool no_direct;
static bool nameless_made; /* a file beside the volume's */
static off_t grown_bytes; /* the size that a file gets during the next trial of what it can; 0: its own */
static bool no_dioalign, no_queue; /* who knows how direct I/O has to be aligned: statx(), sysfs */
static const char *dma_alignment; /* of sysfs; NULL: the device's own */
static unsigned int direct_refused;

int __real_open(const char *name, int flags, ...);
/* How often /proc/locks was read, which stops all locks of the machine. */
static unsigned int locks_read;
static const char *boot_id; /* NULL: the machine's own */
FILE *__real_fopen(const char *name, const char *mode);
FILE *__wrap_fopen(const char *name, const char *mode);
FILE *__wrap_fopen(const char *name, const char *mode)
{
	locks_read += !strcmp(name, "/proc/locks");
	if (no_queue && !strncmp(name, "/sys/dev/block/", 15))
		return NULL;
	if (dma_alignment && strstr(name, "/queue/dma_alignment"))
		return fmemopen((char *)dma_alignment, strlen(dma_alignment), mode);
	if (boot_id && !strcmp(name, "/proc/sys/kernel/random/boot_id"))
		return fmemopen((char *)boot_id, strlen(boot_id), mode);
	return __real_fopen(name, mode);
}

int __wrap_open(const char *name, int flags, ...);
int __wrap_open(const char *name, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	nameless_made |= (flags & __O_TMPFILE) == __O_TMPFILE;
	if (no_direct && flags & O_DIRECT) {
		direct_refused++;
		errno = EINVAL;
		return -1;
	}
	return __real_open(name, flags, mode);
}

int __real_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	int result = __real_fallocate(fd, mode, offset, bytes);

	if (grown_bytes)
		assert_int_equal(ftruncate(fd, grown_bytes), 0);
	return result;
}

int __real_statx(int fd, const char *name, int flags, unsigned int mask, struct statx *stx);
int __wrap_statx(int fd, const char *name, int flags, unsigned int mask, struct statx *stx);
int __wrap_statx(int fd, const char *name, int flags, unsigned int mask, struct statx *stx)
{
	int err = __real_statx(fd, name, flags, mask, stx);

	if (no_dioalign)
		stx->stx_mask &= ~(uint32_t)STATX_DIOALIGN;
	return err;
}

static int make_file(void **state)
{
	no_dioalign = no_queue = nameless_made = false;
	dma_alignment = NULL;
	no_direct = false;
	directory = rig_directory();
	snprintf(path, sizeof(path), "%s/disk", directory);
	rig_file(path, BYTES);
	return 0;
}

static int remove_file(void **state)
{
	rig_directory_remove(directory);
	return 0;
}

static void write_read(enum tgt_cache_mode cache)
{
	unsigned char *out = rig_buffer(65536, 0), *in = rig_buffer(65536, 0);
	struct rig rig;
	unsigned int i;

	rig_open_file(&rig, path, cache);
	assert_int_equal(rig.store->info.bytes, BYTES);
	assert_true(rig.store->info.can_flush && rig.store->info.can_fua);
	assert_true(rig.store->info.volatile_cache);
	for (i = 0; i < 65536; i++)
		out[i] = (unsigned char)(i * 7 + i / 251);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 8192, out, 65536), 0);
	assert_int_equal(rig_io(&rig, TGT_IO_FLUSH, 0, 0, NULL, 0), 0);
	rig_file_bytes(path, in, 65536, 8192);
	assert_memory_equal(in, out, 65536);
	memset(in, 0, 65536);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 8192, in, 65536), 0);
	assert_memory_equal(in, out, 65536);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, TGT_IO_FUA, BYTES - 4096, out, 4096), 0);
	rig_file_bytes(path, in, 4096, BYTES - 4096);
	assert_memory_equal(in, out, 4096);
	rig_close(&rig);
	free(out);
	free(in);
}

static void writes_and_reads_buffered(void **state)
{
	write_read(TGT_CACHE_BUFFERED);
}

static void writes_and_reads_direct(void **state)
{
	write_read(TGT_CACHE_DIRECT);
}

static void writes_and_reads_without_direct(void **state)
{
	struct tgt_volume_config config = rig_volume("uring", path, 0);
	char error[TGT_ERROR_BYTES], wanted[TGT_ERROR_BYTES];
	struct rig rig;

	no_direct = true;
	direct_refused = 0;
	write_read(TGT_CACHE_AUTO);
	assert_int_equal(direct_refused, 1);
	/* cache = direct is refused. */
	config.cache = TGT_CACHE_DIRECT;
	assert_int_equal(rig_open(&rig, &tgt_store_uring, &config, error), -EOPNOTSUPP);
	snprintf(wanted, sizeof(wanted), "%s: the file system has no O_DIRECT; try cache = buffered", path);
	assert_string_equal(error, wanted);
}

/* How many lines with these words went to stderr since it was saved. Restores stderr from
 * `saved`. */
static unsigned int lines_logged(FILE *log, int saved, const char *words)
{
	unsigned int count = 0;
	char line[1024];

	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(log);
	while (fgets(line, sizeof(line), log))
		count += strstr(line, words) != NULL;
	fclose(log);
	return count;
}

/* A volume that cannot be opened yet is tried every second: a warning each time would flood the
 * log. */
static void the_page_cache_is_warned_of_once(void **state)
{
	struct tgt_volume_config config = rig_volume("uring", path, 0);
	FILE *log = tmpfile();
	int saved = dup(STDERR_FILENO), fd = open(path, O_RDONLY);
	char error[TGT_ERROR_BYTES];
	struct rig rig;

	no_direct = true;
	assert_int_equal(flock(fd, LOCK_EX), 0);
	dup2(fileno(log), STDERR_FILENO);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rig_open(&rig, &tgt_store_uring, &config, error), -EBUSY);
	close(fd);
	assert_int_equal(rig_open(&rig, &tgt_store_uring, &config, error), 0);
	rig_close(&rig);
	assert_int_equal(lines_logged(log, saved, "has no O_DIRECT: served through the page cache"), 1);
}

static void uses_fixed_buffers(void **state)
{
	unsigned char *pool = rig_buffer(65536, 0), *in = rig_buffer(4096, 0);
	struct iovec iov = {pool, 65536};
	struct rig_io one;
	struct rig rig;

	rig_open_file(&rig, path, TGT_CACHE_BUFFERED);
	assert_int_equal(tgt_ring_register_buffers(rig.ring, &iov, 1), 0);
	memset(pool + 4096, 0x3c, 4096);
	one.io = (struct tgt_io){.kind = TGT_IO_WRITE,
				 .flags = TGT_IO_FUA,
				 .offset = 12288,
				 .bytes = 4096,
				 .buffer = pool + 4096};
	assert_int_equal(rig_do(&rig, &one), 0);
	rig_file_bytes(path, in, 4096, 12288);
	assert_memory_equal(in, pool + 4096, 4096);
	one.io = (struct tgt_io){
		.kind = TGT_IO_READ, .offset = 12288, .bytes = 4096, .buffer = pool + 8192};
	assert_int_equal(rig_do(&rig, &one), 0);
	assert_memory_equal(pool + 8192, in, 4096);
	/* A buffer that is not inside the fixed one shows that the fixed one is really used. */
	one.io = (struct tgt_io){.kind = TGT_IO_READ, .bytes = 4096, .buffer = in};
	assert_int_equal(rig_do(&rig, &one), -EFAULT);
	rig_close(&rig);
	free(pool);
	free(in);
}

static void zeroes_ranges(void **state)
{
	static const struct {
		enum tgt_io_kind kind;
		uint32_t flags;
	} ways[] = {
		{TGT_IO_DISCARD, 0},
		{TGT_IO_WRITE_ZEROES, 0},
		{TGT_IO_WRITE_ZEROES, TGT_IO_NO_UNMAP},
		{TGT_IO_WRITE_ZEROES, TGT_IO_FUA},
		{TGT_IO_WRITE_ZEROES, TGT_IO_FUA | TGT_IO_NO_UNMAP},
	};
	unsigned char *out = rig_buffer(65536, 0x77), *in = rig_buffer(65536, 0);
	unsigned char *zeroes = rig_buffer(16384, 0);
	unsigned int tried = 0;
	struct rig rig;
	size_t i;

	rig_open_file(&rig, path, TGT_CACHE_BUFFERED);
	for (i = 0; i < UNIT_LENGTH(ways); i++) {
		bool discard = ways[i].kind == TGT_IO_DISCARD;
		const struct tgt_store_info *info = &rig.store->info;

		if (discard ? !info->can_discard : !info->can_write_zeroes)
			continue;
		tried++;
		assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 0, out, 65536), 0);
		assert_int_equal(rig_io(&rig, ways[i].kind, ways[i].flags, 16384, NULL, 16384), 0);
		rig_file_bytes(path, in, 65536, 0);
		assert_memory_equal(in, out, 16384);
		assert_memory_equal(in + 16384, zeroes, 16384);
		assert_memory_equal(in + 32768, out, 32768);
	}
	rig_close(&rig);
	free(out);
	free(in);
	free(zeroes);
	if (!tried) {
		print_message("SKIP: this file system can neither punch nor zero\n");
		skip();
	}
}

static void shrunk_file_is_an_error(void **state)
{
	void *buffer = rig_buffer(8192, 0);
	struct rig rig;

	rig_open_file(&rig, path, TGT_CACHE_BUFFERED);
	assert_int_equal(truncate(path, 4096), 0);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 0, buffer, 8192), -EIO);
	assert_int_equal(rig_io(&rig, TGT_IO_READ, 0, 8192, buffer, 4096), -EIO);
	rig_close(&rig);
	free(buffer);
}

static void grown_file_is_noticed(void **state)
{
	struct rig rig;

	rig_open_file(&rig, path, TGT_CACHE_BUFFERED);
	assert_int_equal(truncate(path, 2 * BYTES), 0);
	assert_int_equal(rig.store->info.bytes, BYTES);
	assert_int_equal(rig.store->ops->refresh(rig.store), 0);
	assert_int_equal(rig.store->info.bytes, 2 * BYTES);
	rig_close(&rig);
}

static void file_system_errors_come_back(void **state)
{
	struct tgt_volume_config config = rig_volume("uring", "/dev/full", 0);
	char error[TGT_ERROR_BYTES];
	struct rlimit limit;
	struct rig rig;
	void *buffer = rig_buffer(4096, 1);

	/* A device file that is not a disk is refused with a message ... */
	assert_int_equal(rig_open(&rig, &tgt_store_uring, &config, error), -EINVAL);
	assert_string_equal(error, "/dev/full: neither a file nor a block device");
	/* ... and the error of a write is passed on unchanged. */
	rig_open_file(&rig, path, TGT_CACHE_BUFFERED);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = 4096;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 8192, buffer, 4096), -EFBIG);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	rig_close(&rig);
	free(buffer);
}

/* -- F6 ---------------------------------------------------------------------------------------- */

static void second_server_is_kept_out(void **state)
{
	struct tgt_volume_config config = rig_volume("uring", path, 0);
	char error[TGT_ERROR_BYTES], wanted[TGT_ERROR_BYTES];
	struct rig first, second;

	config.cache = TGT_CACHE_BUFFERED;
	assert_int_equal(rig_open(&first, &tgt_store_uring, &config, error), 0);
	assert_int_equal(rig_open(&second, &tgt_store_uring, &config, error), -EBUSY);
	snprintf(wanted, sizeof(wanted), "%s: in use by this process, for a volume that is being closed", path);
	assert_string_equal(error, wanted);
	rig_close(&first);
	assert_int_equal(rig_open(&second, &tgt_store_uring, &config, error), 0);
	rig_close(&second);
}

static void readers_share_but_keep_writers_out(void **state)
{
	struct tgt_volume_config reads = rig_volume("uring", path, 0);
	struct tgt_volume_config writes;
	char error[TGT_ERROR_BYTES];
	struct rig first, second, third;

	reads.cache = TGT_CACHE_BUFFERED;
	writes = reads;
	reads.read_only = true;
	assert_int_equal(rig_open(&first, &tgt_store_uring, &reads, error), 0);
	assert_int_equal(rig_open(&second, &tgt_store_uring, &reads, error), 0);
	assert_int_equal(rig_open(&third, &tgt_store_uring, &writes, error), -EBUSY);
	rig_close(&first);
	rig_close(&second);
	assert_int_equal(rig_open(&third, &tgt_store_uring, &writes, error), 0);
	assert_int_equal(rig_open(&first, &tgt_store_uring, &reads, error), -EBUSY);
	rig_close(&third);
}

/*
 * A child holds the lock, and releases it only when it has read the log line that says that we
 * wait; stderr leads to the child meanwhile.
 */
static void predecessor(int locked, int log)
{
	char text[512];
	size_t length = 0;
	ssize_t got;
	int fd = open(path, O_RDWR);

	if (flock(fd, LOCK_EX) || write(locked, "x", 1) != 1)
		_exit(1);
	while ((got = read(log, text + length, sizeof(text) - 1 - length)) > 0) {
		length += (size_t)got;
		text[length] = 0;
		if (strstr(text, "waiting up to 1min: in use by process"))
			_exit(0);
	}
	_exit(1);
}

static void waits_for_a_predecessor(void **state)
{
	struct tgt_volume_config config = rig_volume("uring", path, 0);
	int locked[2], log[2], stderr_kept, status, opened;
	char error[TGT_ERROR_BYTES], byte;
	struct rig rig;
	pid_t child;

	assert_int_equal(pipe(locked) | pipe(log), 0);
	child = fork();
	if (child == 0)
		predecessor(locked[1], log[0]);
	assert_int_equal(read(locked[0], &byte, 1), 1);
	config.cache = TGT_CACHE_BUFFERED;
	assert_int_equal(rig_open(&rig, &tgt_store_uring, &config, error), -EBUSY);
	config.lock_wait_ms = 60000;
	stderr_kept = dup(STDERR_FILENO);
	dup2(log[1], STDERR_FILENO);
	opened = rig_open(&rig, &tgt_store_uring, &config, error);
	dup2(stderr_kept, STDERR_FILENO);
	assert_int_equal(opened, 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	rig_close(&rig);
}

/* -- what cannot be opened ------------------------------------------------------------------- */

static void names_what_is_wrong(void **state)
{
	char error[TGT_ERROR_BYTES], wanted[TGT_ERROR_BYTES];
	struct tgt_volume_config config;
	struct rig rig;

	config = rig_volume("uring", "no/such/file", 0);
	assert_int_equal(rig_open(&rig, &tgt_store_uring, &config, error), -ENOENT);
	assert_string_equal(error, "no/such/file: No such file or directory");
	config = rig_volume("uring", directory, 0);
	assert_int_equal(rig_open(&rig, &tgt_store_uring, &config, error), -EISDIR);
	snprintf(wanted, sizeof(wanted), "%s: Is a directory", directory);
	assert_string_equal(error, wanted);
	config = rig_volume("uring", "", 0);
	assert_int_equal(rig_open(&rig, &tgt_store_uring, &config, error), -EINVAL);
	assert_string_equal(error, "no path given");
	config = rig_volume("uring", "/proc/version", 0); /* a file system without O_DIRECT */
	config.read_only = true;
	config.cache = TGT_CACHE_DIRECT;
	assert_int_equal(rig_open(&rig, &tgt_store_uring, &config, error), -EOPNOTSUPP);
	assert_string_equal(error, "/proc/version: the file system has no O_DIRECT; "
				   "try cache = buffered");
}

/* An administrator enlarges it just while it is tried what its file system can; what it can is not asked of another file. */
static void trials_leave_a_file_that_grows(void **state)
{
	struct stat before, after;
	struct rig rig;

	assert_int_equal(stat(path, &before), 0);
	grown_bytes = before.st_size + (1 << 20);
	rig_open_file(&rig, path, TGT_CACHE_BUFFERED);
	grown_bytes = 0;
	rig_close(&rig);
	assert_false(nameless_made);
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(after.st_size, before.st_size + (1 << 20));
	/* At most a block, which ext4 keeps. */
	assert_true(after.st_blocks - before.st_blocks <= 4096 / 512);
}

static void alignment_that_nobody_knows(void **state)
{
	struct rig rig;

	no_dioalign = true;
	dma_alignment = "4095\n";
	rig_open_file(&rig, path, TGT_CACHE_DIRECT);
	if (!rig.store->info.buffered) /* there is a queue */
		assert_int_equal(rig.store->info.alignment, 4096);
	rig_close(&rig);
	dma_alignment = NULL;
	no_queue = true;
	rig_open_file(&rig, path, TGT_CACHE_DIRECT);
	assert_true(rig.store->info.buffered); /* so each durable write is looked at twice (F9) */
	assert_int_equal(rig.store->info.block_bytes, 512);
	rig_close(&rig);
}

static void open_epoch(uint8_t epoch[16])
{
	struct rig rig;

	rig_open_file(&rig, path, TGT_CACHE_BUFFERED);
	memcpy(epoch, rig.store->info.cache_epoch, 16);
	rig_close(&rig);
}

static void epoch_is_of_the_boot_and_of_the_file(void **state)
{
	uint8_t first[16], again[16], rebooted[16], other[16];
	char moved[300];

	open_epoch(first);
	open_epoch(again);
	assert_memory_equal(first, again, 16);
	boot_id = "01234567-89ab-cdef-0123-456789abcdef\n";
	open_epoch(rebooted);
	boot_id = NULL;
	assert_memory_not_equal(first, rebooted, 16);
	snprintf(moved, sizeof(moved), "%s.moved", path);
	assert_int_equal(rename(path, moved), 0);
	rig_file(path, BYTES);
	open_epoch(other);
	assert_memory_not_equal(first, other, 16);
	assert_int_equal(rename(moved, path), 0);
	open_epoch(again);
	assert_memory_equal(first, again, 16);
}

#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, make_file, remove_file)

/* However long it waits for a lock: at first, and at last. */
static void who_holds_a_lock_is_asked_twice(void **state)
{
	struct tgt_volume_config config = rig_volume("uring", path, 0);
	char error[TGT_ERROR_BYTES];
	struct rig rig;
	int fd = open(path, O_RDWR);

	(void)state;
	config.cache = TGT_CACHE_BUFFERED;
	config.lock_wait_ms = 500;
	assert_int_equal(flock(fd, LOCK_EX), 0);
	locks_read = 0;
	assert_int_equal(rig_open(&rig, &tgt_store_uring, &config, error), -EBUSY);
	assert_int_equal(locks_read, 2);
	close(fd);
}

/* -- a ring without room ----------------------------------------------------------------------- */

static unsigned int gets = UINT32_MAX; /* entries that there are, before: */
static unsigned int refusals;

struct io_uring_sqe *__real_tgt_ring_get(struct tgt_ring *ring, struct tgt_ring_op *op);
struct io_uring_sqe *__wrap_tgt_ring_get(struct tgt_ring *ring, struct tgt_ring_op *op);
struct io_uring_sqe *__wrap_tgt_ring_get(struct tgt_ring *ring, struct tgt_ring_op *op)
{
	if (gets) {
		gets--;
	} else if (refusals) {
		refusals--;
		return NULL;
	}
	return __real_tgt_ring_get(ring, op);
}

/* What was begun goes on when there is room again; what was not is for the caller to try again. */
static void what_was_begun_goes_on_when_there_is_room(void **state)
{
	unsigned char *in = rig_buffer(4096, 'x');
	struct rig rig;

	(void)state;
	rig_open_file(&rig, path, TGT_CACHE_BUFFERED);
	if (!rig.store->info.can_write_zeroes) {
		print_message("SKIP: no zeroes here\n");
		skip();
	}
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE, 0, 0, in, 4096), 0);
	gets = 1;
	refusals = 5;
	assert_int_equal(rig_io(&rig, TGT_IO_WRITE_ZEROES, TGT_IO_FUA, 0, NULL, 4096), 0);
	assert_int_equal(refusals, 0);
	rig_file_bytes(path, in, 4096, 0);
	for (unsigned int i = 0; i < 4096; i++)
		assert_int_equal(in[i], 0);
	gets = 0;
	refusals = 1;
	assert_int_equal(rig_io(&rig, TGT_IO_FLUSH, 0, 0, NULL, 0), -EBUSY);
	gets = UINT32_MAX;
	rig_close(&rig);
	free(in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FILE(what_was_begun_goes_on_when_there_is_room),
		WITH_FILE(who_holds_a_lock_is_asked_twice),
		WITH_FILE(writes_and_reads_buffered),
		WITH_FILE(writes_and_reads_direct),
		WITH_FILE(writes_and_reads_without_direct),
		WITH_FILE(the_page_cache_is_warned_of_once),
		WITH_FILE(uses_fixed_buffers),
		WITH_FILE(zeroes_ranges),
		WITH_FILE(shrunk_file_is_an_error),
		WITH_FILE(grown_file_is_noticed),
		WITH_FILE(file_system_errors_come_back),
		WITH_FILE(second_server_is_kept_out),
		WITH_FILE(readers_share_but_keep_writers_out),
		WITH_FILE(waits_for_a_predecessor),
		WITH_FILE(names_what_is_wrong),
		WITH_FILE(trials_leave_a_file_that_grows),
		WITH_FILE(alignment_that_nobody_knows),
		WITH_FILE(epoch_is_of_the_boot_and_of_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
