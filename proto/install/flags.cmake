# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The flags of a build whose files go into packages (RBLK_PACKAGING): Debian's own, and nothing of the machine that
# builds: no path of it is in the files, and none where a library is searched for.
find_program(RBLK_BUILDFLAGS dpkg-buildflags)
if(RBLK_BUILDFLAGS)
	foreach(kind CFLAGS CPPFLAGS LDFLAGS)
		execute_process(COMMAND ${CMAKE_COMMAND} -E env DEB_BUILD_MAINT_OPTIONS=hardening=+all ${RBLK_BUILDFLAGS} --get ${kind}
			WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE RBLK_${kind}
			OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
	endforeach()
else()
	message(STATUS "dpkg-buildflags (package dpkg-dev) not found: no Debian packages of this build")
	set(RBLK_CFLAGS "-g -O2")
endif()
string(APPEND CMAKE_C_FLAGS " ${RBLK_CFLAGS} -ffile-prefix-map=${PROJECT_BINARY_DIR}=build ${RBLK_CPPFLAGS}")
foreach(kind EXE SHARED MODULE)
	string(APPEND CMAKE_${kind}_LINKER_FLAGS " ${RBLK_LDFLAGS}")
endforeach()
set(CMAKE_SKIP_INSTALL_RPATH ON)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
