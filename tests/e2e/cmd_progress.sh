#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The progress line is drawn only on a terminal that can erase it, and only as wide as that is. Method:
# script(1) gives the command a terminal; the test reads what the command wrote there.
. "$(dirname "$0")/cmd.sh"

truncate -s 8M "$scratch/disk"
target_start "$scratch/disk"
head -c 3000000 /dev/urandom > "$scratch/file"

# on_terminal TERM COLUMNS: copy there; puts what was written to the terminal, split into lines, into
# $scratch/out.
on_terminal() {
	expect 0 env TERM="$1" script -qec \
		"stty cols $2; '$RBLK' copy --chunk 64k '$scratch/file' '$target/disk'" "$scratch/typescript"
	tr '\r' '\n' < "$scratch/typescript" > "$scratch/out"
	out_has 'verified: crc32c'
}
on_terminal xterm 120
grep -q $'\e\[Kcopying .*ETA .*\[[#.]*\]' "$scratch/out" || fail "no bar"
for columns in 46 30 19 10; do
	on_terminal xterm $columns
	grep -q $'\e\[Kcopying' "$scratch/out" || fail "$columns columns: no line"
	grep -a $'\e\[K' "$scratch/out" | sed $'s/\e\[K//g' | while IFS= read -r line; do
		[[ $line = copied* || $line = verified* || ${#line} -lt $columns ]] ||
			fail "$columns columns: $line"
	done
done
on_terminal dumb 120
if grep -qa $'\e\|copying' "$scratch/out"; then fail "progress on a dumb terminal"; fi
on_terminal '' 120
if grep -qa $'\e\|copying' "$scratch/out"; then fail "progress on an unknown terminal"; fi
