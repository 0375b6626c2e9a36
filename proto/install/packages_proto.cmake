# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
rblk_package(rblk-doc ALL SECTION doc
	SUMMARY "block storage over RDMA: documents"
	DESCRIPTION "rblk serves files and block devices to other machines over RDMA or TCP.

This package has the overview, the architecture and the specification of the
protocol.")
