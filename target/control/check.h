/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --check: whether the paths of a configuration, which is right by itself, could be served, without serving them.
 * Main thread.
 */
#ifndef RBLK_TARGET_CHECK_H
#define RBLK_TARGET_CHECK_H

#include "target/base/settings.h"
#include "target/control/document.h"

/*
 * Logs all that could not be served ("volume a: /srv/a: No such file or directory", or an address), and what a start would warn
 * of. Returns how many could not. as_service: this process is as the service, whose images become its own when it starts.
 */
unsigned int tgt_check(const struct tgt_config *config, bool as_service);
/*
 * rblkd --check: all of that, as the service, if the document is its configuration: what root may open says nothing then. The
 * document is read again, as the service may not be allowed to read secrets. Returns the exit status.
 */
int tgt_check_run(int argc, char **argv, struct tgt_document *document, struct tgt_config *config);

#endif
