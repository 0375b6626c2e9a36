/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Looks at the OPENs and CLOSEs that the module sends, and answers some itself. */
#ifndef RBLK_TESTS_SIM_KERNEL_CALLS_H
#define RBLK_TESTS_SIM_KERNEL_CALLS_H

struct rblk_session;
struct rblk_session_command;

/* Before it is sent; it may be changed. */
void sim_calls_send(struct rblk_session *session, struct rblk_session_command *sc);

#endif
