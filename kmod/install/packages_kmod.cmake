# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
rblk_package(rblk-dkms ALL SECTION kernel
	SUMMARY "block storage over RDMA: kernel module, source for DKMS"
	DESCRIPTION "The module rblk makes volumes of an rblk target disks of this machine, over
RDMA. DKMS builds it for each kernel, from Linux 6.1 on, whose headers are
installed.

The command rblk attach of the package rblk-tools loads the module."
	DEPENDS "dkms (>= 2.8)" make
	RECOMMENDS rblk-tools
	SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/rblk-dkms.postinst ${CMAKE_CURRENT_LIST_DIR}/rblk-dkms.prerm
	RPM_REQUIRES "dkms >= 2.8" make
	RPM_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/rblk-dkms.post ${CMAKE_CURRENT_LIST_DIR}/rblk-dkms.preun)
