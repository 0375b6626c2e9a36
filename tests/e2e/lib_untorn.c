/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a write with RBLK_IO_UNTORN is whole or absent after a loss of power, and refused where that cannot be kept;
 * others tear. Method: rblkd with a disk that has a unit and loses power when the process is killed (faults "untorn"
 * and "power"), a memory volume and a null volume; raw commands for what librblk itself refuses.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "proto/wire/wire_check.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"
#include "tests/e2e/session.h"

#define UNIT 16384u
#define WRITES 32u
#define BYTES (1u << 20)

static char config[] = "/tmp/rblk-e2e-untorn-XXXXXX";
static struct e2e_file file;
static struct e2e_daemon daemon_;
static struct rblk_session *session;
static struct rblk_volume *volume;
static char *data;

static int write_config(void **state)
{
	FILE *text = fdopen(mkstemp(config), "w");

	(void)state;
	e2e_file_create(&file, "disk", BYTES);
	fprintf(text, "[volume disk]\npath = %s\ncache = buffered\nfault = untorn=%u,power=0.5\n"
		      "[volume ram]\nstore = memory\nsize = 1M\n[volume nothing]\nstore = null\nsize = 1M\n",
		file.path, UNIT);
	fclose(text);
	return 0;
}

static int remove_config(void **state)
{
	char power[64];

	(void)state;
	snprintf(power, sizeof(power), "%s.power", file.path);
	unlink(power);
	unlink(config);
	e2e_file_remove(&file);
	return 0;
}

static void use(const char *name)
{
	session = e2e_session_open(e2e_daemon_uri(&daemon_, name), NULL);
	volume = rblk_volume_open(session, NULL, 0);
	data = rblk_buffer_alloc(session, 4 * UNIT);
	assert_true(volume && data);
}

static void refused(int error, size_t bytes, uint64_t offset, const char *words)
{
	assert_int_equal(rblk_pwrite(volume, data, bytes, offset, RBLK_IO_UNTORN), error);
	if (!strstr(rblk_session_error(session), words))
		fail_msg("\"%s\" is not in: %s", words, rblk_session_error(session));
}

static void limits_are_told_and_kept(void **state)
{
	struct iovec pieces[2];

	(void)state;
	e2e_daemon_start(&daemon_, "--config", config, NULL);
	use("disk");
	assert_int_equal(rblk_volume_info(volume)->untorn_min_bytes, rblk_volume_info(volume)->block_bytes);
	assert_int_equal(rblk_volume_info(volume)->untorn_max_bytes, UNIT);
	assert_int_equal(rblk_pwrite(volume, data, UNIT, UNIT, RBLK_IO_UNTORN), 0);
	assert_int_equal(rblk_pwrite(volume, data, 4096, 4096, RBLK_IO_UNTORN | RBLK_IO_FUA), 0);
	refused(-EINVAL, 2 * UNIT, 0, "32768 bytes at byte 0 cannot be untorn");
	refused(-EINVAL, 12288, 0, "cannot be untorn: a power of two from 512 to 16384, aligned to itself, can");
	refused(-EINVAL, UNIT, 4096, "cannot be untorn");
	pieces[0] = (struct iovec){data, 4096};
	pieces[1] = (struct iovec){data + 8192, 4096};
	assert_int_equal(rblk_pwritev(volume, pieces, 2, 0, RBLK_IO_UNTORN), -EINVAL);
	pieces[1].iov_base = data + 4096;
	assert_int_equal(rblk_pwritev(volume, pieces, 2, 0, RBLK_IO_UNTORN), 0);
	assert_int_equal(rblk_pread(volume, data, 512, 0), 0);
	rblk_session_close(session);
	use("ram"); /* by a capsule, and by the target's READ */
	assert_int_equal(rblk_volume_info(volume)->untorn_max_bytes, rblk_volume_info(volume)->max_io_bytes);
	for (unsigned int bytes = 512; bytes <= 2 * UNIT; bytes *= 2) {
		memset(data, (int)(bytes / 512), bytes);
		assert_int_equal(rblk_pwrite(volume, data, bytes, bytes, RBLK_IO_UNTORN), 0);
		memset(data, 0xff, bytes);
		assert_int_equal(rblk_pread(volume, data, bytes, bytes), 0);
		assert_int_equal(data[bytes - 1], (char)(bytes / 512));
	}
	rblk_session_close(session);
	use("nothing");
	refused(-EOPNOTSUPP, 4096, 0, "the volume has no untorn writes");
	rblk_session_close(session);
	assert_int_equal(e2e_daemon_stop(&daemon_), 0);
}

/* Pages of the write at `at` that have its data. */
static unsigned int pages_there(unsigned int at, char value)
{
	unsigned int count = 0;

	assert_int_equal(rblk_pread(volume, data, UNIT, at), 0);
	for (unsigned int page = 0; page < UNIT / 4096; page++)
		count += data[4096 * page] == value;
	return count;
}

/* Every other one is untorn. Of the others at least one in sixteen is torn, by chance of a half for each page. */
static void power_is_lost(void **state)
{
	unsigned int there = 0, absent = 0, torn = 0;

	(void)state;
	e2e_daemon_start(&daemon_, "--config", config, NULL);
	use("disk");
	memset(data, 0, UNIT);
	for (unsigned int i = 0; i < WRITES; i++)
		assert_int_equal(rblk_pwrite(volume, data, UNIT, i * UNIT, 0), 0);
	assert_int_equal(rblk_fsync(volume), 0);
	memset(data, 'n', UNIT);
	for (unsigned int i = 0; i < WRITES; i++)
		assert_int_equal(rblk_pwrite(volume, data, UNIT, i * UNIT, i % 2 ? RBLK_IO_UNTORN : 0), 0);
	e2e_daemon_kill(&daemon_);
	rblk_session_close(session);
	e2e_daemon_start_again(&daemon_, "--config", config, NULL);
	use("disk");
	for (unsigned int i = 0; i < WRITES; i++) {
		unsigned int pages = pages_there(i * UNIT, 'n');

		if (i % 2 && pages && pages != UNIT / 4096)
			fail_msg("write %u is torn: %u pages of it are there", i, pages);
		there += i % 2 && pages;
		absent += i % 2 && !pages;
		torn += i % 2 == 0 && pages && pages != UNIT / 4096;
	}
	assert_true(there && absent && torn);
	rblk_session_close(session);
	assert_int_equal(e2e_daemon_stop(&daemon_), 0);
}

static uint16_t raw_untorn(struct raw *raw, uint32_t handle, uint64_t lba, uint32_t blocks)
{
	struct rblk_wire_command *command = raw_command(raw, 0, 0);

	raw_fill(raw, command, 0, RBLK_OP_WRITE, 1);
	command->flags = RBLK_CMD_UNTORN;
	command->volume = rblk_to_le32(handle);
	command->lba = rblk_to_le64(lba);
	command->blocks = rblk_to_le32(blocks);
	raw_segment(raw, command, blocks * 512);
	raw_send(raw, sizeof(*command));
	raw_wait_either(raw, 1);
	return raw->gone ? UINT16_MAX : rblk_le16(raw->last[1].status);
}

static void the_target_judges_by_itself(void **state)
{
	static const struct {
		const char *volume;
		uint64_t lba;
		uint32_t blocks, features;
		uint16_t status; /* UINT16_MAX: the connection ends */
	} rows[] = {
		{"disk", 32, 32, RBLK_FEATURE_UNTORN, RBLK_OK},
		{"disk", 0, 64, RBLK_FEATURE_UNTORN, RBLK_E_INVALID},
		{"disk", 0, 24, RBLK_FEATURE_UNTORN, RBLK_E_INVALID},
		{"disk", 8, 32, RBLK_FEATURE_UNTORN, RBLK_E_INVALID},
		{"ram", 0, 64, RBLK_FEATURE_UNTORN, RBLK_OK},
		{"nothing", 0, 8, RBLK_FEATURE_UNTORN, RBLK_E_UNSUPPORTED},
		{"disk", 32, 32, 0, UINT16_MAX},
	};

	(void)state;
	e2e_daemon_start(&daemon_, "--config", config, NULL);
	for (unsigned int i = 0; i < UNIT_LENGTH(rows); i++) {
		struct raw raw;
		uint32_t handle;

		raw_init(&raw);
		raw.login.features = rblk_to_le32(rows[i].features);
		assert_true(raw_connect(&raw, daemon_.host));
		assert_int_equal(rblk_le32(raw.accept.features), rows[i].features);
		handle = raw_open(&raw, rows[i].volume);
		assert_int_not_equal(handle, 0);
		assert_int_equal(raw_untorn(&raw, handle, rows[i].lba, rows[i].blocks), rows[i].status);
		raw_close(&raw);
	}
	assert_int_equal(e2e_daemon_stop(&daemon_), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_are_told_and_kept),
		cmocka_unit_test(power_is_lost),
		cmocka_unit_test(the_target_judges_by_itself),
	};

	return cmocka_run_group_tests(tests, write_config, remove_config);
}
