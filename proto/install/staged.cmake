# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Run by CPack on what was installed for the packages, before it packs them: manuals are compressed, and static
# libraries have no debug information, as Debian wants it.
file(GLOB_RECURSE manuals ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/man/man*/*.[1-9])
foreach(manual ${manuals})
	execute_process(COMMAND gzip -9 -n ${manual} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(GLOB_RECURSE archives ${CPACK_TEMPORARY_DIRECTORY}/*/usr/lib/*.a)
foreach(archive ${archives})
	execute_process(COMMAND strip --strip-debug --remove-section=.comment --remove-section=.note --enable-deterministic-archives
		${archive} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
# Shared libraries may be executed in packages for rpm; Debian has them without that right.
file(GLOB_RECURSE libraries ${CPACK_TEMPORARY_DIRECTORY}/*/usr/lib64/*.so*)
foreach(library ${libraries})
	if(NOT IS_SYMLINK ${library})
		execute_process(COMMAND chmod 755 ${library} COMMAND_ERROR_IS_FATAL ANY)
	endif()
endforeach()
