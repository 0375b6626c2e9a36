/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what a server of ublk tells of its disk is true when the next one has it, too; and at SIGTERM it does not wait
 * for I/O that waits for its target. Method: the kernel, the queues and the record are functions of this file.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include "initiator/ublk/control.h"
#include "initiator/ublk/disk.h"
#include "initiator/ublk/kept.h"
#include "initiator/ublk/parameters.h"
#include "initiator/ublk/queue.h"
#include "initiator/ublk/record.h"

static struct fake {
	struct ublk_shared *shared;
	struct ublk_queue_view view; /* of every queue, but for its phase */
	struct ublksrv_ctrl_dev_info info;
	struct ublk_params parameters;
	struct ublk_record record; /* as a file has it */
	bool stopped, terminated;
	unsigned int claims, records;
} fake;

static const struct rblk_volume_info info = {
	.bytes = 1 << 20, .block_bytes = 4096, .max_io_bytes = 1 << 20, .name = "v",
	.can_flush = true, .can_fua = true, .volatile_cache = true,
};

/* -- the kernel -------------------------------------------------------------------------------- */

int ublk_control_open(struct ublk_control *control)
{
	control->features = UBLK_F_UPDATE_SIZE;
	return 0;
}

void ublk_control_close(struct ublk_control *control)
{
}

int ublk_control_add(struct ublk_control *control, struct ublksrv_ctrl_dev_info *made)
{
	made->dev_id = 5;
	fake.info = *made;
	fake.info.state = UBLK_S_DEV_LIVE;
	return 0;
}

int ublk_control_info(struct ublk_control *control, uint32_t id, struct ublksrv_ctrl_dev_info *found)
{
	*found = fake.info;
	return 0;
}

int ublk_control_set_parameters(struct ublk_control *control, uint32_t id, struct ublk_params *parameters)
{
	fake.parameters = *parameters;
	return 0;
}

int ublk_control_start(struct ublk_control *control, uint32_t id, pid_t server)
{
	return 0;
}

int ublk_control_settle(struct ublk_control *control, uint32_t id)
{
	return 0;
}

int ublk_control_start_recovery(struct ublk_control *control, uint32_t id)
{
	return 0;
}

int ublk_control_end_recovery(struct ublk_control *control, uint32_t id, pid_t server)
{
	return 0;
}

int ublk_control_resize(struct ublk_control *control, uint32_t id, uint64_t bytes)
{
	return 0;
}

/* The last thing before it serves. */
int ublk_control_no_scheduler(uint32_t id)
{
	return 0;
}

int ublk_control_notice(uint32_t id, unsigned int ms)
{
	return raise(SIGTERM);
}

int ublk_control_stop(struct ublk_control *control, uint32_t id)
{
	fake.stopped = true;
	return 0;
}

int ublk_control_delete(struct ublk_control *control, uint32_t id)
{
	return 0;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	return strncmp(path, "/dev/ublkc", 10) ? __real_open(path, flags, 0600) : eventfd(0, EFD_CLOEXEC);
}

int ublk_disk_claim(uint32_t id, int *fd, pid_t *user)
{
	assert_int_equal(fake.view.session, RBLK_SESSION_READY);
	fake.claims++;
	*fd = memfd_create("disk", MFD_CLOEXEC);
	return UBLK_DISK_UNUSED;
}

/* -- queues and files -------------------------------------------------------------------------- */

uint64_t ublk_record_attachment(void)
{
	return 7;
}

struct ublk_queue *ublk_queue_create(struct ublk_shared *shared, unsigned int index)
{
	fake.shared = shared;
	return malloc(1);
}

void ublk_queue_look(struct ublk_queue *queue, struct ublk_queue_view *view)
{
	static const enum ublk_queue_phase phases[] = {
		[UBLK_GO_WAIT] = UBLK_QUEUE_CONNECTED,
		[UBLK_GO_PREPARE] = UBLK_QUEUE_PREPARED,
		[UBLK_GO_SERVE] = UBLK_QUEUE_SERVING,
	};

	*view = fake.view;
	view->phase = fake.stopped ? UBLK_QUEUE_ENDED : phases[fake.shared->go];
}

void ublk_queue_destroy(struct ublk_queue *queue)
{
	free(queue);
}

int ublk_record_read(const char *root, uint32_t id, struct ublk_record *record)
{
	*record = fake.record;
	return 0;
}

/* The third is behind the first SIGTERM: a target that was away is back, and with the fourth the next one comes. */
int ublk_record_write(const char *root, const struct ublk_record *record)
{
	fake.record = *record;
	fake.records++;
	if (fake.records > 3 && fake.view.session == RBLK_SESSION_READY && !fake.stopped)
		raise(SIGTERM);
	if (fake.records > 2 && fake.view.session != RBLK_SESSION_READY) {
		fake.view.session = RBLK_SESSION_READY;
		raise(SIGUSR2);
	}
	return 0;
}

int ublk_record_write_udev(const char *root, const struct ublk_record *record)
{
	return 0;
}

void ublk_record_remove(const char *root, uint32_t id)
{
}

int ublk_kept_link(const char *root, const struct ublk_kept *kept)
{
	return 0;
}

/* -- a server ---------------------------------------------------------------------------------- */

static void serve(const struct ublk_disk_options *options, struct ublk_kept *kept, enum rblk_session_state session)
{
	struct ublk_disk_started started;
	int ends[2];

	fake.stopped = false;
	fake.claims = fake.records = 0;
	fake.view = (struct ublk_queue_view){.session = session, .info = info, .credits = 16};
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(ublk_disk_serve(options, kept, ends[1]), UBLK_SERVER_ENDED);
	assert_int_equal(read(ends[0], &started, sizeof(started)), sizeof(started));
	close(ends[0]);
	assert_true(started.works);
	assert_true(fake.stopped);
	assert_int_equal(fake.claims, 1);
}

static void a_successors_disk_is_as_it_was_attached(void **state)
{
	const struct ublk_disk_options options = {
		.uri = "rblk://a,b/v",
		.queues = 1,
		.read_only = true,
		.session.credits = 8,
	};
	struct ublk_kept kept = { .stage = UBLK_KEPT_NONE };

	serve(&options, &kept, RBLK_SESSION_READY);
	assert_true(fake.parameters.basic.attrs & UBLK_ATTR_READ_ONLY);
	/* Not as many as on both connections: the next program asks for this number on each. */
	assert_int_equal(fake.info.queue_depth, 8);
	assert_int_equal(fake.record.credits, 8);
	assert_true(fake.record.read_only);
	assert_int_equal(kept.stage, UBLK_KEPT_STARTED);
	serve(&options, &kept, RBLK_SESSION_READY);
	/* Else the next program would open it for writing. */
	assert_true(fake.record.read_only);
	assert_int_equal(fake.record.bytes, info.bytes);
}

static void without_its_target_a_disk_is_not_waited_for(void **state)
{
	const struct ublk_disk_options options = {.uri = "rblk://a/v", .queues = 1, .session.credits = 8};
	struct ublk_kept kept = { .stage = UBLK_KEPT_NONE };

	serve(&options, &kept, RBLK_SESSION_RECOVERING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_successors_disk_is_as_it_was_attached),
		cmocka_unit_test(without_its_target_a_disk_is_not_waited_for),
	};
	sigset_t set;

	/* As the keeper does. */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, UBLK_SIGNAL_ACKNOWLEDGE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
