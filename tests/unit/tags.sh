#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: a struct's tag has one meaning in a program: two that share one are an include away from an error, and one
# in a debugger. Method: the definitions in each program's rooms (proto belongs to all of them), counted. Expects the project's
# folder as the argument.
set -euo pipefail
cd "$1"

failed=0
for rooms in target initiator kmod; do
	twice=$(find proto "$rooms" \( -name build -o -name .git \) -prune -o -name '*.[ch]' -print0 |
		xargs -0 grep -HnE '^struct [a-z0-9_]+ \{' |
		awk -F: '{ tag = $3; where[tag] = where[tag] " " $1 ":" $2; count[tag]++ }
			END { for (tag in count) if (count[tag] > 1) print tag where[tag] }')
	[ -z "$twice" ] || { echo "$rooms: defined twice: $twice"; failed=1; }
done
# It would find one.
grep -qE '^struct tgt_session \{' target/serve/session.h || { echo "the pattern finds no struct"; failed=1; }
exit $failed
