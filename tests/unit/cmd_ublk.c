/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a forced detach of a disk by ublk waits neither for a target that is away nor for a server that waits for its
 * own disk; and a server is not replaced by one that could not serve. Method: the kernel, the keeper and the record are
 * functions of this file.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/cmd/attach.h"
#include "initiator/ublk/control.h"
#include "initiator/ublk/keeper.h"
#include "initiator/ublk/record.h"

#define ATTACHMENT 7u

static struct fake {
	struct ublk_record record;
	bool stuck; /* its server waits for its disk */
	bool stopped, removed, deleted;
	unsigned int starts;
	char initiator[RBLK_NAME_BYTES];
} fake;

int __wrap_ublk_control_open(struct ublk_control *control);
int __wrap_ublk_control_open(struct ublk_control *control)
{
	return 0;
}

void __wrap_ublk_control_close(struct ublk_control *control);
void __wrap_ublk_control_close(struct ublk_control *control)
{
}

int __wrap_ublk_control_info(struct ublk_control *control, uint32_t id, struct ublksrv_ctrl_dev_info *info);
int __wrap_ublk_control_info(struct ublk_control *control, uint32_t id, struct ublksrv_ctrl_dev_info *info)
{
	*info = (struct ublksrv_ctrl_dev_info){.dev_id = id, .ublksrv_flags = ATTACHMENT};
	return 0;
}

int __wrap_ublk_control_stop(struct ublk_control *control, uint32_t id);
int __wrap_ublk_control_stop(struct ublk_control *control, uint32_t id)
{
	fake.stopped = true;
	return 0;
}

int __wrap_ublk_control_delete(struct ublk_control *control, uint32_t id);
int __wrap_ublk_control_delete(struct ublk_control *control, uint32_t id)
{
	fake.deleted = true;
	return 0;
}

int __wrap_ublk_keeper_kill(uint32_t id);
int __wrap_ublk_keeper_kill(uint32_t id)
{
	if (fake.stuck && !fake.stopped)
		return -ETIMEDOUT;
	fake.record.alive = false;
	return 0;
}

int __wrap_ublk_keeper_start(const struct ublk_disk_options *options, uint32_t id, struct ublk_disk_started *started);
int __wrap_ublk_keeper_start(const struct ublk_disk_options *options, uint32_t id, struct ublk_disk_started *started)
{
	const char *name = options->session.initiator_name;

	fake.starts++;
	strncpy(fake.initiator, name ? name : "", sizeof(fake.initiator) - 1);
	*started = (struct ublk_disk_started){.words = "as wanted"};
	return -1;
}

int __wrap_ublk_record_read(const char *root, uint32_t id, struct ublk_record *record);
int __wrap_ublk_record_read(const char *root, uint32_t id, struct ublk_record *record)
{
	*record = fake.record;
	return fake.removed ? -ENODEV : 0;
}

void __wrap_ublk_record_remove(const char *root, uint32_t id);
void __wrap_ublk_record_remove(const char *root, uint32_t id)
{
	fake.removed = true;
}

/* Behind it comes fsync(). */
int __wrap_ublk_disk_claim(uint32_t id, int *fd, pid_t *user);
int __wrap_ublk_disk_claim(uint32_t id, int *fd, pid_t *user)
{
	fail_msg("it waits for the disk");
	return -EIO;
}

int __wrap_attached_choose(const char *operand, struct attached **list);
int __wrap_attached_choose(const char *operand, struct attached **list)
{
	*list = calloc(1, sizeof(**list));
	assert_int_equal(attached_read("", operand, *list), 0);
	return 1;
}

const char *__wrap_attach_way_missing(const char *node, const char *module);
const char *__wrap_attach_way_missing(const char *node, const char *module)
{
	return NULL;
}

static int setup(void **state)
{
	fake = (struct fake){.record = {.id = 5,
					.server = 99,
					.alive = true,
					.attachment = ATTACHMENT,
					.uri = "rblk+tcp://[::1]/v",
					.state = "recovering",
					.give_up_ms = 60000}};
	return 0;
}

static int detach(const char *wait)
{
	char *argv[] = {"--force", "--wait", (char *)wait, "ublkb5"}, *operands[5];
	bool help;
	int count = cmd_options_parse(&cmd_verb_detach, argv, 4, operands, &help);

	assert_int_equal(count, 1);
	return cmd_verb_detach.run(operands, count);
}

static void force_does_not_wait_for_a_target(void **state)
{
	assert_int_equal(detach("100ms"), CMD_OK);
	assert_true(fake.stopped && fake.removed && fake.deleted);
}

static void force_ends_a_server_that_waits_for_its_disk(void **state)
{
	fake.stuck = true;
	assert_int_equal(detach("0s"), CMD_OK);
	assert_true(fake.stopped && fake.removed && fake.deleted);
}

static void without_its_key_no_server_takes_over(void **state)
{
	struct attached attached;

	assert_int_equal(attached_read("", "ublkb5", &attached), 0);
	assert_int_equal(attach_ublk_take_over(&attached), -1);
	assert_int_equal(fake.starts, 1);
	strcpy(fake.record.key, "/nonexistent/key");
	assert_int_equal(attach_ublk_take_over(&attached), -1);
	assert_int_equal(fake.starts, 1);
}

/* The host may have another one when the next server begins. */
static void all_servers_have_the_first_ones_name(void **state)
{
	const struct attach_options options = ATTACH_OPTIONS_DEFAULTS;
	struct attached attached;

	setenv("RBLK_KEY", "none", 1);
	assert_int_equal(attach_run(ATTACH_BY_UBLK, "", "rblk+tcp://[::1]/v", &options, &attached), -1);
	assert_int_equal(fake.starts, 1);
	assert_string_not_equal(fake.initiator, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(force_does_not_wait_for_a_target, setup),
		cmocka_unit_test_setup(force_ends_a_server_that_waits_for_its_disk, setup),
		cmocka_unit_test_setup(without_its_key_no_server_takes_over, setup),
		cmocka_unit_test_setup(all_servers_have_the_first_ones_name, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
