#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Goal: the files of librblk have an order: none calls a file above it, be it through a third one. (unit.rooms sees only who
# includes whom, and session.h declares what many files have.) Method: nm says of each object what it defines and what it
# needs, tsort finds a circle. What is called through a table or as a callback is no arrow. Expects the objects as arguments.
set -euo pipefail

# ordered: lines "CALLER CALLED" form no circle.
ordered() { tsort > /dev/null; }

printf 'a b\nb c\nc a\n' | ordered 2> /dev/null && { echo "a circle is not found"; exit 1; }
calls=$(nm -A -P "$@" | awk '
	{ sub(/:$/, "", $1); sub(/.*\//, "", $1); sub(/\.c\.o$/, "", $1) }
	$3 == "U" { needs[$1 " " $2] = 1 }
	$3 ~ /^[BDRTVW]$/ { home[$2] = $1 }
	END {
		for (pair in needs) {
			split(pair, k, " ")
			if (k[2] in home && home[k[2]] != k[1]) print k[1], home[k[2]]
		}
	}' | sort -u)
count=$(wc -l <<< "$calls")
[ "$count" -gt 80 ] || { echo "only $count calls between files found"; exit 1; }
ordered <<< "$calls" || { echo "these files call each other in a circle"; exit 1; }
echo "$# files, $count calls from one to another, no circle"
