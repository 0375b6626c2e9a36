# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
rblk_package(librblk0 SECTION libs
	SUMMARY "block storage over RDMA: library for programs"
	DESCRIPTION "With librblk a program reads and writes the volumes of an rblk target over RDMA
or TCP: asynchronously, with one file descriptor for readiness, and without a
thread of the library's own."
	SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/librblk0.triggers ${CMAKE_CURRENT_LIST_DIR}/librblk0.shlibs
	RPM_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/librblk0.post ${CMAKE_CURRENT_LIST_DIR}/librblk0.postun)

# The symbols and since when they are there; a new version of symbols needs a line in librblk0.symbols.
list(APPEND CPACK_DEBIAN_LIBRBLK0_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/control/librblk0/symbols)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/control/librblk0/symbols VERBATIM
	COMMAND ${CMAKE_CURRENT_LIST_DIR}/check-symbols ${CMAKE_CURRENT_LIST_DIR}/librblk0.symbols $<TARGET_FILE:rblk>
		${PROJECT_VERSION} ${PROJECT_BINARY_DIR}/control/librblk0/symbols
	DEPENDS rblk ${CMAKE_CURRENT_LIST_DIR}/librblk0.symbols ${CMAKE_CURRENT_LIST_DIR}/check-symbols)
add_custom_target(rblk_symbols ALL DEPENDS ${PROJECT_BINARY_DIR}/control/librblk0/symbols)

set(this_library "librblk0 (>= ${PROJECT_VERSION})")
rblk_package(librblk-dev SECTION libdevel
	SUMMARY "block storage over RDMA: library, for development"
	DESCRIPTION "The header, the static library, the manual and an example for programs that use
the volumes of an rblk target."
	DEPENDS "librblk0 (= ${PROJECT_VERSION}-${RBLK_REVISION})"
	SUGGESTS rblk-doc libibverbs-dev librdmacm-dev libisal-dev libssl-dev
	RPM_NAME librblk-devel
	RPM_REQUIRES "librblk0 = ${PROJECT_VERSION}-${RBLK_REVISION}")
set(CPACK_DEBIAN_LIBRBLK-DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_LIBRBLK-DEV_DEBUGINFO_PACKAGE OFF)

rblk_package(rblk-tools SECTION admin
	SUMMARY "block storage over RDMA: the rblk command"
	DESCRIPTION "The command rblk lists, copies, measures and reserves the volumes of an rblk
target, and finds out why a connection fails. It attaches volumes as disks:
with the kernel module of rblk-dkms, at every boot those of /etc/rblk/rblktab;
or by ublk of newer kernels, without a module of its own."
	DEPENDS ${this_library}
	RECOMMENDS rdma-core ibverbs-providers
	SUGGESTS rblk-dkms rblk-doc mdadm
	SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/rblk-tools.conffiles ${CMAKE_CURRENT_LIST_DIR}/rblk-tools.postinst
		${CMAKE_CURRENT_LIST_DIR}/rblk-tools.prerm ${CMAKE_CURRENT_LIST_DIR}/rblk-tools.postrm
		${CMAKE_CURRENT_LIST_DIR}/rblk-tools.triggers
	RPM_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/rblk-tools.post ${CMAKE_CURRENT_LIST_DIR}/rblk-tools.preun
		${CMAKE_CURRENT_LIST_DIR}/rblk-tools.postun)
set(CPACK_RPM_RBLK-TOOLS_USER_FILELIST "%config(noreplace) /etc/rblk/rblktab")
install(FILES ${CMAKE_CURRENT_LIST_DIR}/rblktab DESTINATION ${CMAKE_INSTALL_FULL_SYSCONFDIR}/rblk COMPONENT rblk-tools)

if(TARGET rblk_nbdkit)
	rblk_package(nbdkit-plugin-rblk SECTION admin
		SUMMARY "block storage over RDMA: plugin for nbdkit"
		DESCRIPTION "nbdkit serves a volume of an rblk target to NBD clients, such as virtual
machines."
		DEPENDS "nbdkit (>= ${NBDKIT_VERSION})" ${this_library}
		RPM_REQUIRES "nbdkit-server >= 1.32")
endif()

# An engine fits the fio that it was compiled for, and no other; with Debian's, it is not packed for rpm.
if(RBLK_FIO AND RBLK_PACKAGE_FORMAT STREQUAL DEB)
	execute_process(COMMAND dpkg-query -W -f "\${Version}" fio OUTPUT_VARIABLE fio_version COMMAND_ERROR_IS_FATAL ANY)
	rblk_package(rblk-fio-engine SECTION admin
		SUMMARY "block storage over RDMA: I/O engine for fio"
		DESCRIPTION "fio measures the volumes of an rblk target without a kernel module. The
package has workloads for it, too."
		DEPENDS "fio (= ${fio_version})" ${this_library}
		SUGGESTS rblk-tools)
endif()
