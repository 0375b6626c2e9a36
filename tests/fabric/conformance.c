/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The cases that every kind of fabric must pass, and those of single kinds that need only the
 * interface. case_verbs.c comes last: its last case removes the device.
 */
#include "fixture.h"

extern const struct fx_case fx_cases_connect[], fx_cases_data[], fx_cases_rdma[], fx_cases_keys[],
	fx_cases_drain[], fx_cases_wake[], fx_cases_verbs[];

const struct fx_case *const fx_tables[] = {
	fx_cases_connect, fx_cases_data, fx_cases_rdma,	 fx_cases_keys,
	fx_cases_drain,	  fx_cases_wake, fx_cases_verbs, NULL,
};
