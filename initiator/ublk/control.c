/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the commands to /dev/ublk-control: see control.h. */
#include "initiator/ublk/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_ENTRIES 2u    /* one command at a time */
#define CONTROL_SETTLE_MS 100 /* for a worker of the kernel, which is ready to run, to run */

static int control_send(struct ublk_control *control, unsigned int op, const struct ublksrv_ctrl_cmd *command)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&control->ring);
	struct io_uring_cqe *cqe;
	int err;

	if (!sqe)
		return -EBUSY;
	/* An entry has 128 bytes here, of which the command is the end. */
	memset(sqe, 0, 2 * sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = control->fd;
	sqe->cmd_op = op;
	memcpy(sqe->cmd, command, sizeof(*command));
	err = io_uring_submit(&control->ring);
	if (err < 0)
		return err;
	do {
		err = io_uring_wait_cqe(&control->ring, &cqe);
	} while (err == -EINTR);
	if (err)
		return err;
	err = cqe->res;
	io_uring_cqe_seen(&control->ring, cqe);
	return err;
}

/* A command that concerns the whole device, with or without memory. */
static int control_device(struct ublk_control *control, unsigned int op, uint32_t id, void *memory, uint16_t bytes,
			  uint64_t number)
{
	struct ublksrv_ctrl_cmd command = {
		.dev_id = id,
		.queue_id = UINT16_MAX,
		.addr = (uint64_t)(uintptr_t)memory,
		.len = bytes,
	};

	command.data[0] = number;
	return control_send(control, op, &command);
}

int ublk_control_open(struct ublk_control *control)
{
	uint64_t *features = &control->features;
	int err;

	*features = 0;
	control->fd = open(UBLK_CONTROL_PATH, O_RDWR | O_CLOEXEC);
	if (control->fd < 0)
		return -errno;
	err = io_uring_queue_init(CONTROL_ENTRIES, &control->ring, IORING_SETUP_SQE128);
	if (err)
		goto err_close;
	err = control_device(control, UBLK_U_CMD_GET_FEATURES, 0, features, UBLK_FEATURES_LEN, 0);
	/* A kernel that is too old does not know the command, in one way or another. */
	if (err == -EOPNOTSUPP || err == -ENODEV || err == -EINVAL || (!err && !(*features & UBLK_F_CMD_IOCTL_ENCODE)))
		err = -EOPNOTSUPP;
	if (!err)
		return 0;
	io_uring_queue_exit(&control->ring);
err_close:
	close(control->fd);
	return err;
}

void ublk_control_close(struct ublk_control *control)
{
	io_uring_queue_exit(&control->ring);
	close(control->fd);
}

int ublk_control_add(struct ublk_control *control, struct ublksrv_ctrl_dev_info *info)
{
	info->dev_id = UINT32_MAX; /* the first number that is free */
	return control_device(control, UBLK_U_CMD_ADD_DEV, info->dev_id, info, sizeof(*info), 0);
}

int ublk_control_info(struct ublk_control *control, uint32_t id, struct ublksrv_ctrl_dev_info *info)
{
	return control_device(control, UBLK_U_CMD_GET_DEV_INFO, id, info, sizeof(*info), 0);
}

int ublk_control_set_parameters(struct ublk_control *control, uint32_t id, struct ublk_params *parameters)
{
	return control_device(control, UBLK_U_CMD_SET_PARAMS, id, parameters, sizeof(*parameters), 0);
}

int ublk_control_start(struct ublk_control *control, uint32_t id, pid_t server)
{
	return control_device(control, UBLK_U_CMD_START_DEV, id, NULL, 0, (uint64_t)server);
}

int ublk_control_resize(struct ublk_control *control, uint32_t id, uint64_t bytes)
{
	if (!(control->features & UBLK_F_UPDATE_SIZE))
		return -EOPNOTSUPP;
	return control_device(control, UBLK_U_CMD_UPDATE_SIZE, id, NULL, 0, bytes >> 9); /* sectors */
}

int ublk_control_settle(struct ublk_control *control, uint32_t id)
{
	const struct timespec pause = { .tv_nsec = CONTROL_SETTLE_MS * 1000000L };
	struct ublksrv_ctrl_dev_info info;
	int err;

	err = ublk_control_info(control, id, &info);
	if (!err && info.state != UBLK_S_DEV_QUIESCED)
		err = -EBUSY;
	if (!err && !(control->features & UBLK_F_UPDATE_SIZE))
		nanosleep(&pause, NULL);
	return err;
}

int ublk_control_start_recovery(struct ublk_control *control, uint32_t id)
{
	return control_device(control, UBLK_U_CMD_START_USER_RECOVERY, id, NULL, 0, 0);
}

int ublk_control_end_recovery(struct ublk_control *control, uint32_t id, pid_t server)
{
	return control_device(control, UBLK_U_CMD_END_USER_RECOVERY, id, NULL, 0, (uint64_t)server);
}

static int control_queue(uint32_t id, const char *file, const char *text)
{
	char path[64];
	int fd, err = 0;

	snprintf(path, sizeof(path), "/sys/block/ublkb%u/queue/%s", id, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

int ublk_control_notice(uint32_t id, unsigned int ms)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", ms);
	return control_queue(id, "io_timeout", text);
}

int ublk_control_no_scheduler(uint32_t id)
{
	return control_queue(id, "scheduler", "none");
}

int ublk_control_stop(struct ublk_control *control, uint32_t id)
{
	return control_device(control, UBLK_U_CMD_STOP_DEV, id, NULL, 0, 0);
}

int ublk_control_delete(struct ublk_control *control, uint32_t id)
{
	int err = control_device(control, UBLK_U_CMD_DEL_DEV_ASYNC, id, NULL, 0, 0);

	/* Before 6.9 it waits for those who have it open. */
	return err == -EOPNOTSUPP ? control_device(control, UBLK_U_CMD_DEL_DEV, id, NULL, 0, 0) : err;
}
