/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sessions and volumes of librblk that a test needs: without one the test fails, and says why. */
#ifndef RBLK_TESTS_E2E_SESSION_H
#define RBLK_TESTS_E2E_SESSION_H

#include "initiator/rblk.h"
#include "tests/unit/unit.h"

/* As rblk_session_open() and rblk_volume_open(), which have the parameters. */
static inline struct rblk_session *e2e_session_open(const char *uri, const struct rblk_options *options)
{
	char error[RBLK_ERROR_BYTES] = "";
	struct rblk_session *session = rblk_session_open(uri, options, error);

	if (!session)
		fail_msg("%s", error);
	return session;
}

static inline struct rblk_volume *e2e_volume_open(struct rblk_session *session, const char *name, uint32_t flags)
{
	struct rblk_volume *volume = rblk_volume_open(session, name, flags);

	if (!volume)
		fail_msg("%s", rblk_session_error(session));
	return volume;
}

#endif
