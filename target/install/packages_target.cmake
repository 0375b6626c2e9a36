# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What rblkd.preinst and rblkd.pre share.
file(READ ${CMAKE_CURRENT_LIST_DIR}/rblkd.keep-root RBLKD_KEEP_ROOT)
rblk_package(rblkd SECTION admin
	SUMMARY "block storage over RDMA: the target"
	DESCRIPTION "rblkd serves files, block devices and memory as volumes to other machines, over
RDMA (InfiniBand, RoCE, iWARP) or TCP. No acknowledged write is lost, and a
restart of the service is a pause for those who use a volume, not an error.

The service starts when /etc/rblk/rblkd.conf exists; the package has an example."
	DEPENDS "init-system-helpers (>= 1.54~)" "systemd | systemd-standalone-sysusers | systemd-sysusers"
	RECOMMENDS rblk-tools rdma-core ibverbs-providers
	SUGGESTS rblk-doc
	SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/rblkd.preinst ${CMAKE_CURRENT_LIST_DIR}/rblkd.postinst
		${CMAKE_CURRENT_LIST_DIR}/rblkd.prerm ${CMAKE_CURRENT_LIST_DIR}/rblkd.postrm
	RPM_REQUIRES systemd
	RPM_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/rblkd.pre ${CMAKE_CURRENT_LIST_DIR}/rblkd.post
		${CMAKE_CURRENT_LIST_DIR}/rblkd.preun ${CMAKE_CURRENT_LIST_DIR}/rblkd.postun)
if(TARGET rblkd_rbd)
	rblk_package(rblkd-rbd SECTION admin
		SUMMARY "block storage over RDMA: the target's store on images of Ceph"
		DESCRIPTION "With this package rblkd serves images of a Ceph cluster (store = rbd). Another
gateway can take over when one is lost, and no write of the lost one lands
after that."
		DEPENDS "rblkd (= ${PROJECT_VERSION}-${RBLK_REVISION})"
		RPM_REQUIRES "rblkd = ${PROJECT_VERSION}-${RBLK_REVISION}")
endif()
# For its configuration, which is none of the package's files.
install(DIRECTORY DESTINATION ${CMAKE_INSTALL_FULL_SYSCONFDIR}/rblk COMPONENT rblkd)
