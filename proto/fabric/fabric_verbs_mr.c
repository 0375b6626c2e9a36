/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory of the verbs fabric: registered with every device of the fab, now and when another one
 * comes into use. fabric_verbs_device.c calls it for devices that come and go. The fab's thread, but for verbs_mr_work().
 */
#include "proto/fabric/fabric_verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* -- on the fab's thread ----------------------------------------------------------------------- */

static int verbs_mr_fail(struct fab *fab, const struct verbs_mr *mr, const char *device)
{
	int err = errno ? errno : EINVAL;

	if (err == ENOMEM)
		return fab_fail(
			fab, -err,
			"%s: registering %zu bytes: out of lockable memory; raise the limit "
			"(ulimit -l, LimitMEMLOCK=) or add memory",
			device, mr->bytes);
	return fab_fail(fab, -err, "%s: registering %zu bytes: %s", device, mr->bytes,
			strerror(err));
}

int verbs_mr_add(struct verbs_mr *mr, struct verbs_device *device)
{
	unsigned int i = device->head.index;

	errno = 0;
	mr->mrs[i] = ibv_reg_mr(device->pd, mr->addr, mr->bytes, mr->access);
	if (!mr->mrs[i])
		return verbs_mr_fail(mr->head.fab, mr, device->head.name);
	mr->head.lkey[i] = mr->mrs[i]->lkey;
	mr->head.rkey[i] = mr->mrs[i]->rkey;
	return 0;
}

void verbs_mr_remove(struct verbs_mr *mr, unsigned int i)
{
	if (!mr->mrs[i])
		return;
	ibv_dereg_mr(mr->mrs[i]);
	mr->mrs[i] = NULL;
	mr->head.lkey[i] = 0;
	mr->head.rkey[i] = 0;
}

static struct verbs_mr *verbs_mr_alloc(struct fab *fab, void *addr, size_t bytes, int access)
{
	struct verbs_mr *mr = calloc(1, sizeof(*mr));

	if (!mr) {
		fab_fail(fab, -ENOMEM, "registering %zu bytes: out of memory", bytes);
		return NULL;
	}
	mr->head.fab = fab;
	mr->addr = addr;
	mr->bytes = bytes;
	mr->access = access;
	return mr;
}

int verbs_mr_register(struct fab *head, void *addr, size_t bytes, int access, struct fab_mr **out)
{
	struct verbs_fab *fab = verbs_fab(head);
	struct verbs_mr *mr = verbs_mr_alloc(head, addr, bytes, access);
	int err;

	if (!mr)
		return -ENOMEM;
	TAILQ_INSERT_TAIL(&fab->mrs, mr, entry);
	for (unsigned int i = 0; i < fab->device_count; i++) {
		struct verbs_device *device = fab->devices[i];

		if (device->gone)
			continue;
		err = verbs_mr_add(mr, device);
		if (err) {
			verbs_mr_deregister(&mr->head);
			return err;
		}
	}
	*out = &mr->head;
	return 0;
}

void verbs_mr_deregister(struct fab_mr *head)
{
	struct verbs_mr *mr = (struct verbs_mr *)head;

	for (unsigned int i = 0; i < FAB_DEVICES_MAX; i++)
		verbs_mr_remove(mr, i);
	TAILQ_REMOVE(&verbs_fab(head->fab)->mrs, mr, entry);
	free(mr);
}

/* -- on another thread ------------------------------------------------------------------------- */

static void verbs_mr_hold(struct verbs_mr *mr, struct verbs_device *device)
{
	mr->devices[device->head.index] = device;
	device->mr_jobs++;
}

/* Last: a device that was removed meanwhile may go by it. */
static void verbs_mr_release(struct verbs_device *const devices[FAB_DEVICES_MAX])
{
	for (unsigned int i = 0; i < FAB_DEVICES_MAX; i++)
		if (devices[i]) {
			devices[i]->mr_jobs--;
			verbs_device_settle(devices[i]);
		}
}

int verbs_mr_begin(struct fab *head, void *addr, size_t bytes, int access, struct fab_mr **out)
{
	struct verbs_fab *fab = verbs_fab(head);
	struct verbs_mr *mr = verbs_mr_alloc(head, addr, bytes, access);

	if (!mr)
		return -ENOMEM;
	for (unsigned int i = 0; i < fab->device_count; i++)
		if (!fab->devices[i]->gone)
			verbs_mr_hold(mr, fab->devices[i]);
	*out = &mr->head;
	return 0;
}

void verbs_mr_retire(struct fab_mr *head)
{
	struct verbs_fab *fab = verbs_fab(head->fab);
	struct verbs_mr *mr = (struct verbs_mr *)head;

	TAILQ_REMOVE(&fab->mrs, mr, entry);
	for (unsigned int i = 0; i < fab->device_count; i++)
		if (mr->mrs[i])
			verbs_mr_hold(mr, fab->devices[i]);
}

void verbs_mr_work(struct fab_mr *head)
{
	struct verbs_mr *mr = (struct verbs_mr *)head;

	for (unsigned int i = 0; i < FAB_DEVICES_MAX; i++) {
		if (!mr->devices[i])
			continue;
		if (head->retired) {
			verbs_mr_remove(mr, i);
			continue;
		}
		errno = 0;
		mr->mrs[i] = ibv_reg_mr(mr->devices[i]->pd, mr->addr, mr->bytes, mr->access);
		if (!mr->mrs[i])
			mr->work_errnos[i] = errno ? errno : EINVAL;
	}
}

/* The registered memory gets its keys, and devices that have come meanwhile register it here. */
static int verbs_mr_publish(struct verbs_mr *mr)
{
	struct verbs_fab *fab = verbs_fab(mr->head.fab);
	int err = 0;

	TAILQ_INSERT_TAIL(&fab->mrs, mr, entry);
	for (unsigned int i = 0; i < fab->device_count && !err; i++) {
		struct verbs_device *device = fab->devices[i];

		if (mr->mrs[i]) {
			mr->head.lkey[i] = mr->mrs[i]->lkey;
			mr->head.rkey[i] = mr->mrs[i]->rkey;
		} else if (device->gone) {
			/* The error of a device that was removed meanwhile does not matter. */
			continue;
		} else if (mr->devices[i] == device) {
			errno = mr->work_errnos[i];
			err = verbs_mr_fail(mr->head.fab, mr, device->head.name);
		} else {
			err = verbs_mr_add(mr, device);
		}
	}
	if (err)
		verbs_mr_deregister(&mr->head);
	return err;
}

int verbs_mr_end(struct fab_mr *head)
{
	struct verbs_mr *mr = (struct verbs_mr *)head;
	struct verbs_device *devices[FAB_DEVICES_MAX];
	int err = 0;

	memcpy(devices, mr->devices, sizeof(devices));
	if (head->retired) {
		free(mr);
	} else {
		err = verbs_mr_publish(mr);
		if (!err) {
			memset(mr->devices, 0, sizeof(mr->devices));
			memset(mr->work_errnos, 0, sizeof(mr->work_errnos));
		}
	}
	verbs_mr_release(devices);
	return err;
}
