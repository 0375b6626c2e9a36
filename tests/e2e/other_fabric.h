/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A second kind of fabric on a machine without RDMA: TCP once more, as FAB_SIM ("rblk+sim://"),
 * with keys of its own and a device that gathers less. To librblk it differs from "rblk+tcp://" as
 * RDMA does; to rblkd it is TCP.
 */
#ifndef RBLK_TESTS_E2E_OTHER_FABRIC_H
#define RBLK_TESTS_E2E_OTHER_FABRIC_H

#define OTHER_FABRIC_SGE 3 /* segments of a SEND, descriptors included */

/* For the rest of this process. */
void other_fabric_use(void);

#endif
