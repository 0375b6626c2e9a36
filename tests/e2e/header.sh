#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A program is built with the library as its manual says: in C and in C++ from 11 on, without a warning, with what
# pkg-config says, where no other package's .pc file is there. Method: the example, and a program that uses each macro of
# the header, with the compilers' strictest warnings. Expects SOURCE (of the project) and PC (the folder of rblk.pc).
set -euo pipefail

fail() {
	echo "FAILED: $*"
	exit 1
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
strict="-Wall -Wextra -Wpedantic -Wmissing-field-initializers -Werror -I$SOURCE/initiator -c -o $scratch/object"

cat > "$scratch/program.c" << END
#include <rblk.h>
int main(void)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct rblk_pr_request request = RBLK_PR_REQUEST_INIT;

	return options.size != sizeof(options) || options.queues || request.size != sizeof(request) || request.key;
}
END
cp "$scratch/program.c" "$scratch/program.cc"
# shellcheck disable=SC2086 # several options
for file in "$scratch/program.c" "$SOURCE/initiator/examples/event_loop.c"; do
	${CC:-cc} -std=gnu11 $strict "$file" || fail "$file, as C"
done
if command -v "${CXX:-c++}" > /dev/null; then
	for standard in c++11 c++17 c++20; do
		# shellcheck disable=SC2086
		${CXX:-c++} -std=$standard $strict "$scratch/program.cc" || fail "as $standard"
	done
	"${CXX:-c++}" -std=c++11 -I"$SOURCE/initiator" "$scratch/program.cc" -o "$scratch/program"
	"$scratch/program" || fail "the macros leave something unset"
else
	echo "SKIPPED: no C++ compiler"
fi

export PKG_CONFIG_LIBDIR=$PC
flags=$(pkg-config --cflags --libs rblk) || fail "pkg-config needs packages that a program does not use"
[[ $flags == *-lrblk* && $flags != *-lssl* ]] || fail "pkg-config says: $flags"
[[ $(pkg-config --static --libs rblk) == *-lrblk*-lssl*-lcrypto* ]] || fail "a static library needs more"
