#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# After SIGTERM the daemon waits for I/O in flight and exits with 0; after a second signal it exits
# at once with 1. Method: a slow store keeps a copy in flight; the log and the exit status say how
# the daemon ended.
. "$(dirname "$0")/cmd.sh"

# logged TEXT: waits until the log has it.
logged() {
	local tries=0
	until grep -qF -- "$1" "$scratch/target.log"; do
		tries=$((tries + 1))
		[ $tries -lt 1200 ] || fail "no such line in a minute: $1"
		read -rt 0.05 <> <(:) || true
	done
}
# ended STATUS: the target ends with it.
ended() {
	local got=0
	wait "$target_pid" || got=$?
	target_pid=
	[ "$got" = "$1" ] || fail "the target ended with $got, not $1"
}

# Idle: it exits at once and with 0, for either signal.
for signal in TERM INT; do
	target_start --memory m=1M
	kill -$signal "$target_pid"
	ended 0
	logged 'rblkd: stopped'
done

# The writes take ten seconds and have arrived when the two signals come: the first signal makes the
# daemon wait for them, the second does not. (INT and TERM, because two of the same that are both
# pending count as one.)
head -c 1M /dev/urandom > "$scratch/source"
truncate -s 1M "$scratch/disk"
target_start --fault delay=write:10s "$scratch/disk"
"$RBLK" copy --give-up 500ms "$scratch/source" "$target/disk" > "$scratch/out" 2> "$scratch/err" &
copy=$!
received() {
	ss -Htin state established "( sport = :${target##*:} )" |
		grep -o 'bytes_received:[0-9]*' | awk -F: '{ sum += $2 } END { print sum + 0 }'
}
tries=0
until [ "$(received)" -ge 65536 ]; do
	tries=$((tries + 1))
	[ $tries -lt 1200 ] || fail "the copy sends nothing"
	read -rt 0.05 <> <(:) || true
done
kill -INT "$target_pid"
kill -TERM "$target_pid"
ended 1
logged 'stopping: waiting up to 30s'
logged 'stopping immediately: received a second signal'
kill "$copy" 2>/dev/null || true
wait "$copy" || true

# A file whose close hangs delays the exit by at most drain_time and five seconds; after a second signal, not at
# all.
target_start --drain-time 100ms --fault delay=close:60s "$scratch/disk"
kill -TERM "$target_pid"
ended 1
logged 'stopping: closing volume disk did not end in time'
target_start --fault delay=close:60s "$scratch/disk"
kill -INT "$target_pid"
logged 'stopping: waiting up to 30s'
kill -TERM "$target_pid"
ended 1
logged 'stopping immediately: received a second signal'
