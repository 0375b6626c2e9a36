/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns a session's fabs and what is registered with them, see fabrics.h. */
#include "initiator/fabrics.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct fab *ini_fabs_get(struct ini_fabs *fabs, enum fab_kind kind,
			 const struct fab_options *options, char *error)
{
	struct fab *fab;

	for (u16 i = 0; i < fabs->count; i++)
		if (fabs->kinds[i] == kind)
			return fabs->list[i];
	if (fabs->count == INI_FABS_MAX) {
		snprintf(error, FAB_ERROR_BYTES, "a session has at most %d kinds of fabric",
			 INI_FABS_MAX);
		errno = EPROTONOSUPPORT;
		return NULL;
	}
	fab = fab_open(kind, options, error);
	if (!fab)
		return NULL;
	fabs->list[fabs->count] = fab;
	fabs->kinds[fabs->count++] = kind;
	return fab;
}

int ini_fabs_join(struct ini_fabs *fabs)
{
	fabs->fd = fabs->count == 1 ? fab_fd(fabs->list[0]) : fab_join(fabs->list, fabs->count);
	fabs->joined = fabs->count > 1 && fabs->fd >= 0;
	return fabs->fd < 0 ? fabs->fd : 0;
}

void ini_fabs_close(struct ini_fabs *fabs)
{
	if (fabs->joined)
		fab_join_end(fabs->fd);
	for (u16 i = 0; i < fabs->count; i++)
		fab_close(fabs->list[i]);
	memset(fabs, 0, sizeof(*fabs));
}

u16 ini_fabs_place(const struct ini_fabs *fabs, const struct fab_device *device)
{
	u16 place = 0;

	while (fabs->list[place] != fab_device_fab(device))
		place++;
	return place;
}

int ini_fabs_arm(struct ini_fabs *fabs, bool receives_only)
{
	int armed = 0;

	for (u16 i = 0; i < fabs->count && !armed; i++) {
		fabs->last = fabs->list[i];
		armed = receives_only ? fab_arm_receives(fabs->list[i]) : fab_arm(fabs->list[i]);
	}
	return armed;
}

int ini_fabs_timeout_ms(const struct ini_fabs *fabs)
{
	int least = -1;

	for (u16 i = 0; i < fabs->count; i++) {
		int ms = fab_timeout_ms(fabs->list[i]);

		if (ms >= 0 && (least < 0 || ms < least))
			least = ms;
	}
	return least;
}

const char *ini_fabs_error(const struct ini_fabs *fabs)
{
	return fabs->last ? fab_error(fabs->last) : "";
}

/* -- memory ------------------------------------------------------------------------------------ */

int ini_mr_register(struct ini_fabs *fabs, void *addr, size_t bytes, int access, struct ini_mr *mr)
{
	memset(mr, 0, sizeof(*mr));
	for (u16 i = 0; i < fabs->count; i++) {
		int err = fab_mr_register(fabs->list[i], addr, bytes, access, &mr->of[i]);

		if (!err)
			continue;
		fabs->last = fabs->list[i];
		mr->of[i] = NULL;
		ini_mr_deregister(mr);
		return err;
	}
	return 0;
}

void ini_mr_deregister(struct ini_mr *mr)
{
	for (u16 i = 0; i < INI_FABS_MAX; i++)
		fab_mr_deregister(mr->of[i]);
	memset(mr, 0, sizeof(*mr));
}

/* The registration with the device's fab; a session has been opened with it, so there is one. */
static const struct fab_mr *mr_of(const struct ini_mr *mr, const struct fab_device *device)
{
	const struct fab *fab = fab_device_fab(device);
	u16 i = 0;

	while (i < INI_FABS_MAX - 1 && (!mr->of[i] || fab_mr_fab(mr->of[i]) != fab))
		i++;
	return mr->of[i];
}

u32 ini_mr_lkey(const struct ini_mr *mr, const struct fab_device *device)
{
	return fab_mr_lkey(mr_of(mr, device), device);
}

u32 ini_mr_rkey(const struct ini_mr *mr, const struct fab_device *device)
{
	return fab_mr_rkey(mr_of(mr, device), device);
}
