# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Packages of what is installed: each install() names, as its COMPONENT, the package that it belongs to. The rooms
# describe their packages in install/packages.cmake, with rblk_package(). Packages are made for the prefix /usr, with
# Debian's compiler flags (flags.cmake): a build with RBLK_PACKAGING=ON is one. Its target `packages` runs CPack on what is
# built; that of any other build makes such a build first, and packs for rpm, too. The packages are then in packages/ of the
# build folder.
set(RBLK_PACKAGE_FORMAT DEB CACHE STRING "With RBLK_PACKAGING: DEB or RPM")
set(RBLK_REVISION 1 CACHE STRING "The packages' revision")
# Packages need an address; whoever gives them to others sets his own. This one cannot be mistaken for anybody's (RFC 2606).
set(RBLK_CONTACT "Whoever built this package <unset@maintainer.invalid>" CACHE STRING "The packages' maintainer")
set(RBLK_INSTALL_ROOM ${CMAKE_CURRENT_LIST_DIR})

if(NOT RBLK_PACKAGING)
	add_custom_target(packages USES_TERMINAL VERBATIM
		COMMAND ${CMAKE_CURRENT_LIST_DIR}/packages ${PROJECT_BINARY_DIR}/packages
			-DRBLK_REVISION=${RBLK_REVISION} -DRBLK_CONTACT=${RBLK_CONTACT}
			-DRBLK_FIO=${RBLK_FIO} -DRBLK_FIO_CACHE=${RBLK_FIO_CACHE}
			-DCMAKE_C_COMPILER=${CMAKE_C_COMPILER} -DCMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER})
	return()
endif()

if(NOT RBLK_SCDOC)
	message(FATAL_ERROR "packages need scdoc, for the manuals")
endif()
find_program(RBLK_GZIP gzip REQUIRED)
set(RBLK_PACKAGES "")
set(RBLK_PACKAGE_FOLDER ${PROJECT_BINARY_DIR}/packages CACHE PATH "Where the packages are made")
execute_process(COMMAND sh -c "date -d \"$(sed -n '/^ -- .*@  /{s///p;q}' changelog.in)\" +%s" WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR}
	OUTPUT_VARIABLE release_time OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(changelog ${CMAKE_CURRENT_BINARY_DIR}/changelog)
configure_file(${CMAKE_CURRENT_LIST_DIR}/changelog.in ${changelog} @ONLY)
execute_process(COMMAND ${RBLK_GZIP} -9 -n -c ${changelog} OUTPUT_FILE ${changelog}.gz COMMAND_ERROR_IS_FATAL ANY)

# rblk_package(NAME SECTION text SUMMARY text DESCRIPTION text [ALL] [DEPENDS list] [RECOMMENDS list] [SUGGESTS list]
#   [SCRIPTS file...] [RPM_NAME text] [RPM_REQUIRES list] [RPM_SCRIPTS file...]): a package of the component NAME. ALL: it
# is the same for every architecture. SCRIPTS are what dpkg gets besides the files, under the name after the last dot:
# rblkd.postinst is postinst. RPM_SCRIPTS are named for rpm's sections: rblkd.post is %post.
macro(rblk_package name)
	cmake_parse_arguments(P "ALL" "SECTION;SUMMARY;DESCRIPTION;RPM_NAME"
		"DEPENDS;RECOMMENDS;SUGGESTS;SCRIPTS;RPM_REQUIRES;RPM_SCRIPTS" ${ARGN})
	set(P_NAME ${name})
	string(TOUPPER ${name} C)
	list(APPEND RBLK_PACKAGES ${name})
	rblk_deb_package()
	rblk_rpm_package()
endmacro()

macro(rblk_deb_package)
	list(JOIN P_DEPENDS ", " CPACK_DEBIAN_${C}_PACKAGE_DEPENDS)
	list(JOIN P_RECOMMENDS ", " CPACK_DEBIAN_${C}_PACKAGE_RECOMMENDS)
	list(JOIN P_SUGGESTS ", " CPACK_DEBIAN_${C}_PACKAGE_SUGGESTS)
	set(CPACK_DEBIAN_${C}_PACKAGE_NAME ${P_NAME})
	set(CPACK_DEBIAN_${C}_PACKAGE_SECTION ${P_SECTION})
	set(CPACK_DEBIAN_${C}_DESCRIPTION "${P_SUMMARY}\n${P_DESCRIPTION}")
	if(P_ALL)
		set(CPACK_DEBIAN_${C}_PACKAGE_ARCHITECTURE all)
		set(CPACK_DEBIAN_${C}_PACKAGE_SHLIBDEPS OFF)
		set(CPACK_DEBIAN_${C}_DEBUGINFO_PACKAGE OFF)
	endif()
	set(CPACK_DEBIAN_${C}_PACKAGE_CONTROL_EXTRA "")
	foreach(script ${P_SCRIPTS})
		string(REGEX REPLACE ".*\\." "" dpkg_name ${script})
		set(made ${CMAKE_CURRENT_BINARY_DIR}/control/${P_NAME}/${dpkg_name})
		configure_file(${script} ${made} @ONLY)
		list(APPEND CPACK_DEBIAN_${C}_PACKAGE_CONTROL_EXTRA ${made})
	endforeach()
	if(RBLK_PACKAGE_FORMAT STREQUAL DEB)
		set(doc ${CMAKE_INSTALL_DATADIR}/doc/${P_NAME})
		install(FILES ${changelog}.gz DESTINATION ${doc} COMPONENT ${P_NAME} RENAME changelog.Debian.gz)
		install(FILES ${RBLK_INSTALL_ROOM}/copyright DESTINATION ${doc} COMPONENT ${P_NAME})
	endif()
endmacro()

macro(rblk_rpm_package)
	set(rpm_name ${P_NAME})
	if(P_RPM_NAME)
		set(rpm_name ${P_RPM_NAME})
	endif()
	list(JOIN P_RPM_REQUIRES ", " CPACK_RPM_${C}_PACKAGE_REQUIRES)
	set(CPACK_RPM_${C}_PACKAGE_NAME ${rpm_name})
	set(CPACK_RPM_${C}_PACKAGE_SUMMARY "${P_SUMMARY}")
	set(CPACK_RPM_${C}_PACKAGE_DESCRIPTION "${P_DESCRIPTION}")
	set(CPACK_RPM_${C}_PACKAGE_GROUP "System Environment/Base")
	if(P_ALL)
		set(CPACK_RPM_${C}_PACKAGE_ARCHITECTURE noarch)
	endif()
	foreach(script ${P_RPM_SCRIPTS})
		string(REGEX REPLACE ".*\\." "" section ${script})
		set(made ${CMAKE_CURRENT_BINARY_DIR}/control/${P_NAME}/${section})
		configure_file(${script} ${made} @ONLY)
		if(section STREQUAL pre)
			set(CPACK_RPM_${C}_PRE_INSTALL_SCRIPT_FILE ${made})
		elseif(section STREQUAL post)
			set(CPACK_RPM_${C}_POST_INSTALL_SCRIPT_FILE ${made})
		elseif(section STREQUAL preun)
			set(CPACK_RPM_${C}_PRE_UNINSTALL_SCRIPT_FILE ${made})
		elseif(section STREQUAL postun)
			set(CPACK_RPM_${C}_POST_UNINSTALL_SCRIPT_FILE ${made})
		else()
			message(FATAL_ERROR "${script}: not a section of rpm's")
		endif()
	endforeach()
	if(RBLK_PACKAGE_FORMAT STREQUAL RPM)
		install(FILES ${PROJECT_SOURCE_DIR}/LICENSES/GPL-2.0-only.txt ${PROJECT_SOURCE_DIR}/LICENSES/BSD-2-Clause.txt
			DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/${rpm_name} COMPONENT ${P_NAME})
	endif()
endmacro()

foreach(room proto target initiator kmod)
	include(${PROJECT_SOURCE_DIR}/${room}/install/packages_${room}.cmake)
endforeach()

set(CPACK_GENERATOR ${RBLK_PACKAGE_FORMAT})
set(CPACK_COMPONENTS_ALL ${RBLK_PACKAGES})
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_PACKAGE_NAME rblk)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "${RBLK_CONTACT}")
set(CPACK_PACKAGE_DIRECTORY ${RBLK_PACKAGE_FOLDER})
# Tar's times are those of the release, wherever and whenever it is packed.
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_BINARY_DIR}/release-time.cmake)
file(WRITE ${CPACK_PROJECT_CONFIG_FILE} "set(ENV{SOURCE_DATE_EPOCH} ${release_time})\n")
# What is installed has absolute paths, too (/etc).
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
	WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/staged.cmake)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SOURCE rblk)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${RBLK_REVISION})
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# librblk0 is none of the installed packages that dpkg-shlibdeps knows: those that need it say so themselves.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/initiator)
set(CPACK_DEBIAN_DEBUGINFO_PACKAGE ON)

# Libraries are found by rpm itself (elfdeps): our own, too.
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_RELEASE ${RBLK_REVISION})
set(CPACK_RPM_PACKAGE_LICENSE "GPL-2.0-only OR BSD-2-Clause")
set(CPACK_RPM_PACKAGE_VENDOR "rblk")
set(CPACK_RPM_COMPRESSION_TYPE xz)
set(CPACK_PACKAGE_RELOCATABLE OFF)
set(CPACK_RPM_SPEC_MORE_DEFINE "%define packager ${RBLK_CONTACT}\n%define _build_id_links none")
set(CPACK_RPM_CHANGELOG_FILE ${CMAKE_CURRENT_BINARY_DIR}/changelog.rpm)
configure_file(${CMAKE_CURRENT_LIST_DIR}/changelog.rpm.in ${CPACK_RPM_CHANGELOG_FILE} @ONLY)
# Folders of the system, and our own that several packages share.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /etc /usr/sbin /usr/include /usr/lib/systemd /usr/lib/systemd/system
	/usr/lib/systemd/system-generators /usr/lib/sysusers.d /usr/lib/tmpfiles.d /usr/lib/udev /usr/lib/udev/rules.d /usr/lib64
	/usr/lib64/nbdkit /usr/lib64/nbdkit/plugins /usr/lib64/pkgconfig /usr/share/bash-completion
	/usr/share/bash-completion/completions /usr/share/zsh /usr/share/zsh/site-functions /usr/share/licenses
	/usr/share/man /usr/share/man/man1 /usr/share/man/man3 /usr/share/man/man5 /usr/share/man/man7 /usr/share/man/man8
	/usr/src)
include(CPack)
# CPack finds the libraries that packages depend on by "file"; without, it goes on, and they depend on nothing.
add_custom_target(packages USES_TERMINAL VERBATIM
	COMMAND sh -c "command -v file > /dev/null || { echo 'packages: file: not found: apt-get install file' >&2; exit 1; }"
	COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target all
	COMMAND ${CMAKE_CPACK_COMMAND} -G ${RBLK_PACKAGE_FORMAT}
	COMMAND ${CMAKE_COMMAND} -E rm -rf ${RBLK_PACKAGE_FOLDER}/_CPack_Packages)
