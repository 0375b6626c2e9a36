/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The cases of the TCP fabric that look below the interface: hostile and silent peers, bounds, idle
 * cost, and the states of connections of both kinds. Not for the lab: they use no device.
 */
#include "fixture.h"

extern const struct fx_case fx_cases_tcp_hello[], fx_cases_tcp_frames[], fx_cases_tcp_acks[],
	fx_cases_tcp_idle[], fx_cases_tcp_budget[], fx_cases_tcp_left[], fx_cases_tcp_tls[], fx_cases_states[];

const struct fx_case *const fx_tables[] = {
	fx_cases_tcp_hello, fx_cases_tcp_frames, fx_cases_tcp_acks,
	fx_cases_tcp_idle,  fx_cases_tcp_budget, fx_cases_tcp_left, fx_cases_tcp_tls,    fx_cases_states,     NULL,
};
