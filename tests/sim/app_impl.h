/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The inside of an application, for app.c and the files that are named here.
 */
#ifndef RBLK_TESTS_SIM_APP_IMPL_H
#define RBLK_TESTS_SIM_APP_IMPL_H

#include "initiator/session.h"
#include "tests/sim/app.h"

/* -- app_session.c --------------------------------------------------------------------------- */

/* True: the session is ready. */
bool sim_app_open_session(struct sim_app *app);
/* True: they are open, and its memory is registered. */
bool sim_app_open_volumes(struct sim_app *app);
void sim_app_end_session(struct sim_app *app);
/* Until the session has something, at most so long. */
void sim_app_wait(struct sim_app *app, uint64_t limit_ns);

/* -- app_mount.c ----------------------------------------------------------------------------- */

/* False: the session is lost. */
bool sim_mount_open(struct sim_app *app, struct sim_mount *mount);
/* Before librblk runs: a handle that is opened anew is so from now on at the earliest. */
void sim_mounts_watch(struct sim_app *app);
/* Has the session begun a new epoch, and opened its volumes anew? */
void sim_mounts_refresh(struct sim_app *app);
/* What its process owes of its volume. */
struct sim_owed *sim_mount_owed(const struct sim_app *app, const struct sim_mount *mount);
/* A command has succeeded: what is durable, as far as its application can know? */
void sim_mount_account(const struct sim_op *op);
/* Why a FLUSH by it must not begin now; NULL: it may. */
const char *sim_mount_must_not_flush(const struct sim_app *app, const struct sim_mount *mount);
/* A FLUSH has failed for a loss: the process has been told of it. */
void sim_mount_is_told(const struct sim_app *app, const struct sim_mount *mount);
/* It is closed now. */
void sim_mount_closed(const struct sim_app *app, struct sim_mount *mount);
/* The process is another one from now on: it has forgotten what it owes. Nothing is open. */
void sim_app_forget(struct sim_app *app);

/* -- app_op.c -------------------------------------------------------------------------------- */

/* 0, or why it was not started: -EAGAIN, -ENOTCONN. */
int sim_op_start(struct sim_app *app, const struct sim_mount *mount, struct sim_command command);
/* Any command. */
int sim_op_begin(struct sim_app *app);
/* Now and then it aborts one. */
void sim_app_abort(struct sim_app *app);

#endif
