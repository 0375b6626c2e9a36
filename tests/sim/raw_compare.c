/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The raw initiator's COMPARE_AND_WRITEs: what it expects the volume to hold, from what it has read and
 * written, and the operation numbers that keep a retry from being done twice (F8). Called by
 * raw_work.c, which sends them like its other block commands.
 */
#include "tests/sim/raw_initiator.h"

#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/random.h"

#define UNKNOWN UINT64_MAX

/* -- what it knows ------------------------------------------------------------------------- */

void sim_raw_learn(const struct sim_raw_request *request, bool done)
{
	struct sim_raw_initiator *raw = request->raw;

	for (uint64_t i = 0; i < request->sectors; i++) {
		uint64_t *known = &raw->known[request->sector + i];

		if (request->kind == SIM_COMMAND_READ && done)
			memcpy(known, request->memory + i * SIM_SECTOR, sizeof(*known));
		else if (request->kind == SIM_COMMAND_ZEROES && done)
			*known = 0;
		else if (request->kind == SIM_COMMAND_WRITE || request->kind == SIM_COMMAND_COMPARE)
			*known = done ? request->id : UNKNOWN;
		else if (request->kind != SIM_COMMAND_READ)
			*known = UNKNOWN;
	}
}

void sim_raw_forget(struct sim_raw_initiator *raw)
{
	memset(raw->known, 0xff, sizeof(raw->known));
}

bool sim_compare_expect(struct sim_raw_request *request)
{
	const uint64_t *known = &request->raw->known[request->sector];

	if (request->sectors > SIM_COMPARE_SECTORS)
		return false;
	for (uint64_t i = 0; i < request->sectors; i++)
		if (known[i] == UNKNOWN)
			return false;
	memcpy(request->expected, known, request->sectors * sizeof(*known));
	/* Now and then what nobody has ever written there. */
	if (sim_chance(50000))
		request->expected[sim_below(request->sectors)] = sim_model_id();
	return true;
}

/* -- numbers (F8) -------------------------------------------------------------------------- */

/* The oldest number that may still be sent again. */
static uint64_t oldest_operation(const struct sim_raw_initiator *raw)
{
	uint64_t oldest = raw->operation + 1;

	for (unsigned int i = 0; i < SIM_RAW_REQUESTS; i++) {
		const struct sim_raw_request *request = &raw->requests[i];

		if (request->state != SIM_RAW_REQUEST_FREE && request->operation &&
		    request->operation_epoch == raw->epoch && request->operation < oldest)
			oldest = request->operation;
	}
	if (raw->reserve.state != SIM_RAW_REQUEST_FREE && raw->reserve.operation &&
	    raw->reserve.epoch == raw->epoch && raw->reserve.operation < oldest)
		oldest = raw->reserve.operation;
	return oldest;
}

uint64_t sim_raw_operation(struct sim_raw_initiator *raw)
{
	if (raw->operation + 1 >= oldest_operation(raw) + RBLK_OPERATIONS_MAX) {
		sim_reached("compare", "has to wait for an older operation's answer", NULL);
		return 0;
	}
	return ++raw->operation;
}

bool sim_compare_may_go(struct sim_raw_request *request)
{
	struct sim_raw_initiator *raw = request->raw;

	if (!request->operation || request->operation_epoch != raw->epoch) {
		request->operation = sim_raw_operation(raw);
		request->operation_epoch = raw->epoch;
	}
	return request->operation;
}

bool sim_compare_is_unknown(const struct sim_raw_request *request)
{
	return request->kind == SIM_COMMAND_COMPARE && request->state != SIM_RAW_REQUEST_SENT &&
	       request->lost_once && request->operation_epoch != request->raw->epoch;
}
