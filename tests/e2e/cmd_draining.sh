#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A restart of the target is a pause for a copy, not an error. Method: the target is told to stop during a
# copy. Its disk is slow, so it drains while the copy goes on; then it is started again.
. "$(dirname "$0")/cmd.sh"

truncate -s 64M "$scratch/disk"
target_start --fault delay=300ms --drain-time 60s "$scratch/disk"
head -c 80K /dev/urandom > "$scratch/first"
head -c 4M /dev/urandom > "$scratch/second"
mkfifo "$scratch/pipe"
"$RBLK" copy --chunk 4k --depth 1 "$scratch/pipe" "$target/disk" > "$scratch/out" 2> "$scratch/err" &
copy=$!
exec 8> "$scratch/pipe"
# More bytes than a pipe holds: when all are written, the copy is reading.
timeout 600 cat "$scratch/first" >&8 || fail "the copy does not begin"
kill -TERM "$target_pid"
tries=0
until grep -q 'stopping:' "$scratch/target.log"; do
	tries=$((tries + 1))
	[ $tries -lt 1200 ] || fail "not stopping in a minute"
	read -rt 0.05 <> <(:) || true
done
wait "$target_pid" || fail "rblkd: $(cat "$scratch/target.log")"
target_pid=
target_listen=$target target_start "$scratch/disk" 8>&- # or the target would keep the pipe open
timeout 600 cat "$scratch/second" >&8 || fail "the copy ended: $(cat "$scratch/err")"
exec 8>&-
wait $copy || fail "the copy: $(cat "$scratch/err")"
cat "$scratch/first" "$scratch/second" | cmp -n "$((80 * 1024 + 4 * 1024 * 1024))" - "$scratch/disk" ||
	fail "the disk does not have what was copied"
