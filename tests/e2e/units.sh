#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# systemd takes every unit that is installed as it is written. Method: systemd-analyze, without a systemd
# that runs; the programs stand where they were built, so that it finds those too.
. "$(dirname "$0")/cmd.sh"

if ! command -v systemd-analyze > /dev/null; then
	echo "SKIPPED: no systemd-analyze (package systemd)"
	exit 77
fi
[ $# -gt 0 ] || fail "which units?"
for unit in "$@"; do
	name=$(basename "$unit")
	name=${name/@./@volume.}
	sed -E "s|^(Exec[A-Za-z]+=)/[^ ]*/rblkd |\1$RBLKD |; s|^(Exec[A-Za-z]+=)/[^ ]*/rblk |\1$RBLK |" \
		"$unit" > "$scratch/$name"
	expect 0 systemd-analyze verify --man=no "$scratch/$name"
	# What it only warns of, of ours: a key that it does not know, for one.
	if grep -F "$name" "$scratch/out" "$scratch/err"; then fail "$name: the above"; fi
	# Would it have said so?
	sed 's/^TimeoutStopSec=/TimeoutStopSecond=/' "$scratch/$name" > "$scratch/bad-$name"
	systemd-analyze verify --man=no "$scratch/bad-$name" > "$scratch/out" 2>&1 || true
	out_has "'TimeoutStopSecond'"
done
