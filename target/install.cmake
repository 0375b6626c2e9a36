# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What belongs to rblkd besides the program: manuals, the systemd unit, its user, an example configuration, a
# dashboard and alert rules.
find_program(RBLK_SCDOC scdoc)
if(RBLK_SCDOC)
	foreach(manual IN ITEMS rblkd.8 rblkd.conf.5 rblkctl.1 rblk-security.7 rblk-storage.7 rblkd-nvme.7 rblkd-rbd.7)
		string(REGEX REPLACE ".*\\." "" section ${manual})
		set(source ${CMAKE_CURRENT_SOURCE_DIR}/man/${manual}.scd)
		add_custom_command(OUTPUT ${manual} DEPENDS ${source} VERBATIM
			COMMAND sh -c "\"$1\" <\"$2\" >\"$3\"" sh ${RBLK_SCDOC} ${source} ${manual})
		list(APPEND RBLKD_MANUALS ${CMAKE_CURRENT_BINARY_DIR}/${manual})
		install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${manual}
			DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT rblkd)
	endforeach()
	add_custom_target(rblkd_manuals ALL DEPENDS ${RBLKD_MANUALS})
else()
	message(STATUS "scdoc not found: no manual pages for rblkd")
endif()

configure_file(rblkd.service.in rblkd.service @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rblkd.service
	DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/systemd/system COMPONENT rblkd)
install(FILES install/rblkd.sysusers RENAME rblkd.conf DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/sysusers.d COMPONENT rblkd)
install(FILES install/rblkd.tmpfiles RENAME rblkd.conf DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/tmpfiles.d COMPONENT rblkd)
install(FILES rblkd.conf DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT rblkd)

# Scripts for bpftrace on the daemon's probes, which name the program by its path.
foreach(script rblkd-latency rblkd-waits)
	configure_file(install/bpftrace/${script}.bt.in ${script}.bt @ONLY)
	install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${script}.bt DESTINATION ${CMAKE_INSTALL_DATADIR}/rblk/bpftrace COMPONENT rblkd)
endforeach()
# For engines of containers, whose own profiles forbid io_uring.
install(FILES install/seccomp.json DESTINATION ${CMAKE_INSTALL_DATADIR}/rblk COMPONENT rblkd)
# For those who watch it.
install(FILES install/grafana.json RENAME rblkd.json DESTINATION ${CMAKE_INSTALL_DATADIR}/rblk/grafana COMPONENT rblkd)
install(FILES install/alerts.yml RENAME rblkd.yml DESTINATION ${CMAKE_INSTALL_DATADIR}/rblk/prometheus COMPONENT rblkd)
