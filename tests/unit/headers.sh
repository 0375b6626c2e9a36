#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: every header compiles alone. Method: the build compiles those that a source includes before anything else; each
# other one is the only line of a source file here, with the project's own warnings. Expects CC in the environment and the
# project's folder as the argument. The kernel's build checks the kernel module's own headers.
set -euo pipefail

cd "$1"
checked=0
failed=0
first=$(find proto target initiator tests/e2e tests/unit tests/sim -name '*.c' -exec awk '
	FNR == 1 { found = 0 }
	!found && /^#include/ { found = 1; if (sub(/^#include "/, "") && sub(/".*/, "")) print }' {} + | sort -u)
[ "$(wc -l <<< "$first")" -gt 100 ] || { echo 'sources do not begin with their headers' >&2; exit 1; }
while IFS= read -r header; do
	checked=$((checked + 1))
	echo "#include \"$header\"" |
		"$CC" -std=gnu11 -fsyntax-only -Wall -Wextra -Wshadow -Wstrict-prototypes \
			-Wno-unused-parameter -Werror -D_GNU_SOURCE -I. -x c - ||
		failed=$((failed + 1))
done < <(find proto target initiator tests -name '*.h' | sort | comm -23 - <(echo "$first"))

[ "$checked" -gt 0 ] || { echo 'there are no headers' >&2; exit 1; }
echo "$checked headers, $failed do not compile alone; $(wc -l <<< "$first") begin a source"
[ "$failed" = 0 ]
