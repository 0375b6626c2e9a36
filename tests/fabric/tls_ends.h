/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What both ends of a TLS connection in one program need: a new secret of the initiator "fabric". */
#ifndef RBLK_TESTS_FABRIC_TLS_ENDS_H
#define RBLK_TESTS_FABRIC_TLS_ENDS_H

#include "proto/tls/tls.h"

/* For the life of the program; made at the first call. */
struct rblk_tls_context *tls_ends_client(void);
struct rblk_tls_context *tls_ends_server(void);

#endif
